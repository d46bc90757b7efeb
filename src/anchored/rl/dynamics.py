"""A model of an environment: an ensemble that predicts how a state changes.

Each member maps an observation and an action to a normal distribution of the change of the
observation (and of the reward, if no function gives it). The variance is a second output, or it is
given. As in any ensemble here, ``method`` decides how members differ.

Rows live on the device in a buffer of fixed capacity, so nothing is compiled again when rows
arrive. When the buffer is full, the oldest rows are dropped. Inputs and targets are standardised by
the rows in the buffer at the time of training. The penalty keeps to the scaling contract with N the
number of rows held:

    -(1/B) sum_batch log p(y | f(theta, x)) + (1/2N) sum_i (theta_i - centre_i)^2 / var_i

So the prior dominates after the first rows and fades as 1/N, as in Bayes' rule: the sum of all log
likelihoods grows with N, and the penalty does not.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.ensembles import init_ensemble
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.members import Vmapped
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.state import EnsembleState, advance
from anchored.core.training import Schedule, finite_members
from anchored.core.tree import from_pytree, on_device
from anchored.errors import EnsembleError, bad_value
from anchored.prediction.predictive import Predictive
from anchored.rl import columns
from anchored.typing import Array, Likelihood, Network

# What a network sees of observations, [..., obs] -> [..., feature]; JAX and hashable.
Features = Callable[[Array], Array]
# reward(observation, action, next_observation) [...]; JAX and hashable.
Reward = Callable[[Array, Array, Array], Array]

_LEAST_SCALE = 1e-6  # of a column; smaller deviations are rounding
_FLOOR = 1e-4  # least variance of a standardised target that a network may claim


@dataclasses.dataclass(frozen=True)
class DynamicsSettings:
    """How a model is made and trained.

    Parameters
    ----------
    method : a row of `anchored.core.loss.METHODS`.
    hidden, activation : the networks.
    n_members : number of networks.
    noise_var : noise variance of standardised targets; None adds a second output for each target.
    first_var, later_var : prior variances of the input layer and of the later layers, as multiples
        of 1 / fan_in.
    learning_rate, batch_size : settings of Adam; the rate is constant.
    capacity : number of rows in the buffer.
    """

    method: str = "anchored"
    hidden: tuple[int, ...] = (50, 50, 50)
    activation: str = "relu"
    n_members: int = 5
    noise_var: float | None = None
    first_var: float = 1.0
    later_var: float = 1.0
    learning_rate: float = 1e-3
    batch_size: int = 64
    capacity: int = 10_000

    def __post_init__(self):
        for name in ("first_var", "later_var", "learning_rate"):
            if not 0 < getattr(self, name) < np.inf:
                raise bad_value(name, getattr(self, name), "a positive number")
        if self.noise_var is not None and not 0 < self.noise_var < np.inf:
            raise bad_value("noise_var", self.noise_var, "a positive number, or None to learn it")
        if self.capacity < 1:
            raise bad_value("capacity", self.capacity, "a positive whole number")


def same(observation: Array) -> Array:
    """Observations as networks see them, unless `Features` are given."""
    return observation


class Scaling(NamedTuple):
    """Means and deviations of columns."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, rows: Array, weight: Array) -> "Scaling":
        share = (weight / jnp.maximum(jnp.sum(weight), 1.0))[:, None]
        mean = jnp.sum(share * rows, axis=0)
        scale = jnp.sqrt(jnp.sum(share * jnp.square(rows - mean), axis=0))
        return cls(mean, jnp.where(scale > _LEAST_SCALE * (1.0 + jnp.abs(mean)), scale, 1.0))

    def forward(self, rows: Array) -> Array:
        return (rows - self.mean) / self.scale


