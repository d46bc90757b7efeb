"""Files written whole or not at all, and files of the package."""

import errno
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

_STAGE, _DECIDED = ".unfinished-", ".finished"


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
    """An empty folder whose files replace those of ``folder`` at the end, all or none.

    One rename decides. A process that is killed before it leaves the old files as they were. After
    it, the new files move to their places, and the next `settle` moves what is left to move.
    """
    stage = folder / f"{_STAGE}{uuid.uuid4().hex}"
    stage.mkdir()
    try:
        yield stage
        _decide(stage)
        settle(folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _decide(stage: Path) -> None:
    """Give the folder its fixed name, once what another process decided has been moved.

    A folder that has files cannot be replaced, so the files of two processes never mix.
    """
    while stage.exists():
        settle(stage.parent)
        try:
            stage.rename(stage.with_name(_DECIDED))
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


def settle(folder: Path) -> None:
    """Move the files that `together` decided to their places; they may be another process's."""
    decided = folder / _DECIDED
    with suppress(FileNotFoundError):
        for file in sorted(decided.iterdir()):
            with suppress(FileNotFoundError):  # another process moved it
                file.replace(folder / file.name)
    with suppress(OSError):  # gone, or full again
        decided.rmdir()


def remove_leftovers(folder: Path) -> None:
    """Settle ``folder``, and take away what a killed process had not decided."""
    settle(folder)
    for stage in folder.glob(f"{_STAGE}*"):
        shutil.rmtree(stage, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make ``folder`` and see that files can be written there, before work is done."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "Permission denied", str(folder))


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # others may write it too


def package_data(package: str, name: str) -> dict[str, Any]:
    """The content of a TOML file beside the modules of ``package``."""
    return tomllib.loads(files(package).joinpath(name).read_text("utf-8"))
