"""Outputs of trained members for any number of rows, computed some rows at a time."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from anchored.core.members import best_member_map, n_members_of
from anchored.core.packing import Packed, is_several
from anchored.core.precision import doubled, is_double
from anchored.core.rows import HostRows, input_type, rows_at_once
from anchored.core.sampled import moments_of
from anchored.core.tree import as_pytree, from_pytree, on_device
from anchored.typing import Array, Likelihood, Network, Params

_LEAST_ROWS = 256  # predicted at a time


@doubled(lambda network, params, x: is_double(params))
def member_outputs(network: Network, params: Params, x) -> np.ndarray:
    """Outputs [member, batch, out] of each of ``params``, before a likelihood reads them."""
    return in_blocks(network, _Outputs(network), params, None, x)[0]


@doubled(lambda network, likelihood, params, x: is_double(params))
def member_moments(network: Network, likelihood: Likelihood, params: Params, x):
    """Mean and variance [member, batch, target] of the target under each of ``params``.

    Computed in blocks of rows, so memory does not grow with ``x``.
    """
    mean, var = in_blocks(network, _Moments(network), params, as_pytree(likelihood), x)
    return mean, var


def in_blocks(network: Network, function, params: Params, shared, x) -> list[np.ndarray]:
    """Results of ``function`` for each of ``params`` and block of rows, put together."""
    member_map = best_member_map(network, n_members_of(params))
    if isinstance(network, Packed) and is_several(x):
        x = network.layout.pack(x)
    x = x if isinstance(x, HostRows) else np.asarray(x)
    parts = []
    for block, n_rows in _blocks(x, np.float64 if is_double(params) else np.float32):
        result = member_map.apply(function, params, (shared, block))
        parts.append([np.asarray(array)[:, :n_rows] for array in result])
    return [np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)]


@dataclasses.dataclass(frozen=True)
class _Moments:
    """Moments of the target under one member."""

    network: Network

    def __call__(self, params: Params, shared) -> tuple[Array, Array]:
        likelihood, x = from_pytree(shared[0]), shared[1]
        return moments_of(likelihood, self.network.apply(params, x))


@dataclasses.dataclass(frozen=True)
class _Outputs:
    """Outputs of one member."""

    network: Network

    def __call__(self, params: Params, shared) -> tuple[Array]:
        return (self.network.apply(params, shared[1]),)


def _blocks(x: np.ndarray | HostRows, real: Any) -> Iterator[tuple[Array, int]]:
    """Blocks of rows padded to powers of two, so that few programs serve any length."""
    most = rows_at_once(x)
    for start in range(0, max(len(x), 1), most):
        block = x[start : start + most]
        size = max(_LEAST_ROWS, 1 << max(len(block) - 1, 0).bit_length())
        filled = np.zeros((size, *x.shape[1:]), input_type(x.dtype, real))
        filled[: len(block)] = block
        yield on_device(filled), len(block)
