"""Stores compiled programs, so that later runs start sooner.

JAX writes each program to a file. The name of the file is a digest of everything that decides the
machine code: the program, jaxlib's version, XLA's flags and the features of the processor. So
machines, versions and processes may share a folder. Results do not depend on the folder: a program
that cannot be read is compiled again.

The environment variable ``ANCHORED_COMPILE_CACHE`` names another folder, or is ``off``.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

MAX_BYTES = 512 * 2**20
_VARIABLE = "ANCHORED_COMPILE_CACHE"


def switch_on() -> None:
    """Let JAX store compiled programs; call this before JAX is imported.

    It sets environment variables that JAX reads. So nothing is imported here, and child processes
    store programs too. A user's own ``JAX_COMPILATION_CACHE_DIR`` is left alone.
    """
    folder = _folder(os.environ)
    if folder is None or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        usable = _make_ready(folder)
    except OSError:  # a disk that cannot be written, or a file of that name
        return
    if usable:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def _folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path | None:
    """Where the user's programs are kept; None if nowhere."""
    named = environment.get(_VARIABLE)
    if named:
        return None if named.lower() == "off" else Path(named).absolute()
    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        return None
    if platform == "win32":
        caches = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        caches = home / "Library" / "Caches"
    else:
        caches = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    return caches / "anchored" / "programs"


def _make_ready(folder: Path) -> bool:
    """Make the folder and keep it small; False if it must not be used.

    Programs are run as they are read. So the folder must be the user's, and closed to others.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022):
        return False
    sweep(folder)
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > MAX_BYTES


def sweep(folder: Path, max_bytes: int = MAX_BYTES) -> None:
    """Remove the least recently used programs until the rest fit in ``max_bytes``.

    Empty files are removed too. A killed process or a full disk leaves such a file, and JAX never
    writes a program twice, so it would compile this program in every run.
    """
    files = []
    for entry in folder.iterdir():
        try:
            files.append((entry.stat(), entry))
        except FileNotFoundError:
            continue  # another process sweeps too
    kept = 0
    for about, entry in sorted(files, key=lambda file: -max(file[0].st_atime, file[0].st_mtime)):
        kept += about.st_size
        if kept > max_bytes or about.st_size == 0:
            entry.unlink(missing_ok=True)
