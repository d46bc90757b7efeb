"""Writes docs/reinforcement_learning.md from its records: ``python -m benchmarks.rl_page``."""

import json
from pathlib import Path

from anchored import paper
from anchored._files import write_whole
from anchored.paper.pages import rl_page
from anchored.paper.runner import record_path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reinforcement_learning.md"
RECORDS = DOCS / "reinforcement_learning"
RESULTS = Path(__file__).parent / "results"
# The preset shown of each experiment: the first that has a record.
SHOWN = {
    "fig-rl-push": ("paper", "cpu"),
    "table-deep-sea": ("cpu",),
    "fig-rl-cartpole": ("paper", "cpu"),
}


def page() -> str:
    records = {}
    for name, presets in SHOWN.items():
        found = [p for p in presets if record_path(RECORDS / p, name).exists()]
        if found:
            records[name] = paper.load(RECORDS / found[0], name)
    names = ("rl", "rl_planning", "deep_sea_trials")
    beside = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}
    return rl_page(records, beside, RECORDS.name)


if __name__ == "__main__":
    write_whole(PAGE, page().encode())
