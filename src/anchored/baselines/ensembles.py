"""Ensembles and single networks as inference methods."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.baselines.problem import Problem
from anchored.core.ensembles import Ensemble, fit_ensemble
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.loss import METHODS
from anchored.core.priors import Prior, draw_anchors
from anchored.core.rows import Data
from anchored.core.training import Schedule
from anchored.errors import EnsembleError
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Params

_HELD_OUT = 0.2  # share of rows on which a constant variance is chosen


@dataclasses.dataclass(frozen=True)
class EnsembleOf:
    """An ensemble by one of the library's methods: anchored, rms, deep, regularised, ...

    ``deep`` on a regression problem gets a second output for its noise. With ``prior_start``,
    members start at prior draws (not at their anchors), as in the paper's figures. Otherwise they
    start at the network's own initial parameters.
    """

    method: str = "anchored"
    n_members: int = 10
    schedule: Schedule = Schedule(epochs=4000, learning_rate=0.005)
    prior_start: bool = True

    def fit(self, key: Array, problem: Problem) -> Ensemble:
        """Train the ensemble of this method on a problem."""
        key_fit, key_start = jax.random.split(key)
        problem = _with_variance_head(problem) if self._needs_head(problem) else problem
        start: Params | None = None
        if self.prior_start:
            start = _drawn(key_start, problem.prior, self.n_members)
        return fit_ensemble(
            key_fit,
            problem.network,
            problem.prior,
            problem.likelihood,
            problem.data,
            method=self.method,
            n_members=self.n_members,
            schedule=self.schedule,
            start=start,
        )

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        ensemble = self.fit(key, problem)
        if ensemble.dropped:
            raise EnsembleError(
                f"Members {ensemble.dropped} diverged twice. Lower the `learning_rate` of "
                "`schedule`."
            )
        return ensemble.predict(problem.x)

    def _needs_head(self, problem: Problem) -> bool:
        row = METHODS.get(self.method)
        return row is not None and row.variance_head and isinstance(problem.likelihood, Gaussian)


@dataclasses.dataclass(frozen=True)
class SingleNetwork:
    """One regularised network; in regression its variance is a constant.

    The constant is the mean squared error on a fifth of the rows, from a network trained on the
    other rows. The network that predicts is then trained on all rows.
    """

    schedule: Schedule = Schedule(epochs=4000, learning_rate=0.005)

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        key_fit, key_guess, key_split = jax.random.split(key, 3)
        fit = EnsembleOf("regularised", 1, self.schedule, prior_start=False)
        dist = fit(key_fit, problem)
        if not isinstance(problem.likelihood, Gaussian):
            return dist
        rows = problem.rows
        order = np.asarray(jax.random.permutation(key_split, rows.n_rows))
        n_held = max(1, round(_HELD_OUT * rows.n_rows))
        x, y, weight = (np.asarray(array) for array in (rows.x, rows.y, rows.weight))
        held, kept = order[:n_held], order[n_held:]
        if not len(kept):
            raise ValueError("A constant variance needs at least two rows; got one.")
        part = Data.make(x[kept], y[kept], weight[kept])
        guess = fit(key_guess, dataclasses.replace(problem, data=part, x=x[held])).mean
        variance = np.average(np.square(y[held] - guess), axis=0, weights=weight[held])
        return dataclasses.replace(dist, aleatoric_var=np.broadcast_to(variance, dist.mean.shape))


# One program in place of many small ones.
_drawn = jax.jit(draw_anchors, static_argnums=2)


def _with_variance_head(problem: Problem) -> Problem:
    """The same problem with an output more for each target: its noise."""
    network: Any = problem.network
    if not hasattr(network, "n_outputs"):
        raise TypeError(
            f"A deep ensemble needs a second output: give {type(network).__name__} an "
            "`n_outputs`, or pass a problem whose likelihood is `HeteroskedasticGaussian`."
        )
    network = dataclasses.replace(network, n_outputs=2 * network.n_outputs)
    shapes = jax.eval_shape(network.init, jax.random.key(0), problem.data.x[:1])

    def widened(tree: Params) -> Params:
        return jax.tree.map(
            lambda leaf, new: leaf if leaf.shape == new.shape else jnp.concatenate([leaf] * 2, -1),
            tree,
            shapes,
        )

    prior = Prior(widened(problem.prior.mean), widened(problem.prior.scale))
    return dataclasses.replace(
        problem, network=network, prior=prior, likelihood=HeteroskedasticGaussian()
    )
