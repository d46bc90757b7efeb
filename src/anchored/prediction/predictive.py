"""What every method returns: a predictive distribution for each row.

For members j = 1..M with means m_j and variances v_j of the target,

    mean = average m_j,  epistemic = sum (m_j - mean)^2 / (M - 1),  aleatoric = average v_j

(paper, algorithm 1). With few members the epistemic variance is itself a noisy estimate;
``student-t`` accounts for it: scale^2 = epistemic + var(m_j) / M + aleatoric (1 - 2 / d), where d
are the degrees of freedom of the noise (infinite if it is normal). Its own are by
Welch-Satterthwaite, M - 1 where all variance is epistemic and d where all is noise. Class
probabilities are one-hot targets, so the same three lines hold.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import special

from anchored.errors import bad_value, unknown_name
from anchored.prediction.conformal import Conformal
from anchored.prediction.special import MAX_DOF, combined

CONTINUOUS = ("gaussian", "student-t")
FAMILIES = (*CONTINUOUS, "categorical", "bernoulli", "poisson")


@dataclasses.dataclass(frozen=True)
class Predictive:
    """A predictive distribution for each row, in the units of the target.

    Attributes
    ----------
    mean : array [batch] or [batch, out]; for classes the probabilities [batch, class].
    epistemic_var, aleatoric_var : arrays shaped like ``mean``: the variance that more data
        would remove, and the variance of the noise, in squared units of the target.
    members : array [member, ...] of each member's mean, or None for an exact method.
    family : gaussian, student-t, categorical, bernoulli or poisson.
    noise_dof : degrees of freedom of the noise, above 2; only ``student-t`` looks at it.
    conformal : held-out rows that correct the width of `interval`, if there were any.
    """

    mean: np.ndarray
    epistemic_var: np.ndarray
    aleatoric_var: np.ndarray
    members: np.ndarray | None = None
    family: str = "gaussian"
    noise_dof: float | np.ndarray = np.inf
    conformal: Conformal | None = None

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
        return dataclasses.replace(self, **parts)

    @property
    def n_members(self) -> int | None:
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
        """Targets ``y`` as an array, refused if their shape would broadcast in silence."""
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
            return self.mean, self.std, np.full_like(self.mean, MAX_DOF)
        spread, spread_dof = self.epistemic_var, np.inf
        if self.members is not None and len(self.members) > 1:
            # The mean of M members is off by a share of their variance in any case.
            n = len(self.members)
            spread, spread_dof = spread + self.members.var(axis=0, ddof=1) / n, n - 1
        scale2, dof = combined(spread, spread_dof, self.aleatoric_var, self.noise_dof)
        return self.mean, np.sqrt(scale2), dof

    def quantiles(self, levels) -> np.ndarray:
        """Quantiles [level, batch, ...] of each marginal; ``levels`` lie in (0, 1)."""
        q = checked_levels(levels)
        location, scale, dof = self._location_scale()
        q = q.reshape(-1, *(1,) * location.ndim)
        return location + scale * _standard_quantile(q, dof)

    def interval(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Central interval (lower, upper) that should contain ``coverage`` of the targets.

        If rows were held out, its width is what they needed (`Conformal`), so its ends
        are not quite those of `quantiles`.
        """
        coverage = checked_coverage(coverage)
        location, scale, dof = self._location_scale()
        half = scale * _half_width(coverage, dof)
        if self.conformal is not None:
            half = half * self.conformal.factor(coverage, _half_width)
        return location - half, location + half

    def held_out(self, y, weight: np.ndarray) -> Conformal:
        """What targets ``y`` that the members had not seen say of the width of intervals."""
        location, scale, dof = self._location_scale()
        error = np.abs(self.observed(y) - location)
        distance = np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)
        return Conformal(distance, dof, weight)

    def cdf(self, y) -> np.ndarray:
        """Probability of a target below ``y``, for each marginal (the PIT of an observed y)."""
        location, scale, dof = self._location_scale()
        z = (self.observed(y) - location) / scale
        return np.where(dof >= MAX_DOF, special.ndtr(z), special.stdtr(dof, z))

    def crps(self, y) -> np.ndarray:
        """Continuous ranked probability score of each marginal, in the target's units.

        The integral of (cdf(t) - [t >= y])^2 over t; for a sure forecast the absolute error.
        """
        location, scale, dof = self._location_scale()
        error = self.observed(y) - location
        z = np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)
        unit = np.where(dof >= MAX_DOF, _normal_crps(z), _student_crps(z, dof))
        return np.where(scale > 0, scale * unit, np.abs(error))

    # Any target

    def log_density(self, y) -> np.ndarray:
        """Log density (or probability) of each observed row [batch], summed over outputs."""
        if self.family == "categorical":
            index = np.asarray(y, int).reshape(len(self.mean), 1)
            p = np.take_along_axis(self.mean, index, axis=1)[:, 0]
            return np.log(np.maximum(p, np.finfo(float).tiny))
        y = self.observed(y)
        if self.family == "bernoulli":
            terms = special.xlogy(y, self.mean) + special.xlog1py(1 - y, -self.mean)
        elif self.family == "poisson":
            terms = self._poisson_log_density(y)
        else:
            terms = self._location_scale_log_density(y)
        return terms.reshape(len(terms), -1).sum(axis=1)

    def _location_scale_log_density(self, y: np.ndarray) -> np.ndarray:
        location, scale, dof = self._location_scale()
        return standard_log_density((y - location) / scale, dof) - np.log(scale)

    def _poisson_log_density(self, y: np.ndarray) -> np.ndarray:
        # An equal mixture of the members' Poissons.
        rates = self.mean[None] if self.members is None else self.members
        terms = special.xlogy(y, rates) - rates - special.gammaln(y + 1)
        return special.logsumexp(terms, axis=0) - np.log(len(rates))

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
        return special.entr(self.probabilities).sum(axis=-1)

    @property
    def mutual_information(self) -> np.ndarray:
        """Epistemic part of the entropy [batch], in nats: how much the members disagree."""
        if self.members is None:
            raise TypeError("Mutual information needs members; this predictive has none.")
        members = _class_probabilities(self.members, self.family)
        # Of the members as they are: a temperature on their average is not disagreement.
        whole = special.entr(members.mean(axis=0)).sum(axis=-1)
        return np.maximum(whole - special.entr(members).sum(axis=-1).mean(axis=0), 0.0)


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


