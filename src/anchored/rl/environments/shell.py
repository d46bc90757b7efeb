"""A Gymnasium environment round a pure one, for those who want to step it themselves."""

from typing import Any

import gymnasium
import jax
import numpy as np

from anchored.rl.environments.pure import PureEnvironment


class Shell(gymnasium.Env):
    """A `PureEnvironment` with Gymnasium's face; every step is one call of a compiled program."""

    metadata = {"render_modes": []}

    def __init__(self, pure: PureEnvironment, render_mode: str | None = None):
        self.pure, self.render_mode = pure, render_mode
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (pure.n_observed,))
        self.action_space = gymnasium.spaces.Discrete(pure.n_actions)
        self._state: Any = None
        self._key: Any = None
        self._n_steps = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._state, observation = _reset(self.pure, self._key)
        self._n_steps = 0
        return np.asarray(observation, np.float32), {}

    def step(self, action):
        key = jax.random.fold_in(self._key, self._n_steps)
        self._state, *seen = _step(self.pure, key, self._state, int(action))
        observation, reward, done = map(np.asarray, seen)
        self._n_steps += 1
        cut = self._n_steps >= self.pure.max_steps and not done
        return observation.astype(np.float32), float(reward), bool(done), bool(cut), {}


def shell(pure: PureEnvironment) -> Shell:
    """The Gymnasium environment of a pure one."""
    return Shell(pure)


def _reset_of(pure, key):
    state = pure.reset(jax.random.fold_in(key, 2**31 - 1))
    return state, pure.observe(state)


_reset = jax.jit(_reset_of, static_argnums=0)
_step = jax.jit(lambda pure, key, state, action: pure.step(key, state, action), static_argnums=0)
