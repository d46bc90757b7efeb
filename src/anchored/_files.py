"""Files written whole or not at all."""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file under another name that takes its own at the end: no reader sees half of it."""
    part = _part_of(path)
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content``, or leave the file as it was."""
    with writing(path) as file:
        file.write(content)


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write several files of a folder; none takes its name before all are written."""
    parts = {folder / name: _part_of(folder / name) for name in files}
    try:
        for part, content in zip(parts.values(), files.values(), strict=True):
            part.write_bytes(content)
        for path, part in parts.items():
            part.replace(path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Take away unfinished files of these names that a killed process left."""
    for name in names:
        for part in folder.glob(f".{name}.*.part"):
            part.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make ``folder`` and see that files can be written there, before work is done."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "Permission denied", str(folder))


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # others may write it too
