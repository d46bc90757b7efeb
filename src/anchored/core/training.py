"""Train all members at once on any loss, until the objective settles.

The loss, the network and the method are the caller's. A run is a sequence of segments. Each segment
is one call of `state.advance`; between two segments, the objective of each member is checked.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import optax.contrib

from anchored.core.checkpoints import Checkpoint, Keeper
from anchored.core.fingerprints import training_marks
from anchored.core.resuming import Run, Turn, keep, resumed
from anchored.core.rows import Data, HostRows, rows_at_once
from anchored.core.state import (
    DECAY_EVERY,
    Batch,
    EnsembleState,
    Loss,
    Plan,
    advance,
    first_opt_state,
    objective_on,
)
from anchored.core.tree import Raveller, on_device
from anchored.errors import Status, bad_value, unknown_name
from anchored.typing import MemberMap, Params

_FINAL_RATE = 0.01  # share of the learning rate left at the end, where nobody says otherwise
SETTLED = 5e-3  # a member converged if its last gain is a smaller share of all it gained
_FADED = 1e-2  # the same where the rate fades: the last look gains what is left of its noise
_LEAST_FADING = 1_000  # steps of a fading rate that can tell; fewer come to rest anywhere
_EXPLODED = 10  # a rise of the objective by this many times its size is a divergence
_SEGMENT_STEPS = 1_000  # most steps between two looks at the objective
_MIN_CHECKS = 20
_CHECK_ROWS = 4_096  # most rows the objective is looked at on ...
_LEAST_CHECK_ROWS = 512  # ... and, if there are as many, the fewest
_CHECK_SHARE = 8  # of the rows of the steps between two looks
_PIECES = 4  # of the seconds between two states that are kept; each has a cost of its own
_PATIENCE = 3  # quiet checks in a row before training stops early

# One object for all fits, because the optimiser is part of the compiled program's key. Muon's
# updates of matrices are as large as Adam's usually are, so that one rate suits all parameters.
_RULES: dict[str, optax.GradientTransformation] = {
    "adam": optax.chain(optax.scale_by_adam(), optax.scale(-1.0)),
    "muon": optax.contrib.muon(1.0, consistent_rms=0.2),
}


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Parameters
    ----------
    epochs : passes over the data, at most.
    batch_size : rows in a step; at or above the number of rows, every step sees all of them.
    learning_rate, decay_rate : Adam's rate, and the factor it is multiplied by every 20 steps.
    tolerance : training stops when every member has settled. A member has settled if its objective
        changed by less than this share of its total gain, or of max(1, |objective|), in three
        checks in a row; checks are up to 1,000 steps apart. 0 trains to the end.
    optimiser : an optax transformation that replaces Adam; the two rates above are then ignored.
    fades : the rate also falls in a straight line, to zero at the end of the last epoch.
    in_prior_units : measure steps in units of each parameter's prior scale, so that
        parameters with wide and narrow priors need about the same number of steps.
    max_seconds : a run that would take longer is shortened; the learning rate then falls to 1 % of
        its start, or to zero if it fades, within this time.
    rule : "adam", or "muon": the step of a matrix of weights has equal singular values. It takes
        fewer steps to a closer fit, and each takes longer.

    >>> from anchored import Schedule
    >>> Schedule(epochs=100, batch_size=32).n_steps(n_rows=320)
    1000
    """

    epochs: int = 1000
    batch_size: int = 64
    learning_rate: float = 0.01
    decay_rate: float = 1.0
    tolerance: float = 0.0
    optimiser: optax.GradientTransformation | None = None
    fades: bool = False
    in_prior_units: bool = False
    max_seconds: float = math.inf
    rule: str = "adam"

    def __post_init__(self):
        for name in ("epochs", "batch_size"):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= 1):
                raise bad_value(name, getattr(self, name), "a positive whole number")
        if not 0 < self.learning_rate < np.inf:
            raise bad_value("learning_rate", self.learning_rate, "a positive number")
        if not 0 < self.decay_rate <= 1:
            raise bad_value("decay_rate", self.decay_rate, "above 0 and at most 1")
        if not 0 <= self.tolerance < np.inf:
            raise bad_value("tolerance", self.tolerance, "zero or a positive number")
        if self.rule not in _RULES:
            raise unknown_name("rule", self.rule, _RULES)
        if not self.max_seconds > 0:
            raise bad_value("max_seconds", self.max_seconds, "a positive number of seconds")

    @classmethod
    def of_steps(
        cls, n_steps: int, n_rows: int, batch_size: int, rate: float, tolerance: float = 0.0
    ) -> "Schedule":
        """A schedule of at least ``n_steps`` steps in whole epochs; the rate falls to 1 % of its
        start.
        """
        epochs = _epochs(n_steps, n_rows, batch_size)
        decay = decay_over(epochs * max(1, n_rows // batch_size))
        return cls(epochs, batch_size, rate, decay, tolerance)

    @classmethod
    def fading(cls, n_steps: int, n_rows: int, batch_size: int, rate: float) -> "Schedule":
        """A schedule of at least ``n_steps`` steps in whole epochs; the rate falls to zero."""
        return cls(_epochs(n_steps, n_rows, batch_size), batch_size, rate, fades=True)

    def slower(self, share: float) -> "Schedule":
        """The same schedule with its learning rate multiplied by a share."""
        if self.optimiser is not None:
            damped = optax.chain(self.optimiser, optax.scale(share))
            return dataclasses.replace(self, optimiser=damped)
        return dataclasses.replace(self, learning_rate=self.learning_rate * share)

    def of_last_layer(self) -> "Schedule":
        """The same schedule for a tuple of layers, of which only the last is trained."""
        if self.optimiser is None:  # Adam leaves what has no gradient where it is
            return self
        return dataclasses.replace(self, optimiser=_of_last_layer(self.optimiser))

    def continued(self, n_steps: int, n_rows: int) -> "Schedule":
        """A schedule for ``n_steps`` steps or a few more, in which the rate falls again from its
        start.

        Your own optimiser keeps its rate.
        """
        make = Schedule.fading if self.fades else Schedule.of_steps
        made = make(n_steps, n_rows, self.batch_size, self.learning_rate)
        return dataclasses.replace(
            self, epochs=made.epochs, decay_rate=made.decay_rate, tolerance=0.0
        )

    @property
    def takes(self) -> optax.GradientTransformation:
        """The optimiser; steps are its updates times the learning rate, unless it is the user's."""
        return self.optimiser or _RULES[self.rule]

    def n_steps(self, n_rows: int) -> int:
        """Optimiser steps of a full run."""
        return self.epochs * max(1, n_rows // self.batch_size)


def _epochs(n_steps: int, n_rows: int, batch_size: int) -> int:
    """Passes over the rows that take at least ``n_steps`` steps."""
    return -(-n_steps // max(1, n_rows // batch_size))


def decay_over(n_steps: int) -> float:
    """The decay rate under which the learning rate ends at 1 % of its start."""
    return _FINAL_RATE ** (DECAY_EVERY / max(DECAY_EVERY, n_steps))


@lru_cache  # one object for equal settings: it is part of the compiled program's key
def dropping_adam(
    learning_rate: float, drops: tuple[tuple[int, float], ...]
) -> optax.GradientTransformation:
    """Adam whose rate is multiplied by a factor from each of some steps on: (step, factor)."""
    return optax.adam(optax.piecewise_constant_schedule(learning_rate, dict(drops)))


@lru_cache
def _of_last_layer(optimiser: optax.GradientTransformation) -> optax.GradientTransformation:
    """Without updates of other layers, such as a decay of weights."""

    def hidden(layers: Params) -> Params:
        return (*(True for _ in layers[:-1]), False)

    return optax.chain(optimiser, optax.masked(optax.set_to_zero(), hidden))


class TrainInfo(NamedTuple):
    """A summary of a training for the user."""

    status: np.ndarray  # [member] of Status
    objective: np.ndarray  # [check, member], on some of the rows; first before any step
    steps: np.ndarray  # [check], steps done so far


class Progress(NamedTuple):
    """Handed to ``on_check`` after each segment."""

    step: int
    n_steps: int
    objective: np.ndarray  # [member]


OnCheck = Callable[[Progress], None]


def begin(
    seed: int,
    loss: Loss,
    theta: Params,
    own: Any,
    extra: Any,
    schedule: Schedule,
    n_rows: int,
    member_map: MemberMap,
    raveller: Raveller | None = None,
    unit: Params | None = None,
) -> EnsembleState:
    """The state before the first step; ``seed`` sets the batch order, which all members share."""
    own_rate = schedule.optimiser is not None
    fade = 1 / schedule.n_steps(n_rows) if schedule.fades and not own_rate else 0.0
    plan = Plan(loss, schedule.takes, schedule.batch_size, member_map, raveller)
    return EnsembleState(
        theta=theta,
        opt_state=first_opt_state(plan.optimiser, theta),
        own=own,
        extra=extra,
        step=np.int32(0),
        seed=np.uint32(seed),
        log_rate=np.float32(0.0 if own_rate else math.log(schedule.learning_rate)),
        log_decay=np.float32(0.0 if own_rate else math.log(schedule.decay_rate)),
        fade=np.float32(fade),
        unit=unit,
        plan=plan,
    )


def train(
    state: EnsembleState,
    data: Data,
    schedule: Schedule,
    on_check: OnCheck | None = None,
    turn: Turn | None = None,
    checkpoint: Checkpoint | None = None,
    at_least: int = 0,
    look_steps: int | None = None,
) -> tuple[EnsembleState, TrainInfo]:
    """`advance` through a whole schedule, or until the objective of every member has settled.

    ``turn`` changes the state half-way; training may stop early only after that. A ``checkpoint``
    keeps the state during training and at the end. A run that finds a state there continues from
    it. Training does not stop early before ``at_least`` steps. The objective is checked at least
    twenty times, or after every ``look_steps`` steps.
    """
    look_steps = look_steps or _segment_steps(schedule.n_steps(data.n_rows))
    seen, keeper, run = _looked_at(data, schedule, look_steps), None, None
    if checkpoint is not None:
        keeper = Keeper(checkpoint, training_marks(state, data, schedule, turn))
        run = resumed(keeper, state, turn)
    if run is None:
        first = np.asarray(objective_on(state, seen))
        n_steps, origin = schedule.n_steps(data.n_rows), int(state.step)
        run = Run(state, (first,), (0,), n_steps, origin=origin)
    elif on_check is not None:
        on_check(Progress(run.steps[-1], run.n_steps, run.looks[-1]))
    clock = _Clock(run.seconds, schedule.max_seconds)
    if run.steps[-1] < min(at_least, run.n_steps) and np.isfinite(run.looks[-1]).any():
        run = dataclasses.replace(run, ended=False)
    n_done = len(run.steps)
    while not run.ended:
        run = _to_next_look(run, data, schedule, look_steps, turn, seen, clock, keeper)
        if on_check is not None:
            on_check(Progress(run.steps[-1], run.n_steps, run.looks[-1]))
        settled = _settled(run, schedule, turn) and run.steps[-1] >= at_least
        dead = not np.isfinite(run.looks[-1]).any()
        run = dataclasses.replace(run, ended=settled or dead or run.steps[-1] >= run.n_steps)
    if keeper is not None and len(run.steps) > n_done:
        keep(keeper, run)
    history = np.stack(run.looks)
    n_looks, most = _PATIENCE, SETTLED
    if schedule.fades:
        n_looks, most = 1, _FADED
    if run.n_steps < (_LEAST_FADING if schedule.fades else _MIN_CHECKS):
        most = -math.inf  # a run of a few steps cannot tell
    status = _status(run.state.theta, history, n_looks, most)
    return run.state, TrainInfo(status, history, np.asarray(run.steps))


class _Clock:
    """Seconds of a run, those of earlier processes included."""

    def __init__(self, before: float, most: float):
        self.most, self.before, self.started = most, before, time.perf_counter()
        self.n_looks = 0

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    @property
    def left(self) -> float:
        return self.most - self.seconds


def _to_next_look(
    run: Run,
    data: Data,
    schedule: Schedule,
    segment: int,
    turn: Turn | None,
    seen: Batch,
    clock: _Clock,
    keeper: Keeper | None,
) -> Run:
    """The run at its next look at the objective, its length cut if time is short."""
    most_steps, start = schedule.n_steps(data.n_rows), run.steps[-1]
    if turn is not None and not run.turned and 2 * start >= run.n_steps:
        run = dataclasses.replace(run, state=turn(run.state), turned=len(run.steps))
    end = min(start + segment, run.n_steps)
    count, began = end + run.origin - int(run.state.step), clock.seconds  # in this process
    state = _advanced(run, data, count, clock, keeper)
    looks = (*run.looks, np.asarray(objective_on(state, seen)))
    n_steps, left = run.n_steps, clock.left
    clock.n_looks += 1
    if clock.n_looks > 1 or left <= 0:  # the first segment includes the compilation
        affordable = end + max(left, 0.0) * count / (clock.seconds - began)
        if affordable < most_steps:
            # What turns half-way is not left out, however little time there is.
            waits = turn is not None and not run.turned
            n_steps = max(end + (segment if waits else 0), int(affordable))
            state = _brought_down(state, schedule, n_steps - end)
    done = {"state": state, "looks": looks, "steps": (*run.steps, end), "n_steps": n_steps}
    return dataclasses.replace(run, **done, seconds=clock.seconds)


def _advanced(
    run: Run, data: Data, n_steps: int, clock: _Clock, keeper: Keeper | None
) -> EnsembleState:
    """The state after some steps more; in pieces between which it may be kept."""
    if keeper is None:
        return advance(run.state, data, n_steps)
    seconds = keeper.checkpoint.interval / _PIECES
    state, left = run.state, n_steps
    while left:
        # The first step of a process compiles; it tells nothing of the steps after it.
        count, began = max(1, min(left, int(seconds * keeper.pace))), time.perf_counter()
        state = jax.block_until_ready(advance(state, data, count))
        left -= count
        keeper.pace = count / max(time.perf_counter() - began, 1e-6)
        if keeper.due(ahead=max(seconds, 1 / keeper.pace)):  # a piece more would be too late
            keep(keeper, dataclasses.replace(run, state=state, seconds=clock.seconds))
    return state


def _looked_at(data: Data, schedule: Schedule, look_steps: int) -> Batch:
    """The rows the objective is looked at on: few, so that a look costs little beside steps."""
    n_rows = look_steps * min(schedule.batch_size, data.n_rows) // _CHECK_SHARE
    most = min(_CHECK_ROWS, rows_at_once(data.x))
    return _check_batch(data, min(most, max(_LEAST_CHECK_ROWS, n_rows)))


def _settled(run: Run, schedule: Schedule, turn: Turn | None) -> bool:
    if turn is not None and not run.turned:
        return False
    return _quiet(list(run.looks[run.turned :]), schedule.tolerance)


def _brought_down(state: EnsembleState, schedule: Schedule, n_left: int) -> EnsembleState:
    """A faster decay for the steps that are left, such that the rate ends as low as it should."""
    if schedule.optimiser is not None:
        return state
    if schedule.fades:
        return _fading_over(state, max(1, n_left))
    done, left = int(state.step) // DECAY_EVERY, max(1, n_left // DECAY_EVERY)
    rate = float(state.log_rate) + float(state.log_decay) * done
    end = math.log(schedule.learning_rate * _FINAL_RATE)
    decay = min(math.log(schedule.decay_rate), (end - rate) / left)
    log_rate, log_decay = np.float32(rate - decay * done), np.float32(decay)
    return dataclasses.replace(state, log_rate=log_rate, log_decay=log_decay)


def _fading_over(state: EnsembleState, n_left: int) -> EnsembleState:
    """With a rate that falls from where it is to zero in ``n_left`` steps."""
    step, end = int(state.step), int(state.step) + n_left
    left = max(1 - float(state.fade) * step, 0.0)
    if left == 0.0:
        return state
    log_rate = float(state.log_rate) + math.log(left * end / n_left)
    return dataclasses.replace(state, log_rate=np.float32(log_rate), fade=np.float32(1 / end))


def _check_batch(data: Data, n_rows: int) -> Batch:
    """The rows the objective is looked at on: spread evenly over those that count."""
    x = data.x if isinstance(data.x, HostRows) else np.asarray(data.x)
    y, weight = np.asarray(data.y), np.asarray(data.weight)
    n_counted = np.count_nonzero(weight)
    few = np.linspace(0, n_counted - 1, min(n_counted, n_rows)).astype(int)
    if n_counted < len(weight):
        few = np.flatnonzero(weight)[few]
    # Repeating the last row without weight keeps to few shapes, as the padding does.
    spare = min(len(weight), n_rows) - len(few)
    rows = np.concatenate([few, np.repeat(len(weight) - 1, spare)]).astype(np.int32)
    seen = np.concatenate([weight[few], np.zeros(spare, weight.dtype)])
    x, y, weight, rows = map(on_device, (x[rows], y[rows], seen, rows))
    return Batch(x, y, weight, rows, 1.0 / float(seen.sum()), data.total_weight)


def _segment_steps(n_steps: int) -> int:
    """Steps between two checks: even shares of the run, at least 20 of them if it can be."""
    n_checks = max(-(-n_steps // _SEGMENT_STEPS), min(_MIN_CHECKS, n_steps))
    return -(-n_steps // n_checks)


def _gain(objective: np.ndarray) -> np.ndarray:
    """What each check gained [check - 1, member], as a share of the whole gain since the first.

    Where the whole gain is small, the share is of max(1, |objective|) instead: a few thousandths
    of a nat per row are of no consequence.
    """
    with np.errstate(invalid="ignore"):
        least = np.maximum(1.0, np.abs(objective[-1]))
        return -np.diff(objective, axis=0) / np.maximum(objective[0] - objective[-1], least)


def _quiet(objective: list[np.ndarray], tolerance: float) -> bool:
    if tolerance == 0 or len(objective) <= _PATIENCE + 1:
        return False
    gains = np.abs(_gain(np.stack(objective[1:])))[-_PATIENCE:]
    return bool(np.all(gains[:, np.isfinite(objective[-1])] < tolerance))


def finite_members(params: Params) -> np.ndarray:
    """Whether all parameters of each member are finite [member]."""
    flat = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(params)]
    return np.all([np.isfinite(leaf).all(axis=1) for leaf in flat], axis=0)


def _status(params: Params, objective: np.ndarray, n_looks: int, most: float) -> np.ndarray:
    """Diverged: not finite, or far worse at the end than at the start; else by the last gains.

    Gains are averaged over the last ``n_looks``: three, because parameters wander from batch to
    batch, or one where a rate that fades to zero has brought them to rest. A member converged if
    they are below ``most``.
    """
    finite = finite_members(params)
    first, last = objective[0], objective[-1]
    with np.errstate(invalid="ignore"):
        worse = last > first + _EXPLODED * np.maximum(1.0, np.abs(first))
    gains = _gain(objective[1:])
    recent = gains[max(0, len(gains) - n_looks) :]
    settled = np.mean(recent, axis=0) < most if len(recent) else False
    status = np.where(settled, Status.CONVERGED, Status.STEP_LIMIT)
    return np.where(~finite | ~np.isfinite(last) | worse, Status.DIVERGED, status)
