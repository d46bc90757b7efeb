"""The problem that an inference method gets, its answer, and the posterior in units of the prior.

Every method is a frozen record of its settings that can be called:

    method(key, problem) -> Predictive

Samplers and variational methods work on z, where theta = mean + scale * z. The prior of z is then a
standard normal for every network:

    log p(z | data) = sum_rows w log p(y | f(theta(z), x)) - |z|^2 / 2 + constant
"""

import dataclasses
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.likelihoods import Gaussian
from anchored.core.members import n_members_of
from anchored.core.outputs import member_moments
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.training import TrainInfo
from anchored.core.tree import Carried, Raveller, as_pytree, from_pytree, take_members
from anchored.errors import EnsembleError, Status
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Likelihood, Network, Params

_BLOCK_VALUES = 20_000_000  # most hidden values held at a time when many draws predict


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model, the rows it has seen, and the inputs ``x`` [batch, ...] to predict at."""

    network: Network
    prior: Prior
    likelihood: Likelihood
    data: Data
    x: np.ndarray

    @property
    def rows(self) -> Data:
        """The data without their padding and without rows of weight zero."""
        counted = np.flatnonzero(np.asarray(self.data.weight))
        x, y, weight = (array[counted] for array in (self.data.x, self.data.y, self.data.weight))
        return Data(x, y, weight, len(counted), self.data.total_weight)


@runtime_checkable
class Inference(Protocol):
    """An inference method with its settings."""

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        """The predictive distribution at ``problem.x``."""
        ...


def predict_draws(problem: Problem, params: Params) -> Predictive:
    """Pool the predictions of parameter draws [draw, ...], some draws at a time."""
    n_draws = n_members_of(params)
    n_values = Raveller.like(problem.prior.scale).size * max(256, len(problem.x))
    size = int(np.clip(_BLOCK_VALUES // n_values, 1, n_draws))
    parts = [
        member_moments(
            problem.network, problem.likelihood, take_members(params, slice(i, i + size)), problem.x
        )
        for i in range(0, n_draws, size)
    ]
    mean, var = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Predictive.from_members(mean, var, problem.likelihood.family)


def check_trained(info: TrainInfo) -> None:
    """Refuse the result of a single training that diverged."""
    if np.any(info.status == Status.DIVERGED):
        raise EnsembleError(
            "Training diverged, so there is nothing to predict with. Lower the `learning_rate` "
            "of `schedule`."
        )


def need_gaussian(method: str, problem: Problem, instead: str) -> Gaussian:
    """The likelihood, which must be Gaussian; otherwise an error names another method."""
    if not isinstance(problem.likelihood, Gaussian):
        raise TypeError(
            f"{method} needs a `Gaussian` likelihood; got {type(problem.likelihood).__name__}. "
            f"Use {instead} instead."
        )
    return problem.likelihood


class Model(NamedTuple):
    """The arrays of a problem, as compiled programs take them."""

    mean: Array  # of the prior, as one vector
    scale: Array
    likelihood: Carried
    data: Data


@dataclasses.dataclass(frozen=True)
class Whitened:
    """The network and its posterior as functions of z; hashable, so programs are reused."""

    network: Network
    raveller: Raveller

    @classmethod
    def of(cls, problem: Problem) -> tuple["Whitened", Model]:
        raveller = Raveller.like(problem.prior.scale)
        mean, scale = raveller.ravel(problem.prior.mean), raveller.ravel(problem.prior.scale)
        model = Model(mean, scale, as_pytree(problem.likelihood), problem.rows)
        return cls(problem.network, raveller), model

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.raveller.size

    def params(self, z: Array, model: Model) -> Params:
        return self.raveller.unravel(model.mean + model.scale * z)

    def outputs(self, z: Array, model: Model, x: Array) -> Array:
        return self.network.apply(self.params(z, model), x)

    def log_likelihood(self, z: Array, model: Model, x: Array, y: Array, weight: Array) -> Array:
        outputs = self.outputs(z, model, x)
        return jnp.sum(weight * from_pytree(model.likelihood).log_prob(outputs, y))

    def log_posterior(self, z: Array, model: Model) -> Array:
        data = model.data
        return self.log_likelihood(z, model, data.x, data.y, data.weight) - 0.5 * jnp.sum(z * z)

    def all_params(self, draws: Array, model: Model) -> Params:
        """Parameters [draw, ...] of draws of z [draw, parameter]."""
        return jax.vmap(lambda z: self.params(z, model))(draws)
