"""Independent normal priors over network parameters, and the anchors drawn from them.

    P(theta) = N(mean, diag(scale^2)),   anchor_j ~ P(theta)   (paper, section 4.1)

In the paper, the biases of the input layer have variance ``first_var`` and its weights ``first_var
/ fan_in``. All later parameters have variance ``1 / fan_in``. If a network does not define its own
scales, the shapes of its parameters do (`anchored.core.defaults`).
"""

import dataclasses
import fnmatch
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.adapters import as_network
from anchored.core.defaults import default_moments
from anchored.core.tree import Raveller, leaf_paths, on_device
from anchored.typing import Array, Number, Params


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prior:
    """A mean and a scale (standard deviation) for each parameter.

    An infinite scale is a flat prior: the parameter is not penalised. It cannot be drawn from, so
    its anchor is the mean.

    Parameters
    ----------
    mean, scale : pytrees shaped like the parameters of one member.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from anchored import MLP, Prior
    >>> prior = Prior.for_network(MLP((50,)), jnp.zeros((1, 4)), first_var=10.0)
    >>> prior = prior.with_leaf("0/bias", variance=4.0, mean=1.0)
    >>> float(prior.scale[0]["bias"][0])
    2.0
    """

    mean: Params
    scale: Params

    @classmethod
    def for_network(cls, network: Any, x: Number, first_var: float = 1.0) -> "Prior":
        """The paper's prior for ``network`` on inputs shaped like ``x`` [batch, ...].

        ``network`` is anything that `fit_ensemble` accepts. Scales of normalisations have mean one.
        """
        if not (math.isfinite(first_var) and first_var > 0):
            raise ValueError(f"`first_var` must be a positive number; got {first_var!r}.")
        network = as_network(network)
        shapes = jax.eval_shape(network.init, jax.random.key(0), x)
        means = jax.tree.map(lambda leaf: 0.0, shapes)
        inner = getattr(network, "inner", network)  # of a network on several arrays
        if hasattr(inner, "prior_variances"):
            variances = inner.prior_variances(shapes, first_var)
        else:
            means, variances = default_moments(network, shapes, x, first_var)

        def filled(leaf, value: float) -> Array:  # by NumPy, which compiles nothing
            return on_device(np.full(leaf.shape, value, leaf.dtype))

        mean = jax.tree.map(filled, shapes, means)
        scale = jax.tree.map(lambda leaf, v: filled(leaf, math.sqrt(v)), shapes, variances)
        return cls(mean, scale)

    def with_relevance(self, relevance: np.ndarray) -> "Prior":
        """The prior with the variance of each input's weights multiplied by its relevance
        [feature].
        """
        variance = np.square(np.asarray(self.scale[0]["weight"])) * np.asarray(relevance)[:, None]
        return self.with_leaf("0/weight", variance=variance)

    def with_leaf(self, path: str, *, variance=None, mean=None) -> "Prior":
        """Replace the variance and/or mean of one leaf (values broadcast to its shape)."""
        paths = leaf_paths(self.scale)
        if path not in paths:
            raise ValueError(f"`path` must be one of {', '.join(paths)}; got {path!r}.")
        if variance is not None and not np.all(np.asarray(variance) > 0):
            raise ValueError(f"`variance` must be positive; got {variance!r}.")

        def replaced(tree: Params, value) -> Params:
            leaves, treedef = jax.tree.flatten(tree)
            at = paths.index(path)
            leaves[at] = jnp.broadcast_to(jnp.asarray(value, leaves[at].dtype), leaves[at].shape)
            return jax.tree.unflatten(treedef, leaves)

        return Prior(
            self.mean if mean is None else replaced(self.mean, mean),
            self.scale if variance is None else replaced(self.scale, np.sqrt(variance)),
        )

    def with_leaves(self, variances: Mapping[str, Any]) -> "Prior":
        """The prior with other variances where a path matches a pattern: ``{"layers.0.*": 4.0}``.

        If several patterns match a leaf, the last one counts.
        """
        prior, paths = self, leaf_paths(self.scale)
        for pattern, variance in variances.items():
            wanted = pattern.replace("/", ".")
            fitting = [p for p in paths if fnmatch.fnmatchcase(p.replace("/", "."), wanted)]
            if not fitting:
                known = ", ".join(path.replace("/", ".") for path in paths)
                raise ValueError(
                    f"`prior` names {pattern!r}, which is not a parameter; the "
                    f"parameters are {known}."
                )
            for path in fitting:
                prior = prior.with_leaf(path, variance=variance)
        return prior

    def describe(self) -> str:
        """A table of the leaves: path, shape, mean and variance, each as its range."""
        rows = [("parameter", "shape", "mean", "variance")]
        leaves = zip(
            leaf_paths(self.scale),
            jax.tree.leaves(self.mean),
            jax.tree.leaves(self.scale),
            strict=True,
        )
        for path, mean, scale in leaves:
            shape = " x ".join(map(str, scale.shape)) or "1"
            variance = _ranged(np.square(np.asarray(scale, np.float64)))
            rows.append((path.replace("/", "."), shape, _ranged(np.asarray(mean)), variance))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)

    def sample(self, key: Array) -> Params:
        """One draw, shaped like the parameters of one member."""
        # A single vector of normals: each separate draw would cost a compilation of its own.
        raveller = Raveller.like(self.mean)
        normals = raveller.unravel(jax.random.normal(key, (raveller.size,)))
        return jax.tree.map(
            lambda m, s, z: m + jnp.where(jnp.isinf(s), 0.0, s) * z, self.mean, self.scale, normals
        )

    def log_prob(self, params: Params) -> Array:
        """Log density of one member's parameters; normalised, except for flat priors."""

        def of_leaf(p: Array, m: Array, s: Array) -> Array:
            flat = jnp.isinf(s)
            density = jax.scipy.stats.norm.logpdf(p, m, jnp.where(flat, 1.0, s))
            return jnp.sum(jnp.where(flat, 0.0, density))

        return jax.tree.reduce(jnp.add, jax.tree.map(of_leaf, params, self.mean, self.scale))


def _ranged(values: np.ndarray) -> str:
    least, most = float(np.min(values)), float(np.max(values))
    return f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"


def member_keys(key: Array, n_members: int) -> Array:
    """One key for each member; member j's depends on j alone, not on ``n_members``."""
    return jax.vmap(lambda j: jax.random.fold_in(key, j))(jnp.arange(n_members))


def draw_anchors(key: Array, prior: Prior, n_members: int) -> Params:
    """Anchors [member, ...]: one draw from the prior for each member."""
    return jax.vmap(prior.sample)(member_keys(key, n_members))
