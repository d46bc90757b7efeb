"""Which columns matter: shuffle one, and see what that does to predictions and their spread."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from anchored.predictive import Predictive

_ROWS, _REPEATS = 300, 5
_MOST_PREDICTED = 200_000  # rows in all; tables with very many columns are shuffled less often


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of the table, and the features each of them became."""

    names: tuple[str, ...]
    features: tuple[tuple[int, ...], ...]

    @classmethod
    def single(cls, names: Sequence[str]) -> "Columns":
        return cls(tuple(names), tuple((i,) for i in range(len(names))))


@dataclasses.dataclass(frozen=True)
class Importance:
    """What shuffling each column does [column, repeat]; the first is in the score's units.

    Attributes
    ----------
    score : rise of the error.
    epistemic : mean change of the epistemic variance of a row, either way, as a share of its
        mean.
    """

    names: tuple[str, ...]
    score: np.ndarray
    epistemic: np.ndarray
    n_rows: int


def importance(
    predict: Callable[[np.ndarray], Predictive],
    x: np.ndarray,
    columns: Columns,
    error: Callable[[Predictive, np.ndarray], float],
    epistemic: Callable[[Predictive], np.ndarray],
    seed: int = 0,
) -> Importance:
    """Shuffle each column of a few hundred rows of ``x`` [row, feature], several times.

    ``error(dist, rows)`` scores the rows numbered ``rows``, ``epistemic(dist)`` is [row].
    """
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(x))[:_ROWS])
    x, n = x[rows], len(rows)
    repeats = int(np.clip(_MOST_PREDICTED // (n * len(columns.names)), 1, _REPEATS))
    orders = [rng.permutation(n) for _ in range(repeats)]
    before = _quiet(predict, x)
    old_error, old_spread = error(before, rows), epistemic(before)
    scale = max(float(old_spread.mean()), np.finfo(float).tiny)
    score, spread = np.zeros((2, len(columns.names), repeats))
    for i, features in enumerate(columns.features):
        shuffled = np.tile(x, (repeats, *(1,) * (x.ndim - 1)))
        for r, order in enumerate(orders):
            shuffled[r * n : (r + 1) * n, features] = x[np.ix_(order, features)]
        after = _quiet(predict, shuffled)
        change = np.abs(epistemic(after).reshape(repeats, n) - old_spread)
        spread[i] = change.mean(axis=1) / scale
        for r in range(repeats):
            score[i, r] = error(_rows(after, slice(r * n, (r + 1) * n)), rows) - old_error
    return Importance(columns.names, score, spread, n)


def _quiet(predict: Callable[[np.ndarray], Predictive], x: np.ndarray) -> Predictive:
    with warnings.catch_warnings():  # arrays come in place of the user's frame, columns in order
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return predict(x)


def _rows(dist: Predictive, rows: slice) -> Predictive:
    """Means and variances of some rows; whatever else belongs to all of them stays."""
    return dataclasses.replace(
        dist,
        mean=dist.mean[rows],
        epistemic_var=dist.epistemic_var[rows],
        aleatoric_var=dist.aleatoric_var[rows],
        members=None if dist.members is None else dist.members[:, rows],
    )
