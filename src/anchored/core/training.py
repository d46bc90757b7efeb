"""Train all members at once on any loss, until the objective settles.

The loss, the network and the method are the caller's. A run is a sequence of segments,
each one call of the same compiled program; between them the objective of each member is
looked at. Python never sits in a training step.
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from anchored.core.rows import Data, HostRows, rows_at_once
from anchored.errors import Status, bad_value
from anchored.typing import Array, MemberMap, Params

DECAY_EVERY = 20  # steps between two decays of the learning rate, as in the paper
_FINAL_RATE = 0.01  # share of the learning rate left at the end, where nobody says otherwise
SETTLED = 5e-3  # a member converged if its last gain is a smaller share of all it gained
_EXPLODED = 10  # a rise of the objective by this many times its size is a divergence
_N_SHUFFLES = 16
_SEGMENT_STEPS = 1_000  # most steps between two looks at the objective
_SEGMENT_ROWS = 4_000_000  # most row numbers held for one segment
_MIN_CHECKS = 20
_CHECK_ROWS = 4_096  # most rows the objective is looked at on ...
_LEAST_CHECK_ROWS = 512  # ... and, if there are as many, the fewest
_CHECK_SHARE = 8  # of the rows of the steps between two looks
_BLOCK_BYTES = 2**26  # most inputs brought to the device at a time, of those that stay elsewhere
_PATIENCE = 3  # quiet checks in a row before training stops early


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Parameters
    ----------
    epochs : passes over the data, at most.
    batch_size : rows in a step; at or above the number of rows, every step sees all of them.
    learning_rate, decay_rate : Adam's rate, and the factor it is multiplied by every 20 steps.
    tolerance : stop once the objective of every member has changed, in three checks running
        of up to 1,000 steps each, by less than this share of all it has gained since the
        first, or of max(1, |objective|). 0 trains to the end.
    optimiser : an optax transformation used as it is, in place of Adam; the two rates above
        are then ignored.
    max_seconds : if the whole run would take longer, it is cut short, and the learning rate
        falls to 1 % of its start by then; checked at every look at the objective but the first.
    """

    epochs: int = 1000
    batch_size: int = 64
    learning_rate: float = 0.01
    decay_rate: float = 1.0
    tolerance: float = 0.0
    optimiser: optax.GradientTransformation | None = None
    max_seconds: float = math.inf

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
        if not self.max_seconds > 0:
            raise bad_value("max_seconds", self.max_seconds, "a positive number of seconds")

    @classmethod
    def of_steps(
        cls, n_steps: int, n_rows: int, batch_size: int, rate: float, tolerance: float = 0.0
    ) -> "Schedule":
        """At least ``n_steps`` steps in whole epochs, at a rate that falls to 1 % of its start."""
        per_epoch = max(1, n_rows // batch_size)
        epochs = -(-n_steps // per_epoch)
        return cls(epochs, batch_size, rate, decay_over(epochs * per_epoch), tolerance)

    def slower(self, share: float) -> "Schedule":
        """The same schedule at a share of its rate."""
        if self.optimiser is not None:
            damped = optax.chain(self.optimiser, optax.scale(share))
            return dataclasses.replace(self, optimiser=damped)
        return dataclasses.replace(self, learning_rate=self.learning_rate * share)

    def batch_rows(self, data: Data) -> int:
        """Rows in the array of one batch; a full batch takes the padding along."""
        return len(data.weight) if self.batch_size >= data.n_rows else self.batch_size

    def n_steps(self, n_rows: int) -> int:
        """Optimiser steps of a full run."""
        return self.epochs * max(1, n_rows // self.batch_size)


def decay_over(n_steps: int) -> float:
    """The decay rate under which the learning rate ends at 1 % of its start."""
    return _FINAL_RATE ** (DECAY_EVERY / max(DECAY_EVERY, n_steps))


@lru_cache  # one object for equal settings: it is part of the compiled program's key
def dropping_adam(
    learning_rate: float, drops: tuple[tuple[int, float], ...]
) -> optax.GradientTransformation:
    """Adam whose rate is multiplied by a factor from each of some steps on: (step, factor)."""
    return optax.adam(optax.piecewise_constant_schedule(learning_rate, dict(drops)))


class Batch(NamedTuple):
    """The rows of one step."""

    x: Array
    y: Array
    weight: Array
    rows: Array  # their numbers in the data
    scale: Array | float  # times a weighted sum over the batch: estimates the mean over all rows
    step: Array | int = 0  # number of the step, from which a random loss draws; 0 at checks


# For one member: loss(params, own, extra, batch). ``own`` is what it needs of this member,
# ``extra`` what all members share. Hashable, because it is part of the compiled program.
Loss = Callable[[Params, Params, Params, Batch], Array]


class TrainState(NamedTuple):
    """What the next step needs, for one member (or stacked over all)."""

    params: Params
    opt_state: Any


class TrainInfo(NamedTuple):
    """What a human wants to know."""

    status: np.ndarray  # [member] of Status
    objective: np.ndarray  # [check, member], on some of the rows; first before any step
    steps: np.ndarray  # [check], steps done so far


class Progress(NamedTuple):
    """Handed to ``on_check`` after each segment."""

    step: int
    n_steps: int
    objective: np.ndarray  # [member]


OnCheck = Callable[[Progress], None]


class _Shared(NamedTuple):
    """What a step reads and all members share."""

    data: Data
    batches: Array  # [step, batch] places in ``data``
    rows: Array  # [step, batch] numbers of these rows; the places too unless inputs stay elsewhere
    first_step: int
    log_rate: float  # logarithms, because a power with a whole exponent is slow
    log_decay: float
    scale: float
    extra: Params


@dataclasses.dataclass(frozen=True)
class _Step:
    """One optimiser step of one member."""

    loss: Loss
    optimiser: optax.GradientTransformation

    def __call__(self, state: TrainState, own: Params, shared: _Shared, i: Array) -> TrainState:
        at, rows, data = shared.batches[i], shared.rows[i], shared.data
        step = shared.first_step + i
        batch = Batch(data.x[at], data.y[at], data.weight[at], rows, shared.scale, step)
        gradient = jax.grad(self.loss)(state.params, own, shared.extra, batch)
        rate = jnp.exp(shared.log_rate + shared.log_decay * (step // DECAY_EVERY))
        return _moved(self.optimiser, state, gradient, rate)


class Live(NamedTuple):
    """What a `LiveStep` reads and all members share."""

    batch: Batch
    rate: Array | float
    extra: Params


@dataclasses.dataclass(frozen=True)
class LiveStep:
    """One step of Adam on all rows at a constant rate, for training that somebody steers.

    Rows, rate and loss may change between two calls of a `MemberMap`'s loop.
    """

    loss: Loss

    def __call__(self, state: TrainState, own: Params, live: Live, i: Array) -> TrainState:
        gradient = jax.grad(self.loss)(state.params, own, live.extra, live.batch)
        return _moved(_ADAM, state, gradient, live.rate)


def live_start(params: Params) -> TrainState:
    """What the first `LiveStep` needs, from initial parameters [member, ...]."""
    return TrainState(params, _optimiser_state(_ADAM, params))


def _moved(optimiser, state: TrainState, gradient: Params, rate) -> TrainState:
    updates, opt_state = optimiser.update(gradient, state.opt_state, state.params)
    params = jax.tree.map(lambda p, u: p + rate * u, state.params, updates)
    return TrainState(params, opt_state)


@dataclasses.dataclass(frozen=True)
class Objective:
    """The loss of one member over many rows at once; steps never compute it."""

    loss: Loss

    def __call__(self, member: tuple[Params, Params], shared: tuple[Params, Batch]) -> Array:
        (params, own), (extra, batch) = member, shared
        return self.loss(params, own, extra, batch)


# One object for all fits, because the optimiser is part of the compiled program's key.
_ADAM = optax.chain(optax.scale_by_adam(), optax.scale(-1.0))


def train(
    seed: int,
    loss: Loss,
    params: Params,
    own: Params,
    extra: Params,
    data: Data,
    schedule: Schedule,
    member_map: MemberMap,
    on_check: OnCheck | None = None,
) -> tuple[Params, TrainInfo]:
    """Minimise ``loss`` for every member; ``seed`` sets the batch order, which all share."""
    optimiser = schedule.optimiser or _ADAM
    state = TrainState(params, _optimiser_state(optimiser, params))
    own_rate = schedule.optimiser is not None
    n_steps = most_steps = schedule.n_steps(data.n_rows)
    segment = _segment_steps(n_steps, data, schedule)
    feed = _Feed(seed, data, schedule)
    n_seen = min(schedule.batch_size, data.n_rows)
    shared = _Shared(
        data=data,
        batches=jnp.zeros(()),
        rows=jnp.zeros(()),
        first_step=0,
        log_rate=0.0 if own_rate else math.log(schedule.learning_rate),
        log_decay=0.0 if own_rate else math.log(schedule.decay_rate),
        scale=data.n_rows / (n_seen * data.total_weight),
        extra=extra,
    )
    # A look shall cost little beside the steps before it.
    most = min(_CHECK_ROWS, rows_at_once(data.x))
    n_looked_at = min(most, max(_LEAST_CHECK_ROWS, segment * n_seen // _CHECK_SHARE))
    step, check = _Step(loss, optimiser), Objective(loss)
    seen = (extra, _check_batch(data, n_looked_at))
    objective, steps = [np.asarray(member_map.apply(check, (params, own), seen))], [0]
    started = now = time.perf_counter()
    first = 0
    while first < n_steps:
        count = min(segment, n_steps - first)
        for block in feed.take(count):
            shared = shared._replace(
                data=block.data, batches=block.batches, rows=block.rows, first_step=first
            )
            state = member_map.loop(step, state, own, shared, block.n_steps)
            first += block.n_steps
        objective.append(np.asarray(member_map.apply(check, (state.params, own), seen)))
        steps.append(first)
        before, now = now, time.perf_counter()
        left = started + schedule.max_seconds - now
        if len(steps) > 2 or left <= 0:  # the first segment includes the compilation
            affordable = first + max(left, 0.0) * count / (now - before)
            if affordable < most_steps:
                n_steps = max(first, int(affordable))
                shared = _brought_down(shared, schedule, first, n_steps)
        if on_check is not None:
            on_check(Progress(steps[-1], n_steps, objective[-1]))
        if _quiet(objective, schedule.tolerance) or not np.isfinite(objective[-1]).any():
            break
    history = np.stack(objective)
    status = _status(state.params, history, can_tell=n_steps >= _MIN_CHECKS)
    return state.params, TrainInfo(status, history, np.asarray(steps))


@partial(jax.jit, static_argnums=0)
def _optimiser_state(optimiser: optax.GradientTransformation, params: Params) -> Any:
    return jax.vmap(optimiser.init)(params)


def _brought_down(shared: _Shared, schedule: Schedule, step: int, n_steps: int) -> _Shared:
    """A faster decay from ``step`` on, such that the rate ends as low as it should."""
    if schedule.optimiser is not None:
        return shared
    done, left = step // DECAY_EVERY, max(1, (n_steps - step) // DECAY_EVERY)
    rate = shared.log_rate + shared.log_decay * done
    end = math.log(schedule.learning_rate * _FINAL_RATE)
    decay = min(math.log(schedule.decay_rate), (end - rate) / left)
    return shared._replace(log_rate=rate - decay * done, log_decay=decay)


def _check_batch(data: Data, n_rows: int) -> Batch:
    """The rows the objective is looked at on: spread evenly over those that count."""
    x = data.x if isinstance(data.x, HostRows) else np.asarray(data.x)
    y, weight = np.asarray(data.y), np.asarray(data.weight)
    counted = np.flatnonzero(weight)
    few = counted[np.linspace(0, len(counted) - 1, min(len(counted), n_rows)).astype(int)]
    # Repeating the last row without weight keeps to few shapes, as the padding does.
    spare = min(len(weight), n_rows) - len(few)
    rows = np.concatenate([few, np.repeat(len(weight) - 1, spare)]).astype(np.int32)
    seen = np.concatenate([weight[few], np.zeros(spare, weight.dtype)])
    x, y, weight, rows = map(jnp.asarray, (x[rows], y[rows], seen, rows))
    return Batch(x, y, weight, rows, 1.0 / float(seen.sum()), 0)


def _max_segment(data: Data, schedule: Schedule) -> int:
    return max(1, min(_SEGMENT_STEPS, _SEGMENT_ROWS // schedule.batch_rows(data)))


def _segment_steps(n_steps: int, data: Data, schedule: Schedule) -> int:
    """Steps between two checks: even shares of the run, at least 20 of them if it can be."""
    n_checks = max(-(-n_steps // _max_segment(data, schedule)), min(_MIN_CHECKS, n_steps))
    return -(-n_steps // n_checks)


def _batches(seed: int, data: Data, schedule: Schedule) -> Iterator[np.ndarray]:
    """Row numbers [step, batch] epoch by epoch: random orders of all rows, cut into batches.

    What does not fill a batch at the end of an epoch is left for other epochs, so every
    batch is an unbiased sample. Full batches take the padding along; its weight is zero.
    """
    size = schedule.batch_size
    if size >= data.n_rows:
        yield from itertools.repeat(np.arange(len(data.weight), dtype=np.int32)[None])
    rng = np.random.default_rng(seed)
    order = rng.permutation(data.n_rows).astype(np.int32)
    # Shuffling by one of a few fixed permutations is ten times as fast as by a new one.
    shuffles = [rng.permutation(data.n_rows).astype(np.int32) for _ in range(_N_SHUFFLES)]
    n_whole = data.n_rows // size * size
    while True:
        for pick in rng.integers(_N_SHUFFLES, size=1_000).tolist():
            order = order.take(shuffles[pick])
            yield order[:n_whole].reshape(-1, size)


class _Block(NamedTuple):
    """Some steps, and the rows they need."""

    data: Data
    batches: Array
    rows: Array
    n_steps: int


class _Feed:
    """Hands out the batches of a segment, always in arrays of the same shape."""

    def __init__(self, seed: int, data: Data, schedule: Schedule):
        self._epochs = _batches(seed, data, schedule)
        self._left = np.zeros((0, schedule.batch_rows(data)), np.int32)
        self._data, self._max_steps = data, _max_segment(data, schedule)
        self._rng = np.random.default_rng([seed, 1])

    def take(self, n_steps: int) -> Iterator[_Block]:
        """The next ``n_steps`` steps, in one block unless the inputs stay elsewhere."""
        parts, n_ready = [self._left], len(self._left)
        while n_ready < n_steps:
            parts.append(next(self._epochs))
            n_ready += len(parts[-1])
        ready = np.concatenate(parts)
        ready, self._left = ready[:n_steps], ready[n_steps:]
        if not isinstance(self._data.x, HostRows):
            rows = jnp.asarray(_filled(ready, self._max_steps))
            yield _Block(self._data, rows, rows, n_steps)
            return
        size = max(1, _BLOCK_BYTES // (self._data.x.row_bytes * ready.shape[1]))
        size = min(size, self._max_steps)
        for start in range(0, n_steps, size):
            yield self._brought(self._data.x, ready[start : start + size], size)

    def _brought(self, x: HostRows, batches: np.ndarray, size: int) -> _Block:
        """The rows of some steps brought to the device, each batch after the other."""
        rows = _filled(batches, size)
        flat = rows.ravel()
        read = np.zeros((len(flat), *x.shape[1:]), x.dtype)
        for step, batch in enumerate(batches):
            start = step * len(batch)
            read[start : start + len(batch)] = x.batch(batch, self._rng)
        y, weight = (np.asarray(array)[flat] for array in (self._data.y, self._data.weight))
        block = Data(jnp.asarray(read), jnp.asarray(y), jnp.asarray(weight), self._data.n_rows)
        places = jnp.arange(len(flat), dtype=np.int32).reshape(rows.shape)
        return _Block(block, places, jnp.asarray(rows), len(batches))


def _filled(batches: np.ndarray, n_steps: int) -> np.ndarray:
    """Steps that are not taken added at the end."""
    out = np.zeros((n_steps, batches.shape[1]), np.int32)
    out[: len(batches)] = batches
    return out


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


def _status(params: Params, objective: np.ndarray, can_tell: bool) -> np.ndarray:
    """Diverged: not finite, or far worse at the end than at the start; else by the last gains.

    Gains are averaged over three checks, because parameters wander from batch to batch; a run
    of a few steps cannot tell and never counts as converged.
    """
    flat = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(params)]
    finite = np.all([np.isfinite(leaf).all(axis=1) for leaf in flat], axis=0)
    first, last = objective[0], objective[-1]
    with np.errstate(invalid="ignore"):
        worse = last > first + _EXPLODED * np.maximum(1.0, np.abs(first))
    recent = _gain(objective[1:])[-_PATIENCE:]
    settled = can_tell & (np.mean(recent, axis=0) < SETTLED) if len(recent) else False
    status = np.where(settled, Status.CONVERGED, Status.STEP_LIMIT)
    return np.where(~finite | ~np.isfinite(last) | worse, Status.DIVERGED, status)
