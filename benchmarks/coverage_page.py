"""Writes docs/coverage.md from its record: ``python -m benchmarks.coverage_page``."""

from pathlib import Path

from anchored import paper
from anchored._files import write_whole
from anchored.paper.pages import coverage_page

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "coverage.md"
RECORDS = DOCS / "coverage" / "cpu"


def page() -> str:
    return coverage_page(paper.load(RECORDS, "table-coverage"), "coverage")


if __name__ == "__main__":
    write_whole(PAGE, page().encode())
