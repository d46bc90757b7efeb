"""Chunks of members as tasks of Ray.

The rows are put into the object store once. A task whose worker dies is tried again. If all workers
share the checkpoint folder, the task continues from its checkpoint. A task whose driver was
restarted does the same. Every worker runs JAX on one thread for each of its cores.
"""

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anchored.core.rows import HostRows
from anchored.typing import OnProgress, Work

_LOOK_SECONDS = 0.5  # between two looks at the progress of workers
_MISSING = (
    'Training on Ray needs the package ray: pip install "anchored[ray]", here and on the workers.'
)


@dataclasses.dataclass(frozen=True)
class RayExecutor:
    """Trains chunks of members on the workers of a Ray cluster.

    Parameters
    ----------
    address : address of the cluster, as for `ray.init`. None means the cluster that this process
        belongs to, or a new one on this machine if there is none.
    num_cpus : cores for each task.
    max_retries : how often a task is tried again after its worker died.
    chunk : members in a chunk; None for as many as one program trains on one machine.
    """

    address: str | None = None
    num_cpus: float = 1.0
    max_retries: int = 5
    chunk: int | None = None

    def map(self, work: Work, on_progress: OnProgress | None) -> list:
        """Run each piece as a task."""
        ray = _ray()
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, include_dashboard=False)
        threads = max(1, int(self.num_cpus))
        task = ray.remote(num_cpus=self.num_cpus, max_retries=self.max_retries)(_task)
        board = None if on_progress is None else ray.remote(num_cpus=0, max_restarts=-1)(_Board)
        board = None if board is None else board.remote()
        put = ray.put(_sendable(work.shared))
        tasks = [
            task.remote(work.function, put, piece, i, board, threads)
            for i, piece in enumerate(work.pieces)
        ]
        waiting = tasks
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK_SECONDS)
            if board is not None and on_progress is not None:
                _pass_on(ray, board, on_progress)
        return ray.get(tasks)


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return ray


class _Board:
    """Where workers write how far they are."""

    def __init__(self):
        self.found: dict[int, Any] = {}

    def write(self, i: int, progress: Any) -> None:
        self.found[i] = progress

    def read(self) -> dict[int, Any]:
        found, self.found = self.found, {}
        return found


def _pass_on(ray: Any, board: Any, on_progress: OnProgress) -> None:
    try:
        found = ray.get(board.read.remote(), timeout=_LOOK_SECONDS)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return  # it is being started again; the next look will do
    for i, progress in sorted(found.items()):
        on_progress(i, progress)


def _task(function: Callable, shared: Any, piece: Any, i: int, board: Any, threads: int) -> Any:
    """What a worker does.

    An environment of Ray's would say the threads too, but only to workers that it starts for it:
    those that wait already would be of no use.
    """
    for name in ("OMP_NUM_THREADS", "NPROC"):  # JAX starts its threads at the first computation
        os.environ[name] = str(threads)

    def report(progress: Any) -> None:
        if board is not None:
            board.write.remote(i, progress)

    return function(_received(shared), piece, partial(report))


@dataclasses.dataclass(frozen=True)
class _Mapped:
    """A memory-mapped file, which workers open themselves."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


def _sendable(job: Any) -> Any:
    """Rows of a memory map as the path of their file."""
    rows = job.data.x
    if not (isinstance(rows, HostRows) and isinstance(rows.source, np.memmap)):
        return job
    source = rows.source
    mapped = _Mapped(str(source.filename), source.dtype.str, source.shape, source.offset)
    rows = dataclasses.replace(rows, source=mapped)  # pyright: ignore
    return job._replace(data=dataclasses.replace(job.data, x=rows))


def _received(job: Any) -> Any:
    rows = job.data.x
    if not (isinstance(rows, HostRows) and isinstance(rows.source, _Mapped)):
        return job
    found = rows.source
    source = np.memmap(found.path, found.dtype, "r", found.offset, found.shape)
    rows = dataclasses.replace(rows, source=source)
    return job._replace(data=dataclasses.replace(job.data, x=rows))
