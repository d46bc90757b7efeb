"""Training rows in the form that an estimator passes to the core."""

from typing import Any, NamedTuple

import numpy as np

from anchored.core.rows import HostRows, Standardiser
from anchored.model.record import FittedModel


class Rows(NamedTuple):
    """Training rows: inputs standardised, in random order, none of weight zero."""

    x: Any  # array, or `HostRows` that stay where they are
    y: np.ndarray  # [row, out]
    weight: np.ndarray
    groups: np.ndarray | None
    standardiser: Standardiser

    def first(self, n: int) -> np.ndarray:
        """Inputs of at most ``n`` rows."""
        return self.x[:n]

    def with_inputs(self, n: int) -> "Rows":
        """The first ``n`` inputs of each row: either all inputs, or all but the ramps."""
        if n == self.x.shape[1]:
            return self
        return self._replace(x=self.x[:, :n], standardiser=self.standardiser.without_ramps())

    def unread(self, n: int) -> Any:
        """The same inputs; rows that stay in a file are not read yet."""
        return self.x.take(slice(n)) if isinstance(self.x, HostRows) else self.x[:n]


def standardiser_of(model: FittedModel) -> Standardiser:
    if model.x_mean is None or model.x_scale is None:
        return Standardiser.identity()
    return Standardiser(
        model.x_mean,
        model.x_scale,
        limit=model.x_limit,
        reach=model.x_reach,
        ramps=model.x_ramps,
    )
