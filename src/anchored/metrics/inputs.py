"""Brings the arguments of metrics into one form: distributions and targets, classes and labels.

A distribution of continuous targets is a `Predictive`, a pair ``(mean, std)`` of arrays (a normal
distribution), or an array of draws [draw, batch] or [draw, batch, out]. Class probabilities are a
`Predictive`, an array [batch, class], one [batch] of the probability of class 1, or draws (or
members) [draw, batch, class], which are averaged.
"""

import dataclasses

import numpy as np
from scipy import special

from anchored.prediction.predictive import (
    Predictive,
    checked_coverage,
    checked_levels,
    checked_targets,
)

CLASS_FAMILIES = ("categorical", "bernoulli")
_KINDS = (
    "`dist` must be a `Predictive`, a pair (mean, std) of arrays in a tuple, or an array of "
    "draws [draw, row] or [draw, row, output]"
)
_CLASS_KINDS = (
    "`dist` must be a `Predictive` of classes or an array of probabilities [row, class], [row] "
    "or [draw, row, class]"
)


@dataclasses.dataclass(frozen=True)
class Samples:
    """A distribution for each row, of which only draws [draw, batch, ...] are known.

    Draws and target are assumed to have the same distribution. S draws then cut the line into S + 1
    gaps, and each gap is equally likely to hold the target. So the i-th draw is the quantile of
    level i / (S + 1). The draws say nothing about values beyond the smallest and the largest draw.
    """

    draws: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.draws.mean(axis=0)

    @property
    def variance(self) -> np.ndarray:
        return self.draws.var(axis=0, ddof=1)

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.variance)

    def observed(self, y) -> np.ndarray:
        """Targets ``y`` as an array, rejected if their shape would broadcast silently."""
        return checked_targets(y, self.draws.shape[1:])

    def quantiles(self, levels) -> np.ndarray:
        """Quantiles [level, batch, ...], linear between draws and never beyond them."""
        return np.quantile(self.draws, checked_levels(levels), axis=0, method="weibull")

    def interval(self, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Central interval (lower, upper)."""
        tail = (1 - checked_coverage(coverage)) / 2
        lower, upper = self.quantiles([tail, 1 - tail])
        return lower, upper

    def cdf(self, y) -> np.ndarray:
        """Probability of a target below ``y``: the middle of the gap it falls into."""
        y = self.observed(y)
        below, up_to = (self.draws < y).sum(axis=0), (self.draws <= y).sum(axis=0)
        return (below + up_to + 1) / (2 * len(self.draws) + 2)

    def crps(self, y) -> np.ndarray:
        """CRPS by the fair estimator: unbiased for the distribution that was drawn from.

        E|T - y| - E|T - T'| / 2 over draws T and pairs of different draws (Ferro 2014).
        """
        n = len(self.draws)
        error = np.sort(self.draws - self.observed(y), axis=0)
        # In order, the i-th of n draws is the larger one of i - 1 pairs, the smaller of n - i.
        pairs = np.tensordot(2 * np.arange(n) - (n - 1), error, axes=1)
        return np.abs(error).mean(axis=0) - pairs / (n * (n - 1))

    def log_density(self, y) -> np.ndarray:
        """Log density [batch], summed over outputs, by a normal kernel at each draw.

        Its width is Silverman's for one output, (4 / 3S)^(1/5) deviations of the draws.
        """
        n, y = len(self.draws), self.observed(y)
        width = self.std * (4 / (3 * n)) ** 0.2
        if not np.all(width > 0):
            raise ValueError(
                "`dist` has rows whose draws are all equal; they have no density. Use `crps`, or "
                "add the noise to the draws."
            )
        terms = -0.5 * np.square((y - self.draws) / width)
        log = special.logsumexp(terms, axis=0) - np.log(n * width * np.sqrt(2 * np.pi))
        return log.reshape(len(log), -1).sum(axis=1)


Dist = Predictive | Samples | tuple | np.ndarray


def as_dist(dist: Dist) -> Predictive | Samples:
    """The argument of a metric, as a distribution with moments, quantiles and densities."""
    if isinstance(dist, (Predictive, Samples)):
        return dist
    if isinstance(dist, tuple) and len(dist) == 2:
        return _normal(*dist)
    if not hasattr(dist, "__array__"):  # a list [mean, std] would pass for two draws
        raise TypeError(f"{_KINDS}; got {type(dist).__name__}.")
    draws = np.asarray(dist, np.float64)
    if draws.ndim not in (2, 3) or len(draws) < 2:
        raise ValueError(f"{_KINDS}, at least two of them; got shape {draws.shape}.")
    if not np.all(np.isfinite(draws)):
        raise ValueError("`dist` has draws that are not finite; leave them out.")
    return Samples(draws)


def _normal(mean, std) -> Predictive:
    mean = np.asarray(mean, np.float64)
    std = np.asarray(std, np.float64)
    if mean.ndim not in (1, 2) or std.shape not in ((), mean.shape):
        raise ValueError(
            "`dist` is a pair; its mean must be [row] or [row, output], its std one number or "
            f"shaped like the mean; got {mean.shape} and {std.shape}."
        )
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(std) & (std > 0))):
        raise ValueError("`dist` is a pair; its mean must be finite, its std finite and positive.")
    return Predictive(mean, np.zeros_like(mean), np.broadcast_to(np.square(std), mean.shape))


def scored(dist: Dist, y) -> tuple[Predictive | Samples, np.ndarray]:
    """The distribution, and finite targets of its shape."""
    found = as_dist(dist)
    y = found.observed(y)
    if not y.size:
        raise ValueError("`y` has no rows, so there is nothing to score.")
    bad = np.flatnonzero(~np.isfinite(y).reshape(len(y), -1).all(axis=1))
    if len(bad):
        raise ValueError(
            f"`y` must be finite; row {bad[0]} is {y[bad[0]]}. Leave out the rows that have no "
            "target."
        )
    return found, y


def classified(dist: Dist, labels) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities [batch, class], and labels [batch] that are numbers of its columns."""
    p = _class_probabilities(dist)
    if p.ndim != 2 or not p.size:
        raise ValueError(f"{_CLASS_KINDS}; got shape {p.shape}.")
    if not (np.all(p >= 0) and np.allclose(p.sum(axis=1), 1, rtol=0, atol=1e-4)):
        raise ValueError("`dist` must have probabilities that are not negative and sum to one.")
    return p, _column_numbers(labels, *p.shape)


def _class_probabilities(dist: Dist) -> np.ndarray:
    if isinstance(dist, Predictive):
        return dist.probabilities
    if not hasattr(dist, "__array__"):
        raise TypeError(f"{_CLASS_KINDS}; got {type(dist).__name__}.")
    p = np.asarray(dist, np.float64)
    if p.ndim == 1:
        return np.stack([1 - p, p], axis=1)
    return p.mean(axis=0) if p.ndim == 3 else p


def _column_numbers(labels, n_rows: int, n_classes: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n_rows,):
        raise ValueError(f"`labels` must have shape ({n_rows},); got {labels.shape}.")
    is_number = labels.dtype.kind in "biuf"  # or text "0" would pass for 0
    good = np.isin(labels, np.arange(n_classes)) & is_number
    if not np.all(good):
        raise ValueError(
            f"`labels` must be whole numbers from 0 to {n_classes - 1}, the columns of the "
            f"probabilities; got {labels[~good][0]!r}. With labels of another kind use "
            "`np.searchsorted(model.classes_, labels)`."
        )
    return labels.astype(int)
