"""For training loops of your own in JAX: the penalty of the scaling contract.

A member minimises its negative log posterior divided by N, whatever the batch size B:

    loss = -(1/B) sum_batch log p(y | f(theta, x)) + anchor_penalty(theta, anchor, prior, N)

For a Gaussian of variance s2, this is mean squared error / (2 s2) plus the penalty. Train as many
members as you like, each from its own start and with its own `draw_anchor`, and pass their outputs
to `predictive`.
"""

from typing import Any

import jax
import numpy as np

from anchored.core.priors import Prior
from anchored.core.sampled import FAMILY, family_of, moments_of, sample_predictive
from anchored.core.tree import squared_distance
from anchored.errors import bad_value
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Params


def draw_anchor(key: Array, prior: Prior) -> Params:
    """An anchor: a draw from the prior. A member starts independently of its anchor."""
    return prior.sample(key)


def anchor_penalty(params: Params, anchor: Params, prior: Prior, n_rows: int) -> Array:
    """sum_i (theta_i - anchor_i)^2 / prior_var_i / (2 N), to add to a mean over a batch.

    ``n_rows`` is N, the number of rows in the whole training set, not in the batch.
    """
    if not n_rows > 0:
        raise bad_value("n_rows", n_rows, "the number of training rows, above 0")
    for name, tree in (("anchor", anchor), ("prior", prior.scale)):
        shapes = [jax.tree.map(np.shape, t) for t in (params, tree)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"`{name}` must be shaped like `params`: {shapes[0]}; got {shapes[1]}."
            )
    return 0.5 * squared_distance(params, anchor, prior.scale) / n_rows


def predictive(outputs: Any, likelihood: Any) -> Predictive:
    """The predictive distribution of members' outputs [member, batch, out] under a likelihood."""
    outputs = np.asarray(outputs, np.float32)
    if outputs.ndim != 3:
        raise bad_value("outputs", outputs.shape, "of shape [member, batch, out]")
    if family_of(likelihood) == FAMILY:
        return sample_predictive(likelihood, outputs)
    mean, var = jax.vmap(lambda f: moments_of(likelihood, f))(outputs)
    return Predictive.from_members(np.asarray(mean), np.asarray(var), likelihood.family)
