"""The last layer of trained members in closed form, where the loss is quadratic in it.

For Gaussian noise of variance s^2 the loss of a member is quadratic in its last layer v, on
features phi(x) that the layers before make. With row weights w, score noise z (`score_noise`) and
the prior N(c, diag(t^2)), its minimum is where

    (Phi' W Phi / s^2 + T^-2) v = Phi' (W y / s^2 + W^(1/2) z / s) + T^-2 c

For a network without hidden layers this is the minimum over all parameters, so training in any
number of parts ends at the same place.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.likelihoods import Gaussian
from anchored.core.loss import Extra, Own
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data, HostRows, rows_at_once
from anchored.core.score_noise import normals, row_bits, sign_of
from anchored.core.state import EnsembleState
from anchored.core.tree import from_pytree, on_device
from anchored.typing import Array, Network, Params


def is_quadratic(state: EnsembleState, prior: Prior, data: Data) -> bool:
    """Whether the last layer has a closed form."""
    return (
        type(state.plan.loss.network) is MLP
        and isinstance(from_pytree(state.extra.likelihood), Gaussian)
        and float(state.extra.penalty) > 0
        and not isinstance(data.x, HostRows)
        and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(prior.scale[-1]))
    )


def with_best_last_layer(state: EnsembleState, prior: Prior, data: Data) -> EnsembleState:
    """The state whose last layers minimise the loss on all rows, given the layers before."""
    likelihood, params = from_pytree(state.extra.likelihood), state.params
    last, n = params[-1], int(data.n_rows)
    sd = np.sqrt(np.broadcast_to(likelihood.noise_var, data.y.shape[-1:])).astype(np.float64)
    n_members = len(last["weight"])
    n_inputs = last["weight"].shape[1] + ("bias" in last)
    gram = np.zeros((n_members, n_inputs, n_inputs))
    pull = np.zeros((n_members, n_inputs, len(sd)))
    y, size = np.asarray(data.y, np.float64), rows_at_once(data.x)
    for start in range(0, n, size):
        rows = np.arange(start, min(start + size, len(data.weight)), dtype=np.int32)
        x, weight = (on_device(np.asarray(part)[rows]) for part in (data.x, data.weight))
        seen = _seen(state.plan.loss.network, params, state.own, state.extra, len(sd))
        phi, weight, noise = (
            np.asarray(part, np.float64) for part in seen(x, weight, on_device(rows))
        )
        if "bias" in last:
            phi = np.concatenate([phi, np.ones((*phi.shape[:2], 1))], axis=-1)
        target = weight[..., None] * y[rows] / sd**2 + np.sqrt(weight)[..., None] * noise / sd
        turned = np.swapaxes(phi, 1, 2)
        gram += turned @ (weight[..., None] * phi)
        pull += turned @ target
    found = _solved(gram, pull, sd, _joined(prior.scale[-1])[None], _joined(state.centres[-1]))
    width = last["weight"].shape[1]
    layer = {"weight": found[:, :width]} | ({"bias": found[:, -1]} if "bias" in last else {})
    solved = (*params[:-1], {k: on_device(v.astype(last[k].dtype)) for k, v in layer.items()})
    raveller = state.plan.raveller
    theta = solved if raveller is None else raveller.ravel_members(solved)
    return dataclasses.replace(state, theta=theta)


def _joined(layer: dict[str, Array]) -> np.ndarray:
    """Weights [..., in, out], with the bias as a last input."""
    weight = np.asarray(layer["weight"], np.float64)
    if "bias" not in layer:
        return weight
    return np.concatenate([weight, np.asarray(layer["bias"], np.float64)[..., None, :]], axis=-2)


def _solved(gram, pull, sd, scale, centre) -> np.ndarray:
    """[member, in, out]."""
    precision = 1 / np.square(scale)
    found = np.empty_like(pull)
    diagonal = np.arange(gram.shape[1])
    for i, deviation in enumerate(sd):
        left = gram / deviation**2
        left[:, diagonal, diagonal] += precision[..., i]
        right = pull[..., i] + precision[..., i] * centre[..., i]
        found[..., i] = np.linalg.solve(left, right[..., None])[..., 0]
    return found


def _seen(network: Network, params: Params, own: Own, extra: Extra, n_outputs: int):
    """Features, weights and score noise of rows, as each member sees them: a function of rows."""
    who = own._replace(centre=None)
    folds = None if own.fold is None else extra.folds
    return partial(_seen_by_all, network, n_outputs, params, who, folds)


@partial(jax.jit, static_argnums=(0, 1))
def _seen_by_all(network: Network, n_outputs: int, params: Params, own: Own, folds, *rows):
    x, weight, numbers = rows

    def of_member(params: Params, own: Own):
        inner = (*params[:-1], {"weight": jnp.eye(params[-1]["weight"].shape[0])})
        mine = weight if folds is None else weight * (folds[numbers] != own.fold)
        noise = jnp.zeros((len(x), n_outputs))
        if own.seed is not None:
            noise = sign_of(own.seed) * normals(row_bits(own.seed, numbers), n_outputs)
        return network.apply(inner, x), mine, noise

    return jax.vmap(of_member)(params, own)
