"""Where members should start under the paper's settings: docs/benchmarks/paper/paper-starts.json.

The paper prints no distribution of initial parameters. As its other settings, where members start
is settled on the training part alone: of the first standard split, 80 % of the training rows are
trained on and the rest is scored, several times over.

    python -m benchmarks.paper_starts [DATASET ...]
"""

import dataclasses
import sys
from functools import partial

import numpy as np

from anchored import metrics
from anchored.baselines import EnsembleOf
from anchored.datasets import load_uci_split
from anchored.paper import runner
from anchored.paper.tables.uci_methods import Task, as_many_steps, infer
from anchored.paper.tables.uci_settings import PAPER_SETTINGS
from benchmarks import beside_table_1

STARTS = {"prior": True, "network": False}  # at a draw of the prior, or as networks start
TRAIN_SHARE = 0.8


@dataclasses.dataclass(frozen=True)
class Settings:
    """How often the training part is divided; song is left out."""

    n_divisions: int = 5
    n_divisions_protein: int = 1

    def divisions(self, name: str) -> range:
        return range(self.n_divisions_protein if name == "protein" else self.n_divisions)


def plan(s: Settings, context: runner.Context) -> list[runner.Cell]:
    known = [name for name in PAPER_SETTINGS if name != "song"]
    return [
        runner.Cell(
            f"{name}/{start}/{division}",
            1.0,
            partial(_cell, name, division, prior_start),
            settings=PAPER_SETTINGS[name],
        )
        for name in runner.chosen("datasets", context.datasets, known, known)
        for division in s.divisions(name)
        for start, prior_start in STARTS.items()
    ]


def _cell(name: str, division: int, prior_start: bool) -> dict:
    return {"nll": validation_nll(name, division, prior_start)}


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


EXPERIMENT = beside_table_1.experiment(
    "paper-starts",
    "Where members start",
    "The paper prints no distribution of initial parameters.",
    Settings(),
    plan,
)

if __name__ == "__main__":
    beside_table_1.run(EXPERIMENT, sys.argv[1:])
