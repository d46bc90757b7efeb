"""``random-features``: hidden layers stay at the anchor, and members are exact posterior draws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from anchored import (
    MLP,
    Categorical,
    ConvNet,
    Data,
    Gaussian,
    Prior,
    Schedule,
    TextCNN,
    advance,
    fit_ensemble,
    gp,
    init_ensemble,
)
from anchored.core.drawing import draw_keys, noise_seed_of
from anchored.core.members import OneByOne
from anchored.core.networks import ACTIVATIONS
from anchored.core.score_noise import normals, row_bits, sign_of

NOISE_VAR = 0.01
LIMIT = stats.norm.isf(1e-3 / 2)
SHORT = Schedule(20, 16, 0.01)
INNER = MLP((6,))


def problem(n_rows=20, n_columns=1):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n_rows, n_columns))
    y = np.sin(3 * x[:, 0]) + np.sqrt(NOISE_VAR) * rng.normal(size=n_rows)
    return Data.make(x, y, rng.choice([1.0, 2.0], n_rows))


def fit(data, network, n_members=4, schedule=SHORT, likelihood=None, **kwargs):
    prior = kwargs.pop("prior", None) or Prior.for_network(network, data.x[:1], 4.0)
    likelihood = likelihood or Gaussian(NOISE_VAR)
    args = (jax.random.key(0), network, prior, likelihood, data)
    kwargs = {"method": "random-features", "n_members": n_members, "schedule": schedule} | kwargs
    return fit_ensemble(*args, **kwargs)


def schedule_for(width, n_steps):
    """Last weights have a scale of one over the root of the width."""
    return Schedule.of_steps(n_steps, 20, 32, 0.15 / np.sqrt(width))


def assert_hidden_at_anchors(ensemble):
    jax.tree.map(np.testing.assert_array_equal, ensemble.params[:-1], ensemble.centres[:-1])
    assert_last_layers_moved(ensemble.centres, ensemble.params)


def assert_last_layers_moved(before, after):
    """All but weights of units that are zero at every row."""
    moved = np.asarray(before[-1]["weight"]) != np.asarray(after[-1]["weight"])
    assert np.all(moved.any(axis=(1, 2)))


def exact_members(ensemble, data, x):
    """Values [member, row] at ``x`` by Bayesian linear regression on each member's features."""
    network, noise_key = ensemble.network, draw_keys(jax.random.key(0))[2]
    activation, n = ACTIVATIONS[network.activation], data.n_rows
    rows, weight = (np.asarray(a, float)[:n] for a in (data.x, data.weight))
    values = []
    for j in range(ensemble.n_members):

        def features(z, j=j):
            for layer in ensemble.centres[:-1]:
                affine = z @ np.asarray(layer["weight"][j], float) + np.asarray(layer["bias"][j])
                z = np.asarray(activation(jnp.asarray(affine)), float)
            return z

        seen, anchor = features(rows), np.asarray(ensemble.centres[-1]["weight"][j], float)[:, 0]
        seed = noise_seed_of(noise_key, j)
        noise = sign_of(seed) * normals(row_bits(seed, jnp.arange(n)), 1)[:, 0]
        target = np.asarray(data.y)[:n, 0] + np.asarray(noise) * np.sqrt(NOISE_VAR / weight)
        variance = 1 / len(anchor)  # of the last layer's prior
        cov = seen @ seen.T * variance + np.diag(NOISE_VAR / weight)
        gain = variance * seen.T @ np.linalg.solve(cov, target - seen @ anchor)
        values.append(features(x) @ (anchor + gain))
    return np.stack(values)


@pytest.mark.parametrize(
    ("network", "n_columns", "kwargs"),
    [
        (MLP((60,)), 1, {}),
        (MLP((60, 40), activation="erf"), 3, {"member_map": OneByOne(looped=True)}),
        (MLP((60,)), 150, {}),  # more columns than rows
        (MLP((60,)), 1, {"optimiser": optax.adam(optax.exponential_decay(0.02, 15_000, 0.01))}),
        (MLP((60,)), 1, {"start": "drawn"}),
    ],
    ids=["one vector", "two layers, one by one", "wide", "own optimiser", "own start"],
)
def test_members_are_the_posterior_draws_of_their_features(network, n_columns, kwargs):
    """Each member, to a small share of the posterior deviation."""
    data, kwargs = problem(n_columns=n_columns), dict(kwargs)
    schedule = schedule_for(60, 15_000)
    if "optimiser" in kwargs:
        schedule = dataclasses.replace(schedule, optimiser=kwargs.pop("optimiser"))
    if "start" in kwargs:
        first = [network.init(jax.random.key(j), data.x[:1]) for j in range(4)]
        kwargs["start"] = jax.tree.map(lambda *leaves: jnp.stack(leaves), *first)
    ensemble = fit(data, network, 4, schedule, **kwargs)
    x = np.random.default_rng(1).uniform(-1.5, 1.5, (8, n_columns))
    twin = gp.twin(network, Prior.for_network(network, data.x[:1], 4.0))
    rows = (np.asarray(part)[:20] for part in (data.x, data.y))
    deviation = gp.condition(twin, *rows, NOISE_VAR).predict(x).epistemic_var[:, 0] ** 0.5
    apart = ensemble.outputs(x)[..., 0] - exact_members(ensemble, data, x)
    assert np.abs(apart / deviation).max() < 0.05
    hidden = jax.tree.leaves(ensemble.params[:-1]), jax.tree.leaves(ensemble.centres[:-1])
    for ours, anchor in zip(*hidden, strict=True):  # wide weights go there and back
        np.testing.assert_allclose(ours, anchor, atol=1e-6)


