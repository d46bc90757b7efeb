"""Code blocks of a page, executed in order: Python in one namespace, commands as typed."""

import contextlib
import os
import re
import shlex
from pathlib import Path

_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and code of each block."""
    return _BLOCK.findall(text)


def run(page: Path, folder: Path) -> dict:
    """Execute a page's blocks in ``folder``; commands other than `anchored` are left out."""
    from typer.testing import CliRunner

    from anchored.cli import app

    space: dict = {}
    with contextlib.chdir(folder):
        os.environ.setdefault("MPLBACKEND", "Agg")
        for language, code in blocks(page.read_text(encoding="utf-8")):
            if language == "python":
                exec(compile(code, str(page), "exec"), space)
                continue
            for words in map(shlex.split, code.strip().splitlines()):
                if words[0] == "anchored":
                    result = CliRunner().invoke(app, words[1:])
                    assert result.exit_code == 0, result.output
    return space
