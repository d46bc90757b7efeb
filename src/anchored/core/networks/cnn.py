"""Convolutional network for images [batch, height, width, channel]."""

import dataclasses
import itertools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from anchored.core.networks._layers import (
    ACTIVATIONS,
    affine,
    check_activation,
    init_layers,
    layer_variances,
    sizes,
)
from anchored.typing import Array, Params

_VGG13 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512))
_LAYOUT = ("NHWC", "HWIO", "NHWC")
_TAPS = tuple(itertools.product(range(3), range(3)))  # offsets of a 3x3 filter
_CHUNK = 2  # images whose shifted copies fit into a core's cache
_FEW = 32  # channels out of a convolution below which a core has too little to do at a time


@dataclasses.dataclass(frozen=True)
class ConvNet:
    """Blocks of 3x3 convolutions, each block closed by 2x2 max pooling, then dense layers.

    ``ConvNet(blocks=((64, 64), (128, 128)), hidden=(512,))`` has two blocks of two
    convolutions. Members are trained one after another on CPU, because a ``vmap`` over
    convolution kernels is several times slower there.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import ConvNet
    >>> network = ConvNet(blocks=((4,),), hidden=(8,), n_outputs=3)
    >>> images = np.ones((2, 8, 8, 1), np.float32)
    >>> params = network.init(jax.random.key(0), images)
    >>> network.apply(params, images).shape
    (2, 3)
    """

    blocks: tuple[tuple[int, ...], ...] = ((8,), (16,))
    hidden: tuple[int, ...] = (32,)
    n_outputs: int = 10
    activation: str = "relu"
    vmappable: ClassVar[bool] = False
    takes_tokens: ClassVar[bool] = False
    layered: ClassVar[bool] = True

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
        layers, x = iter(params), x.astype(params[0]["weight"].dtype)
        for block in self.blocks:
            for _ in block:
                x = activation(_convolve(next(layers), x))
            x = _pool(x)
        x = x.reshape(x.shape[0], -1)
        for _ in self.hidden:
            x = activation(affine(next(layers), x))
        return affine(next(layers), x)

    def prior_variances(self, params: Params, first_var: float) -> Params:
        return layer_variances(params, first_var)


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _convolve(layer: dict[str, Array], x: Array) -> Array:
    convolve = _convolve_on_cpu if _on_cpu() else _same_convolution
    return convolve(layer["weight"], x) + layer["bias"]


def _pool(x: Array) -> Array:
    x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    return _pool_on_cpu(x) if _on_cpu() else _largest_of_four(x)


def _same_convolution(weight: Array, x: Array) -> Array:
    return lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=_LAYOUT)


def _largest_of_four(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


# On CPU the compiler's own gradients are slow, that of the filters up to ten times; and so are
# convolutions with few channels. These are the same functions, written for a core.


def _wide_convolution(weight: Array, x: Array) -> Array:
    """Several neighbouring places of the output at a time, as further channels of one place."""
    n_images, height, width, _ = x.shape
    n_out = weight.shape[-1]
    n_together = math.gcd(width, max(1, _FEW // n_out))
    if n_together == 1:
        return _same_convolution(weight, x)
    pads = [(j, n_together - 1 - j) for j in range(n_together)]
    weights = [jnp.pad(weight, ((0, 0), pad, (0, 0), (0, 0))) for pad in pads]
    y = lax.conv_general_dilated(
        x,
        jnp.concatenate(weights, axis=-1),
        (1, n_together),
        ((1, 1), (1, 1)),
        dimension_numbers=_LAYOUT,
    )
    return y.reshape(n_images, height, width, n_out)


def _filter_gradient(x: Array, slope: Array) -> Array:
    """One matrix product with nine shifted copies of the slopes, for a few images at a time."""
    n_images, height, width, n_in = x.shape
    n_out, spare = slope.shape[-1], -n_images % _CHUNK
    x = jnp.pad(x, ((0, spare), (0, 0), (0, 0), (0, 0)))
    slope = jnp.pad(slope, ((0, spare), (1, 1), (1, 1), (0, 0)))

    def add(total: Array, chunk: tuple[Array, Array]) -> tuple[Array, None]:
        flat, slopes = chunk[0].reshape(-1, n_in), chunk[1]
        copies = [slopes[:, 2 - i : 2 - i + height, 2 - j : 2 - j + width] for i, j in _TAPS]
        columns = jnp.concatenate(copies, axis=-1).reshape(-1, len(_TAPS) * n_out)
        return total + flat.T @ columns, None

    def chunked(array: Array) -> Array:
        return array.reshape(-1, _CHUNK, *array.shape[1:])

    zero = jnp.zeros((n_in, len(_TAPS) * n_out), x.dtype)
    total, _ = lax.scan(add, zero, (chunked(x), chunked(slope)))
    return total.reshape(n_in, 3, 3, n_out).transpose(1, 2, 0, 3)


def _keep_inputs(weight: Array, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return _wide_convolution(weight, x), (weight, x)


def _convolution_gradients(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    weight, x = kept
    turned = weight[::-1, ::-1].transpose(0, 1, 3, 2)
    return _filter_gradient(x, slope), _wide_convolution(turned, slope)


def _keep_largest(x: Array) -> tuple[Array, tuple[Array, Array]]:
    largest = _largest_of_four(x)
    return largest, (x, largest)


def _pool_gradient(kept: tuple[Array, Array], slope: Array) -> tuple[Array]:
    """Equal shares for equal inputs, as in the gradient of a maximum."""
    x, largest = kept
    n_images, height, width, channels = largest.shape
    fours = x.reshape(n_images, height, 2, width, 2, channels)
    hit = fours == largest[:, :, None, :, None]
    share = slope / hit.sum((2, 4))
    return (jnp.where(hit, share[:, :, None, :, None], 0.0).reshape(x.shape),)


_convolve_on_cpu = jax.custom_vjp(_wide_convolution)
_convolve_on_cpu.defvjp(_keep_inputs, _convolution_gradients)
_pool_on_cpu = jax.custom_vjp(_largest_of_four)
_pool_on_cpu.defvjp(_keep_largest, _pool_gradient)
