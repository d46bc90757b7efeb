"""Sections of pages that are made from records."""

from pathlib import Path

from anchored._files import write_whole


def with_section(text: str, made: str) -> str:
    """A page with the section of the same heading replaced by ``made``."""
    heading = made.partition("\n")[0] + "\n"
    before, found, rest = text.partition(heading)
    if not found:
        raise ValueError(f"The page has no line {heading!r} to put the section at.")
    _, mark, after = rest.partition("\n## ")
    return before + made + (f"\n## {after}" if mark else "")


def write_section(page: Path, made: str) -> None:
    write_whole(page, with_section(page.read_text(encoding="utf-8"), made).encode())
