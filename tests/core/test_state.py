"""Training as a state: two halves are one run, data grow, and the rows of a step are drawn well."""

import dataclasses
import doctest
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import anchored
from anchored import MLP, Data, Gaussian, Prior, Schedule, advance, init_ensemble, objective
from anchored.core import state as state_module
from anchored.core.loss import Folds
from anchored.core.members import OneByOne, Threaded, Vmapped
from anchored.core.rows import HostRows, Standardiser
from anchored.core.state import shuffled


def begun(data, schedule=None, network=None, **kwargs):
    network = network or MLP((6,))
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    schedule = schedule or Schedule(1, 16, 0.02, 0.9)
    args = (jax.random.key(0), network, prior, Gaussian(0.05), data)
    return init_ensemble(*args, schedule=schedule, **{"n_members": 4} | kwargs)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=n)


def same_bits(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"method": "rms"},
        {"folds": Folds(np.arange(40) % 2, np.array([0, 1])).joined(2)},
        {"schedule": Schedule(1, 64, 0.02)},
        {"schedule": Schedule(1, 16, optimiser=optax.adam(optax.exponential_decay(0.1, 9, 0.5)))},
        {"member_map": Vmapped()},
        {"member_map": Threaded(2, 2)},
        {"member_map": OneByOne()},
    ],
    ids=lambda kwargs: next(iter(kwargs), "default"),
)
def test_two_halves_are_one_run_to_the_last_bit(kwargs):
    """33 steps: past an epoch of two batches, and past the first decay of the rate."""
    data = Data.make(*rows(40))
    start = begun(data, **kwargs)
    one = advance(start, data, 33)
    assert int(one.step) == 33
    same_bits(one, advance(advance(start, data, 5), data, 28))
    # Through plain arrays, as a file would keep them.
    halfway = advance(start, data, 20)
    kept = [np.array(leaf) for leaf in jax.tree.leaves(halfway)]
    same_bits(one, advance(jax.tree.unflatten(jax.tree.structure(halfway), kept), data, 13))


def test_halves_of_rows_that_stay_in_a_file(monkeypatch):
    """Blocks of inputs end elsewhere, and what is done to them at random goes with the step."""
    x, y = rows(50)

    def noisy(rng, batch):
        return batch + 0.1 * rng.standard_normal(batch.shape)

    data = Data.make(HostRows(x, np.arange(50), Standardiser.fit(x, np.ones(50)), noisy), y)
    start = begun(data)
    one = advance(start, data, 23)
    monkeypatch.setattr(state_module, "_BLOCK_BYTES", 4 * 3 * 16 * 5)  # five steps at a time
    same_bits(one, advance(advance(start, data, 7), data, 16))


def test_data_grow_without_another_compilation():
    x, y = rows(1_000)
    data = Data.make(x[:10], y[:10]).with_capacity(1_024)

    class Counting(MLP):
        traces = 0

        def apply(self, params, x):
            Counting.traces += 1
            return super().apply(params, x)

    state = begun(data, network=Counting((6,)), member_map=Vmapped())
    state = advance(state, data, 3)
    first, start = Counting.traces, 10
    for stop in np.linspace(10, 1_000, 50).astype(int)[1:]:
        data = data.append(x[start:stop], y[start:stop])
        state, start = advance(state, data, 3), stop
    assert Counting.traces == first
    assert (data.n_rows, data.total_weight, int(state.step)) == (1_000, 1_000.0, 150)
    np.testing.assert_array_equal(data.x[:1_000], x.astype(np.float32))
    larger = data.with_capacity(2_048)
    advance(state, larger, 3)
    assert Counting.traces > first  # it can count


def test_grown_data_train_as_if_they_had_always_been_so(rng):
    x, y = rows(40)
    weight = rng.uniform(0.5, 2.0, 40)
    whole = Data.make(x, y, weight).with_capacity(64)
    grown = Data.make(x[:7], y[:7], weight[:7]).with_capacity(64)
    for some in (slice(7, 8), slice(8, 40)):
        grown = grown.append(x[some], y[some], weight[some])
    start = begun(whole)
    np.testing.assert_allclose(
        advance(start, whole, 30).theta, advance(start, grown, 30).theta, atol=1e-6
    )
    # Room for rows to come changes nothing.
    narrow = Data.make(x, y, weight)
    np.testing.assert_allclose(
        objective(start, whole), objective(start, narrow), rtol=1e-5, atol=1e-6
    )


def test_the_penalty_is_shared_by_the_rows_seen_so_far():
    """A linear model at rest: the exact posterior mode of the rows that have come."""
    x, y = rows(60)
    data = Data.make(x[:20], y[:20]).with_capacity(64)
    state = begun(data, Schedule(1, 64, 0.05, 0.95), MLP(()))
    for n in (20, 60):
        data = data.append(x[data.n_rows : n], y[data.n_rows : n]) if n > 20 else data
        state = advance(dataclasses.replace(state, step=np.int32(0)), data, 3_000)
        design = np.column_stack([np.ones(n), x[:n]])
        precision = np.diag(1 / np.array([2.0, *[2.0 / 3] * 3]))
        anchors, found = (
            np.column_stack([tree[0]["bias"], tree[0]["weight"][..., 0]])
            for tree in (state.centres, state.params)
        )
        exact = np.linalg.solve(
            design.T @ design / 0.05 + precision,
            (design.T @ y[:n] / 0.05)[:, None] + precision @ anchors.T,
        )
        np.testing.assert_allclose(found, exact.T, atol=1e-4)


