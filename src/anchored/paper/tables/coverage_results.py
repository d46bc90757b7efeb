"""The record of the coverage, summed up over its truths.

Truths are the independent units, because test inputs of one truth share its fit. So every standard
error is over truths.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from anchored.paper.runner import Record, standard_error
from anchored.paper.tables.coverage_methods import CHAINS, GP, METHODS
from anchored.paper.tables.coverage_problems import CLASSES, KINDS, Case
from anchored.paper.tables.coverage_scores import LEVELS, N_RANKED

LEVEL = 0.9  # of the tables and sentences that show one level
CLOSE = 0.04  # from the level, within which a band counts as right
VERDICTS = ("right", "too sure", "too wide", "unclear")
_SURE = 0.95  # confidence from which truths tell a share from the level
BY_CHANCE = 2 / (N_RANKED + 1)  # share of truths beyond all draws
MAIN_ROWS, MAIN_KINDS = 100, ("medium", CLASSES)

Truth = dict[str, Any]  # what the record has of one
Score = Callable[[Truth], float]


def is_main(case: Case) -> bool:
    """Whether it is one of the problems that are run and summed up first."""
    return case.n_rows == MAIN_ROWS and case.kind in MAIN_KINDS


def reference(case: Case) -> str:
    """The method that others are compared with."""
    return CHAINS if case.has_classes else GP


def covered(what: str, region: str, level: float = LEVEL) -> Score:
    """Share of test inputs where ``what`` (function or target) is covered at a level."""
    index = LEVELS.index(level)
    return lambda truth: truth[region][what][index]


def beyond(region: str) -> Score:
    """Share of test inputs where the true function is beyond all draws."""

    def share(truth: Truth) -> float:
        ranks = truth[region]["ranks"]
        return (ranks[0] + ranks[-1]) / sum(ranks)

    return share


def log_var(region: str) -> Score:
    """Log of the epistemic variance, the median over test inputs."""
    return lambda truth: truth[region]["log_var"]


def log_needed(region: str) -> Score:
    """Log of the variance that the distance of the means asks for, as a multiple of the exact one.

    NaN where no exact answer is known.
    """
    return lambda truth: truth[region].get("log_needed", np.nan)


class Mean(NamedTuple):
    """Over truths, or over problems, with its standard error."""

    value: float
    error: float | None  # unknown for one truth
    n: int  # truths, all problems together
    dof: int  # of the standard error

    @classmethod
    def over(cls, values: Sequence[float]) -> "Mean | None":
        if not values:
            return None
        return cls(float(np.mean(values)), standard_error(values), len(values), len(values) - 1)

    @classmethod
    def of(cls, means: Iterable["Mean | None"]) -> "Mean | None":
        """The mean over problems, each with equal weight; problems without a value are left out."""
        found = [mean for mean in means if mean is not None]
        if not found:
            return None
        errors = [mean.error for mean in found if mean.error is not None]
        error = float(np.linalg.norm(errors)) / len(found) if len(errors) == len(found) else None
        value = float(np.mean([mean.value for mean in found]))
        return cls(value, error, sum(m.n for m in found), sum(m.dof for m in found))

    @property
    def reach(self) -> float:
        """The uncertainty of the mean over the truths; infinite for one truth."""
        if self.error is None or not self.dof:
            return np.inf
        return float(stats.t(self.dof).ppf((1 + _SURE) / 2)) * self.error


@dataclasses.dataclass(frozen=True)
class Results:
    """The truths of a record by problem and method, failed ones left out."""

    record: Record

    @cached_property
    def runs(self) -> dict[tuple[Case, str], dict[int, Truth]]:
        found: dict[tuple[Case, str], dict[int, Truth]] = {}
        for label, truth in self.record["numbers"].items():
            group, number = label.split("/")
            problem, method = group.split(":")
            if "failed" not in truth:
                found.setdefault((case_of(problem), method), {})[int(number)] = truth
        return found

    @property
    def n_failed(self) -> int:
        return sum("failed" in truth for truth in self.record["numbers"].values())

    @property
    def halves(self) -> list[tuple[str, list[Case]]]:
        """Problems of regression and of classes, by kind, rows and dimension."""
        cases = sorted({case for case, _ in self.runs}, key=_in_order)
        both = {
            "Regression": [case for case in cases if not case.has_classes],
            "Two classes": [case for case in cases if case.has_classes],
        }
        return [(title, some) for title, some in both.items() if some]

    def methods(self, cases: Iterable[Case]) -> list[str]:
        """Methods that have been run on at least one of some problems, in their usual order."""
        met = {method for case in cases for known, method in self.runs if known == case}
        return [name for name in METHODS if name in met]

    def mean(self, case: Case, method: str, score: Score) -> Mean | None:
        return Mean.over([score(truth) for truth in self.runs.get((case, method), {}).values()])

    def needed(self, case: Case, method: str, score: Score) -> Mean | None:
        """The mean of the finite values; None for the reference."""
        if method == reference(case):
            return None
        found = [score(truth) for truth in self.runs.get((case, method), {}).values()]
        return Mean.over([value for value in found if np.isfinite(value)])

    def less_reference(self, case: Case, method: str, score: Score) -> Mean | None:
        """The score minus the reference's, on the truths that both have; None for the reference
        itself.
        """
        if method == reference(case):
            return None
        ours = self.runs.get((case, method), {})
        theirs = self.runs.get((case, reference(case)), {})
        common = sorted(ours.keys() & theirs.keys())
        return Mean.over([score(ours[truth]) - score(theirs[truth]) for truth in common])


def verdict(mean: Mean) -> str:
    """The verdict on the bands from their share at `LEVEL`; one of `VERDICTS`."""
    off = abs(mean.value - LEVEL)
    if off <= CLOSE:
        return "right"
    if off <= mean.reach:
        return "unclear"
    return "too sure" if mean.value < LEVEL else "too wide"


def case_of(name: str) -> Case:
    """The problem of a `Case.name`."""
    dimension, n_rows, kind = name.split("-")
    return Case(int(dimension.removesuffix("d")), int(n_rows), kind)


def _in_order(case: Case) -> tuple[int, int, int]:
    return KINDS.index(case.kind), case.n_rows, case.dimension
