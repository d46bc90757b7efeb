"""Mean-field variational inference: an independent normal for each parameter.

In units of the prior, q(z) = N(mean, diag(scale^2)) maximises the evidence lower bound

    E_q[log p(y | z)] - KL(q || N(0, I)),   KL = 1/2 sum (mean^2 + scale^2 - 1 - 2 log scale)

by reparameterised gradients z = mean + scale * e, e ~ N(0, I) (Blundell et al. 2015). It
cannot represent correlated parameters, so it misses the uncertainty between data.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchored.baselines.problem import (
    Model,
    Problem,
    Whitened,
    check_trained,
    predict_draws,
)
from anchored.core.members import Vmapped
from anchored.core.state import Batch
from anchored.core.training import Schedule, TrainInfo, begin, train
from anchored.prediction.predictive import Predictive
from anchored.typing import Array

# A weight explains its data best at about this share of the prior's scale; starting wide
# drowns the first gradients in noise.
_FIRST_SCALE = 0.1


@dataclasses.dataclass(frozen=True)
class MeanFieldVI:
    """Mean-field VI; the mean starts at a prior draw, the scale at a tenth of the prior's."""

    schedule: Schedule = Schedule(epochs=2000, learning_rate=0.02)
    n_gradient_samples: int = 200
    n_draws: int = 200

    def fit(self, key: Array, problem: Problem) -> tuple["Factors", TrainInfo]:
        """The fitted factors and the record of training (the objective is -bound / N)."""
        key_start, key_loss, key_order = jax.random.split(key, 3)
        whitened, model = Whitened.of(problem)
        mean = jax.random.normal(key_start, (1, whitened.size))
        state = begin(
            int(jax.random.bits(key_order)),
            _NegativeBound(whitened, self.n_gradient_samples),
            Factors(mean, jnp.full_like(mean, jnp.log(_FIRST_SCALE))),
            key_loss[None],
            model,
            self.schedule,
            problem.rows.n_rows,
            Vmapped(),
        )
        state, info = train(state, problem.rows, self.schedule)
        factors = state.theta
        check_trained(info)
        return Factors(factors.mean[0], factors.log_scale[0]), info

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        key_fit, key_draw = jax.random.split(key)
        factors, _ = self.fit(key_fit, problem)
        whitened, model = Whitened.of(problem)
        draws = factors.sample(key_draw, self.n_draws)
        return predict_draws(problem, whitened.all_params(draws, model))


class Factors(NamedTuple):
    """Independent normals over z."""

    mean: Array
    log_scale: Array

    def sample(self, key: Array, n_draws: int) -> Array:
        noise = jax.random.normal(key, (n_draws, *self.mean.shape))
        return self.mean + jnp.exp(self.log_scale) * noise

    def divergence(self) -> Array:
        """KL from the standard normal."""
        variance = jnp.exp(2 * self.log_scale)
        return 0.5 * jnp.sum(self.mean**2 + variance - 1 - 2 * self.log_scale)


@dataclasses.dataclass(frozen=True)
class _NegativeBound:
    """-(evidence lower bound) / N, estimated on a batch."""

    whitened: Whitened
    n_samples: int

    def __call__(self, factors: Factors, key: Array, model: Model, batch: Batch) -> Array:
        draws = factors.sample(jax.random.fold_in(key, batch.step), self.n_samples)

        def log_likelihood(z):
            return self.whitened.log_likelihood(z, model, batch.x, batch.y, batch.weight)

        fit = batch.scale * jnp.mean(jax.vmap(log_likelihood)(draws))
        return factors.divergence() / jnp.sum(model.data.weight) - fit
