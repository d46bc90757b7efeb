"""Pushing a disc to a goal in the plane: a fast stand-in for FetchPush.

A gripper moves 1.2 cm forwards, backwards, left or right, with noise. The arm moves this far when
it is asked to move 2 cm. If the gripper runs into the disc, the disc slides away along the line of
their centres until the two just touch. Lengths, starts, goal, reward and inputs are those of the
robot arm (`anchored.rl.fetch_push`); what is missing is the arm, friction, and the turning of a
cube.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchored.typing import Array

STRIDE = 0.03  # metres that the arm of FetchPush goes for an action of one, told to go 0.05
REACHED = 0.05  # metres between cube and goal at which there is no cost
UNIT = 0.1  # metres that an input of one stands for
_TOUCH = 0.045  # metres between the centres of gripper and disc that touch
_LEAST, _MOST = 0.1, 0.15  # metres between gripper and disc at the start; the latter a side


class Places(NamedTuple):
    """Positions [2], in metres from the start of the gripper."""

    gripper: Array
    cube: Array
    goal: Array


@dataclasses.dataclass(frozen=True)
class PlanarPush:
    """A `PureEnvironment`: a step costs 1 unless the cube is at the goal; the episode does not end
    there.

    Parameters
    ----------
    move : length of an action.
    noise : deviation of the noise added to each action.
    radius : radius in metres of the circle around the cube on which the goal lies.
    max_steps : steps of an episode.
    """

    move: float = 0.4
    noise: float = 0.1
    radius: float = 0.08
    max_steps: int = 50

    n_actions = 4
    n_observed = 4

    def reset(self, key: Array) -> Places:
        key_cube, key_angle = jax.random.split(key)
        cube = _start(key_cube)
        angle = jax.random.uniform(key_angle, maxval=2 * jnp.pi)
        goal = cube + self.radius * jnp.array([jnp.cos(angle), jnp.sin(angle)])
        return Places(jnp.zeros(2), cube, goal)

    def observe(self, state: Places) -> Array:
        """The vectors from the gripper to the cube and from the cube to the goal."""
        both = [state.cube - state.gripper, state.goal - state.cube]
        return jnp.concatenate(both) / UNIT

    def step(self, key: Array, state: Places, action: Array) -> tuple[Places, Array, Array, Array]:
        direction = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])[action]
        noise = self.noise * jax.random.normal(key, (2,))
        gripper = state.gripper + STRIDE * (self.move * direction + noise)
        apart = state.cube - gripper
        distance = jnp.maximum(jnp.linalg.norm(apart), 1e-6)
        cube = state.cube + apart / distance * jnp.maximum(_TOUCH - distance, 0.0)
        state = Places(gripper, cube, state.goal)
        reward = -(jnp.linalg.norm(state.goal - cube) > REACHED).astype(jnp.float32)
        return state, self.observe(state), reward, jnp.zeros((), bool)


def _start(key: Array) -> Array:
    """Anywhere in a square about the gripper, but not too near: drawn again if it is."""
    draws = jax.random.uniform(key, (32, 2), minval=-_MOST, maxval=_MOST)
    far = jnp.linalg.norm(draws, axis=1) >= _LEAST
    return draws[jnp.argmax(far)]
