"""Which columns matter: shuffle one, and see what that does to predictions and their spread."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from anchored.prediction.predictive import Predictive

_ROWS, _REPEATS = 300, 5
_MOST_SHUFFLES = 150  # in all; many columns are shuffled less often


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of the table, and the features each of them became."""

    names: tuple[str, ...]
    features: tuple[tuple[int, ...], ...]

    @classmethod
    def single(cls, names: Sequence[str]) -> "Columns":
        return cls(tuple(names), tuple((i,) for i in range(len(names))))

    @classmethod
    def owning(cls, of_feature: Sequence[str]) -> "Columns":
        """By the column of each feature."""
        groups: dict[str, list[int]] = {}
        for i, name in enumerate(of_feature):
            groups.setdefault(str(name), []).append(i)
        return cls(tuple(groups), tuple(map(tuple, groups.values())))


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
    x = x[rows]
    n_repeats = int(np.clip(_MOST_SHUFFLES // len(columns.names), 1, _REPEATS))
    orders = [rng.permutation(len(rows)) for _ in range(n_repeats)]
    before = _quiet(predict, x)
    old_error, old_spread = error(before, rows), epistemic(before)
    scale = max(float(old_spread.mean()), np.finfo(float).tiny)
    score, spread = np.zeros((2, len(columns.names), n_repeats))
    for i, features in enumerate(columns.features):
        for r, order in enumerate(orders):
            shuffled = x.copy()
            shuffled[:, features] = x[np.ix_(order, np.array(features))]
            after = _quiet(predict, shuffled)
            score[i, r] = error(after, rows) - old_error
            spread[i, r] = np.abs(epistemic(after) - old_spread).mean() / scale
    return Importance(columns.names, score, spread, len(rows))


def _quiet(predict: Callable[[np.ndarray], Predictive], x: np.ndarray) -> Predictive:
    with warnings.catch_warnings():  # arrays come in place of the user's frame, columns in order
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return predict(x)
