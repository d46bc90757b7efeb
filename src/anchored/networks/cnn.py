"""Convolutional network for images [batch, height, width, channel]."""

import dataclasses
import itertools
from typing import ClassVar

import jax.numpy as jnp
from jax import lax

from anchored._typing import Array, Params
from anchored.networks._layers import (
    ACTIVATIONS,
    affine,
    check_activation,
    init_layers,
    layer_variances,
    sizes,
)


@dataclasses.dataclass(frozen=True)
class ConvNet:
    """Blocks of 3x3 convolutions, each block closed by 2x2 max pooling, then dense layers.

    ``ConvNet(blocks=((64, 64), (128, 128)), hidden=(512,))`` has two blocks of two
    convolutions. Members are trained one after another on CPU, because a ``vmap`` over
    convolution kernels is several times slower there.
    """

    blocks: tuple[tuple[int, ...], ...] = ((8,), (16,))
    hidden: tuple[int, ...] = (32,)
    n_outputs: int = 10
    activation: str = "relu"
    vmappable: ClassVar[bool] = False

    def __post_init__(self):
        check_activation(self.activation)
        blocks = tuple(sizes("blocks", block) for block in self.blocks)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "hidden", sizes("hidden", self.hidden))
        sizes("n_outputs", self.n_outputs)

    def init(self, key: Array, x: Array) -> Params:
        height, width, channels = x.shape[1:]
        shapes: list[tuple[int, ...]] = []
        for block in self.blocks:
            for filters in block:
                shapes.append((3, 3, channels, filters))
                channels = filters
            height, width = height // 2, width // 2
        if height * width == 0:
            raise ValueError(
                f"`blocks` has {len(self.blocks)} poolings, too many for images of shape "
                f"{x.shape[1:]}: each halves height and width."
            )
        widths = (height * width * channels, *self.hidden, self.n_outputs)
        return init_layers(key, [*shapes, *itertools.pairwise(widths)])

    def apply(self, params: Params, x: Array) -> Array:
        activation = ACTIVATIONS[self.activation]
        layers, x = iter(params), x.astype(jnp.float32)
        for block in self.blocks:
            for _ in block:
                x = activation(_convolve(next(layers), x))
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(x.shape[0], -1)
        for _ in self.hidden:
            x = activation(affine(next(layers), x))
        return affine(next(layers), x)

    def prior_variances(self, params: Params, first_var: float) -> Params:
        return layer_variances(params, first_var)


def _convolve(layer: dict[str, Array], x: Array) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    z = lax.conv_general_dilated(x, layer["weight"], (1, 1), "SAME", dimension_numbers=layout)
    return z + layer["bias"]
