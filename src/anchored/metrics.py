"""Scores of a `Predictive` against what was observed: arrays in, float out."""

import dataclasses

import numpy as np

from anchored.predictive import Predictive


def rmse(dist: Predictive, y) -> float:
    """Root mean square error of the mean, in the target's units; 0 is perfect."""
    return float(np.sqrt(np.mean(np.square(dist.mean - dist.observed(y)))))


def nll(dist: Predictive, y) -> float:
    """Mean negative log density of the observed rows, in nats; lower is better."""
    return float(-np.mean(dist.log_density(y)))


def coverage(dist: Predictive, y, level: float) -> float:
    """Share of targets inside their central ``level`` interval; should be ``level``."""
    y, (lower, upper) = dist.observed(y), dist.interval(level)
    return float(np.mean((lower <= y) & (y <= upper)))


def crps(dist: Predictive, y) -> float:
    """Mean continuous ranked probability score, in the target's units; lower is better.

    It rewards accuracy and honest spread together, and forgives outliers more than `nll`
    does. For a sure forecast it is the mean absolute error.
    """
    return float(np.mean(dist.crps(y)))


def calibration_error(dist: Predictive, y) -> float:
    """Mean gap between the levels 0.05, 0.10, ..., 0.95 and the shares of targets below them.

    A level's share is that of the targets below their own quantile of this level. The error
    is a difference of probabilities: 0 is perfect, 0.5 (all targets on one side) the worst.
    Chance alone gives about 0.33 / sqrt(n) with n independent targets, so a good value is one
    near that, not zero.
    """
    levels = np.arange(1, 20) / 20
    below = dist.cdf(y).ravel() <= levels[:, None]
    return float(np.mean(np.abs(below.mean(axis=1) - levels)))


def kl(exact: Predictive, dist: Predictive) -> np.ndarray:
    """KL(exact || dist) in nats, marginal by marginal, both taken as normals."""
    ratio = dist.variance / exact.variance
    shift = np.square(dist.mean - exact.mean) / exact.variance
    return 0.5 * (np.log(ratio) + (1 + shift) / ratio - 1)


def wasserstein(exact: Predictive, dist: Predictive) -> np.ndarray:
    """2-Wasserstein distance of the marginals as normals, in the target's units."""
    return np.hypot(dist.mean - exact.mean, dist.std - exact.std)


@dataclasses.dataclass(frozen=True)
class GPComparison:
    """An ensemble beside its infinite-width twin, averaged over rows and outputs.

    Attributes
    ----------
    mean_error : root mean square difference of the two means, as a share of the exact
        predictive deviation; 0 is perfect. M members drawn from the exact posterior itself
        would still have the square root of (epistemic share of the variance) / M.
    variance_ratio : geometric mean of the ensemble's total variance over the exact one; 1 is
        perfect, below 1 is over-confident.
    kl : average KL divergence (nats) of the ensemble's Gaussian marginal from the exact one,
        noise included; 0 is perfect.
    n_rows : rows compared.
    """

    mean_error: float
    variance_ratio: float
    kl: float
    n_rows: int

    @classmethod
    def between(cls, ensemble: Predictive, exact: Predictive) -> "GPComparison":
        ratio = ensemble.variance / exact.variance
        shift = np.square(ensemble.mean - exact.mean) / exact.variance
        return cls(
            float(np.sqrt(shift.mean())),
            float(np.exp(np.log(ratio).mean())),
            float(kl(exact, ensemble).mean()),
            len(exact.mean),
        )

    def __str__(self) -> str:
        return (
            f"mean error {self.mean_error:.3f} exact deviations, variance ratio "
            f"{self.variance_ratio:.3f}, average KL {self.kl:.4f} nats ({self.n_rows} rows)"
        )
