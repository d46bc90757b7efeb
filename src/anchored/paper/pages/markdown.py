"""What the pages share: tables and times."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def duration(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
