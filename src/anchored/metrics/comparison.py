"""One predictive beside another, usually the exact one."""

import dataclasses

import numpy as np

from anchored.metrics.inputs import Dist, as_dist


def kl(exact: Dist, dist: Dist) -> np.ndarray:
    """KL(exact || dist) in nats, marginal by marginal, both taken as normals; 0 is perfect."""
    exact, dist = as_dist(exact), as_dist(dist)
    ratio = dist.variance / exact.variance
    shift = np.square(dist.mean - exact.mean) / exact.variance
    return 0.5 * (np.log(ratio) + (1 + shift) / ratio - 1)


def wasserstein(exact: Dist, dist: Dist) -> np.ndarray:
    """2-Wasserstein distance of the marginals as normals, in the target's units; 0 is perfect."""
    exact, dist = as_dist(exact), as_dist(dist)
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
    def between(cls, ensemble: Dist, exact: Dist) -> "GPComparison":
        ensemble, exact = as_dist(ensemble), as_dist(exact)
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
