"""A target on another scale: networks predict its logarithm where that fits it better.

Prices, sizes and durations are positive and skewed. Their noise grows with them, and a normal
distribution around the mean reaches below zero. On the scale

    t = log(y + shift)

the noise is even, and no quantile of y leaves the possible range. Targets small beside ``shift``
stay as they are, up to a factor. Quantiles, probabilities and samples are mapped one to one, and a
density is multiplied by the slope dt/dy.
"""

import dataclasses

import numpy as np

_TINY = np.finfo(np.float64).tiny


@dataclasses.dataclass(frozen=True)
class Warp:
    """t = log(y + shift), for targets that are never below ``least``.

    Attributes
    ----------
    shift : added to the target before the logarithm is taken.
    least, most : what no prediction is below or above.
    raised : mean of y + shift divided by its median; the noise makes it larger than 1.
    """

    shift: float
    least: float
    most: float
    raised: float = 1.0

    def forward(self, y: np.ndarray) -> np.ndarray:
        """From the target's units to the scale; impossible targets become very low values."""
        return np.log(np.maximum(np.asarray(y, np.float64) + self.shift, _TINY))

    def inverse(self, t: np.ndarray) -> np.ndarray:
        """From the scale to the target's units, within the possible range."""
        top = np.log(self.most + self.shift)
        return np.clip(np.exp(np.minimum(t, top)) - self.shift, self.least, self.most)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Logarithm of dt/dy."""
        return -self.forward(y)

    def moments(self, t: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y for noise of this variance around ``t``, as if it were normal."""
        above = self.raised * np.exp(np.minimum(t, np.log(self.most + self.shift)))
        mean = np.clip(above - self.shift, self.least, self.most)
        return mean, np.square(above) * np.expm1(np.minimum(variance, 1.0))

    def lifted(self, t: np.ndarray, y: np.ndarray, weight: np.ndarray) -> "Warp":
        """The same scale, with its mean learned from held-out rows: predictions [member, row],
        targets.
        """
        median = np.exp(np.minimum(t, np.log(self.most + self.shift))).mean(axis=0)
        raised = float(weight @ (y + self.shift) / (weight @ median))
        return dataclasses.replace(self, raised=raised)