class Steps(NamedTuple):
    """Steps that were taken [row, ...]; rows from ``count`` on only fill the shape."""

    observation: Array
    action: Array
    next_observation: Array
    reward: Array
    count: Array | int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DynamicsModel:
    """An ensemble, its rows and their scales: a pytree, also inside a compiled function.

    Make one with `DynamicsModel.begin`.

    Attributes
    ----------
    state : the ensemble.
    rows : ``x`` has observations and actions next to each other, ``y`` the predicted quantities;
        neither is scaled.
    seen : number of all rows so far.
    inputs, targets : the scales used in training so far.
    n_observed : numbers in an observation.
    features, reward : functions, as for `PlanningAgent`; if ``reward`` is None, it is predicted.
    """

    state: EnsembleState
    rows: Data
    seen: Array
    inputs: Scaling
    targets: Scaling
    n_observed: int = dataclasses.field(metadata={"static": True})
    features: Features = dataclasses.field(metadata={"static": True})
    reward: Reward | None = dataclasses.field(metadata={"static": True})

    @classmethod
    def begin(
        cls,
        key: Array,
        n_observed: int,
        n_actions: int,
        settings: DynamicsSettings = DynamicsSettings(),  # noqa: B008
        features: Features = same,
        reward: Reward | None = None,
    ) -> "DynamicsModel":
        """A model before its first row."""
        seen = jax.eval_shape(features, jax.ShapeDtypeStruct((n_observed,), jnp.float32)).shape[-1]
        n_in, n_out = seen + n_actions, n_observed + (reward is None)
        learned = settings.noise_var is None
        network = MLP(settings.hidden, n_out * (1 + learned), settings.activation)
        noise = HeteroskedasticGaussian(_FLOOR) if learned else Gaussian(settings.noise_var)
        shaped = _empty(settings.capacity, n_in, n_out)
        state = init_ensemble(
            key,
            network,
            _prior(network, n_in, settings),
            noise,
            shaped,
            method=settings.method,
            n_members=settings.n_members,
            schedule=Schedule(batch_size=settings.batch_size, learning_rate=settings.learning_rate),
            member_map=Vmapped(),
        )
        model = cls(
            state,
            _empty(settings.capacity, n_observed + n_actions, n_out),
            jnp.int32(0),
            Scaling(jnp.zeros(n_in), jnp.ones(n_in)),
            Scaling(jnp.zeros(n_out), jnp.ones(n_out)),
            n_observed,
            features,
            reward,
        )
        return jax.tree.map(on_device, model)  # of one kind from the first step on

    @property
    def capacity(self) -> int:
        """Number of transitions that there is room for."""
        return len(self.rows.weight)

    @property
    def n_members(self) -> int:
        """Number of members in the ensemble."""
        return len(jax.tree.leaves(self.state.theta)[0])

    @property
    def network(self) -> Network:
        """The network of one member."""
        return self.state.plan.loss.network  # pyright: ignore[reportFunctionMemberAccess]

    @property
    def likelihood(self) -> Likelihood:
        """The distribution of the next observation given a member's outputs."""
        return from_pytree(self.state.extra.likelihood)

    def add(self, steps: "Steps") -> "DynamicsModel":
        """The model with more rows; if there is no room, they replace the oldest."""
        if len(steps.reward) > self.capacity:
            raise ValueError(
                f"{len(steps.reward)} steps come at once and `capacity` is {self.capacity}; make "
                "it larger."
            )
        return _added(self, steps)

    def train(self, n_steps: int) -> "DynamicsModel":
        """The model after ``n_steps`` more steps on the rows it has, with their present scales."""
        return _trained(self, n_steps)

    def step(
        self, member: Array, noise: Array, observation: Array, action: Array
    ) -> tuple[Array, Array]:
        """Next observations and rewards [row, ...] by one member (`planning.Simulator`)."""
        x = jnp.concatenate([self.features(observation), action], axis=-1)
        params = jax.tree.map(lambda leaf: leaf[member], self.state.params)
        outputs = columns.outputs(self.network, params, self.inputs.forward(x))
        likelihood, n = self.likelihood, self.n_observed
        mean = self.targets.mean + self.targets.scale * likelihood.mean(outputs)
        scale = self.targets.scale * jnp.sqrt(likelihood.variance(outputs))
        reached = observation + mean[..., :n] + scale[..., :n] * noise
        if self.reward is None:
            return reached, mean[..., n]
        return reached, self.reward(observation, action, reached)

    def predict(self, observation: Array, action: Array) -> Predictive:
        """The distribution of the next observations [batch, obs], and of the reward if it is
        learned.
        """
        mean, var = moments(self, jnp.asarray(observation), jnp.asarray(action))
        return Predictive.from_members(np.asarray(mean), np.asarray(var), self.likelihood.family)


