"""The small problems of the paper's figures."""

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.priors import Prior
from anchored.typing import Array, Network


def six_points() -> tuple[np.ndarray, np.ndarray]:
    """The six points of figure 4, y = x sin(5 x): x [6, 1] and y [6]."""
    x = np.array([-0.8, -0.1, 0.02, 0.2, 0.6, 0.8])
    return x[:, None], x * np.sin(5 * x)


def noisy_sine(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The 20 points of figure 6: sin(2 x) with noise of deviation 0.2, the last one shifted by
    -0.4.
    """
    x = np.linspace(-1.5, 1.5, 20)
    y = np.sin(2 * x) + 0.2 * np.random.default_rng(seed).normal(size=20)
    y[-1] -= 0.4
    return x[:, None], y


def two_blobs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """30 points in two classes, standardised with a common mean and deviation: x [30, 2], y
    [30].
    """
    from sklearn.datasets import make_blobs

    blobs = make_blobs(n_samples=30, centers=2, n_features=2, random_state=seed)
    x, y = np.asarray(blobs[0]), np.asarray(blobs[1])
    return (x - x.mean()) / x.std(), y


def random_points(
    key: Array, network: Network, prior: Prior, noise_var: float, reach: float, n_points: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points on a function drawn from the prior: x [n_points, 1], sorted, and y [n_points].

    Inputs are uniform between -reach and reach. The paper's figure 1 uses six random points.
    """
    key_x, key_f, key_noise = jax.random.split(key, 3)
    x = np.sort(jax.random.uniform(key_x, (n_points, 1), minval=-reach, maxval=reach), axis=0)
    noise = np.sqrt(noise_var) * np.asarray(jax.random.normal(key_noise, (n_points,)))
    drawn = network.apply(jax.jit(Prior.sample)(prior, key_f), jnp.asarray(x))
    return x, np.asarray(drawn)[:, 0] + noise