def test_wide_members_are_draws_of_the_exact_gp():
    """Pooled mean and variance are off at width 50 and right, within Monte-Carlo error, at 3200."""
    data = problem(10)
    x, y, weight = (np.asarray(part)[:10] for part in (data.x, data.y, data.weight))
    grid, n_members = np.linspace(-1.5, 1.5, 7)[:, None], 60
    off = {}
    for width in (50, 400, 3200):
        network = MLP((width,))
        twin = gp.twin(network, Prior.for_network(network, x[:1], 4.0))
        exact = gp.condition(twin, x, y, NOISE_VAR, weight).predict(grid)
        ensemble = fit(data, network, n_members, schedule_for(width, 3_000))
        outputs, var = ensemble.outputs(grid)[..., 0], exact.epistemic_var[:, 0]
        in_mean = (outputs.mean(axis=0) - exact.mean[:, 0]) / np.sqrt(var / n_members)
        in_var = np.log(outputs.var(axis=0, ddof=1) / var) / np.sqrt(2 / (n_members - 1))
        off[width] = np.abs([in_mean, in_var])
    limit = stats.norm.isf(1e-3 / 14)  # as many numbers compared
    assert off[3200].max() < limit
    assert off[50].max() > limit
    assert off[50].mean() > off[400].mean()


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        (ConvNet(((4,),), (8,), 2), np.random.default_rng(0).normal(size=(12, 6, 6, 1))),
        (TextCNN(12, 4, 5, 3, 6, 2), np.random.default_rng(0).integers(0, 12, (12, 7))),
        (MLP((6,), 2), np.random.default_rng(0).normal(size=(12, 3))),
    ],
    ids=["images", "texts", "columns"],
)
def test_hidden_layers_of_every_network_stay(network, inputs):
    ensemble = fit(Data.make(inputs, np.arange(12) % 2), network, likelihood=Categorical())
    assert_hidden_at_anchors(ensemble)


def test_an_optimiser_that_decays_weights_leaves_hidden_ones():
    schedule = Schedule(20, 16, optimiser=optax.adamw(0.01, weight_decay=1.0))
    assert_hidden_at_anchors(fit(problem(), MLP((6,)), schedule=schedule))


def test_a_state_keeps_hidden_layers_too():
    data, network = problem(), MLP((6,))
    prior = Prior.for_network(network, data.x[:1])
    args = (jax.random.key(0), network, prior, Gaussian(NOISE_VAR), data)
    state = advance(init_ensemble(*args, method="random-features", n_members=2), data, 5)
    jax.tree.map(np.testing.assert_array_equal, state.params[:-1], state.centres[:-1])
    assert_last_layers_moved(state.centres, state.params)


@pytest.mark.parametrize("optimiser", [None, optax.adamw(0.01, weight_decay=1.0)])
def test_a_diverged_member_is_trained_again_on_its_own_anchor(optimiser):
    data, network = problem(), MLP((6,))
    first = [network.init(jax.random.key(j), data.x[:1]) for j in range(3)]
    first[1][-1]["weight"] = jnp.full((6, 1), jnp.nan)
    start = jax.tree.map(lambda *leaves: jnp.stack(leaves), *first)
    schedule = dataclasses.replace(SHORT, optimiser=optimiser)
    ensemble = fit(data, network, 3, schedule, start=start)
    assert ensemble.retrained == (1,)
    assert ensemble.member_ids == (0, 1, 2)
    assert_hidden_at_anchors(ensemble)


def test_one_member_is_the_single_regularised_network():
    data, network = problem(), MLP((6,))
    single, other = (fit(data, network, 1, method=m) for m in ("random-features", "regularised"))
    jax.tree.map(np.testing.assert_array_equal, single.params, other.params)


class Own:
    """A network that does not say what its layers are."""

    init = staticmethod(INNER.init)
    apply = staticmethod(INNER.apply)
    prior_variances = staticmethod(INNER.prior_variances)


class Layered(Own):
    layered = True


def test_a_network_of_one_s_own_says_that_it_has_layers():
    with pytest.raises(TypeError, match=r"Own does not say which .*`layered = True`"):
        fit(problem(), Own())
    ours, theirs = fit(problem(), INNER), fit(problem(), Layered())
    jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)


def test_nothing_can_be_drawn_from_a_flat_prior():
    data, network = problem(), MLP((6,))
    flat = Prior.for_network(network, data.x[:1]).with_leaf("0/bias", variance=np.inf)
    with pytest.raises(ValueError, match="`prior` is flat in hidden layers"):
        fit(data, network, prior=flat)
