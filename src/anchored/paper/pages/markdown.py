"""What the pages share: tables and times."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def all_tables(record: Mapping[str, Any], title: str) -> list[str]:
    """Lines of every table of a record, below its title in the form given."""
    lines = []
    for each in record["tables"]:
        lines += [title.format(each["title"]), "", *table(each["header"], each["rows"]), ""]
    return lines


def duration(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
