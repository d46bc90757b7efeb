"""Decides whether a target is better predicted on a logarithmic scale, by rows held out one at a
time.

On each scale the infinitely wide network is tuned by its evidence, and every row is predicted from
all others in closed form. A Student-t is fitted to the errors of these predictions, so that single
outliers do not decide. The scales are compared by the density of the target in its own units; this
density includes the slope of the scale.
"""

import numpy as np
from scipy import optimize

from anchored.exact import gp
from anchored.exact.evidence import Twin, one_blas_thread, tune_regression
from anchored.prediction import student
from anchored.prediction.warp import Warp

LEAST_ROWS = 50
MOST_ROWS = 300  # more would not change the choice
_SHIFTS = (1.0, 0.1)  # added before the logarithm, as shares of the median
_LEAST_RATIO = 3.0  # of the largest target to the median: less is hardly skewed
_USUAL_DOF = 10.0


def candidates(y: np.ndarray) -> list[Warp]:
    """Scales for targets [row]; an empty list if a target is negative, or if none is large."""
    if len(y) < LEAST_ROWS or y.min() < 0 or not y.max() > 0:
        return []
    if y.max() < _LEAST_RATIO * np.median(y[y > 0]):
        return []
    # Where zeros are common, a small shift would put them far below all others.
    return [_log(y, share) for share in (_SHIFTS if y.min() > 0 else _SHIFTS[:1])]


def soft(y: np.ndarray) -> Warp:
    """Logarithmic above the median of targets [row], and nearly linear below it."""
    return _log(y, _SHIFTS[0])


def _log(y: np.ndarray, share: float) -> Warp:
    # No target to come is above the largest by more than all of them span.
    most = 2 * float(y.max()) - float(y.min())
    return Warp(share * float(np.median(y[y > 0])), 0.0, most)


@one_blas_thread
def choose(twin: Twin, x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Warp | None:
    """The likeliest scale for targets ``y`` [row]; None for the target as it is.

    Rows come standardised and in random order.
    """
    scales = candidates(y)
    if not scales:
        return None
    x, y, weight = x[:MOST_ROWS], y[:MOST_ROWS], weight[:MOST_ROWS]
    plain = _log_densities(twin, x, y, weight)
    found: tuple[float, Warp | None] = (0.0, None)
    for warp in scales:
        gain = _log_densities(twin, x, warp.forward(y), weight) + warp.log_slope(y) - plain
        mean = np.average(gain, weights=weight)
        error = np.sqrt(np.average(np.square(gain - mean), weights=weight) / len(y))
        if mean - error > found[0]:
            found = (mean - error, warp)
    return found[1]


def _log_densities(twin: Twin, x, t: np.ndarray, weight) -> np.ndarray:
    """Log density of each row [row], given all others."""
    centre, scale = np.average(t, weights=weight), np.std(t) or 1.0
    y = ((t - centre) / scale)[:, None]
    tuned = tune_regression(twin, x, y, weight)
    kernel = twin(np.log([tuned.first_var]))
    residual, variance = gp.leave_one_out(kernel, x, y, tuned.noise_var, weight)
    z = residual / np.sqrt(variance)

    def densities(theta: np.ndarray) -> np.ndarray:
        width, dof = np.exp(theta[0]), 2.0 + np.exp(theta[1])
        return student.log_density(z / width, np.full_like(z, dof)) - theta[0]

    def negative(theta: np.ndarray) -> float:
        return -float(np.average(densities(theta), weights=weight))

    start = np.array([0.0, np.log(_USUAL_DOF)])
    best = optimize.minimize(negative, start, method="L-BFGS-B", bounds=[(-5, 5), (-3, 6)])
    return densities(best.x) - 0.5 * np.log(variance) - np.log(scale)
