"""What the networks share: activations, initial draws and the paper's prior variances.

Parameters of a network are a tuple of layers, each a dict with ``weight``
[..., in, out] and mostly ``bias`` [out]. The last layer has no bias, as in the paper.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.tree import Raveller
from anchored.errors import bad_value, unknown_name
from anchored.model.forward import LEAKY_SLOPE
from anchored.typing import Array, Params

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "leaky_relu": lambda z: jnp.where(z > 0, z, LEAKY_SLOPE * z),
    "erf": jax.scipy.special.erf,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
}


def check_activation(name: str) -> None:
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)


def sizes(argument: str, value: int | Iterable[int]) -> tuple[int, ...]:
    """A tuple of positive whole numbers, from one number or several."""
    several = tuple(value) if isinstance(value, Iterable) else (value,)
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in several)
    if not (whole and all(n >= 1 for n in several)):
        raise bad_value(argument, value, "a positive whole number or a tuple of them")
    return tuple(int(n) for n in several)


def init_layers(key: Array, shapes: Sequence[tuple[int, ...]]) -> Params:
    """Layers with weights of the given shapes, the last one without a bias unless alone.

    Weights are normal with variance 1 / fan_in, biases zero.
    """
    # A single vector of normals: each separate draw would cost a compilation of its own.
    raveller = Raveller(jax.tree.structure(list(shapes), is_leaf=_is_shape), tuple(shapes))
    normals = raveller.unravel(jax.random.normal(key, (raveller.size,)))
    layers = []
    for index, weight in enumerate(normals):
        layer = {"weight": weight / math.sqrt(fan_in(weight.shape))}
        if index < len(shapes) - 1 or len(shapes) == 1:
            layer["bias"] = jnp.zeros(weight.shape[-1])
        layers.append(layer)
    return tuple(layers)


def _is_shape(node) -> bool:
    return isinstance(node, tuple)


def fan_in(weight_shape: tuple[int, ...]) -> int:
    """How many inputs reach one output: all axes of the weight but the last."""
    return math.prod(weight_shape[:-1])


def layer_variances(params: Params, first_var: float | None) -> Params:
    """The paper's prior variances for a tuple of layers.

    Input layer: ``first_var`` for the bias, ``first_var / fan_in`` for the weight.
    Later layers, and all of them if ``first_var`` is None: ``1 / fan_in`` for both.
    """

    def layer(index: int, leaves: dict) -> dict:
        n_in = fan_in(leaves["weight"].shape)
        if index == 0 and first_var is not None:
            return {n: first_var / n_in if n == "weight" else first_var for n in leaves}
        return dict.fromkeys(leaves, 1.0 / n_in)

    return tuple(layer(index, leaves) for index, leaves in enumerate(params))


def affine(layer: dict[str, Array], x: Array) -> Array:
    """x @ weight (+ bias)."""
    z = x @ layer["weight"]
    return z + layer["bias"] if "bias" in layer else z
