"""Small environments for tests, of ours and of Gymnasium's kind."""

import dataclasses
from typing import ClassVar

import gymnasium
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Line:
    """Go right twice for a reward of one; ``bad`` is given in place of the reward at the end."""

    bad: float = 1.0
    n_actions: ClassVar[int] = 2
    n_observed: ClassVar[int] = 1
    max_steps: ClassVar[int] = 5

    def reset(self, key):
        return jnp.int32(0)

    def observe(self, state):
        return state.astype(jnp.float32)[None]

    def step(self, key, state, action):
        state = state + jnp.where(action == 1, 1, 0)
        done = state >= 2
        return state, self.observe(state), jnp.where(done, self.bad, 0.0), done


class Steps(gymnasium.Env):
    """Four steps with rewards by the action; or one that goes wrong as it is told to."""

    def __init__(self, wrong=None):
        self.wrong, self.observation_space = wrong, gymnasium.spaces.Box(-9, 9, (2,))
        self.action_space = gymnasium.spaces.Discrete(3, start=1)
        if wrong == "actions":
            self.action_space = gymnasium.spaces.Box(-1, 1, (2,))
        if wrong == "image":
            self.observation_space = gymnasium.spaces.Box(0, 1, (4, 4))
        self.n_steps, self.actions = 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return self._seen(), {}

    def step(self, action):
        self.actions.append(int(action))
        self.n_steps += 1
        reward = np.nan if self.wrong == "reward" else float(action == 2)
        ended = self.n_steps == 4 and self.wrong != "endless"
        return self._seen(), reward, ended, False, {}

    def _seen(self):
        x = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return np.full(2, np.nan, np.float32) if self.wrong == "observation" else x


def steps():
    return Steps()
