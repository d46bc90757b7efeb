"""Where the data files are: ``data_dir``, or the environment variable ``ANCHORED_DATA``."""

import os
from pathlib import Path

from anchored._errors import MissingDataError


def find_file(file: str, data_dir: str | Path | None) -> Path:
    """The path of ``file`` in the folder; errors say how to name the folder or what it lacks."""
    folder = data_dir or os.environ.get("ANCHORED_DATA")
    if not folder:
        raise MissingDataError(
            f"No folder to read {file} from: set the environment variable ANCHORED_DATA "
            "or pass `data_dir`."
        )
    path = Path(folder) / file
    if not path.is_file():
        raise MissingDataError(f"There is no {file} in {Path(folder)}.")
    return path
