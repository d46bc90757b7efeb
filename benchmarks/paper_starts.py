"""Where members should start under the paper's settings: writes docs/benchmarks/starts.json.

The paper prints no distribution of initial parameters. As its other settings, where members start
is settled on the training part alone: of the first standard split, 80 % of the training rows are
trained on and the rest is scored, several times over.

    python -m benchmarks.paper_starts [DATASET ...]
"""

import json
import sys
from pathlib import Path

import numpy as np

from anchored import metrics
from anchored._files import write_whole
from anchored.baselines import EnsembleOf
from anchored.datasets import load_uci_split
from anchored.paper.tables.uci.methods import Task, as_many_steps, infer
from anchored.paper.tables.uci.paper import PAPER_SETTINGS

RECORD = Path(__file__).parents[1] / "docs/benchmarks/starts.json"
STARTS = {"prior": True, "network": False}  # at a draw of the prior, or as networks start
TRAIN_SHARE = 0.8
N_DIVISIONS = dict.fromkeys(PAPER_SETTINGS, 5) | {"protein": 1}
del N_DIVISIONS["song"]


def validation_nll(name: str, division: int, prior_start: bool) -> float:
    """Gaussian NLL of anchored 5x50 on the rows held out of the first split's training part."""
    rows = load_uci_split(name, 0)
    order = np.random.default_rng(division).permutation(len(rows.x_train))
    kept, held = np.split(order, [int(TRAIN_SHARE * len(order))])
    x, y = rows.x_train, rows.y_train
    task = Task(name, division, x[kept], y[kept], x[held], seed=0)
    settings = PAPER_SETTINGS[name]
    schedule = as_many_steps(settings.schedule, len(kept))
    method = EnsembleOf("anchored", 5, schedule, prior_start)
    return metrics.nll(infer(method, task, settings), y[held])


def main(datasets: list[str]) -> None:
    """Do what the record lacks, one fit at a time."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in datasets or N_DIVISIONS:
        entry = record.setdefault(name, {start: [] for start in STARTS})
        for division in range(N_DIVISIONS[name]):
            for start, prior_start in STARTS.items():
                if len(entry[start]) == division:
                    nll = validation_nll(name, division, prior_start)
                    entry[start].append(float(f"{nll:.6g}"))
                    write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())
        print(name, {start: round(float(np.mean(scores)), 3) for start, scores in entry.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
