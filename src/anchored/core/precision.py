"""The number type of training: single, double, or half precision with bfloat16.

``float64`` holds rows, parameters and steps in double precision. ``bfloat16`` runs the networks in
16 bits and keeps what is trained in 32, so that small steps are not lost; the members are rounded
to 16 bits at the end, and predict in single precision with those parameters.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.errors import unknown_name
from anchored.typing import Array, Network, Params

DTYPES = ("float32", "float64", "bfloat16")


def checked_dtype(dtype: Any) -> str:
    if dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    return dtype


def real_type(dtype: str) -> Any:
    """The number type of rows and parameters."""
    return np.float64 if dtype == "float64" else np.float32


def as_real(tree: Params, dtype: str) -> Params:
    """Parameters in the type that training holds them in; by NumPy, which compiles nothing."""
    real = real_type(dtype)

    def cast(leaf: Any) -> Any:
        return leaf if leaf.dtype == real else jax.device_put(np.asarray(leaf).astype(real))

    return jax.tree.map(cast, tree)


def is_double(tree: Params) -> bool:
    """Whether parameters are in double precision."""
    return any(getattr(leaf, "dtype", None) == np.float64 for leaf in jax.tree.leaves(tree))


def doubled(when: Callable[..., bool]) -> Callable:
    """Runs a function in JAX's double precision if ``when`` of its arguments is true."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args, **kwargs):
            if not when(*args, **kwargs):
                return function(*args, **kwargs)
            with jax.enable_x64(True):
                return function(*args, **kwargs)

        return run

    return decorate


def in_threads_too(function: Callable) -> Callable:
    """The function with the precision of the current thread, even if another thread runs it."""
    double = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]

    def run(*args):
        with jax.enable_x64(double):
            return function(*args)

    return run


@dataclasses.dataclass(frozen=True)
class Rounded:
    """A network that computes in bfloat16, whatever its parameters and inputs are held in."""

    network: Network

    def __getattr__(self, name: str) -> Any:
        if name == "network":
            raise AttributeError(name)
        return getattr(self.network, name)

    def init(self, key: Array, x: Array) -> Params:
        return self.network.init(key, x)

    def apply(self, params: Params, x: Array) -> Array:
        outputs = self.network.apply(jax.tree.map(_half, params), _half(x))
        return outputs.astype(jnp.float32)


def _half(leaf: Array) -> Array:
    real = jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf.astype(jnp.bfloat16) if real else leaf


def rounded_members(params: Params) -> Params:
    """Parameters that bfloat16 holds, in single precision; by NumPy, which compiles nothing."""
    return jax.tree.map(
        lambda leaf: jax.device_put(np.asarray(leaf).astype(jnp.bfloat16).astype(np.float32)),
        params,
    )
