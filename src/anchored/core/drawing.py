"""Members before their first step: draws what is random, and checks that the arguments fit
together.

Member j's anchor, initial parameters and score noise depend on the key and on j alone.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core import last_layer, wide
from anchored.core.checks import check_start, check_uses_parameters
from anchored.core.loss import Extra, Folds, Own, checked_method
from anchored.core.precision import as_real
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.sampled import check_likelihood, family_of, n_targets_of
from anchored.core.tree import as_pytree, on_device
from anchored.errors import bad_value
from anchored.typing import Array, Likelihood, Network, Params

_LONE = 2**30  # added to the number of a member that has no other of opposite noise


class Drawn(NamedTuple):
    """Members before their first step, as trees [member, ...], and what they share."""

    seed: int
    start: Params
    own: Own
    extra: Extra
    hidden_fixed: bool

    def narrowed(self, way: wide.Narrow) -> "Drawn":
        return self._replace(
            start=way.inner(self.start),
            own=self.own._replace(centre=way.inner(self.own.centre)),
            extra=self.extra._replace(scale=way.inner_scale(self.extra.scale)),
        )


def draw(
    key: Array,
    network: Network,
    prior: Prior,
    likelihood: Likelihood,
    data: Data,
    method: str,
    members: Sequence[int],
    start: Params | None,
    folds: Folds | None,
) -> Drawn:
    """Check that the arguments fit together, and draw what is random."""
    row = checked_method(method, likelihood, len(members))
    prior = as_real(prior, data.dtype)
    _check_model(network, prior, likelihood, data)
    _check_folds(folds, data.n_rows, len(members))
    key_anchor, key_init, key_noise, seed = draw_keys(key)
    seeds = None
    if row.score_noise:
        seeds = _stacked([noise_seed_of(key_noise, j) for j in members])
    of_member = None if folds is None else on_device(folds.of_member)
    of_row = None if folds is None else _padded_folds(folds, data)
    own = Own(_centres(key_anchor, prior, members, row.anchors), seeds, of_member)
    if row.hidden_fixed:
        last_layer.check_hidden(method, network, prior)
        start = own.centre if start is None else last_layer.with_hidden(start, own.centre)
    elif start is None:
        start = initial_params(network, key_init, members, data)
    start = as_real(start, data.dtype)
    check_start(network, start)
    extra = Extra(prior.scale, as_pytree(likelihood), np.float32(row.penalised), of_row)
    return Drawn(int(seed), start, own, extra, row.hidden_fixed)


@lru_cache
def model_shapes(network: Network, row_shape: tuple[int, ...], dtype) -> tuple[Params, Params]:
    """Shapes of the parameters and of the outputs for inputs of one row; nothing is computed."""
    x = jax.ShapeDtypeStruct((1, *row_shape), dtype)
    params = jax.eval_shape(network.init, jax.random.key(0), x)
    return params, jax.eval_shape(network.apply, params, x)


def _check_model(network: Network, prior: Prior, likelihood: Likelihood, data: Data) -> None:
    """Shapes that do not belong together would broadcast in silence or fail inside JAX."""
    params, outputs = model_shapes(network, data.x.shape[1:], data.x.dtype)
    shapes = [jax.tree.map(lambda leaf: leaf.shape, tree) for tree in (params, prior.scale)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "`prior` must be shaped like the parameters of `network`; make it with "
            f"Prior.for_network(network, x). The network has {shapes[0]}, the prior {shapes[1]}."
        )
    check_uses_parameters(network, data.x.shape[1:], data.x.dtype)
    check_likelihood(likelihood)
    n_predicted = n_targets_of(likelihood, outputs)
    classes = family_of(likelihood) == "categorical"  # y are class numbers; spare ones are fine
    n_targets = int(data.y.max()) + 1 if classes else data.y.shape[-1]
    if n_predicted < n_targets or (n_predicted > n_targets and not classes):
        raise ValueError(
            f"`network` has {outputs.shape[-1]} outputs, which {type(likelihood).__name__} reads "
            f"as {n_predicted} targets or classes; the data have {n_targets}."
        )


def _check_folds(folds: Folds | None, n_rows: int, n_members: int) -> None:
    if folds is None:
        return
    for name, numbers, length, other in (
        ("of_row", folds.of_row, n_rows, Folds.IN_NONE),
        ("of_member", folds.of_member, n_members, Folds.SEES_ALL),
    ):
        if np.shape(numbers) != (length,) or np.asarray(numbers).dtype.kind not in "iu":
            raise bad_value(f"folds.{name}", numbers, f"an array of {length} whole numbers")
        if not np.all((np.asarray(numbers) >= 0) | (np.asarray(numbers) == other)):
            raise bad_value(f"folds.{name}", numbers, f"numbers of folds, 0 and up, or {other}")


def _centres(key: Array, prior: Prior, members: Sequence[int], anchors: bool) -> Params:
    """Centres of the penalty: an anchor for each member, or the prior mean for all."""
    if anchors:
        return _stacked([anchor_of(prior, key, j) for j in members])
    return jax.tree.map(lambda m: jnp.broadcast_to(m, (len(members), *m.shape)), prior.mean)


def initial_params(network: Network, key: Array, members: Iterable[int], data: Data) -> Params:
    like = np.zeros((1, *data.x.shape[1:]), data.x.dtype)
    drawn = _stacked([initial_of(network, key, j, like) for j in members])
    return as_real(drawn, data.dtype)


def _stacked(trees: list[Params]) -> Params:
    return jax.tree.map(lambda *leaves: on_device(np.stack(leaves)), *trees)


# Programs that draw take long to compile: one for a single member serves any number of them.


@jax.jit
def anchor_of(prior: Prior, key: Array, j: int) -> Params:
    """Member j's anchor."""
    return prior.sample(jax.random.fold_in(key, j))


@partial(jax.jit, static_argnums=0)
def initial_of(network: Network, key: Array, j: int, x: Array) -> Params:
    """Member j's initial parameters, for inputs shaped like ``x``."""
    return network.init(jax.random.fold_in(key, j), x)


@jax.jit
def noise_seed_of(key: Array, j: int, lone: bool = False) -> Array:
    """Three words from which member j's score noise is made: two that its pair shares, and 0 or 1.

    A member without a partner has words of its own.
    """
    number = jnp.where(lone, _LONE + j, j // 2)
    of_pair = jax.random.bits(jax.random.fold_in(key, number), (2,), jnp.uint32)
    return jnp.append(of_pair, jnp.where(lone, 0, j % 2).astype(of_pair.dtype))


@jax.jit
def draw_keys(key: Array) -> tuple[Array, Array, Array, Array]:
    """Keys of the anchors, of the initial draws and of score noise; seed of the batch order."""
    key_anchor, key_init, key_noise, key_order = jax.random.split(key, 4)
    return key_anchor, key_init, key_noise, jax.random.bits(key_order, dtype=jnp.uint32)


def _padded_folds(folds: Folds, data: Data) -> Array:
    of_row = np.full(len(data.weight), Folds.IN_NONE, np.int32)
    of_row[: data.n_rows] = folds.of_row
    return on_device(of_row)
