"""Gymnasium's side of what plans: a shell of pure environments, and checks of spaces.

Gymnasium is loaded when it is first needed.
"""

from typing import Any

import jax
import numpy as np

from anchored.rl.trials import PureEnvironment


def gymnasium() -> Any:
    """The package, or advice."""
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Gymnasium is not installed: pip install "anchored[rl]". Environments written in JAX '
            "need no Gymnasium."
        ) from error
    return gymnasium


def as_gymnasium(pure: PureEnvironment) -> Any:
    """A Gymnasium environment of a pure one; ``reset(seed=...)`` sets all that is random.

    Examples
    --------
    >>> from anchored.rl.environments.cartpole import CartPoleSwingUp
    >>> env = as_gymnasium(CartPoleSwingUp(noise_var=0.001))
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape
    (4,)
    """
    gym = gymnasium()
    n_observed, low, high = pure.n_observed, pure.action_low, pure.action_high
    reset, step, observe = jax.jit(pure.reset), jax.jit(pure.step), jax.jit(pure.observe)

    class Shell(gym.Env):
        metadata = {"render_modes": []}
        observation_space = gym.spaces.Box(-np.inf, np.inf, (n_observed,), np.float32)
        action_space = gym.spaces.Box(low, high, dtype=np.float32)
        spec = None
        render_mode = None

        def reset(self, *, seed: int | None = None, options: dict | None = None):
            super().reset(seed=seed)
            self._state = reset(self._key())
            return np.asarray(observe(self._state)), {}

        def step(self, action):
            action = np.asarray(action, np.float32)
            if not np.isfinite(action).all():
                raise ValueError(f"`action` must be finite; got {action.tolist()}.")
            self._state, seen, reward, done = step(self._key(), self._state, action)
            # The clock ends it, not the task.
            return np.asarray(seen), float(reward), False, bool(done), {}

        def _key(self):
            return jax.random.key(int(self.np_random.integers(2**31)))

    return Shell()


def box_sizes(env: Any) -> tuple[int, np.ndarray, np.ndarray]:
    """Numbers in an observation, and the bounds of actions, of a Gymnasium environment."""
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise TypeError(
            f"`env` must be a Gymnasium environment, or one written in JAX as "
            f"`anchored.rl.trials.PureEnvironment` says; got {type(env).__name__}."
        )
    box = gymnasium().spaces.Box
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)
        if not (isinstance(space, box) and len(space.shape) == 1):
            raise ValueError(
                f"`env.{name}` must be a Box of one dimension to plan in; got {space}. "
                + _ADVICE[name]
            )
    low, high = env.action_space.low, env.action_space.high
    if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low < high)):
        raise ValueError(
            f"`env.action_space` must have finite bounds, low below high; got {env.action_space}. "
            "Wrap it with gymnasium.wrappers.RescaleAction."
        )
    return env.observation_space.shape[0], low.astype(np.float32), high.astype(np.float32)


_ADVICE = {
    "observation_space": "Wrap it with gymnasium.wrappers.FlattenObservation.",
    "action_space": "For discrete actions use `anchored.rl.q_learning`.",
}
