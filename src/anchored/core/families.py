"""Likelihoods beside the usual ones: heavy tails, counts, limits, order, several modes, quantiles.

Each reads ``n_outputs(n_targets)`` outputs of a row. They come in blocks, one for each parameter:
first the location of all targets, then the other parameters. Scales are softplus of an output, plus
a floor. Predictives are represented by samples (`anchored.core.sampled`). A likelihood whose
targets may be standardised says so by ``standardised(mean, scale)``, the likelihood of (y - mean) /
scale.
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import gammaln, logsumexp

from anchored.errors import bad_value
from anchored.typing import Array, Number

_FLOOR = 1e-3  # least scale: a density without a bound would be a target of training


def _blocks(outputs: Array, n: int) -> list[Array]:
    """``n`` parameters [batch, target] each."""
    return jnp.split(outputs, n, axis=-1)


def _scale(raw: Array) -> Array:
    return jax.nn.softplus(raw) + _FLOOR


class _TwoParameters:
    """A location and something else for each target."""

    discrete: ClassVar[bool] = False

    def n_outputs(self, n_targets: int) -> int:
        """Outputs that a network needs: two for each target."""
        return 2 * n_targets


class _LocationScale(_TwoParameters):
    """y = location + scale * z: what differs is the distribution of z."""

    _log_standard: Callable[[Array], Array]  # log density of z
    _standard: Callable[[Array, tuple[int, ...]], Array]  # draws of z, by key and shape

    def standardised(self, mean, scale):
        """The same family, which covers all shifts and scales of the target."""
        return self

    def log_prob(self, outputs: Array, y: Array) -> Array:
        location, raw = _blocks(outputs, 2)
        scale = _scale(raw)
        return jnp.sum(self._log_standard((y - location) / scale) - jnp.log(scale), axis=-1)

    def sample(self, key: Array, outputs: Array) -> Array:
        location, raw = _blocks(outputs, 2)
        return location + _scale(raw) * self._standard(key, location.shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StudentT(_LocationScale):
    """y ~ location + scale * t(dof): outliers have less influence than under a Gaussian.

    >>> import jax.numpy as jnp
    >>> from anchored import StudentT
    >>> likelihood = StudentT(dof=4.0)
    >>> outputs, y = jnp.array([[0.0, 0.5]]), jnp.array([[3.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -3.99
    """

    dof: Number = 4.0

    def _log_standard(self, z: Array) -> Array:
        return stats.t.logpdf(z, self.dof)

    def _standard(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.t(key, self.dof, shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Quantile(_LocationScale):
    """The quantile at ``level``, by the asymmetric Laplace density (the pinball loss).

    >>> import jax.numpy as jnp
    >>> from anchored import Quantile
    >>> likelihood = Quantile(0.9)
    >>> outputs, y = jnp.array([[0.0, 0.5]]), jnp.array([[1.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -3.31
    """

    level: Number = 0.5

    def _log_standard(self, z: Array) -> Array:
        loss = jnp.maximum(self.level * z, (self.level - 1) * z)
        return jnp.log(self.level * (1 - self.level)) - loss

    def _standard(self, key: Array, shape: tuple[int, ...]) -> Array:
        above, below = jax.random.exponential(key, (2, *shape))
        return above / self.level - below / (1 - self.level)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Censored(_TwoParameters):
    """A Gaussian observed between two limits (Tobit): beyond a limit, y is the limit itself.

    >>> import jax.numpy as jnp
    >>> from anchored import Censored
    >>> likelihood = Censored(low=0.0)
    >>> outputs, y = jnp.array([[0.5, 0.5]]), jnp.array([[0.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -1.19
    """

    low: Number = -np.inf
    high: Number = np.inf

    @property
    def atoms(self) -> tuple[float, ...]:
        """Single target values that have a positive probability."""
        return tuple(float(end) for end in (self.low, self.high) if np.isfinite(end))

    def standardised(self, mean, scale):
        """The same limits in standardised units, in double precision like the targets."""
        return Censored((self.low - mean) / scale, (self.high - mean) / scale)

    def log_prob(self, outputs: Array, y: Array) -> Array:
        mean, raw = _blocks(outputs, 2)
        scale = _scale(raw)
        # A limit that is not there must not be divided by: its gradient would not be a number.
        low, high = (jnp.where(jnp.isinf(end), 0.0, end) for end in (self.low, self.high))
        inside = stats.norm.logpdf(y, mean, scale)
        under = stats.norm.logcdf(low, mean, scale)
        over = stats.norm.logcdf(-high, -mean, scale)
        terms = jnp.where(y <= self.low, under, jnp.where(y >= self.high, over, inside))
        return jnp.sum(terms, axis=-1)

    def sample(self, key: Array, outputs: Array) -> Array:
        mean, raw = _blocks(outputs, 2)
        drawn = mean + _scale(raw) * jax.random.normal(key, mean.shape)
        return jnp.clip(drawn, self.low, self.high)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NegativeBinomial(_TwoParameters):
    """Counts of mean exp(f) and variance mean + mean^2 / r, r the softplus of the second output.

    >>> import jax.numpy as jnp
    >>> from anchored import NegativeBinomial
    >>> likelihood = NegativeBinomial()
    >>> outputs, y = jnp.array([[1.0, 0.5]]), jnp.array([[2.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -1.95
    """

    discrete: ClassVar[bool] = True

    def log_prob(self, outputs: Array, y: Array) -> Array:
        log_mean, raw = _blocks(outputs, 2)
        r = _scale(raw)
        log_total = jnp.logaddexp(log_mean, jnp.log(r))
        terms = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
        terms += r * (jnp.log(r) - log_total) + y * (log_mean - log_total)
        return jnp.sum(terms, axis=-1)

    def sample(self, key: Array, outputs: Array) -> Array:
        log_mean, raw = _blocks(outputs, 2)
        r, (of_rate, of_count) = _scale(raw), jax.random.split(key)
        rate = jnp.exp(log_mean) * jax.random.gamma(of_rate, r) / r
        return jax.random.poisson(of_count, rate).astype(outputs.dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ZeroInflatedPoisson(_TwoParameters):
    """Counts with log rate f and extra zeros; the second output is the logit of an extra zero.

    >>> import jax.numpy as jnp
    >>> from anchored import ZeroInflatedPoisson
    >>> likelihood = ZeroInflatedPoisson()
    >>> outputs, y = jnp.array([[1.0, -1.0]]), jnp.array([[0.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -1.15
    """

    discrete: ClassVar[bool] = True

    def log_prob(self, outputs: Array, y: Array) -> Array:
        log_rate, logit = _blocks(outputs, 2)
        counted = y * log_rate - jnp.exp(log_rate) - gammaln(y + 1) - jax.nn.softplus(logit)
        zero = jnp.logaddexp(-jax.nn.softplus(-logit), counted)
        return jnp.sum(jnp.where(y == 0, zero, counted), axis=-1)

    def sample(self, key: Array, outputs: Array) -> Array:
        log_rate, logit = _blocks(outputs, 2)
        of_zero, of_count = jax.random.split(key)
        count = jax.random.poisson(of_count, jnp.exp(log_rate)).astype(outputs.dtype)
        return jnp.where(jax.random.bernoulli(of_zero, jax.nn.sigmoid(logit)), 0.0, count)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Ordinal:
    """One of ``n_levels`` ordered levels 0, 1, ...: P(y <= k) is the sigmoid of the k-th threshold.

    The outputs are the first threshold and the (softplus) distances of the others above it.

    >>> import jax.numpy as jnp
    >>> from anchored import Ordinal
    >>> likelihood = Ordinal(n_levels=3)
    >>> outputs, y = jnp.array([[-1.0, 1.0]]), jnp.array([[1.0]])
    >>> round(float(likelihood.log_prob(outputs, y)[0]), 2)
    -1.17
    """

    n_levels: int = dataclasses.field(metadata={"static": True})
    discrete: ClassVar[bool] = True

    def __post_init__(self):
        if not (isinstance(self.n_levels, int) and self.n_levels >= 2):
            raise bad_value("n_levels", self.n_levels, "a whole number of at least 2")

    def n_outputs(self, n_targets: int) -> int:
        """Outputs that a network needs: one for each threshold."""
        if n_targets != 1:
            raise bad_value("y", f"{n_targets} targets", "one target for an Ordinal likelihood")
        return self.n_levels - 1

    def _log_levels(self, outputs: Array) -> Array:
        """Log probabilities [batch, level]."""
        steps = jax.nn.softplus(outputs[..., 1:]) + _FLOOR
        first = outputs[..., :1]
        cuts = jnp.concatenate([first, first + jnp.cumsum(steps, axis=-1)], axis=-1)
        low, high = cuts[..., :-1], cuts[..., 1:]
        # The sigmoid's rise between two thresholds, without the difference of near numbers.
        between = jnp.log1p(-jnp.exp(low - high)) - jax.nn.softplus(-high) - jax.nn.softplus(low)
        ends = -jax.nn.softplus(-cuts[..., :1]), -jax.nn.softplus(cuts[..., -1:])
        return jnp.concatenate([ends[0], between, ends[1]], axis=-1)

    def log_prob(self, outputs: Array, y: Array) -> Array:
        index = y.astype(jnp.int32)
        return jnp.take_along_axis(self._log_levels(outputs), index, axis=-1)[..., 0]

    def sample(self, key: Array, outputs: Array) -> Array:
        drawn = jax.random.categorical(key, self._log_levels(outputs))
        return drawn[..., None].astype(outputs.dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture of ``n_components`` Gaussians for each target: logits, means and scales.

    >>> import jax.numpy as jnp
    >>> from anchored import Mixture
    >>> likelihood = Mixture(n_components=2)
    >>> likelihood.n_outputs(n_targets=1)
    6
    >>> round(float(likelihood.log_prob(jnp.zeros((1, 6)), jnp.array([[0.5]]))[0]), 2)
    -0.94
    """

    n_components: int = dataclasses.field(default=2, metadata={"static": True})
    discrete: ClassVar[bool] = False

    def __post_init__(self):
        if not (isinstance(self.n_components, int) and self.n_components >= 1):
            raise bad_value("n_components", self.n_components, "a positive whole number")

    def n_outputs(self, n_targets: int) -> int:
        """Outputs that a network needs: three for each component of each target."""
        return 3 * self.n_components * n_targets

    def standardised(self, mean, scale):
        """The same family, which covers all shifts and scales of the target."""
        return self

    def _parts(self, outputs: Array) -> tuple[Array, Array, Array]:
        """Log weights, means and scales [batch, target, component]."""
        logits, means, raw = (
            block.reshape(*block.shape[:-1], -1, self.n_components) for block in _blocks(outputs, 3)
        )
        # Components start apart; equal ones would stay so.
        apart = jnp.arange(self.n_components) - (self.n_components - 1) / 2
        return jax.nn.log_softmax(logits), means + apart, _scale(raw)

    def log_prob(self, outputs: Array, y: Array) -> Array:
        log_weight, mean, scale = self._parts(outputs)
        each = log_weight + stats.norm.logpdf(y[..., None], mean, scale)
        return jnp.sum(logsumexp(each, axis=-1), axis=-1)

    def sample(self, key: Array, outputs: Array) -> Array:
        log_weight, mean, scale = self._parts(outputs)
        of_component, of_value = jax.random.split(key)
        picked = jax.random.categorical(of_component, log_weight)[..., None]
        mean, scale = (jnp.take_along_axis(a, picked, axis=-1)[..., 0] for a in (mean, scale))
        return mean + scale * jax.random.normal(of_value, mean.shape)
