"""Monte-Carlo dropout: hidden nodes are dropped at random, in training and in prediction.

To drop node i is to leave out row i of the next layer's weights, so a draw is one set of masks for
the whole function. Weights that are kept are divided by the probability keep_i of being kept: w_i =
mask_i theta_i / keep_i. Training minimises, with new masks at every step,

    -(1/N) E[log p(y | f(w, x))] + (1/2N) sum_i E[w_i^2] / var_i,   E[w_i^2] = theta_i^2 / keep_i

which is the variational bound of Gal and Ghahramani 2016 up to a constant.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.baselines.problem import Problem, check_trained, predict_draws
from anchored.core.members import Vmapped
from anchored.core.networks import MLP
from anchored.core.state import Batch
from anchored.core.training import Schedule, begin, train
from anchored.core.tree import Carried, as_pytree, from_pytree
from anchored.errors import bad_value
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Params


@dataclasses.dataclass(frozen=True)
class MCDropout:
    """One `MLP` with dropout of hidden nodes, which predicts many times."""

    rate: float = 0.4
    schedule: Schedule = Schedule(epochs=4000, learning_rate=0.005)
    n_gradient_samples: int = 10  # masks in one step
    n_draws: int = 200

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        if not (isinstance(problem.network, MLP) and problem.network.hidden):
            raise TypeError(f"MC dropout needs an `MLP` with hidden nodes; got {problem.network}.")
        if any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(problem.prior.mean)):
            raise ValueError("`prior` must have zero means for MC dropout.")
        if not 0 < self.rate < 1:
            raise bad_value("rate", self.rate, "between 0 and 1, both excluded")
        key_start, key_loss, key_order, key_draw = jax.random.split(key, 4)
        start = problem.network.init(key_start, problem.data.x[:1])
        state = begin(
            int(jax.random.bits(key_order)),
            _DropoutLoss(problem.network, self.rate, self.n_gradient_samples),
            jax.tree.map(lambda leaf: leaf[None], start),
            key_loss[None],
            _Extra(problem.prior.scale, as_pytree(problem.likelihood), problem.data.total_weight),
            self.schedule,
            problem.rows.n_rows,
            Vmapped(),
        )
        state, info = train(state, problem.rows, self.schedule)
        check_trained(info)
        params = jax.tree.map(lambda leaf: leaf[0], state.theta)
        keys = jax.random.split(key_draw, self.n_draws)
        return predict_draws(problem, jax.vmap(lambda k: _dropped(k, params, self.rate))(keys))


class _Extra(NamedTuple):
    scale: Params  # of the prior
    likelihood: Carried
    total_weight: float


@dataclasses.dataclass(frozen=True)
class _DropoutLoss:
    network: MLP
    rate: float
    n_samples: int

    def __call__(self, params: Params, key: Array, extra: _Extra, batch: Batch) -> Array:
        likelihood = from_pytree(extra.likelihood)

        def log_likelihood(key):
            outputs = self.network.apply(_dropped(key, params, self.rate), batch.x)
            return batch.scale * jnp.sum(batch.weight * likelihood.log_prob(outputs, batch.y))

        keys = jax.random.split(jax.random.fold_in(key, batch.step), self.n_samples)
        pull = 0.5 * expected_square(params, extra.scale, self.rate) / extra.total_weight
        return pull - jnp.mean(jax.vmap(log_likelihood)(keys))


def expected_square(params: Params, scale: Params, rate: float) -> Array:
    """E[sum_i (w_i / scale_i)^2] over the masks: only inputs of hidden nodes are dropped."""
    total = jnp.zeros(())
    for index, (layer, s) in enumerate(zip(params, scale, strict=True)):
        keep = 1.0 if index == 0 else 1 - rate
        total += jnp.sum((layer["weight"] / s["weight"]) ** 2) / keep
        if "bias" in layer:
            total += jnp.sum((layer["bias"] / s["bias"]) ** 2)
    return total


def _dropped(key: Array, params: Params, rate: float) -> Params:
    """Parameters with hidden nodes left out; those kept count for 1 / (1 - rate)."""
    layers = [params[0]]
    for index, layer in enumerate(params[1:]):
        n_nodes = layer["weight"].shape[0]
        kept = jax.random.bernoulli(jax.random.fold_in(key, index), 1 - rate, (n_nodes, 1))
        layers.append({**layer, "weight": layer["weight"] * kept / (1 - rate)})
    return tuple(layers)
