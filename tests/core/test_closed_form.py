"""The last layer in closed form, and members that go on on more rows."""

import dataclasses
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from anchored import (
    MLP,
    Categorical,
    Data,
    Gaussian,
    Prior,
    Schedule,
    advance,
    fit_ensemble,
    init_ensemble,
    objective,
)
from anchored.core import training
from anchored.core.closed_form import is_quadratic, with_best_last_layer
from anchored.core.continuing import go_on
from anchored.core.loss import Folds
from anchored.errors import Status

NOISE = np.array([0.09, 0.4])
SHORT = Schedule(epochs=3, batch_size=64, learning_rate=1e-3)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = x @ rng.normal(size=(3, 2)) + np.sqrt(NOISE) * rng.normal(size=(120, 2))
    return x, y, rng.uniform(0.5, 2.0, 120)


def test_the_last_layer_is_where_its_gradient_is_zero(rows):
    """With score noise, weights, folds and two noises; and the objective falls."""
    data, network = Data.make(*rows), MLP((20,), 2)
    prior = Prior.for_network(network, rows[0], 2.0)
    folds = Folds(np.arange(120) % 2, np.array([0, 1, Folds.SEES_ALL]))
    state = init_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(NOISE),
        data,
        method="rms",
        n_members=3,
        folds=folds,
    )
    state = advance(state, data, 100)
    solved = with_best_last_layer(state, prior, data)
    assert np.all(np.asarray(objective(solved, data)) < np.asarray(objective(state, data)))

    def of_last(last):
        theta = solved.theta.at[:, -40:].set(last)
        return objective(dataclasses.replace(solved, theta=theta), data).sum()

    slope = jax.grad(of_last)(solved.theta[:, -40:])
    before = jax.grad(lambda last: objective(
        dataclasses.replace(state, theta=state.theta.at[:, -40:].set(last)), data).sum()
    )(state.theta[:, -40:])  # fmt: skip
    assert np.abs(slope).max() < 1e-4 * np.abs(before).max()


@pytest.mark.parametrize("method", ["rms", "anchored", "regularised"])
def test_linear_members_in_parts_are_those_of_all_rows_at_once(rows, method):
    x, y, weight = rows
    network = MLP((), 2)
    model = network, Prior.for_network(network, x, 2.0), Gaussian(NOISE)
    data = Data.make(x[:40], y[:40], weight[:40]).with_capacity(128)
    how = {"method": method, "schedule": SHORT}
    found = fit_ensemble(jax.random.key(0), *model, data, n_members=3, **how)
    for start in range(40, 120, 20):
        some = slice(start, start + 20)
        data = data.append(x[some], y[some], weight[some])
        found = go_on(jax.random.key(0), found, *model[1:], data, **how)
    state = init_ensemble(jax.random.key(0), *model, Data.make(*rows), method=method, n_members=3)
    whole = with_best_last_layer(state, model[1], Data.make(*rows)).params
    for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_regularised_linear_members_are_ridge_regression(rows):
    """By the textbook: (X'WX / s^2 + T^-2)^-1 X'Wy / s^2."""
    x, y, weight = rows
    network, data = MLP((), 2), Data.make(*rows)
    prior = Prior.for_network(network, x, 2.0)
    state = init_ensemble(
        jax.random.key(0), network, prior, Gaussian(NOISE), data, method="regularised", n_members=2
    )
    found = with_best_last_layer(state, prior, data).params[0]
    design = np.column_stack([x, np.ones(120)]) * np.sqrt(weight)[:, None]
    scales = np.append(np.asarray(prior.scale[0]["weight"])[:, 0], prior.scale[0]["bias"][0])
    for i, noise in enumerate(NOISE):
        left = design.T @ design / noise + np.diag(scales**-2)
        right = design.T @ (np.sqrt(weight) * y[:, i]) / noise
        ridge = np.linalg.solve(left, right)
        np.testing.assert_allclose(found["weight"][0, :, i], ridge[:3], atol=1e-5)
        np.testing.assert_allclose(found["bias"][0, i], ridge[3], atol=1e-5)


def test_classes_have_no_closed_form(rows):
    network, data = MLP((5,), 2), Data.make(rows[0], rows[1][:, 0] > 0)
    prior = Prior.for_network(network, rows[0], 2.0)
    state = init_ensemble(jax.random.key(0), network, prior, Categorical(), data, n_members=2)
    assert not is_quadratic(state, prior, data)


def test_members_that_diverge_stay_as_they_were(rows):
    x, y, _ = rows
    network, data = MLP((5,), 2), Data.make(x, y)
    model = network, Prior.for_network(network, x, 2.0), Gaussian(NOISE)
    found = fit_ensemble(jax.random.key(0), *model, data, n_members=2, schedule=SHORT)
    wild = Schedule(epochs=5, learning_rate=1e30)
    later = go_on(jax.random.key(0), found, *model[1:], data, method="anchored", schedule=wild)
    for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(later.params), strict=True):
        np.testing.assert_array_equal(a, b)
    assert later.member_ids == found.member_ids


def continued(rows, schedule, first=SHORT):
    """What is known of members after a first training, and after going on."""
    x, y, _ = rows
    network, data = MLP((5,), 2), Data.make(x, y)
    model = network, Prior.for_network(network, x, 2.0), Gaussian(NOISE)
    found = fit_ensemble(jax.random.key(0), *model, data, n_members=2, schedule=first)
    how = {"method": "anchored", "schedule": schedule}
    return found.info, go_on(jax.random.key(0), found, *model[1:], data, **how).info


def test_members_that_continue_are_looked_at_rarely(rows):
    """A look costs more than a few steps do."""
    first, later = continued(rows, Schedule(epochs=250, batch_size=120, learning_rate=1e-3))
    assert (later.steps - first.steps[-1]).tolist() == [0, 200, 250]
    assert len(later.objective) == 3


def test_seconds_limit_members_that_continue(rows, monkeypatch):
    """A clock of a second a step."""
    clock = [0.0]

    def counted(state, data, n_steps):
        clock[0] += n_steps
        return advance(state, data, n_steps)

    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(training, "advance", counted)
    brief = Schedule(epochs=1_000, batch_size=120, learning_rate=1e-3, max_seconds=100.0)
    first, later = continued(rows, brief)
    assert later.steps[-1] - first.steps[-1] == 100


def test_members_that_had_settled_are_not_said_to_improve_after_a_few_steps(rows):
    settling = Schedule.of_steps(4_000, 120, 120, 0.03)
    first, later = continued(rows, Schedule.of_steps(100, 120, 120, 0.03), settling)
    assert first.status.tolist() == [Status.CONVERGED] * 2 == later.status.tolist()
    first, later = continued(rows, SHORT)
    assert first.status.tolist() == [Status.STEP_LIMIT] * 2 == later.status.tolist()
