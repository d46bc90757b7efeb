"""Scores of continuous targets: accuracy, calibration, and both together.

The first argument of each is a `Predictive`, a pair ``(mean, std)`` or draws (`inputs`).
Several outputs are averaged.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from anchored.metrics.classes import log_loss
from anchored.metrics.inputs import Dist, as_dist, scored
from anchored.prediction.predictive import Predictive, checked_levels

_LEVELS = tuple(np.arange(1, 20) / 20)
_BAND = 0.95


def rmse(dist: Dist, y) -> float:
    """Root mean square error of the mean, in the target's units; 0 is perfect.

    Always predicting the average gives the deviation of ``y``.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> mean, std = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    >>> round(metrics.rmse((mean, std), [1.5, 2.0]), 3)
    0.354
    """
    dist, y = scored(dist, y)
    return float(np.sqrt(np.mean(np.square(dist.mean - y))))


def nll(dist: Dist, y) -> float:
    """Mean negative log density of the observed rows, in nats; lower is better.

    It depends on the target's units: numbers a thousand times smaller lower it by log(1000) for
    each output. A correct normal forecast of deviation s scores 1.42 + log(s). The density of draws
    is a kernel estimate, a little wider than the true distribution. For a `Predictive` of classes
    this is `log_loss`.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.nll((np.zeros(1), np.ones(1)), [0.0]), 3)
    0.919
    """
    if isinstance(dist, Predictive) and dist.family == "categorical":
        return log_loss(dist, y)
    dist, y = scored(dist, y)
    return float(-np.mean(dist.log_density(y)))


def coverage(dist: Dist, y, level: float) -> float:
    """Share of targets inside their central ``level`` interval; it should be ``level``.

    Chance alone moves it by sqrt(level (1 - level) / n) with n independent targets: 3 points
    for 90 % and 100 rows.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> metrics.coverage((np.zeros(4), np.ones(4)), [0.0, 1.0, -1.0, 2.0], 0.9)
    0.75
    """
    dist, y = scored(dist, y)
    lower, upper = dist.interval(level)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_score(dist: Dist, y, level: float) -> float:
    """Mean width of the central ``level`` interval plus a penalty for each target outside it.

    The penalty is 2 / (1 - level) times the distance to the interval, so both wide intervals and
    misses are costly (Gneiting and Raftery 2007). In the target's units; lower is better.
    A correct normal forecast of deviation s scores 4.13 s at 90 %.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.interval_score((np.zeros(1), np.ones(1)), [0.0], 0.9), 3)
    3.29
    """
    dist, y = scored(dist, y)
    lower, upper = dist.interval(level)
    outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * outside))


def crps(dist: Dist, y) -> float:
    """Mean continuous ranked probability score, in the target's units; lower is better.

    It measures accuracy and calibration together and is less sensitive to outliers than `nll`.
    For a point forecast it is the mean absolute error; a correct normal forecast of deviation s
    scores 0.56 s. For draws it is the fair estimate, which is unbiased for any number of draws.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.crps((np.zeros(1), np.ones(1)), [0.0]), 3)
    0.234
    """
    dist, y = scored(dist, y)
    return float(np.mean(dist.crps(y)))


def pit(dist: Dist, y) -> np.ndarray:
    """Probability integral transform: the probability of a target below the observed one.

    Shaped like ``y``, between 0 and 1, and uniform if the distributions are right: mean 1/2,
    variance 1/12. A U-shaped histogram means that predictions are too narrow, a hump that they are
    too wide, and a slope that they are biased. With S draws it is one of S + 1 values. Continuous
    targets only.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> metrics.pit((np.zeros(2), np.ones(2)), [0.0, 1.0]).round(3)
    array([0.5  , 0.841])
    """
    dist, y = scored(dist, y)
    return dist.cdf(y)


def sharpness(dist: Dist, level: float | None = None) -> float:
    """Mean deviation or, if ``level`` is given, the mean width of the central intervals.

    In the target's units. Smaller is better, but only among calibrated predictions.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.sharpness((np.zeros(1), np.ones(1)), 0.9), 3)
    3.29
    """
    found = as_dist(dist)
    if level is None:
        return float(np.mean(found.std))
    lower, upper = found.interval(level)
    return float(np.mean(upper - lower))


def calibration_error(dist: Dist, y) -> float:
    """Mean gap between the levels 0.05, 0.10, ..., 0.95 and the shares of targets below them.

    The share at a level is the share of targets below their quantile of that level. The error is a
    difference of probabilities: 0 is perfect, and 0.5 (all targets on one side) is the worst.
    Chance alone gives about 0.33 / sqrt(n) with n independent targets, so a good value is close to
    that, not to zero.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.calibration_error((np.zeros(3), np.ones(3)), [-1.0, 0.0, 1.0]), 3)
    0.088
    """
    levels = np.array(_LEVELS)
    below = pit(dist, y).ravel() <= levels[:, None]
    return float(np.mean(np.abs(below.mean(axis=1) - levels)))


class CalibrationCurve(NamedTuple):
    """The share of targets inside intervals, and the share that should be inside.

    Attributes
    ----------
    levels : [level], the share that central intervals should contain.
    shares : [level], the share that they contain: `coverage` at each level.
    band : two arrays [level]; if the intervals are right, a share lies between them in 95 of 100
        samples of rows. This is true for each level separately: with nineteen levels, one outside
        the band is normal.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> curve = metrics.calibration_curve((np.zeros(3), np.ones(3)), [-1.0, 0.0, 1.0], [0.5])
    >>> curve.levels, curve.shares.round(2)
    (array([0.5]), array([0.33]))
    """

    levels: np.ndarray
    shares: np.ndarray
    band: tuple[np.ndarray, np.ndarray]


def calibration_curve(dist: Dist, y, levels=_LEVELS) -> CalibrationCurve:
    """Shares of targets in their central intervals; below the diagonal they are too narrow.

    The band is that of a binomial distribution with one trial for each row: several outputs of one
    row are not assumed to be independent.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> levels, shares, (low, high) = metrics.calibration_curve(
    ...     (np.zeros(3), np.ones(3)), [-1.0, 0.0, 1.0], levels=[0.5, 0.9]
    ... )
    >>> shares.round(2)
    array([0.33, 1.  ])
    """
    found, y = scored(dist, y)
    levels = checked_levels(levels)
    shares = np.array([coverage(found, y, level) for level in levels])
    tail, n = (1 - _BAND) / 2, len(y)
    # Quantiles of the binomial: the least counts reached with these probabilities
    lower, upper = (np.ceil(special.bdtrik(q, n, levels)) / n for q in (tail, 1 - tail))
    return CalibrationCurve(levels, shares, (lower, upper))
