"""Writes docs/benchmarks.md from the records of ``anchored reproduce table-uci``: ``make docs``.

The page also has

- the settings that ``anchored tune`` found (docs/benchmarks/settings),
- the seconds of one step of a plain PyTorch loop (benchmarks/results/speed.json),
- what `benchmarks.paper_protocol` and `benchmarks.paper_starts` found (docs/benchmarks),
- what `benchmarks.splits` found (benchmarks/results/splits.json).
"""

import json
from pathlib import Path

from anchored.paper import load
from anchored.paper.pages import benchmark_page
from anchored.paper.tables.uci_methods import as_many_steps
from anchored.paper.tables.uci_scores import load_records
from anchored.paper.tables.uci_settings import PAPER_SETTINGS, as_printed
from anchored.tuning import Settings

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs/benchmarks"
SPLITS = ROOT / "benchmarks/results/splits.json"
PAGE = ROOT / "docs/benchmarks.md"
_TRAIN_ROWS = {"boston": 455, "concrete": 927, "energy": 691, "wine": 1439, "yacht": 277}


def page() -> str:
    return benchmark_page(
        load_records(RECORDS),
        torch_seconds(),
        tuned(),
        protocol=load(RECORDS / "paper", "paper-protocol"),
        one_program=json.loads(SPLITS.read_text())["lines"],
        starts=load(RECORDS / "paper", "paper-starts"),
    )


def torch_seconds() -> dict[str, float]:
    """One split of 5 networks by the PyTorch loop, where the batch is the one that was timed."""
    lines = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["lines"]
    (step,) = (line["value"] * 1e-6 for line in lines if line["name"] == "  plain PyTorch loop")
    return {
        name: step * as_many_steps(PAPER_SETTINGS[name].schedule, rows).n_steps(rows)
        for name, rows in _TRAIN_ROWS.items()
    }


def tuned() -> dict[str, dict]:
    """Settings by data set, under the names of the paper's table."""
    files = sorted((RECORDS / "settings").glob("*.json"))
    return {path.stem: as_printed(path.stem, Settings.load(path)) for path in files}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
