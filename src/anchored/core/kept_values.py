"""Keeps values that took long to compute, so that a later process need not compute them.

Trainings keep their state (`resuming`). Before a training there are slow searches, for example for
the prior with the highest evidence. Inside `keeping`, each value of the searched function is kept
in a checkpoint, under a fingerprint of everything that decides it. A process that starts again asks
for the same values in the same order, finds those that are kept, and ends with the same bits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from anchored.core.checkpoints import Checkpoint, Keeper
from anchored.core.fingerprints import digest, machine_marks

_SIZE = 32  # letters of a fingerprint that are a name


class _Values:
    """Arrays by their fingerprints, of this process and of one before it."""

    def __init__(self, checkpoint: Checkpoint):
        self.keeper = Keeper(checkpoint, machine_marks())
        saved = self.keeper.load()
        self.before = {} if saved is None else saved.arrays
        self.found: dict[str, np.ndarray] = {}
        self.n_new = 0

    def of(self, name: str, compute: Callable[[], Any]) -> np.ndarray:
        if name not in self.before and not self.found and self.before:
            place = self.keeper.checkpoint
            place.tell(
                f"The checkpoint in {place.folder} is from other rows or settings; {place.name!r} "
                "starts again and replaces it."
            )
        value = self.before.get(name)
        if value is None:
            value = np.asarray(compute(), np.float64)
            self.n_new += 1
        self.found[name] = value
        if self.n_new and self.keeper.due():
            self.save()
        return value

    def save(self) -> None:
        self.keeper.save({}, self.found)
        self.n_new = 0


_values: ContextVar[_Values | None] = ContextVar("values", default=None)


@contextmanager
def keeping(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Keep the values that are computed inside; at the end, all of them are written."""
    values = None if checkpoint is None else _Values(checkpoint)
    token = _values.set(values)
    try:
        yield
    finally:
        _values.reset(token)
    if values is not None and values.n_new:
        values.save()


def kept(function: Callable[[Any], Any], about: Any, *arrays: Any) -> Callable[[Any], np.ndarray]:
    """The same function from numbers to numbers; inside `keeping`, its values are kept.

    A value depends on the argument, on ``arrays``, and on what the text ``about`` says.
    """
    values = _values.get()
    if values is None:
        return lambda at: np.asarray(function(at), np.float64)
    problem = digest(str(about), [np.asarray(array) for array in arrays])

    def found(at: Any) -> np.ndarray:
        name = digest(problem, [np.asarray(at, np.float64)])[:_SIZE]
        return values.of(name, lambda: function(at))

    return found
