"""Each fault is made on purpose, and is not reported where it is not."""

import warnings

import numpy as np
import pytest

from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.error_bars import health
from anchored.errors import HealthWarning


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)


def faults(model, X, y) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in caught if issubclass(w.category, HealthWarning)]


def test_a_sound_fit_is_not_warned_of(table):
    X, y = table
    assert faults(AnchoredRegressor(n_members=3, epochs=500, random_state=0), X, y) == []
    assert faults(AnchoredClassifier(n_members=3, epochs=100, random_state=0), X, y > 0) == []


def test_members_that_say_the_same_everywhere_are_named(rng):
    means = rng.normal(size=(4, 50, 2))
    assert health.collapsed_members(means, (0, 1, 2, 3)) is None
    means[2] = 0.3 + 1e-4 * means[2]
    message = health.collapsed_members(means, (0, 1, 5, 6))
    assert "[5]" in message
    assert "leaky_relu" in message
    # Nothing to learn is no fault of the members.
    assert health.collapsed_members(np.zeros((4, 50, 2)), (0, 1, 2, 3)) is None


def test_a_prior_the_data_speak_against(table):
    X, y = table
    model = AnchoredRegressor(n_members=2, prior=1e-4, noise_var=0.01, epochs=5, random_state=0)
    (message,) = (m for m in faults(model, X, y) if "contradict the data" in m)
    suggested = float(message.split("prior=")[1].split()[0])
    mended = AnchoredRegressor(n_members=2, prior=suggested, epochs=5, random_state=0)
    assert not any("contradict the data" in m for m in faults(mended, X, y))


def test_a_prior_at_the_end_of_its_range():
    assert health.prior_at_the_end(3.0) is None
    assert "straight line" in health.prior_at_the_end(1e-2)
    assert "faster" in health.prior_at_the_end(1e4)


def test_training_too_short_to_follow_the_data(table):
    X, y = table
    model = AnchoredRegressor(n_members=2, epochs=1, learning_rate=1e-5, random_state=0)
    assert any("too short" in m for m in faults(model, X, y))


@pytest.mark.parametrize(
    ("left", "expected", "behind"),
    [(0.1, 0.05, False), (0.6, 0.05, True), (0.95, 0.9, False), (0.95, 0.7, True)],
)
def test_behind_the_exact_answer(left, expected, behind):
    found = health.penalty_dominates(np.array([0.1, left]), np.array([0.1, expected]))
    assert (found is not None) == behind
