"""Gap and tail splits of the UCI tables: test rows with values of a feature that no training row
has.

Rows are sorted by one feature. The test rows of a gap split are the middle third, those of a tail
split the outer sixths; there is a split for each feature. A cell is
``"<table>/<kind>/<method>/<feature>"``, and its result the scores of `real.regression_scores`.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from anchored._files import package_data
from anchored.datasets import load_uci
from anchored.datasets.real import RealSplit, Rows
from anchored.datasets.registry import TABLES
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.prose import number
from anchored.paper.runner import Cell, Context, Experiment, Record, chosen
from anchored.paper.runner import Table as Shown
from anchored.paper.tables.real import METHODS, score_split
from anchored.paper.tables.real_record import SCORES
from anchored.paper.tables.uci_scores import Score
from anchored.tables.table import Table

KINDS = ("gap", "tail")
PUBLISHED = package_data("anchored.paper.tables", "gap_published.toml")
KNOWN = {name: method for name, method in METHODS.items() if "regression" in method.tasks}
Cells = Mapping[tuple[str, str, str], Mapping[str, Mapping[str, Any]]]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which tables and methods, and at most how many rows of a table."""

    datasets: tuple[str, ...] = tuple(name for name in TABLES if name != "song")
    methods: tuple[str, ...] = ("anchored",)
    n_splits: int | None = None  # of each kind, from the first feature; None: all
    max_rows: int = 10_000


PRESETS = CATALOGUE["table-gap"].presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    methods = chosen("methods", context.methods, KNOWN, s.methods)
    cells = []
    for dataset in chosen("datasets", context.datasets, TABLES, s.datasets):
        for kind in KINDS:
            for name in methods:
                for feature in features_of(dataset)[: context.splits or s.n_splits]:
                    compute = partial(_score, name, dataset, kind, feature, s.max_rows, context)
                    label = f"{dataset}/{kind}/{name}/{feature}"
                    cells.append(Cell(label, 1.0, compute, settings={"max_rows": s.max_rows}))
    return cells


def features_of(dataset: str) -> list[int]:
    """Numbers of the features that have a split."""
    skipped = PUBLISHED["skipped"].get(dataset, ())
    return [i for i in range(TABLES[dataset].shape[1]) if i not in skipped]


def _score(
    name: str, dataset: str, kind: str, feature: int, max_rows: int, context: Context
) -> dict[str, Any]:
    x, y = load_uci(dataset, context.data_dir)
    drawn = np.random.default_rng(0).permutation(len(y))[:max_rows]
    x, y = (x, y) if len(y) <= max_rows else (x[drawn], y[drawn])
    parts = [
        Rows(Table({f"x{i}": column for i, column in enumerate(x[rows].T)}, len(rows)), y[rows])
        for rows in split_rows(x[:, feature], kind)
    ]
    return score_split(KNOWN[name].fit, RealSplit(*parts), "regression", context.seed)


def split_rows(values: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (train, test) of the split by one feature [row]."""
    n, order = len(values), np.argsort(values, kind="stable")
    low, high = (n // 3, 2 * n // 3) if kind == "gap" else (-(-n // 6), 5 * n // 6)
    middle, outer = order[low:high], np.concatenate([order[:low], order[high:]])
    return (outer, middle) if kind == "gap" else (middle, outer)


def by_run(record: Record) -> Cells:
    """Scores by feature, for each table, kind and method."""
    runs: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for label, scores in record["numbers"].items():
        dataset, kind, method, feature = label.split("/")
        runs.setdefault((dataset, kind, method), {})[feature] = scores
    return runs


def mean_score(runs: Cells, run: tuple[str, str, str], name: str) -> Score | None:
    """The mean over the splits; None if there are none or the method does not define the score."""
    splits = list(runs.get(run, {}).values())
    if not splits or all(scores.get(name) is None for scores in splits):
        return None
    return Score.over([{name: scores.get(name)} for scores in splits], name)


def tables(record: Record) -> list[Shown]:
    runs = by_run(record)
    names = (*SCORES["regression"], "fit_seconds")
    rows = []
    for run, splits in runs.items():
        scores = [mean_score(runs, run, name) for name in names]
        cells = ("-" if score is None else number(score.mean, ".4g") for score in scores)
        rows.append((*run, *cells, str(len(splits))))
    titles = (name.replace("_", " ") for name in names)
    header = ("table", "split", "method", *titles, "splits")
    return [Shown("Mean over the splits, one for each feature", header, rows)]


EXPERIMENT = Experiment(
    CATALOGUE["table-gap"],
    PRESETS,
    plan,
    combine=None,
    findings=lambda record: [],
    tables=tables,
    options=("datasets", "methods", "splits", "again"),
)
