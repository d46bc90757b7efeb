"""The small problems of the paper's figures."""

import numpy as np


def six_points() -> tuple[np.ndarray, np.ndarray]:
    """The six points of figure 4, y = x sin(5 x): x [6, 1] and y [6]."""
    x = np.array([-0.8, -0.1, 0.02, 0.2, 0.6, 0.8])
    return x[:, None], x * np.sin(5 * x)
