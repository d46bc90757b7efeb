"""Does a planner gain by the members' spread? The same ensembles, planned with as one model.

Planning scores a plan by its mean reward over worlds, each of one member. Here every world is the
mean of the members instead: the networks, their training and the noise are the same, and the spread
is gone.
"""

import dataclasses

import jax
import jax.numpy as jnp

from anchored.rl.dynamics import DynamicsModel, Features, Reward, check_members, moments
from anchored.rl.environments.cartpole import CartPoleSwingUp
from anchored.rl.planning_agent import PlanningSettings
from anchored.rl.trials import pure_trial
from anchored.typing import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Averaged:
    """A model to plan with: the mean of the members, and of their variances."""

    model: DynamicsModel

    @property
    def n_members(self) -> int:
        return 1

    def step(
        self, member: Array, noise: Array, observation: Array, action: Array
    ) -> tuple[Array, Array]:
        mean, var = (each.mean(axis=0) for each in moments(self.model, observation, action))
        reached = mean + jnp.sqrt(var) * noise
        assert self.model.reward is not None
        return reached, self.model.reward(observation, action, reached)


def returns_averaged(
    env: CartPoleSwingUp,
    settings: PlanningSettings,
    n_trials: int,
    seed: int,
    functions: tuple[Reward, Features],
) -> list[float]:
    """Sums of rewards, trial by trial; networks and first trial are those of a `PlanningAgent`."""
    key, (reward, features) = jax.random.key(seed), functions
    begin = (jax.random.fold_in(key, 2**30), env.n_observed, len(env.action_low))
    model = DynamicsModel.begin(*begin, settings.dynamics, features, reward)
    found = []
    for number in range(n_trials):
        world = Averaged(model) if number >= settings.n_random_trials else None
        given = (settings.planner, settings.n_particles, world)
        trial = pure_trial(env, *given, jax.random.fold_in(key, number))
        model = model.add(trial.steps).train(settings.n_train_steps)
        check_members(model)
        found.append(trial.total)
    return found
