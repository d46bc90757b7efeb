"""What the commands share: error messages, and writing files."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import typer

from anchored import _files

REFUSED, INTERRUPTED = 2, 130  # exit codes


def fail(message: str) -> NoReturn:
    """Say in one line what is wrong, and stop; control characters are escaped."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    typer.echo(f"anchored: {line}", err=True)
    raise typer.Exit(REFUSED)


def stop_for_now(folder: Path, parts: str) -> NoReturn:
    """After Ctrl-C: what is finished is kept."""
    typer.echo(
        f"anchored: stopped. Finished {parts} are kept in {folder}; the same command continues "
        f"from there. {parts.capitalize()} that are still running may take a few seconds to stop.",
        err=True,
    )
    raise typer.Exit(INTERRUPTED) from None


def check_coverage(coverage: float | None) -> None:
    if coverage is not None and not 0 < coverage < 1:
        fail(f"--coverage must lie between 0 and 1; got {coverage:g}.")


@contextmanager
def table_errors(name: str) -> Iterator[None]:
    """What is wrong with a table, said in one line."""
    from anchored.errors import EnsembleError

    try:
        yield
    except BrokenPipeError:
        raise  # whoever read our output has seen enough
    except OSError as error:
        fail(f"{name}: {error.strerror or error}.")
    except MemoryError:
        fail(f"{name}: there is not enough memory for this table; give fewer rows.")
    except (ImportError, ValueError, EnsembleError) as error:
        message = " ".join(str(error).split())
        titled = message.startswith((repr(name), "standard input", "Reading tables needs"))
        fail(message if titled else f"{name}: {message}")


@contextmanager
def model_errors(path: Path) -> Iterator[None]:
    """What is wrong with a model file, said in one line; it belongs to the files beside it."""
    try:
        with suppress(OSError):  # it may be read only
            _files.settle(path.parent)
        yield
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}.")
    except ValueError as error:
        fail(" ".join(str(error).split()))


def write(path: Path, content: bytes) -> None:
    try:
        _files.write_whole(path, content)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}.")


@contextmanager
def writing_together(folder: Path) -> Iterator[Path]:
    """A folder to write to; its files appear in ``folder`` once all are written, each whole."""
    try:
        with _files.together(folder) as stage:
            yield stage
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}.")


def make_folder(folder: Path, clean: bool = False) -> None:
    """Make the folder; ``clean`` takes away what a run that was killed left unfinished."""
    try:
        _files.make_folder(folder)
        if clean:
            _files.remove_leftovers(folder)
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}.")
