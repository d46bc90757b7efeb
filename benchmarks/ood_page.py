"""Writes docs/out_of_distribution.md from its records: ``python -m benchmarks.ood_page``."""

import json
from pathlib import Path

from anchored import paper
from anchored._files import write_whole
from anchored.paper.pages import unfamiliar_page

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "out_of_distribution.md"
SPEED = Path(__file__).parent / "results" / "images.json"
RECORDS = {"table-fashion": "paper", "table-imdb": "paper", "table-cifar": "cpu"}


def records() -> list[dict]:
    """Those that are there, in the order of the page."""
    folders = {name: DOCS / "unfamiliar" / preset for name, preset in RECORDS.items()}
    return [
        paper.load(folder, name)
        for name, folder in folders.items()
        if (folder / f"{name}.json").is_file()
    ]


def page() -> str:
    return unfamiliar_page(records(), json.loads(SPEED.read_text(encoding="utf-8")), "unfamiliar")


if __name__ == "__main__":
    write_whole(PAGE, page().encode())
