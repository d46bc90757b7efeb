"""Files written whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_STAGE = ".unfinished-"


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


@contextmanager
def together(folder: Path) -> Iterator[Path]:
    """An empty folder whose files move to ``folder`` at the end, once all are written.

    They move one by one in the order of their names.
    """
    stage = folder / f"{_STAGE}{uuid.uuid4().hex}"
    stage.mkdir()
    try:
        yield stage
        for file in sorted(stage.iterdir()):
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Take away what a killed process left of `together`."""
    for stage in folder.glob(f"{_STAGE}*"):
        shutil.rmtree(stage, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make ``folder`` and see that files can be written there, before work is done."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "Permission denied", str(folder))


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # others may write it too
