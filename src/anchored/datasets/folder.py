"""Where the data files are: in a folder of the user's, or else in a cache of downloads.

The folder is ``data_dir`` or the environment variable ``ANCHORED_DATA``; its files are used as
they are. Files that are not there are downloaded once and checked against the registry's sha256.
"""

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from anchored.datasets.fetch import FetchError, fetch
from anchored.datasets.registry import FILES
from anchored.errors import MissingDataError


def find_file(file: str, data_dir: str | Path | None) -> Path:
    """The path of a ``file`` of the registry; if it is missing, an error says where to get it and
    where to put it.
    """
    path = find_in_folder(file, data_dir)
    if path is not None:
        return path
    source, data_set = FILES[file]
    try:
        return fetch(source)
    except FetchError as error:
        folder = _folder(data_dir)
        there_is_none = f"There is no {file} in {folder}" if folder else f"No folder has {file}"
        put = (
            f"as {folder / file}."
            if folder
            else f"as {file} in a folder, and set the environment variable ANCHORED_DATA to it or "
            "pass `data_dir`."
        )
        raise MissingDataError(
            f"{there_is_none}, and {error}. Save {source.url} (licence: {data_set.licence}) {put}"
        ) from error


def find_in_folder(file: str, data_dir: str | Path | None) -> Path | None:
    """The path of ``file`` in the user's folder, if there is a folder and it has the file."""
    folder = _folder(data_dir)
    return folder / file if folder and (folder / file).is_file() else None


def read_arrays(path: Path, names: Iterable[str]) -> list[np.ndarray]:
    """Arrays of an npz file, by their names."""
    try:
        with path.open("rb") as file, np.load(file) as stored:
            return [stored[name] for name in names]
    except KeyError as error:
        raise ValueError(f"{path} lacks an array: {error.args[0]}.") from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path} is not a complete npz file ({error}). Get it again.") from error


def _folder(data_dir: str | Path | None) -> Path | None:
    named = data_dir or os.environ.get("ANCHORED_DATA")
    return Path(named) if named else None
