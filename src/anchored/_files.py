"""Files written whole or not at all."""

import os
import uuid
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write under another name, then rename: a reader never sees half a file."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # others may write it too
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make ``folder`` and see that files can be written there, before work is done."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "Permission denied", str(folder))
