"""What a fit would need, before it starts: memory, time, steps, and where it runs.

Time is measured: the step of the fit is compiled, and a few steps are timed.
"""

import dataclasses
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from anchored import tuning
from anchored.core.checkpoints import Checkpoint
from anchored.core.ensembles import init_ensemble
from anchored.core.loss import Folds
from anchored.core.members import OneByOne, Sharded, Threaded, n_cores
from anchored.core.rows import HostRows, ramps_of_a_column
from anchored.core.state import EnsembleState, advance
from anchored.core.training import Schedule
from anchored.estimators.rows import Rows
from anchored.tables import memory
from anchored.typing import Likelihood

_STATE_COPIES = 8  # of the parameters: anchors, moments, gradients, and the next state
_FEW_STEPS, _TIMED_SECONDS = 10, 0.3


class Planned(NamedTuple):
    """What an estimator would train."""

    rows: Rows
    likelihood: Likelihood
    n_outputs: int
    folds: Folds | None


@dataclasses.dataclass(frozen=True)
class FitPlan:
    """What a fit would need; ``print`` it.

    Attributes
    ----------
    n_rows, n_inputs : rows to train on, and numbers in each, ramps included.
    in_memory : whether the rows are in memory; rows of a memory map are read batch by batch.
    n_members : members of the ensemble; ``n_others`` more are trained without the rows of a fold.
    n_parameters : parameters of one member.
    n_steps, batch_size : at most; training stops earlier once every member has settled.
    share : members that one program trains at a time; there are ``n_shares`` such programs.
    where : the device, and how members run on it.
    step_seconds : measured seconds for one step of all members.
    compile_seconds : seconds until the first steps are done.
    seconds : upper limit for all training, without the choice of the prior before it.
    n_bytes, free_bytes : memory that the fit needs, and memory that is free.
    checkpoint : folder of checkpoints, if there is one; a file there has ``checkpoint_bytes``
        bytes.
    """

    n_rows: int
    n_inputs: int
    in_memory: bool
    n_members: int
    n_others: int
    n_parameters: int
    n_steps: int
    batch_size: int
    share: int
    n_shares: int
    where: str
    step_seconds: float
    compile_seconds: float
    seconds: float
    n_bytes: float
    free_bytes: float
    checkpoint: str | None
    checkpoint_bytes: float

    @property
    def fits(self) -> bool:
        """Whether there is enough memory."""
        return self.n_bytes <= self.free_bytes

    def __str__(self) -> str:
        rows = "in memory" if self.in_memory else "read batch by batch"
        others = f", and {self.n_others} without some rows" if self.n_others else ""
        enough = "" if self.fits else ": NOT ENOUGH"
        kept = "none"
        if self.checkpoint is not None:
            kept = f"{self.checkpoint}, files of {_size(self.checkpoint_bytes)}"
        return "\n".join(
            (
                f"Rows:        {self.n_rows:,} of {self.n_inputs} numbers, {rows}",
                f"Members:     {self.n_members} of {self.n_parameters:,} parameters{others}",
                f"Programs:    {self.n_shares}, each for {self.share} members",
                f"Steps:       at most {self.n_steps:,} of {self.batch_size} rows",
                f"Where:       {self.where}",
                f"Memory:      {_size(self.n_bytes)} of {_size(self.free_bytes)} free{enough}",
                f"Time:        at most {_duration(self.seconds)} "
                f"({1e3 * self.step_seconds:.3g} ms a step, measured)",
                f"Checkpoints: {kept}",
            )
        )


def check_memory(n_rows: int, n_inputs: int, ramped: bool) -> None:
    """Raise an error if the rows do not fit in memory, before work is done on them."""
    n_ramps = n_inputs * ramps_of_a_column(n_rows, n_inputs) if ramped else 0
    need = memory.of_row(n_inputs, n_ramps) * n_rows
    free = memory.available()
    if need > free:
        raise MemoryError(
            f"`X` has {n_rows:,} rows of {n_inputs} numbers: fitting them needs about "
            f"{_size(need)} of memory, and {_size(free)} are free. Give a `numpy.memmap` or the "
            "path of a Parquet file, which are read batch by batch, or a part of the rows."
        )