def check_members(model: DynamicsModel) -> None:
    """Refuse members that are not finite: planning with the others would hide a fault."""
    lost = np.flatnonzero(~finite_members(model.state.theta))
    if len(lost):
        raise EnsembleError(
            f"members {', '.join(map(str, lost))} of the dynamics diverged after "
            f"{int(model.state.step)} steps: lower `learning_rate`."
        )


def _empty(capacity: int, n_in: int, n_out: int) -> Data:
    return Data(
        jnp.zeros((capacity, n_in)),
        jnp.zeros((capacity, n_out)),
        jnp.zeros(capacity),
        jnp.int32(0),  # pyright: ignore[reportArgumentType]
        jnp.float32(0),  # pyright: ignore[reportArgumentType]
    )


def _prior(network: Network, n_in: int, settings: DynamicsSettings) -> Prior:
    prior = Prior.for_network(network, jnp.zeros((1, n_in)), settings.first_var)
    wider = np.sqrt(settings.later_var)
    later = jax.tree.map(lambda scale: scale * np.float32(wider), prior.scale[1:])
    return Prior(prior.mean, (prior.scale[0], *later))


@jax.jit
def _added(model: DynamicsModel, steps: Steps) -> DynamicsModel:
    rows, seen, room = model.rows, model.seen, model.capacity
    x = jnp.concatenate([steps.observation, steps.action], axis=-1)
    y = steps.next_observation - steps.observation
    if model.reward is None:
        y = jnp.concatenate([y, steps.reward[:, None]], axis=-1)
    number = jnp.arange(len(x))
    at = jnp.where(number < steps.count, (seen + number) % room, room)  # out of bounds: dropped
    held = jnp.minimum(seen + steps.count, room)
    rows = Data(
        rows.x.at[at].set(x, mode="drop"),
        rows.y.at[at].set(y, mode="drop"),
        rows.weight.at[at].set(1.0, mode="drop"),
        held,  # pyright: ignore[reportArgumentType]
        held.astype(jnp.float32),  # pyright: ignore[reportArgumentType]
    )
    return dataclasses.replace(model, rows=rows, seen=seen + steps.count)


@jax.jit
def _trained(model: DynamicsModel, n_steps: Array) -> DynamicsModel:
    rows, n = model.rows, model.n_observed
    x = jnp.concatenate([model.features(rows.x[:, :n]), rows.x[:, n:]], axis=-1)
    inputs, targets = Scaling.of(x, rows.weight), Scaling.of(rows.y, rows.weight)
    data = dataclasses.replace(rows, x=inputs.forward(x), y=targets.forward(rows.y))
    state = advance(model.state, data, n_steps)  # pyright: ignore[reportArgumentType]
    return dataclasses.replace(model, state=state, inputs=inputs, targets=targets)


@jax.jit
def moments(model: DynamicsModel, observation: Array, action: Array) -> tuple[Array, Array]:
    """Mean and variance [member, batch, target] of next observations, and rewards."""
    x = jnp.concatenate([model.features(observation), action], axis=-1)
    x = model.inputs.forward(x)
    each = jax.vmap(partial(columns.outputs, model.network), (0, None))
    outputs = each(model.state.params, x)
    likelihood, n = model.likelihood, model.n_observed
    mean = model.targets.mean + model.targets.scale * likelihood.mean(outputs)
    var = jnp.square(model.targets.scale) * likelihood.variance(outputs)
    return mean.at[..., :n].add(observation), var
