"""Deep sea, by bsuite's rules: a chain that needs directed exploration.

A diver starts at the top left of an N x N grid and sinks one row a step. One action goes right and
the other goes left; for every cell, a random draw decides which. Going right costs 0.01 / N. A
treasure of 1 lies at the bottom right. Only N steps to the right in a row reach it, so one random
episode in 2^N finds it. Nothing is random but the map of the actions. An episode has N steps.
"""

import dataclasses
from functools import lru_cache
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.networks import MLP
from anchored.errors import bad_value
from anchored.rl.columns import outputs
from anchored.typing import Array, Params

COST = 0.01  # of N steps right


class Cell(NamedTuple):
    row: Array
    column: Array


@dataclasses.dataclass(frozen=True)
class DeepSea:
    """A `PureEnvironment` of ``size`` x ``size`` cells.

    Parameters
    ----------
    size : N, the number of rows and columns.
    mapping_seed : seed of the map of the actions.
    indexed : observe the number of the cell [1], for a `OneHotMLP`, instead of its one-hot code
        [N^2] as in bsuite.
    """

    size: int = 10
    mapping_seed: int = 42
    indexed: bool = False
    n_actions: ClassVar[int] = 2

    def __post_init__(self):
        if not (isinstance(self.size, int) and self.size >= 1):
            raise bad_value("size", self.size, "a positive whole number")

    @property
    def n_observed(self) -> int:
        return 1 if self.indexed else self.size**2

    @property
    def max_steps(self) -> int:
        return self.size

    def reset(self, key: Array) -> Cell:
        return Cell(jnp.int32(0), jnp.int32(0))

    def observe(self, state: Cell) -> Array:
        """The cell, as its number or one-hot; below the last row there is no cell."""
        number = state.row * self.size + state.column
        if self.indexed:
            return jnp.minimum(number, self.size**2).astype(jnp.float32)[None]
        return jax.nn.one_hot(number, self.size**2)

    def step(self, key: Array, state: Cell, action: Array) -> tuple[Cell, Array, Array, Array]:
        right_is = jnp.asarray(action_mapping(self.size, self.mapping_seed))
        right = action == right_is[state.row, state.column]
        last = self.size - 1
        found = (state.column == last) & right
        reward = found * 1.0 - right * (COST / self.size)
        column = jnp.clip(state.column + jnp.where(right, 1, -1), 0, last)
        state = Cell(state.row + 1, column)
        return state, self.observe(state), reward.astype(jnp.float32), state.row == self.size


@lru_cache
def action_mapping(size: int, seed: int) -> np.ndarray:
    """The action [row, column] that goes right."""
    return np.random.RandomState(seed).binomial(1, 0.5, (size, size))


@dataclasses.dataclass(frozen=True)
class OneHotMLP:
    """An `MLP` whose input is the number [batch, 1] of the one input that is on.

    It equals the network on one-hot inputs, without the products with zeros. One input is on, so in
    the prior the weights of the first layer have variance ``first_var``, like its biases.
    """

    n_inputs: int
    hidden: tuple[int, ...] = (50, 50)
    n_outputs: int = 2
    vmappable: ClassVar[bool] = True
    takes_tokens: ClassVar[bool] = False
    layered: ClassVar[bool] = True

    @property
    def _inner(self) -> MLP:
        return MLP(self.hidden, n_outputs=self.n_outputs)

    def init(self, key: Array, x: Array) -> Params:
        return self._inner.init(key, jnp.zeros((1, self.n_inputs)))

    def apply(self, params: Params, x: Array) -> Array:
        first, *rest = params
        on = x[:, 0].astype(jnp.int32)
        weight = jnp.take(first["weight"], on, axis=0, mode="fill", fill_value=0.0)
        hidden = jax.nn.relu(weight + first["bias"])
        return outputs(MLP(self.hidden[1:], n_outputs=self.n_outputs), tuple(rest), hidden)

    def prior_variances(self, params: Params, first_var: float) -> Params:
        _, *rest = self._inner.prior_variances(params, first_var)
        return ({"weight": first_var, "bias": first_var}, *rest)
