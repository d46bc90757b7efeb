"""A Gymnasium environment around a pure one, if you want to step it yourself."""

from typing import Any

import jax
import numpy as np

from anchored.rl._gymnasium import gymnasium
from anchored.rl.environments.pure import ContinuousEnvironment, DiscreteEnvironment


def shell(pure: DiscreteEnvironment | ContinuousEnvironment) -> Any:
    """A pure environment as a Gymnasium environment; ``reset(seed=...)`` fixes everything random.

    Every step is one call of a compiled program.

    Examples
    --------
    >>> from anchored.rl import CartPoleSwingUp, shell
    >>> env = shell(CartPoleSwingUp(noise_var=0.001))
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape
    (4,)
    """
    gym = gymnasium()
    reset, step, observe = jax.jit(pure.reset), jax.jit(pure.step), jax.jit(pure.observe)
    if isinstance(pure, DiscreteEnvironment):
        actions = gym.spaces.Discrete(pure.n_actions)
    else:
        actions = gym.spaces.Box(pure.action_low, pure.action_high, dtype=np.float32)

    class Shell(gym.Env):
        metadata = {"render_modes": []}
        observation_space = gym.spaces.Box(-np.inf, np.inf, (pure.n_observed,), np.float32)
        action_space = actions
        spec = None
        render_mode = None

        def reset(self, *, seed: int | None = None, options: dict | None = None):
            super().reset(seed=seed)
            self._state, self._n_steps = reset(self._key()), 0
            return np.asarray(observe(self._state), np.float32), {}

        def step(self, action):
            action = np.asarray(action, action_type)
            if not np.isfinite(action).all():
                raise ValueError(f"`action` must be finite; got {action.tolist()}.")
            self._state, seen, reward, done = step(self._key(), self._state, action)
            self._n_steps += 1
            cut = self._n_steps >= pure.max_steps and not done  # the clock ends it, not the task
            return np.asarray(seen, np.float32), float(reward), bool(done), bool(cut), {}

        def _key(self):
            return jax.random.key(int(self.np_random.integers(2**31)))

    action_type = np.int32 if isinstance(pure, DiscreteEnvironment) else np.float32
    return Shell()
