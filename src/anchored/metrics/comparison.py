"""Compares one predictive with another, usually the exact one."""

import dataclasses

import numpy as np
from scipy import special

from anchored.metrics.inputs import Dist, Samples, as_dist
from anchored.prediction.predictive import Predictive


def kl(exact: Dist, dist: Dist) -> np.ndarray:
    """KL(exact || dist) in nats, marginal by marginal, both taken as normals; 0 is perfect.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> metrics.kl((np.zeros(2), np.ones(2)), (np.zeros(2), np.array([0.5, 1.0]))).round(3)
    array([0.807, 0.   ])
    """
    exact, dist = as_dist(exact), as_dist(dist)
    ratio = dist.variance / exact.variance
    shift = np.square(dist.mean - exact.mean) / exact.variance
    return 0.5 * (np.log(ratio) + (1 + shift) / ratio - 1)


def wasserstein(exact: Dist, dist: Dist) -> np.ndarray:
    """2-Wasserstein distance of the marginals as normals, in the target's units; 0 is perfect.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> metrics.wasserstein((np.zeros(1), np.ones(1)), (np.array([3.0]), np.array([5.0])))
    array([5.])
    """
    exact, dist = as_dist(exact), as_dist(dist)
    return np.hypot(dist.mean - exact.mean, dist.std - exact.std)


@dataclasses.dataclass(frozen=True)
class GPComparison:
    """Comparison of an ensemble with its infinite-width twin, averaged over rows and outputs.

    Attributes
    ----------
    mean_error : root mean square difference of the two means, as a share of the exact
        predictive deviation; 0 is perfect. M members drawn from the exact posterior itself
        would still have the square root of (epistemic share of the variance) / M.
    variance_ratio : the ensemble's total variance divided by the exact one, as a geometric mean; 1
        is perfect, below 1 is over-confident.
    kl : average KL divergence (nats) of the ensemble's Gaussian marginal from the exact one,
        noise included; 0 is perfect.
    n_rows : rows compared.
    epistemic_ratio : the ensemble's epistemic variance divided by the exact one, as a geometric
        mean, corrected for few members: draws from the exact posterior have 1 on average. None if a
        predictive has no epistemic part.
    outside_ratio : the same far from the data, if it was computed.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> ensemble, exact = (np.full(3, 0.1), np.full(3, 0.9)), (np.zeros(3), np.ones(3))
    >>> print(metrics.GPComparison.between(ensemble, exact))
    mean error 0.100 exact deviations, variance ratio 0.810, average KL 0.0181 nats (3 rows)
    """

    mean_error: float
    variance_ratio: float
    kl: float
    n_rows: int
    epistemic_ratio: float | None = None
    outside_ratio: float | None = None

    @classmethod
    def between(
        cls, ensemble: Dist, exact: Dist, outside: tuple[Dist, Dist] | None = None
    ) -> "GPComparison":
        """Compare two predictives; ``outside`` is the pair of predictives far from the data."""
        ensemble, exact = as_dist(ensemble), as_dist(exact)
        ratio = ensemble.variance / exact.variance
        shift = np.square(ensemble.mean - exact.mean) / exact.variance
        return cls(
            float(np.sqrt(shift.mean())),
            float(np.exp(np.log(ratio).mean())),
            float(kl(exact, ensemble).mean()),
            len(exact.mean),
            _epistemic_ratio(ensemble, exact),
            None if outside is None else _epistemic_ratio(*map(as_dist, outside)),
        )

    @property
    def words(self) -> str:
        """A sentence with the ratios of deviations (square roots of the variance ratios), if
        known.
        """
        if self.epistemic_ratio is None:
            return ""
        inside = (
            f"The networks' spread is {_root(self.epistemic_ratio)} times that of exact inference"
        )
        if self.outside_ratio is None:
            return f"{inside}."
        far = f"{_root(self.outside_ratio)} times far from the data"
        return f"{inside} on rows like these, and {far}."

    def __str__(self) -> str:
        numbers = (
            f"mean error {self.mean_error:.3f} exact deviations, variance ratio "
            f"{self.variance_ratio:.3f}, average KL {self.kl:.4f} nats ({self.n_rows} rows)"
        )
        return f"{numbers}. {self.words}" if self.words else numbers


def _root(ratio: float) -> str:
    """Two digits, but whole numbers from ten on."""
    root = np.sqrt(ratio)
    return f"{root:.2f}" if root < 1 else f"{root:.1f}" if root < 10 else f"{root:.0f}"


def _epistemic_ratio(dist: Predictive | Samples, exact: Predictive | Samples) -> float | None:
    if not (isinstance(dist, Predictive) and isinstance(exact, Predictive)):
        return None
    known, n_members = exact.epistemic_var > 0, None if dist.members is None else len(dist.members)
    if not known.any() or (n_members is None and not dist.epistemic_var.any()):
        return None
    if n_members == 1:
        return 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(dist.epistemic_var[known] / exact.epistemic_var[known])
    if n_members is not None:  # less the mean logarithm of chi^2 over its degrees of freedom
        half = (n_members - 1) / 2
        logs -= special.digamma(half) - np.log(half)
    return float(np.exp(logs.mean()))