def test_the_objective_is_the_negative_log_posterior_over_n(monkeypatch):
    x, y = rows(40)
    data, network, likelihood = Data.make(x, y), MLP((6,)), Gaussian(0.05)
    state = begun(data)
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)

    def by_hand(params, centre):
        moved = Prior(centre, prior.scale)
        pull = moved.log_prob(centre) - moved.log_prob(params)
        outputs = network.apply(params, jnp.asarray(x, jnp.float32))
        return (pull - likelihood.log_prob(outputs, y[:, None]).sum()) / 40

    want = jax.vmap(by_hand)(state.params, state.centres)
    np.testing.assert_allclose(objective(state, data), want, rtol=1e-4)
    monkeypatch.setattr(state_module, "rows_at_once", lambda x: 15)  # in four blocks
    np.testing.assert_allclose(objective(state, data), want, rtol=1e-4)


def test_states_go_through_compiled_functions():
    """A loop of an own: rows come and members move in one program."""
    x, y = rows(30)
    data = Data.make(x[:10], y[:10]).with_capacity(32)
    start = begun(data)

    @jax.jit
    def loop(state, data, x, y):
        def step(i, now):
            state, data = now
            data = data.append(x[i][None], y[i][None], jnp.ones(1))
            return advance(state, data, 2), data

        return jax.lax.fori_loop(0, 20, step, (state, data))

    weak = dataclasses.replace(
        data, n_rows=jnp.asarray(10, jnp.int32), total_weight=jnp.asarray(10.0)
    )
    state, full = loop(start, weak, jnp.asarray(x[10:]), jnp.asarray(y[10:, None]))
    other = start
    for i in range(10, 30):
        data = data.append(x[i : i + 1], y[i : i + 1])
        other = advance(other, data, 2)
    assert int(full.n_rows) == 30
    for a, b in zip(jax.tree.leaves(state.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("n_rows", [1, 2, 17, 100, 1_000])
def test_an_epoch_visits_every_row_once(n_rows):
    for epoch in range(5):
        order = shuffled(jnp.uint32(7), jnp.int32(epoch), jnp.arange(n_rows), jnp.int32(n_rows))
        assert sorted(np.asarray(order).tolist()) == list(range(n_rows))


def test_orders_are_random():
    """Where each row comes, and which rows come together, beside independent draws."""
    n_rows, n_epochs = 20, 4_000
    places, epochs = jnp.arange(n_rows), jnp.arange(n_epochs)
    orders = np.asarray(
        jax.vmap(lambda e: shuffled(jnp.uint32(1), e, places, jnp.int32(n_rows)))(epochs)
    )
    counts = np.stack([np.bincount(column, minlength=n_rows) for column in orders.T])
    expected = n_epochs / n_rows
    chi2 = np.sum((counts - expected) ** 2 / expected)
    freedom = (n_rows - 1) ** 2
    assert abs(chi2 - freedom) < 4 * np.sqrt(2 * freedom)
    gaps = np.bincount((orders[:, 1] - orders[:, 0]) % n_rows, minlength=n_rows)[1:]
    expected = n_epochs / (n_rows - 1)
    chi2 = np.sum((gaps - expected) ** 2 / expected)
    assert chi2 < n_rows - 2 + 4 * np.sqrt(2 * (n_rows - 2))
    moved = np.array([np.corrcoef(a, b)[0, 1] for a, b in itertools.pairwise(orders)])
    assert abs(moved.mean()) < 4 / np.sqrt(n_epochs * (n_rows - 1))


def test_what_cannot_be_appended_is_named():
    data = Data.make(*rows(10)).with_capacity(12)
    with pytest.raises(ValueError, match=r"`x` has 3 rows and there is room for 2; make more"):
        data.append(np.zeros((3, 3)), np.zeros(3))
    with pytest.raises(ValueError, match="must have the same number of rows; got 2, 1 and 2"):
        data.append(np.zeros((2, 3)), np.zeros(1))
    with pytest.raises(ValueError, match="`n` must be at least 10"):
        data.with_capacity(9)
    with pytest.raises(ValueError, match="`n_steps` must be zero or a positive"):
        advance(begun(data), data, -1)
    folded = begun(data, folds=Folds(np.arange(10) % 2, np.array([0, 1, 0, 1])))
    with pytest.raises(ValueError, match="`data` has room for 64 rows and the state for 12"):
        advance(folded, data.with_capacity(64), 1)


def test_members_that_are_not_finite_are_left_out():
    data = Data.make(*rows(20))
    state = begun(data)
    broken = dataclasses.replace(state, theta=state.theta.at[1].set(np.nan))
    ensemble = anchored.Ensemble.of_state(broken)
    assert (ensemble.member_ids, ensemble.dropped) == ((0, 2, 3), (1,))
    assert np.isfinite(ensemble.predict(np.zeros((2, 3))).mean).all()


def test_the_example_runs():
    failed, n_tried = doctest.testmod(state_module)
    assert not failed
    assert n_tried
