"""The protocols that every part of the library uses.

Axis words, used in all docstrings: ``member`` (always axis 0, never folded into
another), ``batch`` (rows), ``feature`` (inputs), ``out`` (network outputs).
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax

Array = jax.Array
Number = Any  # a scalar or array, NumPy's or JAX's
Params = Any  # a pytree of arrays: the parameters of one member, or of all of them stacked


@runtime_checkable
class Network(Protocol):
    """A function family, written for ONE member.

    Implementations must be hashable (frozen dataclasses), because a network is part of the key of a
    compiled program.
    """

    # Traits that a network may leave out: `traits` fills these defaults in.
    vmappable: ClassVar[bool] = True  # ``vmap`` over members is fast on CPU (not of convolutions)
    takes_tokens: ClassVar[bool] = False  # inputs are whole numbers of words, not standardised
    layered: ClassVar[bool] = False  # parameters are a tuple of layers, of which the last is linear

    def init(self, key: Array, x: Array) -> Params:
        """Draw initial parameters; only the shape of ``x`` [batch, ...] matters."""
        ...

    def apply(self, params: Params, x: Array) -> Array:
        """Map inputs [batch, ...] to outputs [batch, out]."""
        ...

    def prior_variances(self, params: Params, first_var: float) -> Params:
        """The paper's prior variance of each parameter; ``first_var`` sets the input layer's."""
        ...


class Traits(NamedTuple):
    """Properties of a network."""

    vmappable: bool
    takes_tokens: bool
    layered: bool


def traits(network: Any) -> Traits:
    """The properties of a network, with the protocol's defaults for missing ones."""
    return Traits(*(getattr(network, name, getattr(Network, name)) for name in Traits._fields))


@runtime_checkable
class Likelihood(Protocol):
    """The distribution of a target row given the outputs of one member.

    It may also have ``score_noise(outputs, z)``; see `anchored.core.likelihoods`.
    """

    # How `Predictive` reads the moments: gaussian, categorical, bernoulli or poisson.
    family: ClassVar[str]

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log density of each row: outputs [batch, out], y [batch, target] -> [batch]."""
        ...

    def mean(self, outputs: Array) -> Array:
        """E[y | outputs], shape [batch, target]."""
        ...

    def variance(self, outputs: Array) -> Array:
        """Var[y | outputs], shape [batch, target]."""
        ...

    def sample(self, key: Array, outputs: Array) -> Array:
        """One draw of y for each row."""
        ...


class Work(NamedTuple):
    """Some work for each piece: the call ``function(shared, piece, report)``."""

    function: Callable
    shared: Any
    pieces: list


OnProgress = Callable[[int, Any], None]  # a piece's place, and what was reported of it


class Executor(Protocol):
    """Trains chunks of members: workers of a cluster, or this process."""

    @property
    def chunk(self) -> int | None:
        """Members in a chunk; None for as many as one program trains on one machine."""
        ...

    def map(self, work: Work, on_progress: OnProgress | None) -> list:
        """Call the function of ``work`` for every piece, and return the results in order.

        What the function passes to ``report`` reaches ``on_progress`` with the number of the piece.
        """
        ...


class MemberMap(Protocol):
    """How a function of one member is run for all members."""

    def loop(
        self, body: Callable, state: Params, own: Params, shared: Params, n_steps: int
    ) -> Params:
        """Apply ``body(state_j, own_j, shared, i)`` for ``i < n_steps`` to every member j."""
        ...

    def apply(self, function: Callable, own: Params, shared: Params) -> Params:
        """Stack ``function(own_j, shared)`` over the members."""
        ...
