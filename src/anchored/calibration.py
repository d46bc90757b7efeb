"""Spread and noise fitted to predictions of rows that the networks had not seen.

For M member means of variance s^2 at a held-out row, the target is taken to be Student-t around
the pooled mean with

    scale^2 = (factor + 1 / M) s^2 + noise_var (1 - 2 / noise_dof)
    1 / dof = share^2 / (M - 1) + (1 - share)^2 / noise_dof

where ``share`` is that of the members' spread in the scale; s^2 / M is what the mean of M is off
by in any case, so fewer members may be used here than later. Factor, noise and the tails of the
noise are those of highest likelihood, with weak priors that matter for a few dozen rows only.
"""

import dataclasses

import numpy as np
from scipy import optimize

from anchored.predictive import Predictive

_MAX_ROWS = 5_000  # more rows would not change three numbers
_LEAST_NOISE = 1e-9  # share of the mean squared error
_LEAST_DOF = 2.1  # the variance of the noise must be finite
_USUAL_DOF = 10.0  # centre of the prior of noise_dof ...
_DOF_SPREAD = 1.5  # ... and its deviation, in logs
_FACTOR_SPREAD = 1.0  # deviation of the factor around one, in logs
_TINY = 1e-150


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What held-out rows say of the spread and the noise.

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

    def predictive(self, members: np.ndarray, shape: np.ndarray | float = 1.0) -> Predictive:
        """Pool member means [member, batch]; ``shape`` [batch] multiplies the noise."""
        noise = np.broadcast_to(self.noise_var * shape, members.shape)
        return self.applied(Predictive.from_members(members, noise, "student-t"))

    def applied(self, dist: Predictive) -> Predictive:
        """``dist`` with the members' variance scaled and the tails of the noise."""
        epistemic = self.factor * dist.epistemic_var
        return dataclasses.replace(dist, epistemic_var=epistemic, noise_dof=self.noise_dof)


def calibrate(
    members: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray | float = 1.0
) -> Calibration:
    """Fit to held-out rows: member means [member, batch], targets and weights [batch].

    The noise is ``noise_var`` times ``shape`` [batch] where that is given.
    """
    shape = np.broadcast_to(shape, y.shape)[:_MAX_ROWS]
    members, y, weight = members[:, :_MAX_ROWS], y[:_MAX_ROWS], weight[:_MAX_ROWS]
    square = np.average(np.square(y - members.mean(axis=0)), weights=weight)

    def made(theta: np.ndarray) -> Calibration:
        log_factor, log_noise, log_dof = theta
        noise_var = np.exp(log_noise) * max(square, _TINY)
        return Calibration(np.exp(log_factor), noise_var, _LEAST_DOF + np.exp(log_dof))

    def negative(theta: np.ndarray) -> float:
        surprise = (theta[0] / _FACTOR_SPREAD, (theta[2] - np.log(_USUAL_DOF)) / _DOF_SPREAD)
        log_density = made(theta).predictive(members, shape).log_density(y)
        return (0.5 * np.square(surprise).sum() - weight @ log_density) / weight.sum()

    bounds = [(-4.0, 4.0), (np.log(_LEAST_NOISE), 3.0), (-3.0, 6.0)]
    # Two starts, mostly noise and mostly spread: there may be a maximum for each.
    starts = [np.array([0.0, log_noise, np.log(_USUAL_DOF)]) for log_noise in (-0.5, -8.0)]
    found = [optimize.minimize(negative, s, method="L-BFGS-B", bounds=bounds) for s in starts]
    return made(min(found, key=lambda result: result.fun).x)
