"""Whether the evidence, or held-out rows, choose a network without hidden layers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LogisticRegression, RidgeCV

from anchored import AnchoredClassifier, AnchoredRegressor, metrics
from anchored.estimators import trials

BRIEF = {"n_members": 4, "random_state": 0}


def straight_rows(n_rows, n_columns, seed, noise=2.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n_columns))
    slopes = np.random.default_rng(9).normal(size=n_columns)
    return x, x @ slopes + noise * rng.normal(size=n_rows)


@pytest.mark.parametrize(("n_rows", "seed"), [(100, 0), (400, 1), (1_500, 2)])
def test_straight_targets_are_predicted_like_ridge(n_rows, seed):
    """A hidden layer would have lost 8 % to ridge; 1,500 rows are more than the evidence sees."""
    x, y = straight_rows(n_rows, 30, seed)
    later, y_later = straight_rows(2_000, 30, 9)
    model = AnchoredRegressor(**BRIEF).fit(x, y)
    assert model.ensemble_.network.hidden == ()
    ridge = RidgeCV(np.logspace(-2, 5, 15)).fit(x, y).predict(later)
    ours, theirs = (np.sqrt(np.mean((p - y_later) ** 2)) for p in (model.predict(later), ridge))
    assert ours < 1.02 * theirs


def test_bent_targets_have_a_hidden_layer():
    x, y = make_friedman1(300, noise=1.0, random_state=0)
    model = AnchoredRegressor(n_members=2, epochs=5, random_state=0).fit(x, y)
    assert model.ensemble_.network.hidden == (50,)


def test_a_model_that_was_straight_is_chosen_anew():
    model = AnchoredRegressor(n_members=2, epochs=5, random_state=0)
    assert model.fit(*straight_rows(100, 5, 0)).ensemble_.network.hidden == ()
    x, y = make_friedman1(300, noise=1.0, random_state=0)
    assert model.fit(x, y).ensemble_.network.hidden == (50,)


def test_classes_that_were_straight_are_fitted_as_by_a_fresh_estimator(monkeypatch):
    """With ramps, which networks without hidden layers do not have at first."""
    bent = np.random.default_rng(0).normal(size=(1_000, 2))
    labels = np.square(bent).sum(axis=1) > 1.4
    model = AnchoredClassifier(n_members=2, epochs=5, random_state=0)

    def straight(key, first, others, *more):
        return next(other for other in others if other.widths == ())

    with monkeypatch.context() as patched:
        patched.setattr(trials, "best", straight)
        x, y = straight_rows(600, 5, 0)
        assert model.fit(x, y > 0).ensemble_.network.hidden == ()
    fresh = clone(model).fit(bent, labels)
    assert fresh.model_.x_ramps is not None
    model.fit(bent, labels)
    np.testing.assert_array_equal(model.predict_proba(bent), fresh.predict_proba(bent))


def test_widths_that_are_given_stay():
    model = AnchoredRegressor(hidden=(20,), n_members=2, epochs=5, random_state=0)
    assert model.fit(*straight_rows(100, 5, 0)).ensemble_.network.hidden == (20,)


@pytest.mark.parametrize("n_rows", [300, 900])
def test_straight_classes_are_predicted_like_logistic_regression(n_rows):
    """By the evidence below 500 rows, by held-out rows from there on."""
    x, y = straight_rows(n_rows, 20, 0, noise=3.0)
    later, y_later = straight_rows(3_000, 20, 9, noise=3.0)
    model = AnchoredClassifier(**BRIEF).fit(x, y > 0)
    assert model.ensemble_.network.hidden == ()
    logistic = LogisticRegression(C=0.1, max_iter=500).fit(x, y > 0)
    ours, theirs = (
        metrics.log_loss(m.predict_proba(later), (y_later > 0).astype(int))
        for m in (model, logistic)
    )
    assert ours < 1.02 * theirs


def test_bent_classes_have_a_hidden_layer():
    x = np.random.default_rng(0).uniform(-1, 1, size=(400, 2))
    model = AnchoredClassifier(n_members=2, epochs=5, random_state=0)
    assert model.fit(x, x[:, 0] * x[:, 1] > 0).ensemble_.network.hidden == (50,)
