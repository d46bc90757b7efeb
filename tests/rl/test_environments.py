"""Environments keep their rules: deep sea beside another statement of them, shells checked."""

import importlib.util
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from anchored import MLP
from anchored.rl import DeepSea, PlanarPush, PureEnvironment, shell
from anchored.rl.environments.deep_sea import OneHotMLP
from anchored.rl.environments.planar_push import REACHED, UNIT


class PublishedSea:
    """bsuite's published rules, written out by hand for one diver and NumPy."""

    def __init__(self, size, mapping_seed):
        self.size = size
        self.map = np.random.RandomState(mapping_seed).binomial(1, 0.5, [size, size])

    def reset(self):
        self.at = [0, 0]
        return self.grid()

    def grid(self):
        grid = np.zeros((self.size, self.size))
        if self.at[0] < self.size:
            grid[tuple(self.at)] = 1.0
        return grid.ravel()

    def step(self, action):
        row, column = self.at
        reward = 0.0
        if action == self.map[row, column]:
            if column == self.size - 1:
                reward += 1.0
            reward -= 0.01 / self.size
            column += 1
        else:
            column -= 1
        self.at = [row + 1, min(max(column, 0), self.size - 1)]
        return self.grid(), reward, self.at[0] == self.size


@pytest.mark.parametrize("size", [1, 4, 13])
def test_deep_sea_has_the_published_rules(rng, size):
    theirs, ours = PublishedSea(size, 42), DeepSea(size)
    step, found = jax.jit(ours.step), 0
    for episode in range(12):
        seen, state = theirs.reset(), ours.reset(None)
        np.testing.assert_array_equal(ours.observe(state), seen)
        over = False
        while not over:
            best = theirs.map[tuple(theirs.at)]
            action = best if episode == 0 or rng.uniform() < 0.7 else int(rng.integers(2))
            seen, reward, over = theirs.step(action)
            state, x, got, done = step(jax.random.key(0), state, action)
            np.testing.assert_array_equal(x, seen)
            np.testing.assert_allclose(got, reward, rtol=1e-6)
            assert bool(done) == over
            found += reward > 0.5
    assert found


@pytest.mark.skipif(importlib.util.find_spec("bsuite") is None, reason="bsuite is not installed")
def test_deep_sea_is_bsuite_s(rng):
    from bsuite.environments.deep_sea import DeepSea as Theirs

    theirs, ours = Theirs(10, mapping_seed=42), DeepSea(10)
    for _ in range(10):
        seen, state = theirs.reset(), ours.reset(None)
        while not seen.last():
            action = int(rng.integers(2))
            seen = theirs.step(action)
            state, x, reward, _ = ours.step(None, state, action)
            np.testing.assert_array_equal(x, seen.observation.ravel())
            np.testing.assert_allclose(reward, seen.reward, rtol=1e-6)


@pytest.mark.parametrize("pure", [DeepSea(5), PlanarPush(), DeepSea(3, indexed=True)])
def test_shells_pass_gymnasium_s_checker(pure):
    assert isinstance(pure, PureEnvironment)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*(infinity|spec|render)")  # no bounds, no pictures
        check_env(shell(pure), skip_render_check=True)


def test_a_shell_s_seed_makes_the_episode():
    envs = [shell(PlanarPush()) for _ in range(2)]
    runs = []
    for env in envs:
        seen = [env.reset(seed=3)[0]]
        over = False
        while not over:
            x, _, done, cut, _ = env.step(len(seen) % 4)
            seen.append(x)
            over = done or cut
        runs.append(np.array(seen))
    np.testing.assert_array_equal(*runs)
    assert len(runs[0]) == 1 + PlanarPush().max_steps


def test_the_network_of_one_input_is_the_network_of_one_hot_inputs():
    network, wide = OneHotMLP(9, (7, 5)), MLP((7, 5), n_outputs=2)
    params = network.init(jax.random.key(0), jnp.zeros((1, 1)))
    numbers = jnp.array([[0.0], [8.0], [4.0], [9.0]])  # the last is no input at all
    np.testing.assert_allclose(
        network.apply(params, numbers),
        wide.apply(params, jax.nn.one_hot(numbers[:, 0].astype(int), 9)),
        rtol=1e-5,
    )


def test_a_push_moves_the_disc_ahead_and_costs_until_the_goal():
    env = PlanarPush(noise=0.0)
    state = env.reset(jax.random.key(0))
    assert np.linalg.norm(state.cube) >= 0.1
    np.testing.assert_allclose(np.linalg.norm(state.goal - state.cube), env.radius, rtol=1e-5)
    cube = jnp.array([0.08, 0.0])
    state = state._replace(cube=cube, goal=cube + jnp.array([env.radius, 0.0]))
    rewards = []
    for _ in range(12):
        state, x, reward, done = env.step(jax.random.key(1), state, jnp.int32(0))
        rewards.append(float(reward))
        assert not done
        np.testing.assert_allclose(
            x,
            np.concatenate([state.cube - state.gripper, state.goal - state.cube]) / UNIT,
            rtol=1e-5,
        )
        reached = np.linalg.norm(state.goal - state.cube) <= REACHED
        assert rewards[-1] == (0.0 if reached else -1.0)
    assert rewards[0] == -1.0
    assert 0.0 in rewards
    np.testing.assert_allclose(state.cube[1], 0.0, atol=1e-6)
    assert float(state.cube[0] - state.gripper[0]) == pytest.approx(0.045, abs=1e-5)


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match="`size` must be a positive whole number; got 0"):
        DeepSea(0)


def test_the_robot_arm_is_changed_as_the_paper_says():
    pytest.importorskip("gymnasium_robotics")
    from anchored.rl import fetch_push

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the robots' own packages
        env = fetch_push(PlanarPush(noise=0.0))
        x, _ = env.reset(seed=0)
        same, _ = env.reset(seed=0)
        np.testing.assert_array_equal(x, same)
        assert env.action_space == gymnasium.spaces.Discrete(4)
        np.testing.assert_allclose(np.linalg.norm(x[2:]) * UNIT, 0.08, rtol=1e-4)
        other, _ = env.reset(seed=1)
        assert not np.allclose(x[2:], other[2:])
        height = env.unwrapped._get_obs()["observation"][2]
        ways = []
        for action in range(4):
            start, _ = env.reset(seed=0)
            for _ in range(3):
                seen, reward, *_ = env.step(action)
            assert reward == -1.0
            ways.append(start[:2] - seen[:2])  # of the gripper: the cube rests
        assert abs(env.unwrapped._get_obs()["observation"][2] - height) < 0.02
    for way, direction in zip(ways, [[1, 0], [-1, 0], [0, 1], [0, -1]], strict=True):
        assert way @ np.array(direction) > 0.1  # a centimetre at least in three steps
