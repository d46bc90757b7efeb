"""Does a planner gain from the members' spread? The same ensembles, used as one model.

Planning scores a plan by its mean reward over worlds, each of one member. Here every world is the
mean of the members instead: the networks, their training and the noise are the same, and the spread
is gone.
"""

import dataclasses

import jax
import jax.numpy as jnp

from anchored.rl.dynamics import DynamicsModel, moments
from anchored.rl.planning_agent import PlanningAgent
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


class AveragingAgent(PlanningAgent):
    """A `PlanningAgent` that plans with the mean of its members; all else is the same."""

    def simulator(self) -> Averaged:
        return Averaged(self.model_)
