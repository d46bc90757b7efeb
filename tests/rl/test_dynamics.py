"""Learned dynamics: a linear system beside its closed form, the buffer, the scaling contract."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import objective
from anchored.errors import EnsembleError
from anchored.rl import dynamics
from anchored.rl.dynamics import DynamicsModel, DynamicsSettings, Scaling, Steps, check_members

QUICK = DynamicsSettings(hidden=(16,), capacity=64, n_members=3, learning_rate=0.01)


def steps(n, seed=0, noise=0.0):
    """Of a system that turns and is pushed, with a reward that nobody knows."""
    rng = np.random.default_rng(seed)
    seen, action = rng.normal(size=(n, 2)), rng.uniform(-1, 1, (n, 1))
    change = 0.3 * seen[:, ::-1] * [1, -1] + [0.0, 2.0] * action + noise * rng.normal(size=(n, 2))
    arrays = [seen, action, seen + change, seen[:, 0] - action[:, 0]]
    return Steps(*(np.asarray(a, np.float32) for a in arrays), np.int32(n))


def begun(settings=QUICK, reward=None):
    return DynamicsModel.begin(jax.random.key(0), 2, 1, settings, reward=reward)


@pytest.mark.parametrize("method", ["unconstrained", "regularised", "anchored", "rms"])
def test_a_linear_system_is_learnt(method):
    settings = dataclasses.replace(QUICK, method=method, capacity=500, hidden=(32,))
    model = begun(settings).add(steps(400, noise=0.05)).train(1500)
    check_members(model)
    held = steps(100, seed=1)
    found = model.predict(held.observation, held.action)
    expected = np.concatenate([held.next_observation, held.reward[:, None]], axis=1)
    error = np.sqrt(np.mean(np.square(found.mean - expected), axis=0))
    assert (error < [0.1, 0.15, 0.1]).all()  # of changes with deviations 0.3, 1.2 and 1.1
    # The noise of the observations is found: 0.05 in a deviation, none in the reward.
    noise = np.sqrt(found.aleatoric_var.mean(axis=0))
    assert (np.abs(np.log(noise[:2] / 0.05)) < 0.5).all()
    assert noise[2] < 0.05


def test_a_step_is_what_is_predicted():
    model = begun().add(steps(64)).train(50)
    some = steps(5, seed=2)
    each = jax.vmap(model.step, in_axes=(0, None, None, None))
    given = (jnp.asarray(some.observation), jnp.asarray(some.action))
    reached, reward = each(jnp.arange(3), jnp.zeros((5, 2)), *given)
    noisy, _ = each(jnp.arange(3), jnp.ones((5, 2)), *given)
    mean, var = dynamics.moments(model, some.observation, some.action)
    np.testing.assert_allclose(reached, mean[..., :2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(reward, mean[..., 2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(noisy - reached, np.sqrt(var[..., :2]), rtol=1e-3, atol=1e-5)


def test_a_known_reward_is_not_learnt():
    model = begun(reward=lambda seen, action, reached: reached[..., 0])
    assert model.rows.y.shape[1] == 2
    reached, reward = model.step(
        jnp.int32(1), jnp.zeros((4, 2)), jnp.ones((4, 2)), jnp.ones((4, 1))
    )
    np.testing.assert_array_equal(reward, reached[..., 0])


def test_the_oldest_rows_make_room():
    model = begun()
    first, more, spare = steps(50), steps(30, seed=1), steps(10, seed=2)
    model = model.add(first).add(more)
    assert (int(model.rows.n_rows), int(model.seen)) == (64, 80)
    np.testing.assert_array_equal(model.rows.x[:16, :2], more.observation[14:])
    np.testing.assert_array_equal(model.rows.x[16:50, :2], first.observation[16:])
    padded = model.add(spare._replace(count=np.int32(3)))  # seven of them are no steps
    np.testing.assert_array_equal(padded.rows.x[16:19, :2], spare.observation[:3])
    np.testing.assert_array_equal(padded.rows.x[19:], model.rows.x[19:])
    with pytest.raises(ValueError, match="65 steps come at once and `capacity` is 64"):
        model.add(steps(65))


def test_rows_compile_nothing_again():
    model = begun(dataclasses.replace(QUICK, hidden=(7,))).add(steps(20)).train(3)
    before = dynamics._trained._cache_size(), dynamics._added._cache_size()
    model.add(steps(20, seed=1)).train(5)
    assert (dynamics._trained._cache_size(), dynamics._added._cache_size()) == before


def test_the_penalty_is_over_the_rows_held():
    """At the same outputs and twice the same rows, the penalty counts half."""
    once = begun().add(steps(20))
    twice = once.add(steps(20))
    losses = []
    for model in (once, twice):
        free = model.state.extra._replace(penalty=np.float32(0))
        unpenalised = dataclasses.replace(model.state, extra=free)
        losses.append(objective(model.state, model.rows) - objective(unpenalised, model.rows))
    np.testing.assert_allclose(losses[0], 2 * losses[1], rtol=1e-4)


def test_scales_are_of_the_rows_that_count():
    rows = jnp.array([[1.0, 5.0], [3.0, 5.0], [99.0, 99.0]])
    mean, scale = Scaling.of(rows, jnp.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(mean, [2.0, 5.0])
    np.testing.assert_allclose(scale, [1.0, 1.0])  # a constant column keeps one


def test_training_can_be_cut_anywhere():
    model = begun().add(steps(64))
    once, cut = model.train(40), model.train(15).train(25)
    np.testing.assert_array_equal(once.state.theta, cut.state.theta)


def test_a_diverged_member_is_told():
    model = begun(dataclasses.replace(QUICK, learning_rate=1e30)).add(steps(20)).train(5)
    with pytest.raises(EnsembleError, match=r"members 0, 1, 2 of the dynamics.*`learning_rate`"):
        check_members(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_var": 0.0}, "`noise_var` must be a positive number, or None"),
        ({"later_var": -1.0}, "`later_var` must be a positive number; got -1"),
        ({"capacity": 0}, "`capacity` must be a positive whole number; got 0"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        DynamicsSettings(**change)
