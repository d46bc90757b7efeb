"""The small problems of the paper's figures."""

import numpy as np


def six_points() -> tuple[np.ndarray, np.ndarray]:
    """The six points of figure 4, y = x sin(5 x): x [6, 1] and y [6]."""
    x = np.array([-0.8, -0.1, 0.02, 0.2, 0.6, 0.8])
    return x[:, None], x * np.sin(5 * x)


def noisy_sine(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Figure 5's 20 points of sin(2 x), noise deviation 0.2, the last one shifted by -0.4."""
    x = np.linspace(-1.5, 1.5, 20)
    y = np.sin(2 * x) + 0.2 * np.random.default_rng(seed).normal(size=20)
    y[-1] -= 0.4
    return x[:, None], y


def two_blobs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """30 points in two classes, standardised with one mean and deviation: x [30, 2], y [30]."""
    from sklearn.datasets import make_blobs

    blobs = make_blobs(n_samples=30, centers=2, n_features=2, random_state=seed)
    x, y = np.asarray(blobs[0]), np.asarray(blobs[1])
    return (x - x.mean()) / x.std(), y
