"""Covariance of an infinitely wide network under its prior (the NNGP recursion).

For a hidden layer with pre-activation covariance k, the next one's is

    bias_var + weight_var * fan_in * E[phi(z) phi(z')],   (z, z') ~ N(0, k)

and the expectation is closed-form for ReLU and leaky ReLU (Cho and Saul 2009; Tsuchida et al. 2018)
and for erf (Williams 1996). Everything is one array expression. Call it with 64-bit types enabled,
as `gp` does: noise variances of 1e-7 need them.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Chebyshev

from anchored.errors import unknown_name
from anchored.typing import Array, Number


@dataclasses.dataclass(frozen=True)
class Rectifier:
    """phi(z) is slope * z below zero and z above; slope 0 is ReLU."""

    slope: float = 0.0

    def covariance(self, k12: Array, k11: Array, k22: Array) -> Array:
        return self.slope * k12 + (1 - self.slope) ** 2 * _both_on(k12, k11, k22)

    def variance(self, k: Array) -> Array:
        return 0.5 * (1 + self.slope**2) * k


@dataclasses.dataclass(frozen=True)
class ErrorFunction:
    """phi = erf."""

    def covariance(self, k12: Array, k11: Array, k22: Array) -> Array:
        return jnp.arcsin(2 * k12 / jnp.sqrt((1 + 2 * k11) * (1 + 2 * k22))) * 2 / jnp.pi

    def variance(self, k: Array) -> Array:
        return jnp.arcsin(2 * k / (1 + 2 * k)) * 2 / jnp.pi


@jax.custom_jvp
def _both_on(k12: Array, k11: Array, k22: Array) -> Array:
    """E[z z'; z > 0, z' > 0] = (norm sin t + (pi - t) k12) / 2 pi, with k12 = norm cos t."""
    return _both_on_jvp((k12, k11, k22), (0.0, 0.0, 0.0))[0]


@_both_on.defjvp
def _both_on_jvp(primals, tangents):
    # Finite at cos t = 1, where the derivatives of sin t and t are not.
    (k12, k11, k22), (d12, d11, d22) = primals, tangents
    root1, root2 = jnp.sqrt(k11), jnp.sqrt(k22)
    norm = root1 * root2
    cos = jnp.clip(k12 / norm, -1.0, 1.0)
    sin, on = jnp.sqrt(1 - cos * cos), jnp.pi - _arccos(cos)
    in_norm = 0.5 * (root2 / root1 * d11 + root1 / root2 * d22)
    return tuple(v / (2 * jnp.pi) for v in (norm * sin + on * k12, sin * in_norm + on * d12))


# arcsin(s) / s as a polynomial in s^2 up to 1/2, to 13 digits.
_ARCSIN = Chebyshev.interpolate(lambda s2: np.arcsin(np.sqrt(s2)) / np.sqrt(s2), 22, (0.0, 0.5))


def _arccos(cos: Array) -> Array:
    """JAX's own takes ten times as long on a CPU, and the kernel is little else."""
    half = 0.5 * (1 - jnp.abs(cos))  # the square of sin(t / 2)
    z, later, last = 8 * half - 2, jnp.zeros_like(half), jnp.zeros_like(half)
    for coefficient in _ARCSIN.coef[:0:-1]:  # Clenshaw's recurrence, for twice the argument
        later, last = coefficient + z * later - last, later
    angle = 2 * jnp.sqrt(half) * (_ARCSIN.coef[0] + 0.5 * z * later - last)
    return jnp.where(cos < 0, jnp.pi - angle, angle)


EXACT = {"relu": Rectifier(0.0), "leaky_relu": Rectifier(0.2), "erf": ErrorFunction()}
# Activations without a closed form here borrow the nearest that has one, for tuning only.
NEAREST = EXACT | {"tanh": EXACT["erf"], "gelu": EXACT["relu"], "softplus": EXACT["relu"]}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Kernel:
    """Prior covariance of the outputs of an infinitely wide fully connected network.

    Parameters
    ----------
    bias_var : variance of the input layer's biases.
    weight_var : variance of the input layer's weights, a scalar or one for each feature.
    later : for each later layer its bias variance and its weight variance times fan-in.
    activation : an entry of `EXACT`.
    """

    bias_var: Number
    weight_var: Number
    later: tuple[tuple[Number, Number], ...]
    activation: Rectifier | ErrorFunction = dataclasses.field(metadata={"static": True})

    @classmethod
    def paper(
        cls,
        first_var,
        n_features: int,
        hidden: tuple[int, ...],
        activation: str,
        relevance: Number = 1.0,
    ) -> "Kernel":
        """The twin of an MLP under the paper's prior; hidden biases have variance 1 / fan_in.

        ``relevance`` [feature] multiplies the variance of each feature's weights.
        """
        if activation not in NEAREST:
            raise unknown_name("activation", activation, NEAREST)
        inner = tuple((1.0 / width, 1.0) for width in hidden[:-1])
        last = ((0.0, 1.0),) if hidden else ()
        weight_var = first_var / n_features * relevance
        return cls(first_var, weight_var, inner + last, NEAREST[activation])

    def covariance(self, x1: Array, x2: Array) -> Array:
        """Covariance [batch1, batch2] between the outputs at two sets of inputs."""
        k12 = self.bias_var + (x1 * self.weight_var) @ x2.T
        k11, k22 = self._first_variance(x1)[:, None], self._first_variance(x2)[None, :]
        for bias_var, weight_var in self.later:
            k12 = bias_var + weight_var * self.activation.covariance(k12, k11, k22)
            k11 = bias_var + weight_var * self.activation.variance(k11)
            k22 = bias_var + weight_var * self.activation.variance(k22)
        return k12

    def variance(self, x: Array) -> Array:
        """Variance [batch] of the output at each input."""
        k = self._first_variance(x)
        for bias_var, weight_var in self.later:
            k = bias_var + weight_var * self.activation.variance(k)
        return k

    def _first_variance(self, x: Array) -> Array:
        return self.bias_var + jnp.sum(x * x * self.weight_var, axis=-1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Waves:
    """Prior covariance of an infinitely wide layer of cosines with uniform phases.

    Their weights are Student-t with 5 degrees of freedom, which makes it Matern's with nu = 5/2.

    Parameters
    ----------
    output_var : variance of the sum of all cosines.
    weight_var : squared scale of the weights of each feature: one over a squared length.
    """

    output_var: Number
    weight_var: Number
    dof: ClassVar[int] = 5

    def covariance(self, x1: Array, x2: Array) -> Array:
        """Covariance [batch1, batch2] between the outputs at two sets of inputs."""
        square1, square2 = (jnp.sum(x * x * self.weight_var, axis=-1) for x in (x1, x2))
        square = square1[:, None] + square2[None, :] - 2 * (x1 * self.weight_var) @ x2.T
        far = jnp.sqrt(self.dof * jnp.maximum(square, 1e-18))
        return self.output_var * (1 + far + far * far / 3) * jnp.exp(-far)

    def variance(self, x: Array) -> Array:
        """Variance [batch] of the output at each input."""
        return self.output_var * jnp.ones(len(x))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sum:
    """Prior covariance of the sum of an infinitely wide network and a layer of cosines."""

    network: Kernel
    waves: Waves

    def covariance(self, x1: Array, x2: Array) -> Array:
        """Covariance [batch1, batch2] between the outputs at two sets of inputs."""
        return self.network.covariance(x1, x2) + self.waves.covariance(x1, x2)

    def variance(self, x: Array) -> Array:
        """Variance [batch] of the output at each input."""
        return self.network.variance(x) + self.waves.variance(x)
