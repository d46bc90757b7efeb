"""Independent normal priors over network parameters, and the anchors drawn from them.

    P(theta) = N(mean, diag(scale^2)),   anchor_j ~ P(theta)   (paper, section 4.1)

The paper's scales are variance ``first_var`` for the biases and ``first_var / fan_in``
for the weights of the input layer, ``1 / fan_in`` everywhere later.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.tree import Raveller, leaf_paths, on_device
from anchored.typing import Array, Network, Number, Params


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prior:
    """A mean and a scale (standard deviation) for each parameter.

    An infinite scale is a flat prior: nothing pulls at the parameter, and nothing can be drawn,
    so an anchor has the mean there.

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
    def for_network(cls, network: Network, x: Number, first_var: float = 1.0) -> "Prior":
        """The paper's prior for ``network`` on inputs shaped like ``x`` [batch, ...]."""
        if not (math.isfinite(first_var) and first_var > 0):
            raise ValueError(f"`first_var` must be a positive number; got {first_var!r}.")
        if not hasattr(network, "prior_variances"):
            raise TypeError(
                f"{type(network).__name__} has no `prior_variances(params, first_var)`, so its "
                "prior cannot be made for it. Add the method, or build `Prior(mean, scale)` from "
                "two trees shaped like its parameters."
            )
        shapes = jax.eval_shape(network.init, jax.random.key(0), x)
        variances = network.prior_variances(shapes, first_var)

        def filled(leaf, value: float) -> Array:  # by NumPy, which compiles nothing
            return on_device(np.full(leaf.shape, value, leaf.dtype))

        mean = jax.tree.map(lambda leaf: filled(leaf, 0.0), shapes)
        scale = jax.tree.map(lambda leaf, v: filled(leaf, math.sqrt(v)), shapes, variances)
        return cls(mean, scale)

    def with_relevance(self, relevance: np.ndarray) -> "Prior":
        """With the variance of each input's weights times its relevance [feature]."""
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

    def sample(self, key: Array) -> Params:
        """One draw, shaped like the parameters of one member."""
        # A single vector of normals: each separate draw would cost a compilation of its own.
        raveller = Raveller.like(self.mean)
        normals = raveller.unravel(jax.random.normal(key, (raveller.size,)))
        return jax.tree.map(
            lambda m, s, z: m + jnp.where(jnp.isinf(s), 0.0, s) * z, self.mean, self.scale, normals
        )

    def log_prob(self, params: Params) -> Array:
        """Log density of the parameters of one member, normalised but for flat priors."""

        def of_leaf(p: Array, m: Array, s: Array) -> Array:
            flat = jnp.isinf(s)
            density = jax.scipy.stats.norm.logpdf(p, m, jnp.where(flat, 1.0, s))
            return jnp.sum(jnp.where(flat, 0.0, density))

        return jax.tree.reduce(jnp.add, jax.tree.map(of_leaf, params, self.mean, self.scale))


def member_keys(key: Array, n_members: int) -> Array:
    """One key for each member; member j's depends on j alone, not on ``n_members``."""
    return jax.vmap(lambda j: jax.random.fold_in(key, j))(jnp.arange(n_members))


def draw_anchors(key: Array, prior: Prior, n_members: int) -> Params:
    """Anchors [member, ...]: one draw from the prior for each member."""
    return jax.vmap(prior.sample)(member_keys(key, n_members))
