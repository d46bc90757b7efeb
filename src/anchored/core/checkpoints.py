"""Files from which training can continue, written whole or not at all.

A `Checkpoint` keeps the training of one ensemble in two files of a folder, which are written in
turn. If the newer one is damaged the older one is used, and a process that is killed while it
writes leaves both as they were. A file carries the fingerprints of rows, settings, program and
versions (`fingerprints`); if one of them differs, a warning names it and training starts again.

A file is written only if some seconds have passed and if writing takes at most 5 % of the time.
If a file cannot be written, one warning says so, and training continues.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchored.core.storage import Folder, LocalFolder, folder_of
from anchored.errors import CheckpointWarning, ModelFileError
from anchored.model import tensors

INTERVAL = 2.0  # seconds between two files, at most ...
_TIMES_COST = 20.0  # ... unless writing would take more than 5 % of the time
_VERSION = 1  # of what a file holds
_SLOTS = (0, 1)
_END = ".safetensors"

Marks = dict[str, str]  # what is fingerprinted, and its fingerprint


class Saved(NamedTuple):
    """What a file holds: numbers of the run, and arrays by name."""

    number: int  # of the file; the largest is the newest
    fields: dict[str, Any]
    arrays: dict[str, np.ndarray]


def _warned(sentence: str) -> None:
    warnings.warn(sentence, CheckpointWarning, stacklevel=2)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A place for the state of a training.

    Parameters
    ----------
    folder : where the files are, a path, a URL or a `Folder`; it is made when the first is written.
    name : of this training; several may share a folder.
    say : is called with a sentence about what could not be read or written; warns if not given.
    interval : seconds between two files, at most, unless writing would take more than 5 % of the
        time.
    """

    folder: Path | str | Folder
    name: str = "members"
    say: Callable[[str], None] = _warned
    interval: float = INTERVAL
    _said: set[str] = dataclasses.field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(cls, given: "Checkpoint | Folder | str | Path | None") -> "Checkpoint | None":
        """A path or a URL names a folder; one that cannot be read is refused here."""
        if given is None or isinstance(given, Checkpoint):
            return given
        return cls(folder_of(given))

    def part(self, name: str) -> "Checkpoint":
        """Another training in the same folder."""
        return dataclasses.replace(self, name=name)

    def exists(self) -> bool:
        """Whether the folder holds files of any training."""
        try:
            return any(name.endswith(_END) for name in self.files.names())
        except OSError:
            return False

    @property
    def files(self) -> Folder:
        """The folder as one that reads and writes."""
        return folder_of(self.folder)

    def elsewhere(self) -> "Folder":
        """The folder by its absolute path, so that other processes find it."""
        files = self.files
        return LocalFolder(files.path.absolute()) if isinstance(files, LocalFolder) else files

    def tell(self, sentence: str) -> None:
        """Say a sentence, once."""
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(sentence)

    def load(self, marks: Marks) -> Saved | None:
        """The newest state of a training with these fingerprints."""
        found: list[Saved] = []
        other: set[str] = set()
        damaged: list[str] = []
        for name in self._kept():
            try:
                theirs, saved = _read(self.files.read(name))
            except (ModelFileError, OSError):
                damaged.append(f"{self.folder}/{name}")
                continue
            different = {name for name in marks if theirs.get(name) != marks[name]}
            other |= different
            if not different:
                found.append(saved)
        if other and not found:
            self.tell(
                f"The checkpoint in {self.folder} is from another training (different: "
                f"{', '.join(sorted(other))}); {self.name!r} starts again and replaces it."
            )
        if damaged:
            instead = "the other one is used" if found else f"{self.name!r} starts again"
            self.tell(f"Damaged checkpoint: {', '.join(damaged)}; {instead}.")
        return max(found, key=lambda saved: saved.number) if found else None

    def save(self, marks: Marks, saved: Saved) -> None:
        """Write a state over the older of the two files, if possible."""
        fields = {"version": _VERSION, "number": saved.number, "marks": marks, "run": saved.fields}
        try:
            content = tensors.packed(fields, saved.arrays)
            self.files.write(self._file(saved.number % len(_SLOTS)), content)
        except (OSError, ValueError) as error:
            self.tell(
                f"No checkpoint can be written to {self.folder} ({_why(error)}). Training "
                "continues, and earlier checkpoints are kept."
            )

    def clear(self) -> None:
        """Remove the files of this training, and the folder if it is then empty."""
        self._remove(self.name)

    def clear_all(self) -> None:
        """Remove the files of all trainings, and the folder if it is then empty."""
        self._remove("*")

    def _remove(self, training: str) -> None:
        pattern = f"{training}.[01]{_END}"
        try:
            names = self.files.names()
            some = [n for n in names if fnmatch(n, pattern) or fnmatch(n, f".{pattern}.*.part")]
            self.files.remove(some)
        except OSError as error:
            self.tell(f"Checkpoints in {self.folder} cannot be removed ({_why(error)}).")

    def _kept(self) -> list[str]:
        """Names of the files of this training that there are."""
        try:
            names = set(self.files.names())
        except OSError as error:
            self.tell(
                f"Checkpoints in {self.folder} cannot be read ({_why(error)}); {self.name!r} "
                "starts again."
            )
            return []
        return [name for name in map(self._file, _SLOTS) if name in names]

    def _file(self, slot: int) -> str:
        return f"{self.name}.{slot}{_END}"


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _read(content: bytes) -> tuple[Marks, Saved]:
    """The fingerprints of a file, and the state; a `ModelFileError` if it is damaged."""
    fields, arrays = tensors.unpacked(content)
    if fields.whole("version") != _VERSION:
        raise ModelFileError("it was written by another version.")
    number, marks = fields.whole("number"), fields.plain_object("marks")
    shapes = arrays.below("")
    taken = {name: arrays.take(name, shapes[name], None, finite=False) for name in shapes}
    return marks, Saved(number, fields.plain_object("run"), taken)


class Keeper:
    """Writes the states of one run, but not too often, and not if writing takes too long."""

    def __init__(self, checkpoint: Checkpoint, marks: Marks):
        self.checkpoint, self.marks = checkpoint, marks
        self._number = 0
        self._ended = time.perf_counter()
        self._cost = 0.0
        self.pace = 0.0  # steps a second, as the newest steps of this process took

    def load(self) -> Saved | None:
        """The state to continue from, if there is one."""
        saved = self.checkpoint.load(self.marks)
        if saved is not None:
            self._number = saved.number + 1
        return saved

    def due(self, ahead: float = 0.0) -> bool:
        """Whether the interval has passed, or will have in ``ahead`` seconds."""
        passed = time.perf_counter() - self._ended
        return passed + ahead >= self.checkpoint.interval and passed >= _TIMES_COST * self._cost

    def save(self, fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        started = time.perf_counter()
        self.checkpoint.save(self.marks, Saved(self._number, fields, arrays))
        self._number += 1
        self._ended = time.perf_counter()
        self._cost = self._ended - started
