"""Shapley values of functions of trained members, by sampling paths from one row to another.

A path goes from a background row b to the row x that is explained: column by column, in random
order, cells of b become those of x. The gain of a function at a step is due to the column that
changed. The gains along a path add up to f(x) - f(b). So the averages over paths add up to f(x)
minus the average of f over the background rows that were used. This is exact for any number of
paths. Each path is also walked in the opposite order (antithetic sampling), so the values are also
exact if at most two columns interact at a time.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from anchored.core.members import best_member_map, n_members_of
from anchored.core.tree import on_device
from anchored.typing import Array, Network, Params


class Paths(NamedTuple):
    """How background rows become the row that is explained.

    Attributes
    ----------
    start : [path] the number of the background row that each begins with.
    rank : [path, column] when the cell of a column changes, from 0 on.
    """

    start: np.ndarray
    rank: np.ndarray

    @classmethod
    def drawn(cls, seed: int, n_background: int, n_columns: int, n_paths: int) -> "Paths":
        """Pairs of opposite paths, as many from each background row."""
        rng = np.random.default_rng(seed)
        rounds = max(1, -(-n_paths // (2 * n_background)))
        forth = rng.permuted(np.tile(np.arange(n_columns), (rounds * n_background, 1)), axis=1)
        rank = np.stack([forth, n_columns - 1 - forth], axis=1).reshape(-1, n_columns)
        return cls(np.tile(np.repeat(np.arange(n_background), 2), rounds), rank)

    def __len__(self) -> int:
        return len(self.start)

    def gains(self, values: np.ndarray) -> np.ndarray:
        """What each column gained [path, column, ...], of values [path, step, ...] on the way."""
        steps = np.diff(values, axis=1)
        index = self.rank.reshape(*self.rank.shape, *[1] * (values.ndim - 2))
        return np.take_along_axis(steps, index, axis=1)


class OnPaths(NamedTuple):
    """Inputs [path, step, input], and outputs [member, path, step, out] of the members there."""

    inputs: np.ndarray
    outputs: np.ndarray


def walked(
    network: Network, params: Params, x: np.ndarray, start: np.ndarray, rank: np.ndarray, column
) -> OnPaths:
    """The members along the paths to the row ``x`` [input], by one compiled program.

    ``start`` [path, input] is where paths begin, ``rank`` [path, column] when columns change, and
    ``column`` [input] the number of the column that each input comes from.
    """
    members = best_member_map(network, n_members_of(params))
    shared = tuple(on_device(np.asarray(part)) for part in (x, start, rank, column))
    inputs, outputs = members.apply(_Walk(network), params, shared)
    return OnPaths(np.asarray(inputs)[0], np.asarray(outputs))


@dataclasses.dataclass(frozen=True)
class _Walk:
    """Inputs and outputs of one member on paths."""

    network: Network

    def __call__(self, params: Params, shared) -> tuple[Array, Array]:
        x, start, rank, column = shared
        steps = jnp.arange(rank.shape[1] + 1)
        changed = rank[:, None, column] < steps[None, :, None]
        inputs = jnp.where(changed, x, start[:, None])
        outputs = self.network.apply(params, inputs.reshape(-1, x.shape[0]))
        return inputs, outputs.reshape(*inputs.shape[:2], -1)
