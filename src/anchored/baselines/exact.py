"""Exact references for regression: the infinitely wide network, and the finite one.

The infinitely wide network is a Gaussian process. A network with one hidden layer of any
width is a linear model in its last layer once the hidden layer h is known, so

    p(f | data) = E_prior(h)[ p(y | h) p(f | h, data) ] / E_prior(h)[ p(y | h) ]

with both p(y | h) and p(f | h, data) in closed form. Averaging over draws of h from the prior
(importance sampling with the last layer integrated out) is exact up to Monte-Carlo error,
which the effective number of draws shows. It needs few rows.
"""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from anchored.baselines.problem import Problem, need_gaussian
from anchored.core.networks import MLP
from anchored.core.networks._layers import ACTIVATIONS, affine
from anchored.exact import gp
from anchored.prediction.predictive import Predictive
from anchored.typing import Array

_MIN_DRAWS = 400  # effective draws below which a warning is given
_BLOCK_VALUES = 20_000_000


@dataclasses.dataclass(frozen=True)
class InfiniteWidthGP:
    """The exact posterior of the network with its hidden layers infinitely wide."""

    def condition(self, problem: Problem) -> gp.GP:
        """The Gaussian process itself, to draw functions from."""
        likelihood = need_gaussian("The infinite-width GP", problem, "NUTS")
        kernel, rows = gp.twin(problem.network, problem.prior), problem.rows
        return gp.condition(kernel, rows.x, rows.y, likelihood.noise_var, rows.weight)

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        del key  # nothing is random here
        return self.condition(problem).predict(problem.x)


@dataclasses.dataclass(frozen=True)
class FiniteWidthPosterior:
    """The exact posterior moments of an `MLP` with one hidden layer, by importance sampling."""

    n_draws: int = 50_000

    def moments(self, key: Array, problem: Problem) -> tuple[Predictive, float]:
        """The predictive, and the effective number of draws behind it."""
        likelihood = need_gaussian("The finite-width posterior", problem, "NUTS")
        network, prior, rows = problem.network, problem.prior, problem.rows
        if not (isinstance(network, MLP) and len(network.hidden) == 1 and network.n_outputs == 1):
            raise TypeError(
                f"`network` must be an `MLP` with one hidden layer and one output; got {network}."
            )
        if np.any(np.asarray(prior.mean[1]["weight"]) != 0):
            raise ValueError("`prior` must have zero means in the last layer.")
        y = np.asarray(rows.y[:, 0], float)
        noise = float(likelihood.noise_var) / np.asarray(rows.weight, float)
        both = jnp.concatenate([rows.x, jnp.asarray(problem.x, rows.x.dtype)])
        size = int(np.clip(_BLOCK_VALUES // (both.shape[0] * network.hidden[0]), 1, self.n_draws))
        activation, scale = ACTIVATIONS[network.activation], prior.scale[1]["weight"][:, 0]

        @jax.jit
        def features(keys):
            def one(key):
                return scale * activation(affine(prior.sample(key)[0], both))

            return jax.vmap(one)(keys)

        keys, n = jax.random.split(key, self.n_draws), len(y)
        parts = []
        for i in range(0, self.n_draws, size):
            hidden = np.asarray(features(keys[i : i + size]), float)
            parts.append(_linear_posterior(hidden[:, :n], hidden[:, n:], y, noise))
        log_weight, mean, var = map(np.concatenate, zip(*parts, strict=True))
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        total = weight @ mean
        epistemic = weight @ var + weight @ np.square(mean - total)
        aleatoric = np.full_like(total, float(likelihood.noise_var))
        dist = Predictive(total[:, None], epistemic[:, None], aleatoric[:, None])
        return dist, float(1 / np.sum(weight**2))

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        dist, n_effective = self.moments(key, problem)
        if n_effective < _MIN_DRAWS:
            warnings.warn(
                f"Only {n_effective:.0f} effective draws of {self.n_draws:,}: the data fix the "
                "hidden layer too closely. Raise `n_draws`, or use NUTS.",
                stacklevel=2,
            )
        return dist


def _linear_posterior(seen, unseen, y, noise):
    """Log evidence [draw], mean and variance [draw, row] of linear models on given features."""
    cov = seen @ seen.transpose(0, 2, 1) + np.diag(noise)
    factor = np.linalg.cholesky(cov)
    fit = np.linalg.solve(factor, np.broadcast_to(y[:, None], (len(cov), len(y), 1)))
    cross = np.linalg.solve(factor, seen @ unseen.transpose(0, 2, 1))
    log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    evidence = -0.5 * np.square(fit[..., 0]).sum(axis=1) - log_det
    mean = np.einsum("dng,dn->dg", cross, fit[..., 0])
    var = np.square(unseen).sum(axis=2) - np.square(cross).sum(axis=1)
    return evidence, mean, np.maximum(var, 0.0)
