"""The record of real tables, summed up: scores over seeds, ranks over tables.

On each table, methods are ranked by the mean of a score over the seeds that all of them have. Rank
1 is the best, and ties share their ranks. Two mean ranks differ at the level 0.05 if their distance
is larger than the critical difference of Nemenyi's test (Demsar 2006).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from anchored.datasets.registry import REAL
from anchored.paper.runner import Record
from anchored.paper.tables.uci_scores import Score

SCORES = {
    "regression": ("rmse", "crps", "nll", "interval_score", "coverage", "width", "factor"),
    "classification": ("log_loss", "brier", "accuracy"),
}
HIGHER_IS_BETTER = ("accuracy",)
ALPHA = 0.05


class Ranks(NamedTuple):
    """Mean ranks of methods on tables, the best first."""

    mean: Mapping[str, float]
    n_tables: int
    critical_difference: float


class RealResults:
    """Scores by table and method, of one record."""

    def __init__(self, record: Record):
        self._seeds: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
        for label, scores in record["numbers"].items():
            dataset, method, seed = label.split("/")
            self._seeds.setdefault((dataset, method), {})[seed] = scores

    def datasets(self, task: str) -> list[str]:
        """The data sets that have results, in the registry's order."""
        found = {dataset for dataset, _ in self._seeds}
        return [name for name, table in REAL.items() if name in found and table.task == task]

    def methods(self, dataset: str) -> list[str]:
        return [method for name, method in self._seeds if name == dataset]

    def seeds(self, dataset: str, method: str) -> Mapping[str, Mapping[str, Any]]:
        return self._seeds.get((dataset, method), {})

    def score(
        self, dataset: str, method: str, name: str, seeds: Sequence[str] | None = None
    ) -> Score | None:
        """The mean over all seeds or over some; None if there are none or the method has no such
        score.

        It is infinite if a fit failed.
        """
        found = self.seeds(dataset, method)
        chosen = [found[seed] for seed in (found if seeds is None else seeds)]
        if all(scores.get(name) is None and "failed" not in scores for scores in chosen):
            return None
        return Score.over([{name: scores.get(name)} for scores in chosen], name)

    def compared(self, name: str, methods: Sequence[str], task: str) -> dict[str, list[float]]:
        """The score of each method [method], by table, over seeds that all have.

        A fit that failed has an infinite score. Tables where a method does not define the score,
        or no seed is common, are left out.
        """
        rows = {}
        for dataset in self.datasets(task):
            common = set.intersection(*(set(self.seeds(dataset, m)) for m in methods))
            scores = [self.score(dataset, m, name, sorted(common)) for m in methods]
            if common and None not in scores:
                rows[dataset] = [score.mean for score in scores if score is not None]
        return rows

    def ranks(self, name: str, methods: Sequence[str], task: str) -> Ranks | None:
        """Mean ranks on the tables that all methods have; None if there is no such table."""
        rows = list(self.compared(name, methods, task).values())
        if not rows or len(methods) < 2:
            return None
        sign = -1 if name in HIGHER_IS_BETTER else 1
        ranks = np.mean([stats.rankdata(sign * np.array(row)) for row in rows], axis=0)
        order = np.argsort(ranks, kind="stable")
        mean = {methods[int(place)]: float(ranks[place]) for place in order}
        return Ranks(mean, len(rows), critical_difference(len(methods), len(rows)))

    def failures(self) -> list[str]:
        """Table, method, seed and reason of each fit that failed, in words."""
        return [
            f"{method} on {dataset}, seed {seed}: {scores['failed']}"
            for (dataset, method), seeds in self._seeds.items()
            for seed, scores in seeds.items()
            if "failed" in scores
        ]

    def ranked(self, task: str) -> list[str]:
        """Methods that every table of the task has, in the order of the record."""
        tables = [self.methods(dataset) for dataset in self.datasets(task)]
        found = dict.fromkeys(method for table in tables for method in table)
        return [method for method in found if all(method in table for table in tables)]


def critical_difference(n_methods: int, n_tables: int) -> float:
    """Nemenyi's: q sqrt(k (k + 1) / 6 N), with q of the studentised range over sqrt 2."""
    q = stats.studentized_range.ppf(1 - ALPHA, n_methods, np.inf) / math.sqrt(2)
    return float(q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_tables)))
