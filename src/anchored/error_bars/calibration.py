"""Spread, noise and temperature fitted to predictions of rows the networks had not seen.

For M member means of variance s^2 at a held-out row, the target is taken to be Student-t around
the pooled mean with

    scale^2 = (factor + 1 / M) s^2 + noise_var (1 - 2 / noise_dof)
    1 / dof = share^2 / (M - 1) + (1 - share)^2 / noise_dof

where ``share`` is the share of the members' spread in the scale. The term s^2 / M is the variance
of the mean of M members, so fewer members may be used here than later. The factor, the noise and
its tails have the highest likelihood, under weak priors that matter only for a few dozen rows.

A noise level learned from n rows is itself uncertain. It follows about a chi-square with n degrees
of freedom, so normal noise becomes a Student-t with n degrees of freedom. The 1 / n of this
Student-t is added to the noise's own 1 / dof at the same scale, so intervals from few rows are
wider. The held-out rows also took part in the choice of p numbers (the target's mean, the prior by
evidence), so they look easier than new rows. As in a regression with p parameters, n - p rows are
left, and the level is n / (n - p) times as high.

A variance of few members is so noisy that the factor would come out too small, and intervals far
from the data too narrow. So each s^2 is moderated in the fit: it is drawn towards the common value
of all rows, by the share of the scatter that is chance (Smyth 2004).

Class probabilities, averaged over the members, are raised to the power 1 / temperature.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import optimize, special

from anchored.prediction.predictive import Predictive
from anchored.prediction.special import combined, tempered
from anchored.prediction.student import log_density as standard_log_density

_MAX_ROWS = 5_000  # more rows would not change three numbers
_LEAST_NOISE = 1e-9  # share of the mean squared error
_LEAST_DOF = 2.1  # the variance of the noise must be finite
_USUAL_DOF = 10.0  # centre of the prior of noise_dof ...
_DOF_SPREAD = 1.5  # ... and its deviation, in logs
_FACTOR_SPREAD = 1.0  # deviation of the factor around one, in logs
_USUAL_SHARE = 0.3  # of the noise in the mean squared error: the centre of its prior ...
_SHARE_SPREAD = 2.0  # ... and its deviation, in logs
_LEAST_COMMON, _MOST_COMMON = 0.02, 1e4  # degrees of freedom that rows have in common
_TINY = 1e-150
_TEMPERATURES = (0.1, 10.0)
_LOG_TEMPERATURE_SPREAD = 0.5  # deviation of its prior around one, in logs


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What held-out rows say about the spread and the noise.

    Attributes
    ----------
    factor : on the variance of the members; 1 leaves it as it is.
    noise_var : variance of the noise, in the squared units of the target.
    noise_dof : degrees of freedom of the noise as a Student-t: 2.1 has heavy tails, hundreds
        are normal.
    """

    factor: float
    noise_var: float
    noise_dof: float

    def learned_from(self, n_rows: float, n_tuned: int = 0) -> "Calibration":
        """The same, with the uncertainty of a level that comes from rows to which this many numbers
        were tuned.
        """
        n_left = max(n_rows - n_tuned, n_rows / 2)
        in_dof = min(1 / self.noise_dof + 1 / n_left, 1 / _LEAST_DOF)
        scale2 = self.noise_var * (1 - 2 / self.noise_dof) * n_rows / n_left
        return Calibration(self.factor, scale2 / (1 - 2 * in_dof), 1 / in_dof)

    def predictive(
        self, members: np.ndarray, shape: np.ndarray | float = 1.0, family: str = "student-t"
    ) -> Predictive:
        """Pool member means [member, batch]; ``shape`` [batch] multiplies the noise."""
        noise = np.broadcast_to(self.noise_var * shape, members.shape)
        dist = Predictive.from_members(members, noise, family)
        epistemic = self.factor * dist.epistemic_var
        return dataclasses.replace(dist, epistemic_var=epistemic, noise_dof=self.noise_dof)

    def log_density(self, members, y, shape, spread: tuple[np.ndarray, float]) -> np.ndarray:
        """Log density of held-out targets [batch], with the moderated ``spread`` of few members."""
        variance, spread_dof = spread
        total = (self.factor + 1 / len(members)) * variance
        scale2, dof = combined(total, spread_dof, self.noise_var * shape, self.noise_dof)
        z = (y - members.mean(axis=0)) / np.sqrt(scale2)
        return standard_log_density(z, dof) - 0.5 * np.log(scale2)


