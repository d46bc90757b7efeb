"""Writes docs/real_tables.md from its records: ``python -m benchmarks.real_page``."""

from pathlib import Path

from anchored import paper
from anchored._files import write_whole
from anchored.paper.pages import real_page

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "benchmarks" / "real" / "cpu"
PAGE = DOCS / "real_tables.md"


def page() -> str:
    names = ("table-real", "table-gap")
    found = [paper.load(RECORDS, n) for n in names if (RECORDS / f"{n}.json").is_file()]
    return real_page(*found)


if __name__ == "__main__":
    write_whole(PAGE, page().encode())
