"""Distributions of a target row given the outputs of one member.

Each has ``log_prob``, ``mean``, ``variance`` and ``sample`` and works on
outputs [batch, out] and targets [batch, target]. Numbers inside (the noise) are
pytree leaves, so another noise level does not compile another program. A likelihood of
your own is any hashable object with these methods; see `anchored.typing.Likelihood`.

``score_noise`` turns standard normals z [batch, out] into noise of covariance F(outputs), the
Fisher information of the outputs. Yours may leave it out; see `anchored.core.score_noise`.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from anchored.typing import Array, Number


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian:
    """y ~ N(outputs, noise_var), noise_var a scalar or one value for each output.

    >>> import jax.numpy as jnp
    >>> from anchored import Gaussian
    >>> likelihood = Gaussian(0.04)
    >>> outputs, y = jnp.array([[1.0], [2.0]]), jnp.array([[1.1], [2.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    0.57
    """

    noise_var: Number
    family: ClassVar[str] = "gaussian"

    def log_prob(self, outputs: Array, y: Array) -> Array:
        return jnp.sum(jax.scipy.stats.norm.logpdf(y, outputs, jnp.sqrt(self.noise_var)), axis=-1)

    def mean(self, outputs: Array) -> Array:
        return outputs

    def variance(self, outputs: Array) -> Array:
        return jnp.broadcast_to(jnp.asarray(self.noise_var, outputs.dtype), outputs.shape)

    def sample(self, key: Array, outputs: Array) -> Array:
        noise = jax.random.normal(key, outputs.shape, outputs.dtype)
        return outputs + jnp.sqrt(self.variance(outputs)) * noise

    def score_noise(self, outputs: Array, z: Array) -> Array:
        """Noise in the score of each row, from standard normal ``z`` shaped like the outputs."""
        return z / jnp.sqrt(self.variance(outputs))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HeteroskedasticGaussian:
    """y ~ N(m, softplus(r) + floor): the first half of the outputs is m, the second r.

    >>> import jax.numpy as jnp
    >>> from anchored import HeteroskedasticGaussian
    >>> likelihood = HeteroskedasticGaussian()
    >>> outputs, y = jnp.array([[1.0, 0.0]]), jnp.array([[1.5]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -0.92
    """

    floor: float = dataclasses.field(default=1e-6, metadata={"static": True})
    family: ClassVar[str] = "gaussian"

    def log_prob(self, outputs: Array, y: Array) -> Array:
        scale = jnp.sqrt(self.variance(outputs))
        return jnp.sum(jax.scipy.stats.norm.logpdf(y, self.mean(outputs), scale), axis=-1)

    def mean(self, outputs: Array) -> Array:
        return outputs[..., : outputs.shape[-1] // 2]

    def variance(self, outputs: Array) -> Array:
        return jax.nn.softplus(outputs[..., outputs.shape[-1] // 2 :]) + self.floor

    def sample(self, key: Array, outputs: Array) -> Array:
        mean = self.mean(outputs)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        return mean + jnp.sqrt(self.variance(outputs)) * noise

    def score_noise(self, outputs: Array, z: Array) -> Array:
        """Noise in the score of each row, from standard normal ``z`` shaped like the outputs."""
        var, n = self.variance(outputs), outputs.shape[-1] // 2
        slope = jax.nn.sigmoid(outputs[..., n:])  # of the variance in r; F is slope^2 / (2 var^2)
        roots = [1 / jnp.sqrt(var), slope / (jnp.sqrt(2.0) * var)]
        return jnp.concatenate(roots, axis=-1) * z


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Categorical:
    """One of K classes; outputs are logits [batch, K], y is the class index [batch, 1].

    >>> import jax.numpy as jnp
    >>> from anchored import Categorical
    >>> likelihood = Categorical()
    >>> outputs, y = jnp.array([[2.0, 0.0, 0.0]]), jnp.array([[0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -0.24
    """

    family: ClassVar[str] = "categorical"

    def log_prob(self, outputs: Array, y: Array) -> Array:
        index = y.astype(jnp.int32)
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), index, axis=-1)[..., 0]

    def mean(self, outputs: Array) -> Array:
        return jax.nn.softmax(outputs)

    def variance(self, outputs: Array) -> Array:
        p = self.mean(outputs)
        return p * (1 - p)

    def sample(self, key: Array, outputs: Array) -> Array:
        return jax.random.categorical(key, outputs)[..., None]

    def score_noise(self, outputs: Array, z: Array) -> Array:
        """Noise in the score of each row, from standard normal ``z`` shaped like the outputs."""
        p = self.mean(outputs)  # F is diag(p) - p p', its root diag(sqrt(p)) - p sqrt(p)'
        scaled = jnp.sqrt(p) * z
        return scaled - p * jnp.sum(scaled, axis=-1, keepdims=True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Bernoulli:
    """Independent yes/no targets in {0, 1}; outputs are logits.

    >>> import jax.numpy as jnp
    >>> from anchored import Bernoulli
    >>> likelihood = Bernoulli()
    >>> outputs, y = jnp.array([[2.0]]), jnp.array([[1.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -0.13
    """

    family: ClassVar[str] = "bernoulli"

    def log_prob(self, outputs: Array, y: Array) -> Array:
        return -jnp.sum(jax.nn.softplus(jnp.where(y > 0.5, -outputs, outputs)), axis=-1)

    def mean(self, outputs: Array) -> Array:
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs: Array) -> Array:
        p = self.mean(outputs)
        return p * (1 - p)

    def sample(self, key: Array, outputs: Array) -> Array:
        return jax.random.bernoulli(key, self.mean(outputs)).astype(outputs.dtype)

    def score_noise(self, outputs: Array, z: Array) -> Array:
        """Noise in the score of each row, from standard normal ``z`` shaped like the outputs."""
        return jnp.sqrt(self.variance(outputs)) * z


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Poisson:
    """Counts; outputs are log rates.

    >>> import jax.numpy as jnp
    >>> from anchored import Poisson
    >>> likelihood = Poisson()
    >>> outputs, y = jnp.array([[1.0]]), jnp.array([[3.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -1.51
    """

    family: ClassVar[str] = "poisson"
    discrete: ClassVar[bool] = True

    def log_prob(self, outputs: Array, y: Array) -> Array:
        terms = y * outputs - jnp.exp(outputs) - jax.scipy.special.gammaln(y + 1)
        return jnp.sum(terms, axis=-1)

    def mean(self, outputs: Array) -> Array:
        return jnp.exp(outputs)

    def variance(self, outputs: Array) -> Array:
        return self.mean(outputs)

    def sample(self, key: Array, outputs: Array) -> Array:
        return jax.random.poisson(key, self.mean(outputs)).astype(outputs.dtype)

    def score_noise(self, outputs: Array, z: Array) -> Array:
        """Noise in the score of each row, from standard normal ``z`` shaped like the outputs."""
        return jnp.sqrt(self.variance(outputs)) * z
