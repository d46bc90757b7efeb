"""Intervals as wide as held-out rows say they must be.

Where a predictive says ``coverage``, the share of held-out targets inside its interval may be
another. The half-widths are therefore multiplied by one factor for each coverage: the quantile,
over held-out rows, of |target - mean| as a share of the row's own half-width. Rows stay as
different from each other as the predictive says; only the common width is corrected.

With n exchangeable rows held out once the interval covers at least ``coverage`` on average
(Lei et al. 2018). With folds, each row is predicted by members that did not see it, and the
members that predict saw a little more: on the safe side, though not a theorem.
"""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Conformal:
    """Held-out targets in units of their own predictive.

    Attributes
    ----------
    distance : [row] or [row, out], |target - location| / scale.
    dof : degrees of freedom of the predictive at each of them, shaped alike.
    weight : [row], how many rows each stands for.
    """

    distance: np.ndarray
    dof: np.ndarray
    weight: np.ndarray

    def factor(self, coverage: float, half_width) -> Any:
        """What half-widths of ``coverage`` are multiplied by, one number or [out].

        ``half_width(coverage, dof)`` is that of the standard predictive. The quantile counts
        the row to come as one more row; if there are too few for this coverage, the largest
        distance is used, or the predictive's own width where that is wider.
        """
        share = self.distance / half_width(coverage, self.dof)
        order = np.argsort(share, axis=0)
        reached = np.cumsum(self.weight[order], axis=0) / (self.weight.sum() + 1)
        enough = reached >= coverage - 1e-12
        found = np.take_along_axis(share, order, axis=0)
        last = np.maximum(found[-1], 1.0)
        first = np.take_along_axis(found, np.argmax(enough, axis=0)[None], axis=0)[0]
        return np.where(enough.any(axis=0), first, last)

    def output(self, index: int) -> "Conformal":
        """Of one of several outputs."""
        return Conformal(self.distance[..., index], self.dof[..., index], self.weight)

    @classmethod
    def stacked(cls, parts: "list[Conformal]") -> "Conformal":
        """Of several outputs, held out on the same rows."""
        distance, dof = (
            np.stack([getattr(part, name) for part in parts], axis=-1)
            for name in ("distance", "dof")
        )
        return cls(distance, dof, parts[0].weight)
