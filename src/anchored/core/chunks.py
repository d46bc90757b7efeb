"""Chunks of members that workers train, with the same result as on one machine.

Member j depends on the key and on j alone, so chunks may be trained anywhere. All members of an
ensemble stop together, once every one of them has settled: a chunk that stopped earlier continues
from its checkpoint until all chunks have reached the same step.
"""

import dataclasses
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from anchored.core.checkpoints import Checkpoint
from anchored.core.loss import Folds
from anchored.core.members import SHARES
from anchored.core.rows import Data
from anchored.core.training import OnCheck, Progress, Schedule, TrainInfo
from anchored.core.tree import on_device, take_members
from anchored.errors import bad_value
from anchored.typing import Executor, Params, Work

_LEAST = 2  # members of a chunk: one alone would be the single regularised network


class Job(NamedTuple):
    """What all chunks share, in NumPy."""

    key: np.ndarray  # its words
    network: Any
    prior: Any
    likelihood: Any
    data: Data
    method: str
    schedule: Schedule | None
    of_row: np.ndarray | None  # folds
    folder: Any  # of checkpoints
    name: str  # of the training there
    interval: float


class Chunk(NamedTuple):
    """Some members, by number."""

    first: int  # place of its first member among all
    numbers: tuple[int, ...]
    of_member: np.ndarray | None  # their folds
    start: Params | None
    at_least: int  # steps before which they do not stop


def split(n_members: int, chunk: int | None = None) -> list[slice]:
    """Members of each chunk: as many as one program trains on one machine, if that number divides
    the number of members.
    """
    if chunk is not None and chunk < _LEAST:
        raise bad_value("chunk", chunk, f"at least {_LEAST}, or None")
    sizes = (size for size in SHARES if n_members % size == 0)
    size = chunk or next(sizes, SHARES[0])
    cuts = [*range(0, n_members, size), n_members]
    if len(cuts) > 2 and cuts[-1] - cuts[-2] < _LEAST:
        del cuts[-2]
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


def in_chunks(
    executor: Executor,
    train_chunk: Callable[..., Any],
    key: jax.Array,
    model: tuple[Any, Any, Any, Data],
    numbers: tuple[int, ...],
    *,
    method: str,
    schedule: Schedule | None,
    start: Params | None,
    folds: Folds | None,
    place: Checkpoint | None,
    on_check: OnCheck | None,
) -> list[Any]:
    """The ensembles of all chunks, which stopped at the same step."""
    network, prior, likelihood, data = model
    with tempfile.TemporaryDirectory(prefix="anchored-") as spare:
        kept = Checkpoint(Path(spare)) if place is None else place
        job = Job(
            np.asarray(jax.random.key_data(key)),
            network,
            jax.tree.map(np.asarray, prior),
            likelihood,
            jax.tree.map(_plain, data),
            method,
            schedule,
            None if folds is None else np.asarray(folds.of_row),
            kept.elsewhere(),
            kept.name,
            kept.interval,
        )
        chunks = [
            Chunk(
                some.start,
                numbers[some],
                None if folds is None else np.asarray(folds.of_member)[some],
                None if start is None else jax.tree.map(np.asarray, take_members(start, some)),
                0,
            )
            for some in split(len(numbers), executor.chunk)
        ]
        return _agreed(executor, train_chunk, job, chunks, on_check)


def _plain(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _agreed(executor: Executor, train_chunk, job: Job, chunks: list[Chunk], on_check) -> list[Any]:
    """Results of all chunks; those that stopped too early are trained on."""
    results: list[Any] = [None] * len(chunks)
    waiting, last = list(range(len(chunks))), 0
    while waiting:
        some = [chunks[i]._replace(at_least=last) for i in waiting]
        heard = None if on_check is None else _Heard(len(some), on_check)
        done = executor.map(Work(train_chunk, job, some), heard)
        for i, result in zip(waiting, done, strict=True):
            results[i] = result
        last = max(int(result.info.steps[-1]) for result in results)
        waiting = [i for i, result in enumerate(results) if _may_go_on(result.info, last)]
    return results


def _may_go_on(info: TrainInfo, last: int) -> bool:
    """Whether a chunk stopped before the last one; where all members diverged, nothing changes."""
    return int(info.steps[-1]) < last and bool(np.isfinite(info.objective[-1]).any())


class _Heard:
    """What workers say of their progress, as that of one training."""

    def __init__(self, n_chunks: int, on_check: OnCheck):
        self.of_chunk: list[Progress | None] = [None] * n_chunks
        self.on_check = on_check

    def __call__(self, i: int, progress: Progress) -> None:
        self.of_chunk[i] = progress
        known = [found for found in self.of_chunk if found is not None]
        step = sum(found.step for found in known) // len(self.of_chunk)
        objective = np.concatenate([found.objective for found in known])
        self.on_check(Progress(step, max(found.n_steps for found in known), objective))


def joined_info(infos: list[TrainInfo]) -> TrainInfo:
    """One `TrainInfo` for all members; a chunk that ended early is NaN at the later checks."""
    steps = max((info.steps for info in infos), key=len)
    looks = [
        np.pad(info.objective, ((0, len(steps) - len(info.steps)), (0, 0)), constant_values=np.nan)
        for info in infos
    ]
    status = np.concatenate([info.status for info in infos])
    return TrainInfo(status, np.concatenate(looks, axis=1), steps)


def joined(trees: list[Params]) -> Params:
    """Stacked trees one after another; by NumPy, which compiles nothing."""
    return jax.tree.map(lambda *leaves: on_device(np.concatenate(leaves)), *trees)


def as_numpy(ensemble: Any) -> Any:
    """An ensemble that can be sent to another process."""
    params, centres = (jax.tree.map(np.asarray, t) for t in (ensemble.params, ensemble.centres))
    return dataclasses.replace(ensemble, params=params, centres=centres)
