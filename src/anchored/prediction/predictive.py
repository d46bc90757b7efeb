"""What every method returns: a predictive distribution for each row.

For members j = 1..M with means m_j and variances v_j of the target,

    mean = average m_j,  epistemic = sum (m_j - mean)^2 / (M - 1),  aleatoric = average v_j

(paper, algorithm 1). With few members the epistemic variance is itself a noisy estimate;
``student-t`` accounts for it: scale^2 = epistemic + var(m_j) / M + aleatoric (1 - 2 / d), where d
are the degrees of freedom of the noise (infinite if it is normal). The degrees of freedom of this
Student-t follow Welch and Satterthwaite: M - 1 if all variance is epistemic, and d if all is noise.
Class probabilities are one-hot targets, so the same three lines hold.

If rows were held out, `Conformal` corrects this distribution by them. `interval`, `quantiles`,
`cdf`, `log_density`, `crps` and `sample` all describe the corrected distribution. If the networks
predict the target on another scale (`Warp`), all of this holds there, and ``latent`` is the
distribution on that scale.

Moments and intervals need only NumPy; everything else loads SciPy.
"""

import dataclasses
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from anchored.errors import bad_value, unknown_name
from anchored.prediction import special
from anchored.prediction.conformal import Conformal
from anchored.prediction.warp import Warp

CONTINUOUS = ("gaussian", "student-t")
FAMILIES = (*CONTINUOUS, "categorical", "bernoulli", "poisson", "samples")
_CRPS_NODES = 24  # on either side of the target: relative error below 1e-4
_LEAST_LEVEL = 1e-12


