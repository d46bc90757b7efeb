"""FetchPush as the paper changed it: a robot arm learns to push a cube to a goal.

There are four moves of 0.4 (2 cm), none of them vertical, with Gaussian noise. The goal lies on a
circle around the cube, at any angle. Inputs are the vectors from gripper to cube and from cube to
goal in the plane, in units of 10 cm. Each step costs one unless the cube is at the goal.

An episode has 50 steps and **continues at the goal**, as FetchPush does. The paper's average reward
of -0.4 a step is possible only in this way: the cube is then at the goal in six steps of ten. If
episodes ended at the goal, all steps but the last would cost one. Episodes are cut off after 50
steps, but the agent learns as if they continued.
"""

from typing import Any

import gymnasium
import numpy as np

from anchored.errors import missing_package
from anchored.rl.environments.planar_push import PlanarPush

UNIT = 0.1  # metres that an input of one stands for
_DIRECTIONS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


class FetchPush(gymnasium.Wrapper):
    """A wrapper around FetchPush-v4; ``like`` has the lengths, which the planar stand-in shares."""

    def __init__(self, env: gymnasium.Env, like: PlanarPush):
        super().__init__(env)
        self.like = like
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (like.n_observed,))
        self.action_space = gymnasium.spaces.Discrete(like.n_actions)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """A new cube, and a goal at any angle, or at ``options['goal']`` [2] from the cube."""
        seen, info = self.env.reset(seed=seed)
        inner: Any = self.env.unwrapped
        angle = inner.np_random.uniform(0.0, 2 * np.pi)
        apart = self.like.radius * np.array([np.cos(angle), np.sin(angle)])
        apart = np.asarray((options or {}).get("goal", apart))
        goal = seen["achieved_goal"].copy()
        goal[:2] += apart
        inner.goal = goal
        return self._inputs(seen, goal), info

    def step(self, action):
        inner: Any = self.env.unwrapped
        move = self.like.move * _DIRECTIONS[action] + self.like.noise * inner.np_random.normal(
            size=2
        )
        whole = np.clip([*move, 0.0, 0.0], -1.0, 1.0).astype(np.float32)
        seen, reward, terminated, truncated, info = self.env.step(whole)
        return self._inputs(seen, inner.goal), float(reward), terminated, truncated, info

    def _inputs(self, seen: dict, goal: np.ndarray) -> np.ndarray:
        gripper, cube = seen["observation"][:2], seen["achieved_goal"][:2]
        return (np.concatenate([cube - gripper, goal[:2] - cube]) / UNIT).astype(np.float32)


def fetch_push(like: PlanarPush | None = None, render_mode: str | None = None) -> FetchPush:
    """FetchPush-v4 with the paper's changes, and with the lengths and noise of ``like``."""
    like = like or PlanarPush()
    try:
        import gymnasium_robotics  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise missing_package(
            "FetchPush needs gymnasium-robotics and mujoco below 4", "rl"
        ) from error
    gymnasium.register_envs(gymnasium_robotics)
    env = gymnasium.make("FetchPush-v4", max_episode_steps=like.max_steps, render_mode=render_mode)
    return FetchPush(env, like)
