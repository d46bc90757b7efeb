"""Fully connected network of any depth."""

import dataclasses
import itertools
from typing import ClassVar

from anchored.core.networks._layers import (
    ACTIVATIONS,
    affine,
    check_activation,
    init_layers,
    layer_variances,
    sizes,
)
from anchored.typing import Array, Params


@dataclasses.dataclass(frozen=True)
class MLP:
    """Dense layers of the given widths; ``hidden=()`` is a linear model with a bias.

    Parameters
    ----------
    hidden : width of each hidden layer.
    n_outputs : outputs of the last layer, which is linear and has no bias.
    activation : relu, leaky_relu (slope 0.2), erf, tanh, gelu or softplus.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import MLP
    >>> network = MLP((50,), n_outputs=2)
    >>> x = np.ones((3, 4), np.float32)
    >>> params = network.init(jax.random.key(0), x)
    >>> network.apply(params, x).shape
    (3, 2)
    """

    hidden: tuple[int, ...] = (50,)
    n_outputs: int = 1
    activation: str = "relu"
    vmappable: ClassVar[bool] = True
    takes_tokens: ClassVar[bool] = False
    layered: ClassVar[bool] = True

    def __post_init__(self):
        check_activation(self.activation)
        object.__setattr__(self, "hidden", sizes("hidden", self.hidden))
        sizes("n_outputs", self.n_outputs)

    def init(self, key: Array, x: Array) -> Params:
        widths = (x.shape[-1], *self.hidden, self.n_outputs)
        return init_layers(key, list(itertools.pairwise(widths)))

    def apply(self, params: Params, x: Array) -> Array:
        for layer in params[:-1]:
            x = ACTIVATIONS[self.activation](affine(layer, x))
        return affine(params[-1], x)

    def prior_variances(self, params: Params, first_var: float) -> Params:
        return layer_variances(params, first_var)