def standard_log_density(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """Log density of the standard Student-t, normal where there are very many degrees."""
    return np.where(dof >= MAX_DOF, _normal_log_density(z), _student_log_density(z, dof))


def _class_probabilities(mean: np.ndarray, family: str) -> np.ndarray:
    if family == "categorical":
        return mean
    p = mean[..., 0] if mean.shape[-1:] == (1,) else mean
    return np.stack([1 - p, p], axis=-1)


def _standard_quantile(q: np.ndarray, dof: np.ndarray) -> np.ndarray:
    return np.where(dof >= MAX_DOF, special.ndtri(q), special.stdtrit(dof, q))


def _half_width(coverage: float, dof: np.ndarray) -> np.ndarray:
    return _standard_quantile(np.asarray((1 + coverage) / 2), dof)


def _normal_log_density(z: np.ndarray) -> np.ndarray:
    return -0.5 * (np.square(z) + np.log(2 * np.pi))


def _student_log_density(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    return (
        special.gammaln((dof + 1) / 2)
        - special.gammaln(dof / 2)
        - 0.5 * np.log(dof * np.pi)
        - 0.5 * (dof + 1) * np.log1p(np.square(z) / dof)
    )


# Closed forms of Jordan, Krueger and Lerch (2019), "Evaluating probabilistic forecasts with
# scoringRules".


def _normal_crps(z: np.ndarray) -> np.ndarray:
    density = np.exp(_normal_log_density(z))
    return z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)


def _student_crps(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    # At one degree of freedom (two members and no noise) this is 0 / 0 with a finite limit.
    dof = np.maximum(dof, 1 + 1e-6)
    density = np.exp(_student_log_density(z, dof))
    half_spread = np.exp(special.betaln(0.5, dof - 0.5) - 2 * special.betaln(dof / 2, 0.5))
    tails = (density * (dof + np.square(z)) - np.sqrt(dof) * half_spread) / (dof - 1)
    return z * (2 * special.stdtr(dof, z) - 1) + 2 * tails
