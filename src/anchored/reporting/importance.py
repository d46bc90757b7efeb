"""Which columns matter: shuffles one, and measures the effect on predictions and their spread."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from anchored.prediction.predictive import Predictive
from anchored.reporting import figures
from anchored.reporting.inputs import Inputs

_ROWS, _REPEATS = 300, 5
_MOST_SHUFFLES = 150  # in all; many columns are shuffled less often
_MOST_TELLING = 4
_MOST_RELEVANT, _LEAST_RANKED = 3, 4  # columns named, and columns that a rank correlation needs

# Error and epistemic spread [row, out] of a predictive of the rows with these numbers
Measure = Callable[[Predictive, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Importance:
    """The effect of shuffling each column on one output [column, repeat].

    Attributes
    ----------
    score : rise of the error, in its units.
    spread : mean change of the epistemic spread of a row, either way, as a share of its mean.
    """

    inputs: Inputs
    score: np.ndarray
    spread: np.ndarray
    n_rows: int

    @property
    def names(self) -> tuple[str, ...]:
        return self.inputs.names

    def telling_columns(self, rows: np.ndarray) -> list[tuple[str, list[str]]]:
        """Names and cells of the most important columns, among those with one cell for each row."""
        order, shown = np.argsort(-self.score.mean(axis=1), kind="stable"), self.inputs.take(rows)
        found = ((self.names[i], shown.cells(i)) for i in order)
        return [(name, cells) for name, cells in found if cells is not None][:_MOST_TELLING]

    def shown(self, score: str, spread: str) -> dict[str, Any]:
        """Values for the template; ``score`` and ``spread`` say what the axes measure."""
        mean, deviation = self.score.mean(axis=1), self.score.std(axis=1)
        first = int(np.argmax(mean))
        return {
            "n_rows": self.n_rows,
            "n_hidden": len(self.names) - figures.MOST_BARS,
            "first": self.names[first] if mean[first] > 2 * deviation[first] else None,
            "relevant": self._most_relevant(),
            "of_score": figures.importances(self.names, self.score, score),
            "of_spread": figures.importances(self.names, self.spread, spread, shares=True),
        }

    def _most_relevant(self) -> dict[str, Any] | None:
        """The columns that the evidence holds most relevant, and whether shuffling agrees."""
        relevance = self.inputs.relevance
        if relevance is None or len(self.names) < _LEAST_RANKED:
            return None
        order = np.argsort(-relevance, kind="stable")[:_MOST_RELEVANT]
        agreement = rank_correlation(relevance, self.score.mean(axis=1))
        return {"names": [self.names[i] for i in order], "agreement": agreement}


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Zero if there is nothing to compare."""
    if len(a) < 3 or not np.ptp(a) > 0 or not np.ptp(b) > 0:
        return 0.0
    first, second = (np.argsort(np.argsort(values)) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def importances(
    predict: Callable[..., Predictive],
    inputs: Inputs,
    dist: Predictive,
    measure: Measure,
    mean: Callable[[np.ndarray], np.ndarray] = lambda errors: errors.mean(axis=0),
    seed: int = 0,
) -> list[Importance]:
    """Shuffle each column of a few hundred rows, several times; one record for each output.

    ``dist`` is the predictive of all rows as they are; ``mean`` sums up errors [row, out].
    """
    rng = np.random.default_rng(seed)
    n_rows, n_columns = len(dist.mean), len(inputs.names)
    rows = np.sort(rng.permutation(n_rows)[:_ROWS])
    n_repeats = int(np.clip(_MOST_SHUFFLES // n_columns, 1, _REPEATS))
    orders = [rng.permutation(len(rows)) for _ in range(n_repeats)]
    error, spread = (part[rows] for part in measure(dist, np.arange(n_rows)))
    usual = np.maximum(spread.mean(axis=0), np.finfo(float).tiny)
    some = inputs.take(rows)
    found = np.zeros((2, n_columns, n_repeats, error.shape[1]))
    for i in range(n_columns):
        for r, order in enumerate(orders):
            new_error, new_spread = measure(predict(some.shuffled(i, order)), rows)
            found[0, i, r] = mean(new_error) - mean(error)
            found[1, i, r] = np.abs(new_spread - spread).mean(axis=0) / usual
    outputs = range(error.shape[1])
    return [Importance(inputs, found[0, ..., k], found[1, ..., k], len(rows)) for k in outputs]
