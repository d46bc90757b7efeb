"""The protocols every part of the library is written against.

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

    Implementations are hashable (frozen dataclasses): a network is part of the key
    under which a compiled program is found again.
    """

    # Traits that a network may leave out: `traits` fills these defaults in.
    vmappable: ClassVar[bool] = True  # ``vmap`` over members is fast on CPU (not of convolutions)
    takes_tokens: ClassVar[bool] = False  # inputs are whole numbers of words, not standardised
    layered: ClassVar[bool] = False  # parameters are a tuple of layers, of which the last is linear

    def init(self, key: Array, x: Array) -> Params:
        """Draw initial parameters; ``x`` [batch, ...] is only looked at for its shape."""
        ...

    def apply(self, params: Params, x: Array) -> Array:
        """Map inputs [batch, ...] to outputs [batch, out]."""
        ...

    def prior_variances(self, params: Params, first_var: float) -> Params:
        """The paper's prior variance of each parameter; ``first_var`` sets the input layer's."""
        ...


class Traits(NamedTuple):
    """What a network says of itself."""

    vmappable: bool
    takes_tokens: bool
    layered: bool


def traits(network: Any) -> Traits:
    """Of a network, with the protocol's defaults for those it leaves out."""
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
    """What is to be done for each of some pieces: ``function(shared, piece, report)``."""

    function: Callable
    shared: Any
    pieces: list


OnProgress = Callable[[int, Any], None]  # a piece's place, and what was reported of it


class Executor(Protocol):
    """Who trains chunks of members: workers of a cluster, or this process."""

    @property
    def chunk(self) -> int | None:
        """Members of a chunk; None for as many as one program trains on one machine."""
        ...

    def map(self, work: Work, on_progress: OnProgress | None) -> list:
        """What ``work`` gives for every piece, in order.

        What its function hands to ``report`` arrives at ``on_progress`` with the piece's place.
        """
        ...


class MemberMap(Protocol):
    """How a function of one member is carried out for all members (see `scaling`)."""

    def loop(
        self, body: Callable, state: Params, own: Params, shared: Params, n_steps: int
    ) -> Params:
        """Apply ``body(state_j, own_j, shared, i)`` for ``i < n_steps`` to every member j."""
        ...

    def apply(self, function: Callable, own: Params, shared: Params) -> Params:
        """Stack ``function(own_j, shared)`` over the members."""
        ...
