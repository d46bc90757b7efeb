"""How much disagreement of the members is unusual: a value that few usual rows exceed."""

import numpy as np

ROWS = 20_000  # most rows that are looked at
_USUAL = 0.99  # share of rows that count as usual


def usual(disagreement: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The value that one row in a hundred exceeds, for each measure of ``disagreement`` [row,
    measure].
    """
    return np.quantile(disagreement, _USUAL, axis=0, weights=weight, method="inverted_cdf")
