"""Trials of an agent that plans: of a pure environment in one compiled program, or step by step.

A pure environment is written in JAX (`ContinuousEnvironment`); any other is Gymnasium's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.rows import padded_size
from anchored.core.tree import Carried, as_pytree, from_pytree
from anchored.rl._gymnasium import checked_numbers
from anchored.rl.dynamics import Steps
from anchored.rl.environments.pure import ContinuousEnvironment
from anchored.rl.planning import Bounds, Planner, Simulator, next_plan, rest
from anchored.typing import Array


class Trial(NamedTuple):
    """One episode."""

    steps: Steps

    @property
    def total(self) -> float:
        """The sum of its rewards."""
        return float(np.sum(np.asarray(self.steps.reward)[: int(self.steps.count)]))

    @property
    def length(self) -> int:
        return int(self.steps.count)


def pure_trial(
    env: ContinuousEnvironment,
    planner: Planner,
    n_particles: int,
    simulator: Simulator | None,
    key: Array,
) -> Trial:
    """Plan with ``simulator`` at every step, or draw actions evenly if there is none."""
    given = as_pytree(env), None if simulator is None else as_pytree(simulator)
    # Of several devices' copies one: what is learnt from them is learnt on one device.
    return Trial(jax.device_get(_pure_steps(planner, n_particles, *given, key)))


@partial(jax.jit, static_argnums=(0, 1))
def _pure_steps(
    planner: Planner, n_particles: int, carried: Carried, model: Carried | None, key: Array
) -> Steps:
    env: ContinuousEnvironment = from_pytree(carried)
    bounds = Bounds(jnp.asarray(env.action_low), jnp.asarray(env.action_high))
    key_reset, key_steps = jax.random.split(key)

    def step(carry, key):
        state, plan, over = carry
        key_act, key_step = jax.random.split(key)
        seen = env.observe(state)
        if model is None:
            low, high = bounds
            action = jax.random.uniform(key_act, low.shape, minval=low, maxval=high)
        else:
            given = (planner, n_particles, from_pytree(model))
            action, plan = next_plan(*given, key_act, seen, plan, bounds)
        state, reached, reward, done = env.step(key_step, state, action)
        return (state, plan, over | done), (seen, action, reached, reward, ~over)

    first = (env.reset(key_reset), rest(planner, bounds), jnp.array(False))
    _, (*arrays, counted) = jax.lax.scan(step, first, jax.random.split(key_steps, env.max_steps))
    seen, action, reached, reward = arrays
    return Steps(seen, action, reached, reward, jnp.sum(counted))


def gymnasium_trial(
    env: Any, act: Callable[[np.ndarray], np.ndarray], max_steps: int, seed: int
) -> Trial:
    """One episode of a Gymnasium environment, cut after ``max_steps``."""
    seen, _ = env.reset(seed=seed)
    seen = checked_numbers("observation", seen)
    rows = []
    for i in range(1, max_steps + 1):
        action = np.asarray(act(seen), np.float32)
        reached, reward, terminated, truncated, _ = env.step(action)
        reached, reward = (
            checked_numbers("observation", reached, i),
            checked_numbers("reward", reward, i),
        )
        rows.append((seen, action, reached, reward))
        seen = reached
        if terminated or truncated:
            break
    size = padded_size(len(rows))  # few lengths, few programs
    columns: Any = (_padded(np.stack(column), size) for column in zip(*rows, strict=True))
    return Trial(Steps(*columns, count=len(rows)))


def _padded(array: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros((size, *array.shape[1:]), np.float32)
    out[: len(array)] = array
    return out
