"""The loss is the formula, targets are each member's own, and learning finds the true values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import MLP
from anchored.core.state import Batch, advance
from anchored.rl import DeepSea, QSettings, Replay
from anchored.rl.environments.deep_sea import OneHotMLP, action_mapping
from anchored.rl.q_learning import (
    Episodes,
    QState,
    chosen_action,
    episode_keys,
    epsilon_at,
    init,
    member_values,
    play,
    rounds,
)
from anchored.rl.q_learning import _rows as rows_of
from anchored.rl.q_learning import _trained as trained
from tests.rl.worlds import Line

SMALL = QSettings(n_members=3, hidden=(6,), train_every=2, n_updates=4, target_every=3, capacity=40)


def started(settings, n_observed=2, n_actions=3, seed=0):
    network = MLP(settings.hidden, n_outputs=n_actions)
    return network, init(network, settings, seed, n_observed).members


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("method", ["anchored", "randomised-priors", "regularised"])
def test_the_loss_is_the_formula(rng, method, double):
    settings = dataclasses.replace(
        SMALL, method=method, double=double, noise_var=0.7, value_scale=2.0, prior_scale=0.5
    )
    network, members = started(settings)
    own = jax.tree.map(lambda leaf: leaf[1], members.own)
    theta = jnp.asarray(rng.normal(size=members.theta.shape[1]), jnp.float32)
    own = own._replace(target=jnp.asarray(rng.normal(size=len(theta)), jnp.float32))
    x, then = rng.normal(size=(2, 5, 2)).astype(np.float32)
    action, reward = rng.integers(0, 3, 5), rng.normal(size=5)
    discount = np.array([0.9, 0.9, 0.0, 0.9, 0.81])
    y = np.column_stack([action, reward, discount, then]).astype(np.float32)
    weight = np.array([1, 1, 1, 1, 0], np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray(weight), jnp.arange(5), 0.0, 30.0)
    got = members.plan.loss(theta, own, members.extra, batch)

    def q(vector, inputs):
        values = network.apply(members.plan.raveller.unravel(vector), inputs)
        if own.prior is not None:
            values += 0.5 * network.apply(members.plan.raveller.unravel(own.prior), inputs)
        return np.asarray(2.0 * values, np.float64)

    chooser = q(theta if double else own.target, then)
    target = reward + discount * q(own.target, then)[np.arange(5), chooser.argmax(axis=1)]
    error = (target - q(theta, x)[np.arange(5), action])[:4]
    # In the networks' units: a density of Q / 2 is a constant, log 2, above that of Q.
    log_prob = -0.5 * error**2 / 0.7 - 0.5 * np.log(2 * np.pi * 0.7) + np.log(2.0)
    pull = 0.5 * np.sum(((theta - own.centre) / members.extra.scale) ** 2) / 30.0
    penalty = 0.0 if method == "randomised-priors" else pull
    np.testing.assert_allclose(got, penalty - log_prob.mean(), rtol=1e-4)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("method", ["anchored", "randomised-priors", "bootstrap"])
def test_training_takes_the_steps_of_the_loss_one_by_one(rng, method, double):
    """Rows are read and target networks run for several steps at once; they are renewed between."""
    settings = dataclasses.replace(
        SMALL, method=method, double=double, n_updates=11, target_every=4, batch_size=300,
        capacity=1000,
    )  # fmt: skip
    _, members = started(settings)
    n_rows = 700
    x, then = rng.normal(size=(2, n_rows, 2)).astype(np.float32)
    y = np.column_stack([rng.integers(0, 3, n_rows), rng.normal(size=(n_rows, 2)), then])
    replay = Replay.make(settings.capacity, 2, 5).add(jnp.asarray(x), jnp.asarray(y, jnp.float32))
    state = QState(members, replay, jnp.uint32(0), jnp.int32(0))
    got = jax.jit(trained, static_argnums=0)(settings, state, jnp.int32(settings.n_updates))
    want = members
    for _ in range(settings.n_updates):
        want = advance(want, replay.data, 1)
        if int(want.step) % settings.target_every == 0:
            own = want.own._replace(target=want.theta)
            want = dataclasses.replace(want, own=own)
    assert int(got.step) == settings.n_updates
    np.testing.assert_allclose(got.theta, want.theta, atol=2e-5)
    np.testing.assert_allclose(got.own.target, want.own.target, atol=2e-5)
    assert np.abs(got.theta - members.theta).max() > 0.005


def test_without_rows_anchored_members_are_where_the_loss_is_least():
    _, members = started(SMALL)
    batch = Batch(jnp.zeros((4, 2)), jnp.zeros((4, 5)), jnp.zeros(4), jnp.arange(4), 0.0, 1.0)
    pull = jax.vmap(jax.grad(members.plan.loss), in_axes=(0, 0, None, None))
    assert not np.any(pull(members.theta, members.own, members.extra, batch))
    assert np.ptp(members.theta, axis=0).min() > 0  # and each has its own


def test_a_bootstrapped_member_sees_half_of_the_rows_twice():
    settings = dataclasses.replace(SMALL, method="bootstrap", n_members=2)
    _, members = started(settings)
    seen = []
    for j in range(2):
        own = jax.tree.map(lambda leaf, j=j: leaf[j], members.own)

        def gain(row, own=own, j=j):
            batch = Batch(jnp.zeros((1, 2)), jnp.zeros((1, 5)), jnp.ones(1), row[None], 0.0, 1.0)
            return members.plan.loss(members.theta[j], own, members.extra, batch)

        losses = np.asarray(jax.vmap(gain)(jnp.arange(2000)))
        assert len(np.unique(losses)) == 2
        seen.append(losses != 0)
    share = np.mean(seen)
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(4000)
    assert abs(np.corrcoef(seen)[0, 1]) < 4 / np.sqrt(2000)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("terminal", [False, True])
def test_rows_add_up_rewards_until_the_target_network_takes_over(rng, n_step, terminal):
    length, padded, gamma = 5, 8, 0.9
    x, then = rng.normal(size=(2, padded, 2)).astype(np.float32)
    reward = rng.normal(size=padded).astype(np.float32)
    ends = np.zeros(padded, bool)
    ends[length - 1] = terminal
    valid = np.arange(padded) < length
    steps = Episodes(x, jnp.arange(padded) % 3, reward, then, jnp.asarray(ends), jnp.asarray(valid))
    settings = dataclasses.replace(SMALL, n_step=n_step, gamma=gamma)
    inputs, y = map(np.asarray, rows_of(settings, jax.tree.map(jnp.asarray, steps)))
    for t in range(length):
        total, k = 0.0, 0
        while k < n_step and t + k < length:
            total += gamma**k * reward[t + k]
            k += 1
        over = terminal and t + k == length
        np.testing.assert_array_equal(inputs[t], x[t])
        np.testing.assert_allclose(
            y[t, :3], [t % 3, total, 0.0 if over else gamma**k], rtol=1e-5, atol=1e-6
        )
        np.testing.assert_array_equal(y[t, 3:], then[t + k - 1])


def test_one_member_plays_a_whole_episode():
    settings = dataclasses.replace(SMALL, n_members=4)
    env = DeepSea(6)
    network = MLP((6,), n_outputs=2)
    state = init(network, settings, 0, env.n_observed)
    members = set()
    for number in range(8):
        steps = play(env, settings, state, jnp.int32(number))
        member = int(episode_keys(settings, state.seed, jnp.int32(number))[0])
        q = np.asarray(member_values(state.members, steps.x))[member]
        np.testing.assert_array_equal(steps.action, q.argmax(axis=1))
        members.add(member)
    assert len(members) > 1


def test_random_actions_fall_to_epsilon():
    settings = dataclasses.replace(SMALL, epsilon=0.2, epsilon_episodes=10)
    shares = [float(epsilon_at(settings, jnp.int32(i))) for i in (0, 5, 10, 99)]
    np.testing.assert_allclose(shares, [1.0, 0.6, 0.2, 0.2], rtol=1e-6)
    keys = jax.random.split(jax.random.key(0), 2000)
    actions = jax.vmap(lambda k: chosen_action(jnp.array([0.0, 1.0, 0.5, 0.1]), k, 0.4))(keys)
    other, error = np.mean(np.asarray(actions) != 1), np.sqrt(0.3 * 0.7 / 2000)
    assert abs(other - 0.3) < 4 * error  # three of four random ones are not the best


def test_the_penalty_fades_with_the_rows_seen_not_with_those_kept():
    """Two buffers with the same rows, one of which has let others go."""
    settings = dataclasses.replace(SMALL, capacity=20)
    _, members = started(settings, 1, 2)
    row = Batch(jnp.ones((4, 1)), jnp.ones((4, 4)), jnp.ones(4), jnp.arange(4), 0.0, 10.0)
    own = jax.tree.map(lambda leaf: leaf[0], members.own)
    theta = members.theta[0] + 1.0
    few, many = (
        members.plan.loss(theta, own, members.extra, row._replace(total=n)) for n in (10.0, 30.0)
    )
    pull = 0.5 * float(jnp.sum(jnp.square(1.0 / members.extra.scale)))
    np.testing.assert_allclose(few - many, pull * (1 / 10 - 1 / 30), rtol=1e-4)


def test_values_are_those_of_dynamic_programming():
    """A sea of three: played at random, learned by one network, compared with the exact Q."""
    size, gamma = 3, 0.9
    env = DeepSea(size, indexed=True)
    settings = QSettings(
        method="unconstrained", n_members=1, hidden=(32,), gamma=gamma, epsilon=1.0,
        train_every=5, n_updates=150, target_every=50, capacity=300, batch_size=32,
        learning_rate=0.005,
    )  # fmt: skip
    state = init(OneHotMLP(size**2, (32,)), settings, 0, 1)
    state, _, n_done = rounds(env, settings, 40, state, jnp.int32(40))
    assert int(n_done) == 40
    right_is, exact = action_mapping(size, 42), np.zeros((size + 1, size, 2))
    for row in reversed(range(size)):
        for column in range(size):
            for action in range(2):
                right = action == right_is[row, column]
                to = min(column + 1, size - 1) if right else max(column - 1, 0)
                reward = (column == size - 1 and right) - 0.01 / size * right
                exact[row, column, action] = reward + gamma * exact[row + 1, to].max()
    cells = [(row, column) for row in range(size) for column in range(row % 2, row + 1, 2)]
    x = jnp.array([[row * size + column] for row, column in cells], jnp.float32)
    q = np.asarray(member_values(state.members, x))[0]
    np.testing.assert_allclose(q, [exact[cell] for cell in cells], atol=0.05)


def test_a_round_with_a_number_that_is_none_changes_nothing():
    network = MLP((6,), n_outputs=2)
    state = init(network, SMALL, 0, 1)
    before = np.asarray(state.members.theta)
    # Members that always go right reach the end; the untrained do or do not, so try a few.
    state, _, n_done = rounds(Line(bad=np.inf), SMALL, 20, state, jnp.int32(20))
    assert int(n_done) < 20
    assert int(state.episode) == 2 * int(n_done)
    assert np.all(np.isfinite(state.replay.y))
    if int(n_done) == 0:
        np.testing.assert_array_equal(state.members.theta, before)


def test_later_rounds_compile_nothing_and_copy_no_buffer():
    settings = dataclasses.replace(SMALL, capacity=100_000)
    network = MLP((6,), n_outputs=2)
    state = init(network, settings, 0, 1)
    n_bytes = state.replay.x.nbytes + state.replay.y.nbytes
    lowered = rounds.lower(Line(), settings, 10, state, jnp.int32(1))
    memory = lowered.compile().memory_analysis()
    assert memory.alias_size_in_bytes >= n_bytes
    assert memory.temp_size_in_bytes < n_bytes  # the marks of the rows, not the rows
    n_programs = rounds._cache_size()
    for n in (1, 3, 10):
        state, _, _ = rounds(Line(), settings, 10, state, jnp.int32(n))
    assert rounds._cache_size() == n_programs + 1
