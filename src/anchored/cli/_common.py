"""What the commands share: refusing, and writing files."""

from pathlib import Path
from typing import NoReturn

import typer

from anchored import _files

REFUSED = 2  # exit code


def fail(message: str) -> NoReturn:
    """Say in one line what is wrong, and stop."""
    typer.echo(f"anchored: {message}", err=True)
    raise typer.Exit(REFUSED)


def write(path: Path, content: bytes) -> None:
    try:
        _files.write_whole(path, content)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}.")


def make_folder(folder: Path) -> None:
    try:
        _files.make_folder(folder)
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}.")
