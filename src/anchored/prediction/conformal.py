"""A predictive distribution whose quantiles are corrected by held-out rows.

For example, only 93 % of held-out targets may lie below a predictive's 95 % quantile. The
correction is one increasing map for all rows: the corrected quantile at a level is the predictive's
own quantile at another level. Intervals, quantiles, the distribution function, densities and
samples all go through this map, so they describe one distribution; rows stay as different from each
other as the predictive says.

Levels are compared as normal scores, v = Phi^-1(level), on which a wrong location and a wrong scale
are straight lines. The map goes straight from knot to knot. A knot is an order statistic of the
held-out rows. It counts the new row as one more row, on either side of the median. With n
exchangeable rows held out once, at most 5 % of new targets fall below the 5 % quantile and at most
5 % above the 95 % quantile on average (split conformal prediction, Lei et al. 2018, for each side).
With folds, each row is predicted by members that did not see it, and the members that predict saw
slightly more rows. This is on the safe side, though no theorem proves it. Each knot costs the log
density about half a nat divided by n, so there are at most n / 50 of them, and two at least.

With fewer than 50 rows, each end would depend on a single row. So both sides then share one order
statistic, of the distance from the median, and intervals are widened but never narrowed.
"""

import dataclasses
from statistics import NormalDist

import numpy as np

# From this many held-out rows on, these levels have a knot of their own.
_KNOTS = {
    0: (0.05, 0.95),
    250: (0.25, 0.5, 0.75),
    500: (0.1, 0.9),
    1_000: (0.025, 0.975),
    2_000: (0.005, 0.995),
}
_FEW_ROWS = 50
_SLOPES = (1e-3, 1e3)  # of the map between two knots: equal order statistics must not stop it
_LEAST_TAIL_SLOPE = 1.0  # beyond the outer knots nothing is known, so nothing is narrowed
_FAR = 1e4  # no score is as far out
_NORMAL = NormalDist()


@dataclasses.dataclass(frozen=True)
class Conformal:
    """The map, by its knots.

    Attributes
    ----------
    levels : [knot], increasing, between 0 and 1.
    scores : [knot] or [knot, out], increasing. The corrected quantile at ``levels[i]`` is the
        uncorrected quantile at the level with this normal score.
    """

    levels: np.ndarray
    scores: np.ndarray

    @classmethod
    def fit(cls, scores: np.ndarray, weight: np.ndarray) -> "Conformal | None":
        """From normal scores [row] of held-out targets, each standing for ``weight`` [row] rows.

        None if there are too few rows to say anything.
        """
        if len(scores) < _FEW_ROWS:
            return cls._of_few(scores, weight)
        levels = sorted(q for least, qs in _KNOTS.items() if len(scores) >= least for q in qs)
        found = [(q, order_statistic(scores, weight, q)) for q in levels]
        return cls.through([(q, score) for q, score in found if score is not None])

    @classmethod
    def _of_few(cls, scores: np.ndarray, weight: np.ndarray) -> "Conformal | None":
        lower, upper = _KNOTS[0]
        apart = order_statistic(np.abs(scores), weight, upper - lower)
        if apart is None:
            return None
        apart = max(apart, _NORMAL.inv_cdf(upper))
        return cls.through([(lower, -apart), (upper, apart)])

    @classmethod
    def through(cls, knots: "list[tuple[float, float]]") -> "Conformal | None":
        """The map through some knots (level, score), with its slopes kept within limits."""
        if len(knots) < 2:
            return None
        levels, wanted = (np.array(column, float) for column in zip(*knots, strict=True))
        steps = np.diff([_NORMAL.inv_cdf(q) for q in levels])
        grown = np.clip(np.diff(wanted), _SLOPES[0] * steps, _SLOPES[1] * steps)
        middle = len(wanted) // 2  # stays where it is
        before = wanted[middle] - np.cumsum(grown[:middle][::-1])[::-1]
        behind = wanted[middle] + np.cumsum(grown[middle:])
        return cls(levels, np.concatenate([before, wanted[middle : middle + 1], behind]))

    def score(self, level: float) -> np.ndarray:
        """The predictive's own score for the quantile at ``level``, one number or [out]."""
        return self.stated(np.full(self.scores.shape[1:], _NORMAL.inv_cdf(level)))

    def stated(self, actual: np.ndarray) -> np.ndarray:
        """From scores [..., out] of the corrected distribution to those of the predictive."""
        return self._by_output(actual, lambda x, ours, theirs: np.interp(x, ours, theirs))

    def actual(self, stated: np.ndarray) -> np.ndarray:
        """From scores [..., out] of the predictive to those of the corrected distribution."""
        return self._by_output(stated, lambda x, ours, theirs: np.interp(x, theirs, ours))

    def slope(self, stated: np.ndarray) -> np.ndarray:
        """The derivative of the stated score by the actual one, at stated scores [..., out]."""

        def slopes(x, ours, theirs):
            return (np.diff(theirs) / np.diff(ours))[np.searchsorted(theirs[1:-1], x)]

        return self._by_output(stated, slopes)

    def output(self, index: int) -> "Conformal":
        """The map of one of several outputs."""
        return Conformal(self.levels, self.scores[:, index])

    @classmethod
    def stacked(cls, parts: "list[Conformal | None]") -> "Conformal | None":
        """The maps of several outputs, made from the same rows."""
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return cls(found[0].levels, np.stack([part.scores for part in found], axis=-1))

    def _by_output(self, x, function) -> np.ndarray:
        """``function(x, actual knots, stated knots)`` for each output, tails included."""
        x = np.asarray(x, np.float64)
        ours = np.array([_NORMAL.inv_cdf(q) for q in self.levels])
        if self.scores.ndim == 1:
            return function(x, *_with_tails(ours, self.scores))
        columns = [
            function(x[..., i], *_with_tails(ours, self.scores[:, i]))
            for i in range(self.scores.shape[1])
        ]
        return np.stack(columns, axis=-1)


def _with_tails(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knots beyond which no score lies added on either side."""
    slopes = np.diff(theirs)[[0, -1]] / np.diff(ours)[[0, -1]]
    slopes = np.maximum(slopes, _LEAST_TAIL_SLOPE) * [-_FAR, _FAR]
    return (
        np.concatenate([ours[:1] - _FAR, ours, ours[-1:] + _FAR]),
        np.concatenate([theirs[:1] + slopes[0], theirs, theirs[-1:] + slopes[1]]),
    )


def order_statistic(scores: np.ndarray, weight: np.ndarray, level: float) -> float | None:
    """The score that at most a share 1 - ``level`` of new rows exceed. Below the median, it is the
    score that at most a share ``level`` of new rows fall below. The new row counts as one more row,
    on the unsafe side. None if there are too few rows for this level.
    """
    if level < 0.5:
        mirrored = order_statistic(-scores, weight, 1 - level)
        return None if mirrored is None else -mirrored
    if level == 0.5:  # neither side is the safe one
        return float(np.quantile(scores, 0.5, weights=weight, method="inverted_cdf"))
    order = np.argsort(scores)
    reached = np.cumsum(weight[order]) / (weight.sum() + 1)
    enough = reached >= level - 1e-12
    return float(scores[order][np.argmax(enough)]) if enough.any() else None
