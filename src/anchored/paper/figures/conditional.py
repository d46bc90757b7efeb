"""The likelihood of the rows as a function of one parameter, all others frozen.

    l(v) = sum_rows log p(y | f(theta with theta_i = v, x))

It is followed over the range in which it falls by some nats from its maximum. exp(l),
normalised there, is compared with the normal whose logarithm is the parabola through the top
of l. (The second derivative at the maximum itself would miss the kinks of ReLU networks.)
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.tree import leaf_paths
from anchored.typing import Array, Likelihood, Network, Params

_TOP = 0.5  # nats below the maximum: the part of the curve the parabola is fitted to
_MIN_TOP = 7  # points
_MAX_ZOOMS = 8
_AT_A_TIME = 32  # values in one pass over the rows


@dataclasses.dataclass(frozen=True)
class Trained:
    """One trained network, with leaves by their paths, and the rows of the likelihood."""

    network: Network
    prior: Prior
    likelihood: Likelihood
    data: Data
    params: Params

    def log_likelihood(self, leaf: str, position: int, values) -> np.ndarray:
        """l(v) - l(trained value) at ``values`` of parameter ``position`` of a raveled leaf."""
        index = leaf_paths(self.params).index(leaf)
        model = (self.params, self.likelihood, self.data)
        n = len(values)
        values = np.resize(np.asarray(values, np.float32), (-(-n // _AT_A_TIME), _AT_A_TIME))
        parts = [_log_likelihood(self.network, index, *model, position, part) for part in values]
        return np.concatenate(parts, dtype=np.float64)[:n]

    def size(self, leaf: str) -> int:
        """How many parameters a leaf has."""
        return np.size(jax.tree.leaves(self.params)[leaf_paths(self.params).index(leaf)])

    def curve(self, leaf: str, position: int, cap: float, drop: float, n_points: int) -> "Curve":
        """One parameter's curve; its values are in prior deviations from the trained value."""
        index = leaf_paths(self.params).index(leaf)
        value, scale = (
            float(np.ravel(jax.tree.leaves(tree)[index])[position])
            for tree in (self.params, self.prior.scale)
        )

        def log_likelihood(deviations):
            return self.log_likelihood(leaf, position, value + scale * deviations)

        return follow(log_likelihood, -cap, cap, drop, n_points)


@partial(jax.jit, static_argnums=(0, 1))
def _log_likelihood(network, leaf: int, params, likelihood, data: Data, position, values) -> Array:
    leaves, treedef = jax.tree.flatten(params)
    flat, shape = jnp.ravel(leaves[leaf]), leaves[leaf].shape

    def log_prob(changed):  # only this leaf differs between values, so vmap shares the rest
        new = [*leaves[:leaf], changed.reshape(shape), *leaves[leaf + 1 :]]
        return likelihood.log_prob(network.apply(jax.tree.unflatten(treedef, new), data.x), data.y)

    trained = log_prob(flat)

    def difference(value):  # row by row: the sums would lose their last digits in float32
        return jnp.sum(data.weight * (log_prob(flat.at[position].set(value)) - trained))

    return jax.vmap(difference)(values)


class Curve(NamedTuple):
    """Both likelihoods at ``values``, relative to their maxima, and the distance between them."""

    values: np.ndarray
    likelihood: np.ndarray
    normal: np.ndarray
    distance: float  # total variation between the two, each normalised over the range
    fall: float  # nats from the maximum to the lowest point,
    end_fall: float  # and to the higher one of the two ends


def follow(log_likelihood, low: float, high: float, drop: float, n_points: int) -> Curve:
    """The curve between the two ends where it has fallen by ``drop``, or between low and high."""
    values = np.linspace(*_ends(log_likelihood, low, high, drop, n_points), n_points)
    log = log_likelihood(values)
    log = log - log.max()
    likelihood, normal = np.exp(log), np.exp(_parabola(log))
    apart = np.abs(likelihood / likelihood.sum() - normal / normal.sum())
    falls = -log.min(), -max(log[0], log[-1])
    return Curve(values, likelihood, normal / normal.max(), 0.5 * apart.sum(), *falls)


def _ends(log_likelihood, low: float, high: float, drop: float, n: int) -> tuple[float, float]:
    """Zoom in until the part within ``drop`` of the maximum fills half of the range."""
    for _ in range(_MAX_ZOOMS):
        values = np.linspace(low, high, n)
        log = log_likelihood(values)
        level = log.max() - drop
        first, last = np.flatnonzero(log >= level)[[0, -1]]
        left, right = max(first - 1, 0), min(last + 1, n - 1)
        if right - left > n // 2:
            break
        low, high = float(values[left]), float(values[right])
    # np.interp needs rising levels: from the point outside to the one inside, on each side.
    ends = [np.interp(level, log[pair], values[pair]) for pair in ([left, first], [right, last])]
    return float(ends[0]), float(ends[1])


def _parabola(log: np.ndarray) -> np.ndarray:
    """Least-squares parabola through the top of a curve; a line if it would open upwards."""
    place = np.linspace(-1, 1, len(log))
    enough = np.argsort(np.abs(place - place[np.argmax(log)]))[:_MIN_TOP]
    top = (log > -_TOP) | np.isin(np.arange(len(log)), enough)
    fitted = np.polynomial.Polynomial.fit(place[top], log[top], 2)
    if fitted.convert().coef[2:].sum() >= 0:
        fitted = np.polynomial.Polynomial.fit(place[top], log[top], 1)
    return fitted(place)
