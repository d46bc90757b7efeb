"""More columns than rows: what is trained in the space of the rows minimises the full objective."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.core import wide
from anchored.core.loss import Folds
from anchored.exact import rms

N_ROWS, N_COLUMNS = 20, 150


@pytest.fixture
def rows(rng):
    x = rng.normal(size=(N_ROWS, N_COLUMNS))
    x[:, 7] = 0.0  # a constant column, and two rows that span one direction
    x[1] = -x[0]
    return x, x[:, :3] @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=N_ROWS)


def fit(x, y, network, schedule, relevance=None, **kwargs):
    data = Data.make(x, y)
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    if relevance is not None:
        prior = prior.with_leaf("0/weight", variance=relevance[:, None])
    args = (jax.random.key(0), network, prior, Gaussian(0.05), data)
    return fit_ensemble(*args, schedule=schedule, **{"n_members": 3} | kwargs), prior


@pytest.mark.parametrize("uniform", [True, False])
def test_a_linear_model_is_the_exact_mode(rows, rng, uniform):
    x, y = rows
    relevance = np.full(N_COLUMNS, 0.01) if uniform else rng.uniform(0.001, 0.1, N_COLUMNS)
    folds = Folds(np.arange(N_ROWS) % 2, np.array([0])).joined(2)
    slow = Schedule(8_000, 64, 0.05, 0.985)
    ensemble, _ = fit(x, y, MLP(()), slow, relevance, folds=folds)
    anchors, found = (
        np.column_stack([tree[0]["bias"], tree[0]["weight"][..., 0]])
        for tree in (ensemble.centres, ensemble.params)
    )
    design = np.column_stack([np.ones(N_ROWS), x])
    prior = rms.Normal(np.zeros(N_COLUMNS + 1), np.diag([2.0, *relevance]))
    for j, fold in enumerate(folds.of_member):
        seen = folds.of_row != fold
        likelihood = rms.linear_likelihood(design[seen], y[seen], 0.05)
        exact = rms.map_solutions(anchors[j : j + 1], prior, *likelihood)[0]
        np.testing.assert_allclose(found[j], exact, atol=2e-3)
        np.testing.assert_allclose(design @ found[j], design @ exact, atol=5e-3)


def test_the_gradient_of_the_full_objective_vanishes(rows):
    x, y = rows
    network = MLP((8,), activation="tanh")
    ensemble, prior = fit(x, y, network, Schedule(8_000, 64, 0.02, 0.99))

    def forces(params, centre):
        def fit_of(p):
            outputs = network.apply(p, jnp.asarray(x, jnp.float32))
            return Gaussian(0.05).log_prob(outputs, jnp.asarray(y[:, None], jnp.float32)).sum()

        pull = jax.tree.map(lambda p, c, s: (p - c) / s**2, params, centre, prior.scale)
        return jax.grad(fit_of)(params), pull

    slope, pull = jax.vmap(forces)(ensemble.params, ensemble.centres)
    left = jax.tree.map(lambda a, b: np.linalg.norm(a - b) / np.linalg.norm(b), slope, pull)
    assert max(jax.tree.leaves(left)) < 0.02


def test_there_and_back(rows):
    data, network = Data.make(*rows), MLP((4,))
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    way = wide.narrowed(network, prior, data)
    assert way is not None
    assert way.data.x.shape == (24, 24)
    params, rest = (
        jax.tree.map(lambda leaf: leaf[None], network.init(jax.random.key(s), data.x[:1]))
        for s in (1, 2)
    )
    lifted = way.outer(way.inner(params), rest)
    outputs = [jax.vmap(lambda p: network.apply(p, data.x))(tree) for tree in (params, lifted)]
    np.testing.assert_allclose(*outputs, atol=1e-4)
    inside = jax.vmap(lambda p: network.apply(p, way.data.x))(way.inner(params))
    np.testing.assert_allclose(outputs[0], inside, atol=1e-4)
    # Off the rows it is the rest.
    off = np.eye(N_COLUMNS)[7:8]
    np.testing.assert_allclose(off @ lifted[0]["weight"][0], off @ rest[0]["weight"][0], atol=1e-6)


def test_a_network_without_a_penalty_keeps_its_start_off_the_rows(rows):
    network, (x, y) = MLP((4,)), rows
    short = Schedule(1, 64, 1e-6)
    ensemble, _ = fit(x, y, network, short, method="unconstrained")
    again, _ = fit(x, y, network, short, method="unconstrained", start=ensemble.params)
    np.testing.assert_allclose(ensemble.params[0]["weight"], again.params[0]["weight"], atol=1e-4)
    assert np.std(ensemble.params[0]["weight"][:, 7]) > 0.01


def test_other_problems_are_left_as_they_are(rows):
    network, data = MLP((4,)), Data.make(*rows)
    prior = Prior.for_network(network, data.x[:1])
    uneven = prior.with_leaf("0/weight", variance=np.array([1.0, 2.0, 1.0, 1.0]))
    assert wide.narrowed(network, uneven, data) is None
    assert wide.narrowed(network, prior.with_leaf("0/weight", variance=np.inf), data) is None

    class Own(MLP):
        """May do anything with its inputs."""

    assert wide.narrowed(Own((4,)), prior, data) is None
    few = Data.make(np.asarray(data.x)[:20, :100], data.y[:20])
    assert wide.narrowed(network, Prior.for_network(network, few.x[:1]), few) is None
