"""Finds the fastest way to run the members of a network on this machine, if it is not given.

One program for all members is faster, except for convolutions on a CPU, whose fast kernels do not
exist under ``vmap``. For convolutions, a step of four members together and a step of one member are
timed once. Members run one by one if this takes less than half the time. With this margin, noise in
the clock does not change the choice.
"""

import time
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from anchored.core.checks import program_on
from anchored.typing import Network, traits

_MEMBERS = 4
_REPEATS = 3
_MARGIN = 2.0


def vmappable(network: Network, row_shape: tuple[int, ...], dtype: Any, n_rows: int) -> bool:
    """Whether members are best run together."""
    if hasattr(network, "vmappable") or jax.default_backend() != "cpu":
        return traits(network).vmappable
    if not program_on(network, row_shape, dtype).convolves:
        return True
    return _together_is_faster(network, row_shape, dtype, n_rows)


@lru_cache
def _together_is_faster(network: Network, row_shape: tuple, dtype: Any, n_rows: int) -> bool:
    x = jnp.zeros((n_rows, *row_shape), dtype)
    keys = jax.random.split(jax.random.key(0), _MEMBERS)
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(network.init(k, x) for k in keys))

    def loss(params: Any) -> Any:
        return jnp.sum(jnp.square(network.apply(params, x)))

    step = jax.grad(loss)
    together = _seconds(jax.jit(jax.vmap(step)), params)
    alone = _seconds(jax.jit(step), jax.tree.map(lambda leaf: leaf[0], params))
    return together < _MARGIN * _MEMBERS * alone


def _seconds(function: Any, params: Any) -> float:
    """The quickest of a few runs, after the one that compiles."""
    jax.block_until_ready(function(params))
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(function(params))
        best = min(best, time.perf_counter() - start)
    return best
