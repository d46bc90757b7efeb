"""A predictive distribution that is known by draws, and by its log density.

For members j with a density p_j each, the distribution is their equal mixture. Quantiles,
intervals, CRPS and PIT come from the draws, the log density from ``log_prob``.

If rows were held out, `Conformal` moves the draws of each marginal to where they must be, and the
density with them. Of several targets the marginals are moved, each by itself.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive, checked_levels

_LEAST = 1e-300
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

    def corrected(self, conformal: Conformal) -> "SamplePredictive":
        """The distribution that held-out rows say; of whole numbers there is none."""
        from anchored.prediction import student

        assert not self.discrete
        n, ordered = len(self.draws), np.sort(self.draws, axis=0)
        wanted = student.score_of((np.arange(n) + 0.5) / n)
        wanted = wanted.reshape(-1, *[1] * (conformal.scores.ndim - 1))
        shape = (n, *conformal.scores.shape[1:])
        place = student.level(conformal.stated(np.broadcast_to(wanted, shape))) * n - 0.5
        place = np.clip(place, 0, n - 1)
        place = place.reshape(n, *[1] * (ordered.ndim - place.ndim), *shape[1:])
        below = np.floor(place).astype(int)
        above = np.minimum(below + 1, n - 1)
        shown = [np.broadcast_to(index, ordered.shape) for index in (below, above)]
        low, high = (np.take_along_axis(ordered, index, axis=0) for index in shown)
        moved = np.where(low == high, low, low + (place - below) * (high - low))

        def log_prob(y: np.ndarray) -> np.ndarray:
            assert self.log_prob is not None
            gain = self._log_gain(y, conformal)
            return self.log_prob(y) + gain.reshape(len(y), -1).sum(axis=1)

        return dataclasses.replace(self, draws=moved, log_prob=log_prob, conformal=conformal)

    def scores(self, y) -> np.ndarray:
        """Normal scores of targets, those at a limit spread evenly over its probability."""
        from anchored.prediction import student

        return student.score_of(self._inside(self.pit(y)))

    def _inside(self, level: np.ndarray) -> np.ndarray:
        """Levels no further out than half a draw."""
        return np.clip(level, 0.5 / len(self.draws), 1 - 0.5 / len(self.draws))

    def _log_gain(self, y: np.ndarray, conformal: Conformal) -> np.ndarray:
        """What a correction adds to the log density, or log probability, of each target."""
        from anchored.prediction import student

        below, upto = self._shares(y)
        stated = student.score_of(self._inside((below + upto) / 2))
        actual = conformal.actual(stated)
        density = 0.5 * (stated**2 - actual**2) - np.log(conformal.slope(stated))
        ends = (student.level(conformal.actual(student.score_of(share))) for share in (below, upto))
        mass, own = -np.subtract(*ends), np.where(upto > below, upto - below, 1.0)
        return np.where(upto > below, np.log(np.maximum(mass, _LEAST) / own), density)

    def _shares(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of draws below each target, and at or below it."""
        return np.mean(self.draws < y, axis=0), np.mean(self.draws <= y, axis=0)

    def quantiles(self, levels) -> np.ndarray:
        """Quantiles [level, batch, ...] of each marginal; of whole numbers they are some."""
        way = "inverted_cdf" if self.discrete else "linear"
        return np.quantile(self.draws, checked_levels(levels), axis=0, method=way)

    def cdf(self, y) -> np.ndarray:
        """Share of draws at or below ``y``, for each marginal."""
        return np.mean(self.draws <= self.observed(y), axis=0)

    def pit(self, y) -> np.ndarray:
        """Probability integral transform: uniform if all is well, also for whole numbers."""
        y = self.observed(y)
        below, upto = self._shares(y)
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
        """Draws [n, batch, ...] of new targets, by row independent."""
        rng = np.random.default_rng(random_state)
        picked = rng.integers(len(self.draws), size=(n, *self.mean.shape))
        return np.take_along_axis(self.draws, picked, axis=0)

    def log_density(self, y) -> np.ndarray:
        """Log density (or probability) of each observed row [batch], over all its targets."""
        assert self.log_prob is not None
        return self.log_prob(self.observed(y))