def calibrate(
    members: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray | float = 1.0
) -> Calibration:
    """Fit to held-out rows: member means [member, batch], targets and weights [batch].

    The noise is ``noise_var`` times ``shape`` [batch] where that is given.
    """
    shape = np.broadcast_to(shape, y.shape)[:_MAX_ROWS]
    members, y, weight = members[:, :_MAX_ROWS], y[:_MAX_ROWS], weight[:_MAX_ROWS]
    square = max(np.average(np.square(y - members.mean(axis=0)), weights=weight), _TINY)
    spread = moderated(members, weight)

    usual = np.log([1.0, _USUAL_SHARE, _USUAL_DOF])
    deviation = np.array([_FACTOR_SPREAD, _SHARE_SPREAD, _DOF_SPREAD])

    def made(theta: np.ndarray) -> Calibration:
        log_factor, log_noise, log_dof = theta
        noise_var = np.exp(log_noise) * square
        return Calibration(np.exp(log_factor), noise_var, _LEAST_DOF + np.exp(log_dof))

    def negative(theta: np.ndarray) -> float:
        surprise = (theta - usual) / deviation
        log_density = made(theta).log_density(members, y, shape, spread)
        return (0.5 * np.square(surprise).sum() - weight @ log_density) / weight.sum()

    bounds = [(-4.0, 4.0), (np.log(_LEAST_NOISE), 3.0), (-3.0, 6.0)]
    # Two starts, mostly noise and mostly spread: there may be a maximum for each.
    starts = [np.array([0.0, log_noise, np.log(_USUAL_DOF)]) for log_noise in (-0.5, -8.0)]
    found = [optimize.minimize(negative, s, method="L-BFGS-B", bounds=bounds) for s in starts]
    return made(min(found, key=lambda result: result.fun).x)


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> float:
    """The temperature of highest likelihood for held-out rows: above one, they were too sure.

    ``probabilities`` [batch, class] are averages over members, ``labels`` [batch] class numbers.
    """

    def negative(log_temperature: float) -> float:
        surprise = log_temperature / _LOG_TEMPERATURE_SPREAD
        return float(
            0.5 * surprise**2 + weight @ log_losses(probabilities, labels, np.exp(log_temperature))
        )

    found: Any = optimize.minimize_scalar(
        negative, bounds=np.log(_TEMPERATURES), method="bounded", options={"xatol": 1e-4}
    )
    return float(np.exp(found.x))


def log_losses(probabilities: np.ndarray, labels: np.ndarray, temperature: float) -> np.ndarray:
    """Minus the log probability [batch] of each label, at a temperature."""
    p = tempered(np.maximum(probabilities, np.finfo(np.float32).tiny), temperature)
    picked = np.take_along_axis(p, labels[:, None], axis=1)[:, 0]
    return -np.log(np.maximum(picked, _TINY))


def moderated(members: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Variance of the members at each row, moderated, and its degrees of freedom.

    Assume that true variances are scaled inverse chi-squares. The variance of log s^2 is then a sum
    of two trigammas: one of half the degrees of freedom of s^2, and one of half those of the true
    variances. From the moments of log s^2 follow the degrees of freedom of the true variances, and
    their scale.
    """
    dof = len(members) - 1
    variance = np.maximum(members.var(axis=0, ddof=1), _TINY)
    logs = np.log(variance) - special.digamma(dof / 2) + np.log(dof / 2)
    centre = np.average(logs, weights=weight)
    chance = special.polygamma(1, dof / 2)
    scatter = np.average(np.square(logs - centre), weights=weight) - chance
    if scatter <= special.polygamma(1, _MOST_COMMON / 2):
        return np.full_like(variance, np.exp(centre)), np.inf
    if scatter >= special.polygamma(1, _LEAST_COMMON / 2):
        return variance, dof
    common = 2 * _trigamma_inverse(scatter)
    centre += special.digamma(common / 2) - np.log(common / 2)
    return (common * np.exp(centre) + dof * variance) / (common + dof), common + dof


def _trigamma_inverse(value: float) -> float:
    least, most = _LEAST_COMMON / 2, _MOST_COMMON / 2
    found: Any = optimize.brentq(lambda h: special.polygamma(1, h) - value, least, most)
    return float(found)
