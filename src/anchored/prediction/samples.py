"""A predictive distribution that is known only by its draws and its log density.

For members j with a density p_j each, the distribution is their equal mixture. Quantiles,
intervals, CRPS and PIT come from the draws, the log density from ``log_prob``.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from anchored.prediction.predictive import Predictive, checked_levels

_TIES = 0  # seed of the places that ties are given in the PIT of discrete targets


@dataclasses.dataclass(frozen=True)
class SamplePredictive(Predictive):
    """Draws [draw, batch, ...] of the target, in its units.

    Attributes
    ----------
    draws : equally many of each member, in any order.
    log_prob : log density [batch] of targets under the mixture of the members.
    discrete : whether targets are whole numbers; a PIT is then spread evenly over its step.
    """

    draws: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    log_prob: Callable[[np.ndarray], np.ndarray] | None = None
    discrete: bool = False

    def quantiles(self, levels) -> np.ndarray:
        """Quantiles [level, batch, ...] of each marginal; for whole numbers, they are whole
        numbers.
        """
        way = "inverted_cdf" if self.discrete else "linear"
        return np.quantile(self.draws, checked_levels(levels), axis=0, method=way)

    def cdf(self, y) -> np.ndarray:
        """Share of draws at or below ``y``, for each marginal."""
        return np.mean(self.draws <= self.observed(y), axis=0)

    def pit(self, y) -> np.ndarray:
        """Probability integral transform; uniform if predictions are right, even if discrete."""
        y = self.observed(y)
        below, upto = np.mean(self.draws < y, axis=0), np.mean(self.draws <= y, axis=0)
        share = np.random.default_rng(_TIES).random(y.shape)
        return below + share * (upto - below)

    def crps(self, y) -> np.ndarray:
        """E|Y - y| - E|Y - Y'| / 2 of each marginal, without bias from the number of draws."""
        y, n = self.observed(y), len(self.draws)
        ordered = np.sort(self.draws, axis=0)
        ranks = (2 * np.arange(1, n + 1) - n - 1).reshape(-1, *[1] * y.ndim)
        apart = 2 * np.sum(ranks * ordered, axis=0) / (n * (n - 1))
        return np.mean(np.abs(self.draws - y), axis=0) - apart / 2

    def sample(self, n: int = 1, random_state=None) -> np.ndarray:
        """Draws [n, batch, ...] of new targets, independent between rows."""
        rng = np.random.default_rng(random_state)
        picked = rng.integers(len(self.draws), size=(n, *self.mean.shape))
        return np.take_along_axis(self.draws, picked, axis=0)

    def log_density(self, y) -> np.ndarray:
        """Log density (or probability) of each observed row [batch], over all its targets."""
        assert self.log_prob is not None
        return self.log_prob(self.observed(y))
