"""Writes docs/benchmarks.md from the records of ``anchored reproduce table-uci``: ``make docs``.

Beside them it takes the settings found by ``anchored tune`` in docs/benchmarks/settings, and from
benchmarks/results/speed.json the seconds of one step of a plain PyTorch loop; from
docs/benchmarks what `benchmarks.paper_protocol` and `benchmarks.paper_starts` found, and from
benchmarks/results/splits.json what `benchmarks.splits` did.
"""

import json
from pathlib import Path

from anchored.datasets import describe
from anchored.paper.pages import benchmark_page, load_records
from anchored.paper.tables.uci.methods import as_many_steps
from anchored.paper.tables.uci.paper import PAPER_SETTINGS
from anchored.paper.tables.uci.published import PUBLISHED
from anchored.tuning import Settings

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs/benchmarks/table-uci"
PROTOCOL = ROOT / "docs/benchmarks/protocol.json"
STARTS = ROOT / "docs/benchmarks/starts.json"
SPLITS = ROOT / "benchmarks/results/splits.json"
PAGE = ROOT / "docs/benchmarks.md"
_TRAIN_ROWS = {"boston": 455, "concrete": 927, "energy": 691, "wine": 1439, "yacht": 277}


def page() -> str:
    protocol, splits = json.loads(PROTOCOL.read_text()), json.loads(SPLITS.read_text())
    return benchmark_page(
        load_records(RECORDS),
        PUBLISHED,
        torch_seconds(),
        tuned(),
        protocol,
        one_program=splits["lines"],
        starts=json.loads(STARTS.read_text()),
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
    found = {}
    for path in sorted((ROOT / "docs/benchmarks/settings").glob("*.json")):
        s = Settings.load(path)
        found[path.stem] = {
            "batch_size": s.batch_size,
            "learning_rate": s.learning_rate,
            "noise_var": s.noise_var,
            "first_bias_var": s.first_var,
            "first_weight_var": s.first_var / describe(path.stem).shape[1],
            "epochs": s.epochs,
            "decay_rate": s.decay_rate,
            "single_std": None if s.single_var is None else s.single_var**0.5,
        }
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
