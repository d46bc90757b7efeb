"""Environments as pure functions, so that a whole run is one compiled program."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from anchored.typing import Array


@runtime_checkable
class PureEnvironment(Protocol):
    """An environment whose functions JAX can trace, for one episode.

    An environment with discrete actions must be hashable (a frozen dataclass), because it is part
    of the key of a compiled program. An environment with continuous actions may also be a pytree,
    whose numbers can change without a new compilation.

    Attributes
    ----------
    n_observed : length of an observation.
    max_steps : an episode that has not ended after this many steps is cut off, and the agent learns
        that it would have continued.
    """

    @property
    def n_observed(self) -> int:
        """Length of an observation."""
        ...

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is cut off."""
        ...

    def reset(self, key: Array) -> Any:
        """The state at the start of an episode."""
        ...

    def observe(self, state: Any) -> Array:
        """What the agent sees of a state [feature]."""
        ...

    def step(self, key: Array, state: Any, action: Array) -> tuple[Any, Array, Array, Array]:
        """The next state, its observation, the reward, and whether the episode is over."""
        ...


@runtime_checkable
class DiscreteEnvironment(PureEnvironment, Protocol):
    """A pure environment whose actions are the whole numbers below ``n_actions``."""

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        ...


@runtime_checkable
class ContinuousEnvironment(PureEnvironment, Protocol):
    """A pure environment whose actions are vectors between two bounds."""

    @property
    def action_low(self) -> np.ndarray:
        """Least value of each action."""
        ...

    @property
    def action_high(self) -> np.ndarray:
        """Largest value of each action."""
        ...
