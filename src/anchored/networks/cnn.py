"""Convolutional network for images [batch, height, width, channel]."""

import dataclasses
import itertools
from typing import ClassVar

import jax
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

_VGG13 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512))
_LAYOUT = ("NHWC", "HWIO", "NHWC")
_TAPS = tuple(itertools.product(range(3), range(3)))  # offsets of a 3x3 filter
_CHUNK = 5  # images whose shifted copies fit into a core's cache


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

    @classmethod
    def vgg13(cls, n_outputs: int = 10, narrower: int = 1) -> "ConvNet":
        """The paper's CIFAR-10 network; all layers can be made ``narrower`` by a factor."""
        (factor,) = sizes("narrower", narrower)
        blocks = tuple(tuple(max(1, n // factor) for n in block) for block in _VGG13)
        return cls(blocks, (max(1, 512 // factor),), n_outputs)

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
    convolve = _convolve_on_cpu if jax.default_backend() == "cpu" else _same_convolution
    return convolve(layer["weight"], x) + layer["bias"]


def _same_convolution(weight: Array, x: Array) -> Array:
    return lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=_LAYOUT)


# The compiler's own gradient of the filters is up to ten times slower than this one on CPU.
_convolve_on_cpu = jax.custom_vjp(_same_convolution)


def _keep_inputs(weight: Array, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return _same_convolution(weight, x), (weight, x)


def _gradients(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    weight, x = kept
    turned = weight[::-1, ::-1].transpose(0, 1, 3, 2)
    return _filter_gradient(x, slope), _same_convolution(turned, slope)


_convolve_on_cpu.defvjp(_keep_inputs, _gradients)


def _filter_gradient(x: Array, slope: Array) -> Array:
    """Nine matrix products, one for each offset, summed over a few images at a time."""
    n, height, width, channels = x.shape
    spare = -n % _CHUNK
    x = jnp.pad(x, ((0, spare), (1, 1), (1, 1), (0, 0)))
    slope = jnp.pad(slope, ((0, spare), (0, 0), (0, 0), (0, 0)))

    def add(total: Array, chunk: tuple[Array, Array]) -> tuple[Array, None]:
        images, flat = chunk[0], chunk[1].reshape(-1, slope.shape[-1])
        products = [
            images[:, i : i + height, j : j + width].reshape(-1, channels).T @ flat
            for i, j in _TAPS
        ]
        return total + jnp.stack(products), None

    def chunked(array: Array) -> Array:
        return array.reshape(-1, _CHUNK, *array.shape[1:])

    zero = jnp.zeros((len(_TAPS), channels, slope.shape[-1]), x.dtype)
    total, _ = lax.scan(add, zero, (chunked(x), chunked(slope)))
    return total.reshape(3, 3, channels, -1)
