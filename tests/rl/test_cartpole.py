"""Cart-pole swing-up: beside Gymnasium's equations, its noise, its reward and its shell."""

import sys

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored.rl import shell
from anchored.rl._gymnasium import box_sizes
from anchored.rl.environments.cartpole import CartPoleSwingUp, TrueModel


def gymnasium_dynamics(env, physics, action):
    """The next state by Gymnasium's CartPole, whose force is a push of one size to either side."""
    theirs = gym.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    theirs.length, theirs.masspole, theirs.masscart = env.length / 2, env.pole_mass, env.cart_mass
    theirs.polemass_length = env.pole_mass * env.length / 2
    theirs.total_mass = env.pole_mass + env.cart_mass
    theirs.gravity, theirs.tau = env.gravity, env.time_step / env.n_inner
    theirs.force_mag = env.force * abs(action)
    place, angle, speed, turning = physics
    theirs.state = (place, speed, angle, turning)
    for _ in range(env.n_inner):
        theirs.steps_beyond_terminated = None  # or it warns of steps beyond its own end
        theirs.step(int(action > 0))
    place, speed, angle, turning = theirs.state
    return np.array([place, angle, speed, turning])


def test_dynamics_are_those_of_gymnasium(rng):
    env = CartPoleSwingUp()
    physics, actions = np.array([0.0, np.pi, 0.0, 0.0]), rng.uniform(-1, 1, 60)
    step = jax.jit(env.step)
    for action in actions:
        expected = gymnasium_dynamics(env, physics, action)
        state = jnp.asarray(physics, jnp.float32)
        _, seen, _, _ = step(jax.random.key(0), state, jnp.array([action]))
        np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-5)
        physics = expected
        assert abs(physics[0]) < env.track
    assert np.ptp(physics) > 0.1  # it moved


def test_the_cart_stops_at_the_end_of_its_track():
    env = CartPoleSwingUp()
    at_end = jnp.array([env.track, 3.0, 2.0, 0.5])
    pushed = env.dynamics(at_end, jnp.array([1.0]))
    assert float(pushed[0]) == env.track
    assert float(pushed[2]) == 0.0
    assert float(pushed[1]) != 3.0  # the pole swings on
    back = env.dynamics(at_end.at[2].set(-2.0), jnp.array([-1.0]))
    assert float(back[0]) < env.track
    assert float(back[2]) < -2.0


def test_noise_has_the_variance_asked_for():
    env, n = CartPoleSwingUp(noise_var=0.005), 4_000
    state = env.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), n)
    seen = jax.vmap(lambda key: env.step(key, state, jnp.ones(1))[1])(keys)
    off = np.asarray(seen) - np.asarray(env.dynamics(state, jnp.ones(1)))
    error = 0.005 * np.sqrt(2 / n)  # of a variance of normals
    np.testing.assert_allclose(off.var(axis=0), 0.005, atol=4 * error)
    np.testing.assert_allclose(off.mean(axis=0), 0.0, atol=4 * np.sqrt(0.005 / n))


def test_reward_is_one_at_the_goal_less_the_action():
    env, still = CartPoleSwingUp(), jnp.zeros(1)
    at = [jnp.array([0.0, angle, 0.0, 0.0]) for angle in (0.0, np.pi, 2 * np.pi)]
    rewards = [float(env.reward(s, still, s)) for s in at]
    np.testing.assert_allclose(rewards, [1.0, np.exp(-4.0), 1.0], rtol=1e-5)
    assert float(env.reward(at[0], jnp.array([-1.0]), at[0])) == pytest.approx(0.99)


def test_the_true_model_is_the_environment():
    env = CartPoleSwingUp(noise_var=0.002)
    state = env.reset(jax.random.key(0))
    key, action = jax.random.key(1), jnp.array([0.3])
    _, seen, reward, _ = env.step(jax.random.clone(key), state, action)
    noise = jax.random.normal(key, (1, 4))
    reached, expected = TrueModel(env).step(jnp.int32(0), noise, state[None], action[None])
    np.testing.assert_allclose(reached[0], seen, rtol=1e-6)
    assert float(expected[0]) == pytest.approx(float(reward), rel=1e-5)


def test_the_shell_passes_gymnasium_s_checker():
    from gymnasium.utils.env_checker import check_env

    env = shell(CartPoleSwingUp(noise_var=0.001, max_steps=3))
    with pytest.warns(UserWarning, match=r"Box observation space m.*infinity"):
        check_env(env, skip_render_check=True)
    env.reset(seed=1)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    with pytest.raises(ValueError, match=r"`action` must be finite; got \[nan\]"):
        env.step(np.array([np.nan]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v1", "`env.action_space` must be a Box of one dimension.*QAgent"),
        ("FrozenLake-v1", "`env.observation_space` must be a Box of one dimension.*Flatten"),
    ],
)
def test_wrong_spaces_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        box_sizes(gym.make(name))


def test_actions_without_bounds_are_refused():
    env = shell(CartPoleSwingUp())
    env.action_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(ValueError, match=r"finite bounds.*RescaleAction"):
        box_sizes(env)
    with pytest.raises(TypeError, match=r"must be a Gymnasium environment.*got object"):
        box_sizes(object())


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="`noise_var` must be zero or a positive number; got -1"):
        CartPoleSwingUp(noise_var=-1.0)
    with pytest.raises(ValueError, match="`max_steps` must be a positive whole number; got 0"):
        CartPoleSwingUp(max_steps=0)


def test_without_gymnasium_there_is_advice(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'anchored\[rl\]'"):
        shell(CartPoleSwingUp())
