"""The status of a member, exceptions, warnings, and builders of messages."""

import difflib
import enum
from collections.abc import Iterable


class Status(enum.IntEnum):
    """How the training of one member ended."""

    CONVERGED = 0
    STEP_LIMIT = 1
    DIVERGED = 2


class DroppedMemberWarning(UserWarning):
    """A member diverged again after retraining and was left out of the ensemble."""


class HealthWarning(UserWarning):
    """A fit that finished but looks wrong; the message says how to fix it."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or used; the message says why and what happens instead."""


class EnsembleError(RuntimeError):
    """Too few members survived training for the ensemble to be used."""


class MissingDataError(FileNotFoundError):
    """A data file is not in the folder and cannot be downloaded."""


class ModelFileError(ValueError):
    """A file does not contain a usable model; the message says why and what to do."""


class TableError(ValueError):
    """A table that cannot be read or used; the message is one line that names the place."""


def unknown_name(argument: str, got: object, allowed: Iterable[str]) -> ValueError:
    """Error for a name that is not in a closed list, with the nearest one suggested."""
    names = list(allowed)
    near = difflib.get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"`{argument}` must be one of {', '.join(names)}; got {got!r}.{hint}")


def bad_value(argument: str, got: object, need: str) -> ValueError:
    """Error for a value outside its range: it names the argument, what is needed and what was
    given.
    """
    return ValueError(f"`{argument}` must be {need}; got {got!r}.")


def missing_package(need: str, extra: str) -> ModuleNotFoundError:
    """Error where an optional package is not installed: what needs it, and the extra to install."""
    return ModuleNotFoundError(f"{need}: pip install 'anchored[{extra}]'.")


def shown(text: str, most: int = 40) -> str:
    """A cell, name or path as text for a message: quoted, on one line, not too long."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")
