"""The twin's functions are draws of its posterior; networks follow the rows."""

import jax
import numpy as np
import pytest
from scipy import stats

from anchored import gp
from anchored.decisions.surrogate import (
    Hyperpriors,
    Known,
    Networks,
    Twin,
    capacity,
    normalised,
    tune,
)


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(20, 3))
    y = np.sin(3 * x[:, 0]) + x[:, 1]
    return Known(x, (y - y.mean()) / y.std(), (0, 1, 2))


def test_moments_are_those_of_the_exact_gp(known):
    fitted = Twin().fit(known, (0,), 1)
    z = np.random.default_rng(1).uniform(-1, 1, size=(9, 3))
    with jax.enable_x64(True):
        moments = fitted.moments()
        mean, scale = map(np.asarray, moments(z))
    exact = gp.condition(fitted.tuned.kernel, known.x, known.y, fitted.tuned.noise_var).predict(z)
    np.testing.assert_allclose(mean, exact.mean[:, 0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(scale**2, exact.epistemic_var[:, 0], rtol=1e-4, atol=1e-9)
    assert moments.x.shape == (capacity(20), 3) == (32, 3)


def test_drawn_functions_have_the_moments_of_the_gp(known):
    """400 draws: the mean within 4 standard errors, the variance within 4 of its own."""
    n = 400
    fitted = Twin().fit(known, (0,), n)
    z = np.random.default_rng(1).uniform(-1, 1, size=(6, 3))
    with jax.enable_x64(True):
        functions = fitted.functions()
        axes = type(functions)(None, None, 0, 0)
        values = np.asarray(jax.vmap(lambda f: f(z), in_axes=(axes,))(functions))
        mean, scale = map(np.asarray, fitted.moments()(z))
    assert np.abs((values.mean(axis=0) - mean) / scale).max() < 4 / np.sqrt(n)
    ratio = values.var(axis=0, ddof=1) / scale**2
    assert np.abs(ratio - 1).max() < 4 * np.sqrt(2 / n)


@pytest.mark.parametrize("twin", [Twin(), Twin((50, 50)), Twin(waves=False)], ids=str)
def test_random_networks_have_the_covariance_of_the_kernel(known, twin):
    from anchored.decisions.surrogate import _draw_networks, _values

    fitted = twin.fit(known, (0,), 1)
    with jax.enable_x64(True):
        layers = _draw_networks(np.random.default_rng(0), fitted.tuned.kernel, 3, 600)
        values = np.asarray(_values(layers, known.x[:4]))
        exact = np.asarray(fitted.tuned.kernel.covariance(known.x[:4], known.x[:4]))
    found = values.T @ values / len(values)
    # A product of normals has a standard deviation of at most sqrt(2) times the variances.
    error = np.sqrt(2 / len(values)) * np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.abs((found - exact) / error).max() < 4


def test_cosines_make_a_smooth_function_known_sooner():
    x, z = np.linspace(-1, 1, 14)[:, None], np.linspace(-1, 1, 101)[:, None]
    errors = []
    for twin in (Twin(), Twin(waves=False)):
        with jax.enable_x64(True):
            mean, _ = twin.fit(Known(x, _smooth(x), (0,)), (0,), 1).moments()(z)
        errors.append(np.sqrt(np.mean(np.square(np.asarray(mean) - _smooth(z)))))
    assert errors[0] < 0.5 * errors[1]


def _smooth(x):
    return np.sqrt(2) * np.sin(4 * x[:, 0])


def test_a_column_without_effect_has_little_relevance(known):
    relevance = tune(known, (50,), Hyperpriors()).relevance
    assert relevance[2] < 0.5 * relevance[:2].max()


def test_rows_that_fill_the_room_count_for_nothing(known):
    """Evidence is highest at the same place whatever room there is."""
    from anchored.decisions import surrogate

    found = tune(known, (50,), Hyperpriors())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surrogate, "_LEAST_CAPACITY", 64)
        wider = tune(known, (50,), Hyperpriors())
    assert found.first_var == pytest.approx(wider.first_var, rel=1e-3)
    np.testing.assert_allclose(found.relevance, wider.relevance, rtol=1e-3)


def test_networks_are_as_many_functions_as_wanted(known):
    short = Networks("rms", n_members=3, n_steps=400, seen=0.8)
    fitted = short.fit(known, (0,), 4)
    functions = fitted.functions()
    z = known.x.astype(np.float32)
    values = np.asarray(jax.vmap(lambda f: f(z))(functions))
    assert values.shape == (4, 20)
    assert np.ptp(values, axis=0).min() > 0  # members differ
    assert stats.pearsonr(values.mean(axis=0), known.y).statistic > 0.9
    mean, scale = map(np.asarray, fitted.moments()(z))
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        scale, np.sqrt(values.var(axis=0, ddof=1) * (1 + 1 / 4)), rtol=1e-3, atol=1e-4
    )


def test_settings_of_networks_are_checked():
    with pytest.raises(ValueError, match="`method` must be one of"):
        Networks("deep")
    with pytest.raises(ValueError, match="`seen` must be a share"):
        Networks(seen=0.1)


def test_hyperpriors_are_checked():
    with pytest.raises(ValueError, match="`noise_var` must be a centre and a spread"):
        Hyperpriors(noise_var=(0.1, 0.0))


@pytest.mark.parametrize("power", [np.exp, lambda z: -np.exp(-z), lambda z: z])
def test_normalised_values_keep_their_order_and_have_no_skewness(power):
    """The standard error of the skewness of 100 normal values is 0.24."""
    values = power(np.random.default_rng(0).normal(size=100))
    found = normalised(values)
    np.testing.assert_array_equal(np.argsort(found), np.argsort(values))
    assert abs(stats.skew(found)) < 2 * 0.24
    assert found.mean() == pytest.approx(0, abs=1e-9)
    assert found.std() == pytest.approx(1)


@pytest.mark.parametrize(("values", "expected"), [([3, 3, 3], [0, 0, 0]), ([1, 2], [-1, 1])])
def test_values_that_show_no_distribution_are_only_standardised(values, expected):
    np.testing.assert_allclose(normalised(np.array(values, float)), expected)
