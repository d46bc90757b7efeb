"""What counts as much disagreement of the members: what few usual rows exceed."""

import numpy as np

ROWS = 20_000  # most rows that are looked at
_USUAL = 0.99  # share of rows that count as usual


def usual(disagreement: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What one row in a hundred exceeds, for each measure of ``disagreement`` [row, measure]."""
    return np.quantile(disagreement, _USUAL, axis=0, weights=weight, method="inverted_cdf")
