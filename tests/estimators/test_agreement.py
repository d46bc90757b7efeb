"""Which ways to the same fit agree, and to which digit; docs/training.md says the same."""

import numpy as np
import pandas as pd
import pytest

from anchored import AnchoredRegressor, runtime
from anchored.core import members

SETTINGS = {"n_members": 8, "epochs": 60, "prior": 5.0, "random_state": 0, "hidden": (10,)}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    return X, X[:, 0] ** 2 + 0.1 * rng.normal(size=120)


@pytest.fixture(scope="module")
def fitted(rows):
    return AnchoredRegressor(**SETTINGS).fit(*rows)


def test_the_same_numbers_give_the_same_bits(rows, fitted):
    X, y = rows
    expected = fitted.predict_interval(X)
    for other in (X.astype(np.float64), pd.DataFrame(X, columns=["a", "b", "c"])):
        found = AnchoredRegressor(**SETTINGS).fit(other, y).predict_interval(other)
        np.testing.assert_array_equal(found, expected)


def test_one_core_and_two_give_the_same_bits(rows, fitted, monkeypatch):
    X, y = rows
    for n_cores in (1, 2):
        monkeypatch.setattr(members, "n_cores", lambda n=n_cores: n)
        found = AnchoredRegressor(**SETTINGS).fit(X, y).predict_interval(X)
        np.testing.assert_array_equal(found, fitted.predict_interval(X))


def test_numpy_agrees_to_single_precision(rows, fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    found = runtime.load(tmp_path / "model.safetensors").predict(rows[0])
    expected = fitted.predict_interval(rows[0])
    size = np.abs(expected).max()
    np.testing.assert_allclose(found["lower"], expected[:, 0], rtol=1e-5, atol=1e-5 * size)
    np.testing.assert_allclose(found["upper"], expected[:, 1], rtol=1e-5, atol=1e-5 * size)


def test_interval_and_quantiles_are_one_distribution(rows, fitted):
    """On a fitted model, for both paths."""
    dist = fitted.predict_dist(rows[0])
    for coverage in (0.5, 0.8, 0.9, 0.99):
        levels = [(1 - coverage) / 2, (1 + coverage) / 2]
        np.testing.assert_allclose(dist.interval(coverage), dist.quantiles(levels), rtol=1e-9)
        np.testing.assert_allclose(dist.cdf(dist.interval(coverage)[0]), levels[0], rtol=1e-6)


def test_skewed_noise_is_missed_alike_on_either_side():
    """Noise of a gamma, skewness 1.4: either side of a 90 % interval misses 3 to 7 %."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(6_800, 2))
    y = 2 * X[:, 0] + rng.gamma(2.0, size=len(X))
    model = AnchoredRegressor(n_members=4, epochs=100, prior=2.0, random_state=0)
    model.fit(X[:800], y[:800])
    lower, upper = model.predict_interval(X[800:], 0.9).T
    for missed in (np.mean(y[800:] < lower), np.mean(y[800:] > upper)):
        assert 0.03 < missed < 0.07
