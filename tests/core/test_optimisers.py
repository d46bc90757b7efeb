"""Rates by name and by layer, and gradients that are cut."""

import jax
import numpy as np
import optax
import pytest

from anchored import MLP, AnchoredRegressor, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.core.optimisers import named, optimiser

PARAMS = ({"weight": np.ones((2, 3), np.float32)}, {"weight": np.ones((3, 1), np.float32)})


def steps_of(transformation, n_steps, gradient=1.0):
    """The first weight's updates, step by step."""
    state, found = transformation.init(PARAMS), []
    for _ in range(n_steps):
        slopes = jax.tree.map(lambda p: np.full_like(p, gradient), PARAMS)
        updates, state = transformation.update(slopes, state, PARAMS)
        found.append([float(np.ravel(leaf)[0]) for leaf in jax.tree.leaves(updates)])
    return -np.array(found)


def test_rates_go_as_they_are_named():
    constant, cosine, warm = (
        steps_of(optimiser(100, 0.1, shape), 100)[:, 0]
        for shape in ("constant", "cosine", "warmup-cosine")
    )
    np.testing.assert_allclose(constant, 0.1, rtol=1e-4)
    expected = 0.1 * (0.99 * 0.5 * (1 + np.cos(np.pi * np.arange(100) / 100)) + 0.01)
    np.testing.assert_allclose(cosine, expected, rtol=1e-3)
    assert warm[0] == 0
    assert np.argmax(warm) == 10
    assert warm[-1] < 0.02 * warm.max()


def test_layers_have_rates_of_their_own():
    found = steps_of(optimiser(10, 0.1, "constant", rates={"0.*": 0.1}), 3)
    np.testing.assert_allclose(found[:, 0], 0.1 * found[:, 1], rtol=1e-5)
    with pytest.raises(
        ValueError,
        match=r"`rates` names '7.\*', which is not a parameter; the parameters are 0.weight",
    ):
        optimiser(10, rates={"7.*": 0.1}).init(PARAMS)


def test_long_gradients_are_cut():
    """Adam's moments are those of the cut gradient."""
    state = optimiser(10, 0.1, clip=0.5).init(PARAMS)
    slopes = jax.tree.map(lambda p: np.full_like(p, 100.0), PARAMS)
    _, state = optimiser(10, 0.1, clip=0.5).update(slopes, state, PARAMS)
    moments = jax.tree.leaves(optax.tree_utils.tree_get(state, "mu"))
    length = np.sqrt(sum(np.sum(np.square(m)) for m in moments))
    assert length == pytest.approx(0.1 * 0.5, rel=1e-4)


def test_equal_settings_are_one_object():
    """Else every fit would compile again."""
    assert optimiser(10, rates={"0.*": 0.1}) is optimiser(10, rates={"0.*": 0.1})


def test_an_ensemble_trains_with_any_chain():
    x = np.linspace(-1, 1, 30, dtype=np.float32)[:, None]
    network = MLP((8,))
    chain = optax.chain(optax.clip(1.0), optax.adamw(0.01))
    for made in (chain, optimiser(100, 0.05)):
        fitted = fit_ensemble(
            jax.random.key(0), network, Prior.for_network(network, x), Gaussian(0.1),
            Data.make(x, x), n_members=2, schedule=Schedule(100, 64, optimiser=made),
        )  # fmt: skip
        assert np.all(fitted.info.objective[-1] < fitted.info.objective[0])


def test_bad_names_are_refused():
    with pytest.raises(ValueError, match="`shape` must be one of constant, cosine, warmup-cosine"):
        optimiser(10, shape="cosin")
    with pytest.raises(ValueError, match="`clip` must be a positive number or None"):
        optimiser(10, clip=0)
    with pytest.raises(ValueError, match="`optimiser` must be an optax transformation or one of"):
        named("adam", 10, 0.1)
    with pytest.raises(ValueError, match="`optimiser` must be an optax transformation or one of"):
        AnchoredRegressor(optimiser=3).fit(np.zeros((20, 1)), np.zeros(20))


def test_the_estimator_takes_a_name():
    x = np.linspace(-1, 1, 40)[:, None]
    given = {"hidden": 8, "n_members": 2, "noise_var": 0.01, "epochs": 100, "random_state": 0}
    model = AnchoredRegressor(optimiser="warmup-cosine", **given).fit(x, x[:, 0])
    assert model.score(x, x[:, 0]) > 0.9