def make_plan(estimator: Any, planned: Planned, key: jax.Array) -> FitPlan:
    """Compile and time some steps of what ``estimator`` would train."""
    rows, likelihood, n_outputs, folds = planned
    model = estimator._model(rows, likelihood, n_outputs, 1.0)
    schedule: Schedule = estimator._schedule(len(rows.y), likelihood)
    every = None
    if folds is not None:
        every = folds._replace(of_member=np.full(estimator.n_members, Folds.SEES_ALL))
    how = {"method": estimator.method, "n_members": estimator.n_members, "schedule": schedule}
    state = init_ensemble(key, *model, **how, folds=every)
    compiling, step = _timed(state, model.data)
    n_others = 0 if folds is None else len(folds.of_member)
    n_parameters = int(sum(np.size(leaf[0]) for leaf in jax.tree.leaves(state.theta)))
    in_memory = not isinstance(rows.x, HostRows)
    n_rows, n_inputs = len(rows.y), int(np.prod(rows.x.shape[1:]))
    n_steps = schedule.n_steps(n_rows)
    share, where = _where(state, estimator.n_members)
    share_of_steps = 1 / tuning.WITH_ALL_ROWS if n_others and schedule.rule == "muon" else 1.0
    n_trained = share_of_steps * estimator.n_members + n_others  # for all of the steps
    seconds = n_steps * step * n_trained / estimator.n_members
    most = schedule.max_seconds * (2 if n_others else 1)  # of either training
    state_bytes = 4.0 * n_parameters * max(estimator.n_members, n_others)
    n_ramps = rows.standardiser.n_ramps
    of_row: float = memory.UNREAD_ROW_BYTES
    if in_memory:
        of_row = memory.of_row(n_inputs - n_ramps, n_ramps)
    place = Checkpoint.of(estimator.checkpoint)
    return FitPlan(
        n_rows=n_rows,
        n_inputs=n_inputs,
        in_memory=in_memory,
        n_members=estimator.n_members,
        n_others=n_others,
        n_parameters=n_parameters,
        n_steps=n_steps,
        batch_size=min(schedule.batch_size, n_rows),
        share=share,
        n_shares=-(-estimator.n_members // share),
        where=where,
        step_seconds=step,
        compile_seconds=compiling,
        seconds=compiling + min(seconds, most),
        n_bytes=of_row * n_rows + _STATE_COPIES * state_bytes,
        free_bytes=memory.available(),
        checkpoint=None if place is None else str(place.folder),
        checkpoint_bytes=3 * state_bytes,
    )


def _timed(state: EnsembleState, data: Any) -> tuple[float, float]:
    """Seconds until the first steps are done, and of one step after that."""
    started = time.perf_counter()
    state = jax.block_until_ready(advance(state, data, _FEW_STEPS))
    compiling, count, took = time.perf_counter() - started, _FEW_STEPS, 0.0
    while took < _TIMED_SECONDS:
        started = time.perf_counter()
        state = jax.block_until_ready(advance(state, data, count))
        took = time.perf_counter() - started
        count, step = 4 * count, took / count
    return compiling, step


def _where(state: EnsembleState, n_members: int) -> tuple[int, str]:
    """Members of one program, and words for where it runs."""
    members, device = state.plan.member_map, jax.devices()[0].platform
    if isinstance(members, OneByOne):
        return 1, f"{device}, single members on {n_cores()} cores"
    if isinstance(members, Threaded) and n_members % members.size == 0:
        return members.size, f"{device}, shares of the members on {members.n_threads} threads"
    if isinstance(members, Sharded) and n_members % members.n_devices == 0:
        return n_members // members.n_devices, f"{members.n_devices} devices ({device})"
    return n_members, f"{device}, all members in one program"


def _size(n_bytes: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