@dataclasses.dataclass(frozen=True)
class Predictive:
    """A predictive distribution for each row, in the units of the target.

    Attributes
    ----------
    mean : array [batch] or [batch, out]; for classes the probabilities [batch, class].
    epistemic_var, aleatoric_var : arrays shaped like ``mean``: the variance that more data
        would remove, and the variance of the noise, in squared units of the target. These and
        ``mean`` come from the members; the conformal correction changes only quantiles.
    members : array [member, ...] of each member's mean, or None for an exact method.
    family : gaussian, student-t, categorical, bernoulli or poisson.
    noise_dof : degrees of freedom of the noise, above 2; used by ``student-t`` only.
    conformal : the correction by held-out rows, if there were any.
    warp, latent : the scale on which the networks predict, and the predictive on it; None if
        they predict the target itself.

    >>> import numpy as np
    >>> from anchored import Predictive
    >>> mean, epistemic_var, noise_var = np.array([[2.0], [0.09], [0.16]])
    >>> dist = Predictive(mean, epistemic_var, noise_var)
    >>> dist.std
    array([0.5])
    >>> np.round(dist.interval(0.9), 2).ravel()
    array([1.18, 2.82])
    """

    mean: np.ndarray
    epistemic_var: np.ndarray
    aleatoric_var: np.ndarray
    members: np.ndarray | None = None
    family: str = "gaussian"
    noise_dof: float | np.ndarray = np.inf
    conformal: Conformal | None = None
    warp: Warp | None = None
    latent: "Predictive | None" = None

    def __post_init__(self):
        if self.family not in FAMILIES:
            raise unknown_name("family", self.family, FAMILIES)

    @classmethod
    def from_members(
        cls, member_mean: np.ndarray, member_var: np.ndarray, family: str = "gaussian"
    ) -> "Predictive":
        """Pool the members' moments [member, batch, ...]; one member has no epistemic part."""
        members = np.asarray(member_mean, np.float64)
        mean = members.mean(axis=0)
        epistemic = members.var(axis=0, ddof=1) if len(members) > 1 else np.zeros_like(mean)
        aleatoric = np.asarray(member_var, np.float64).mean(axis=0)
        return cls(mean, epistemic, aleatoric, members, family)

    def rescaled(self, scale, shift: float | np.ndarray = 0.0) -> "Predictive":
        """The predictive of ``scale * y + shift``; both may differ by output."""
        members = None if self.members is None else scale * self.members + shift
        square = np.square(scale)
        return dataclasses.replace(
            self,
            mean=scale * self.mean + shift,
            epistemic_var=square * self.epistemic_var,
            aleatoric_var=square * self.aleatoric_var,
            members=members,
        )

    @property
    def on_own_scale(self) -> "Predictive":
        """The predictive on the scale that the networks predict: ``latent``, or this one."""
        return self if self.latent is None else self.latent

    def of_family(self, family: str) -> "Predictive":
        """The same moments under another family."""
        latent = None if self.latent is None else self.latent.of_family(family)
        return dataclasses.replace(self, family=family, latent=latent)

    def unwarped(self, warp: Warp) -> "Predictive":
        """The predictive of the target y, if this one describes ``warp.forward(y)``."""
        noise = self.aleatoric_var * (1 - 2 / np.asarray(self.noise_dof))  # its bulk, not its tails
        members = self.mean[None] if self.members is None else self.members
        means, variances = warp.moments(members, noise)
        ratio = np.ones_like(self.mean)  # of the epistemic variance to that of the members
        if len(members) > 1:
            spread = members.var(axis=0, ddof=1)
            ratio = np.divide(self.epistemic_var, spread, out=ratio, where=spread > 0)
        pooled = Predictive.from_members(means, variances, self.family)
        return dataclasses.replace(
            pooled,
            epistemic_var=pooled.epistemic_var * ratio,
            members=None if self.members is None else means,
            noise_dof=self.noise_dof,
            warp=warp,
            latent=self,
        )

    def output(self, index: int) -> "Predictive":
        """One of the outputs of a predictive [batch, out], as a predictive [batch]."""
        parts: dict[str, Any] = {
            name: None if array is None else array[..., index]
            for name in ("mean", "epistemic_var", "aleatoric_var", "members")
            for array in [getattr(self, name)]
        }
        if np.ndim(self.noise_dof):
            parts["noise_dof"] = np.asarray(self.noise_dof)[..., index]
        if self.conformal is not None:
            parts["conformal"] = self.conformal.output(index)
        if self.latent is not None:
            parts["latent"] = self.latent.output(index)
        return dataclasses.replace(self, **parts)

    @property
    def n_members(self) -> int | None:
        """Number of members; None for an exact method."""
        return None if self.members is None else len(self.members)

    @property
    def variance(self) -> np.ndarray:
        """Total variance: epistemic plus aleatoric."""
        return self.epistemic_var + self.aleatoric_var

    @property
    def std(self) -> np.ndarray:
        """Square root of the total variance, in the units of the target."""
        return np.sqrt(self.variance)

    def observed(self, y) -> np.ndarray:
        """Targets ``y`` as an array, which must have the shape of ``mean``."""
        return checked_targets(y, self.mean.shape)

    # Continuous targets

    def _location_scale(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Location, scale and degrees of freedom of each marginal."""
        if self.family not in CONTINUOUS:
            raise TypeError(
                f"Quantiles, intervals and the CRPS need a continuous predictive; this one is "
                f"{self.family!r}. Use `probabilities` or `mean` and `std` instead."
            )
        if self.family == "gaussian":
            return self.mean, self.std, np.full_like(self.mean, special.MAX_DOF)
        spread, spread_dof = self.epistemic_var, np.inf
        if self.members is not None and len(self.members) > 1:
            # The mean of M members is off by a share of their variance in any case.
            n = len(self.members)
            spread, spread_dof = spread + self.members.var(axis=0, ddof=1) / n, n - 1
        scale2, dof = special.combined(spread, spread_dof, self.aleatoric_var, self.noise_dof)
        return self.mean, np.sqrt(scale2), dof

    def quantiles(self, levels) -> np.ndarray:
        """Quantiles [level, batch, ...] of each marginal; ``levels`` lie in (0, 1)."""
        if self.warp is not None:
            return self.warp.inverse(self.on_own_scale.quantiles(levels))
        location, scale, dof = self._location_scale()
        return np.stack(
            [location + scale * self._standard_quantile(q, dof) for q in checked_levels(levels)]
        )

    def interval(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Central interval (lower, upper) that should contain a share ``coverage`` of the targets.

        Its ends are the quantiles at (1 - coverage) / 2 and (1 + coverage) / 2.
        """
        coverage = checked_coverage(coverage)
        lower, upper = self.quantiles([(1 - coverage) / 2, (1 + coverage) / 2])
        return lower, upper

    def _standard_quantile(self, level: float, dof: np.ndarray) -> np.ndarray:
        """Quantile of the distribution of location 0 and scale 1, shaped like ``dof``."""
        if self.conformal is None:
            return special.quantile(NormalDist().inv_cdf(level), dof)
        score = self.conformal.score(level)
        if np.ndim(score) == 0:
            return special.quantile(float(score), dof)
        columns = [special.quantile(s, dof[..., i]) for i, s in enumerate(score.tolist())]
        return np.stack(columns, axis=-1)

    def held_out(self, y, weight: np.ndarray) -> Conformal | None:
        """What unseen targets ``y`` [batch] say about this predictive."""
        return Conformal.fit(self._scores(self.observed(y)), weight)

    def _scores(self, y: np.ndarray) -> np.ndarray:
        """Normal scores of targets under the predictive, before any correction."""
        from anchored.prediction import student

        location, scale, dof = self._location_scale()
        error = y - location
        z = np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)
        return student.score(z, dof)

    def cdf(self, y) -> np.ndarray:
        """Probability of a target below ``y``, for each marginal."""
        from anchored.prediction import student

        if self.warp is not None:
            return self.on_own_scale.cdf(self.warp.forward(self.observed(y)))
        scores = self._scores(self.observed(y))
        return student.level(scores if self.conformal is None else self.conformal.actual(scores))

    def pit(self, y) -> np.ndarray:
        """Probability integral transform of observed targets: uniform if predictions are right."""
        return self.cdf(y)

    def crps(self, y) -> np.ndarray:
        """Continuous ranked probability score of each marginal, in the target's units.

        The integral of (cdf(t) - [t >= y])^2 over t; for a point forecast the absolute error.
        """
        from anchored.prediction import student

        if self.warp is not None:
            y, warp, on_scale = self.observed(y), self.warp, self.on_own_scale
            return _crps(y, self.cdf(y), lambda level: warp.inverse(on_scale._at(level)))
        location, scale, dof = self._location_scale()
        error = self.observed(y) - location
        z = np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)
        if self.conformal is None:
            unit = student.crps(z, dof)
        else:
            stated = self.conformal.stated
            below = student.level(self.conformal.actual(student.score(z, dof)))
            unit = _crps(z, below, lambda q: student.at_score(stated(student.score_of(q)), dof))
        return np.where(scale > 0, scale * unit, np.abs(error))

    def _at(self, level: np.ndarray) -> np.ndarray:
        """The quantile of each marginal at a level of its own, shaped like ``mean``."""
        from anchored.prediction import student

        location, scale, dof = self._location_scale()
        score = student.score_of(level)
        if self.conformal is not None:
            score = self.conformal.stated(score)
        return location + scale * student.at_score(score, dof)

    def sample(self, n: int = 1, random_state=None) -> np.ndarray:
        """Draws [n, batch, ...] of new targets, with independent rows; for classes, class numbers.

        ``random_state`` is a seed or a NumPy generator.
        """
        if self.warp is not None:
            return self.warp.inverse(self.on_own_scale.sample(n, random_state))
        rng = np.random.default_rng(random_state)
        if self.family in CONTINUOUS:
            from anchored.prediction import student

            location, scale, dof = self._location_scale()
            scores = rng.standard_normal((n, *location.shape))
            if self.conformal is not None:
                scores = self.conformal.stated(scores)
            return location + scale * student.at_score(scores, dof)
        if self.family == "categorical":
            reached = np.cumsum(self.mean, axis=-1)
            draws = rng.random((n, len(self.mean), 1)) * reached[:, -1:]
            return (draws >= reached).sum(axis=-1)
        rates = self.mean[None] if self.members is None else self.members
        picked = rng.integers(len(rates), size=(n, len(self.mean)))
        rates = rates[picked, np.arange(len(self.mean))]
        return rng.poisson(rates) if self.family == "poisson" else rng.binomial(1, rates)

    # Any target

    def log_density(self, y) -> np.ndarray:
        """Log density (or probability) of each observed row [batch], summed over outputs."""
        if self.family == "categorical":
            index = np.asarray(y, int).reshape(len(self.mean), 1)
            p = np.take_along_axis(self.mean, index, axis=1)[:, 0]
            return np.log(np.maximum(p, np.finfo(float).tiny))
        y = self.observed(y)
        if self.family == "bernoulli":
            with np.errstate(divide="ignore"):
                terms = np.log(np.where(y > 0.5, self.mean, 1 - self.mean))
        elif self.family == "poisson":
            terms = self._poisson_log_density(y)
        else:
            terms = self._location_scale_log_density(y)
        return terms.reshape(len(terms), -1).sum(axis=1)

    def _location_scale_log_density(self, y: np.ndarray) -> np.ndarray:
        from anchored.prediction import student

        if self.warp is not None:
            on_scale = self.on_own_scale._location_scale_log_density(self.warp.forward(y))
            return on_scale + self.warp.log_slope(y)
        location, scale, dof = self._location_scale()
        log = student.log_density((y - location) / scale, dof) - np.log(scale)
        if self.conformal is None:
            return log
        stated = self._scores(y)
        actual = self.conformal.actual(stated)
        return log + 0.5 * (stated**2 - actual**2) - np.log(self.conformal.slope(stated))

    def _poisson_log_density(self, y: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln, logsumexp, xlogy

        # An equal mixture of the members' Poissons.
        rates = self.mean[None] if self.members is None else self.members
        terms = xlogy(y, rates) - rates - gammaln(y + 1)
        return logsumexp(terms, axis=0) - np.log(len(rates))

    # Classes

    @property
    def probabilities(self) -> np.ndarray:
        """Class probabilities [batch, class], averaged over the members."""
        if self.family not in ("categorical", "bernoulli"):
            raise TypeError(f"A {self.family!r} predictive has no class probabilities.")
        return _class_probabilities(self.mean, self.family)

    @property
    def entropy(self) -> np.ndarray:
        """Entropy [batch] of the class probabilities, in nats."""
        return special.entropy(self.probabilities)

    @property
    def mutual_information(self) -> np.ndarray:
        """Epistemic part of the entropy [batch], in nats: how much the members disagree."""
        if self.members is None:
            raise TypeError("Mutual information needs members; this predictive has none.")
        members = _class_probabilities(self.members, self.family)
        # Of the members as they are: a temperature on their average is not disagreement.
        whole = special.entropy(members.mean(axis=0))
        return np.maximum(whole - special.entropy(members).mean(axis=0), 0.0)


def checked_targets(y, shape: tuple[int, ...]) -> np.ndarray:
    """Targets ``y`` as an array of this shape, so that nothing broadcasts in silence."""
    y = np.asarray(y, np.float64)
    if y.shape != shape:
        raise ValueError(f"`y` must have the predictive's shape {shape}; got {y.shape}.")
    return y


def checked_levels(levels) -> np.ndarray:
    """Levels of quantiles, one or several, as an array [level]."""
    q = np.atleast_1d(np.asarray(levels, np.float64))
    if q.ndim != 1 or not np.all((q > 0) & (q < 1)):
        raise bad_value("levels", levels, "between 0 and 1, both excluded")
    return q


def checked_coverage(coverage) -> float:
    """The share of targets that an interval should hold."""
    if not (isinstance(coverage, (float, np.floating)) and 0 < coverage < 1):
        raise bad_value("coverage", coverage, "a number between 0 and 1, both excluded")
    return float(coverage)


def _class_probabilities(mean: np.ndarray, family: str) -> np.ndarray:
    if family == "categorical":
        return mean
    p = mean[..., 0] if mean.shape[-1:] == (1,) else mean
    return np.stack([1 - p, p], axis=-1)


def _crps(y: np.ndarray, below: np.ndarray, quantile: Callable) -> np.ndarray:
    """By quantiles Q: twice the integral of q (y - Q) below y and of (1 - q) (Q - y) above it.

    ``below`` is the probability of a target below y.
    """

    def apart(level: np.ndarray) -> np.ndarray:
        return y - quantile(np.clip(level, _LEAST_LEVEL, 1 - _LEAST_LEVEL))

    nodes, weights = np.polynomial.legendre.leggauss(_CRPS_NODES)
    total = np.zeros_like(y)
    for node, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
        low, high = below * node, (1 - below) * node  # masses on either side
        total += 2 * weight * (below * low * apart(low) - (1 - below) * high * apart(1 - high))
    return total
