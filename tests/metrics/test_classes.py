"""Scores of class probabilities against scikit-learn, naive loops, and what chance gives."""

import itertools

import numpy as np
import pytest
from sklearn import calibration
from sklearn import metrics as sk

from anchored import Predictive, metrics

SCORES = {
    "accuracy": metrics.accuracy,
    "log_loss": metrics.log_loss,
    "brier": metrics.brier,
    "expected_calibration_error": metrics.expected_calibration_error,
    "confusion": metrics.confusion,
}


def right_classes(rng, n_rows=300, n_classes=3):
    """Probabilities, and labels drawn from them."""
    p = rng.dirichlet(np.full(n_classes, 0.7), n_rows)
    labels = (rng.uniform(size=(n_rows, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return p, np.minimum(labels, n_classes - 1)


def predictive(p):
    return Predictive.from_members(p[None], (p * (1 - p))[None], "categorical")


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_scores_are_scikit_learn_s(n_classes, rng):
    p, labels = right_classes(rng, n_classes=n_classes)
    every, best = np.arange(n_classes), p.argmax(axis=1)
    assert metrics.accuracy(p, labels) == sk.accuracy_score(labels, best)
    assert metrics.log_loss(p, labels) == pytest.approx(sk.log_loss(labels, p, labels=every))
    brier = sk.brier_score_loss(labels, p, labels=every, scale_by_half=False)
    assert metrics.brier(p, labels) == pytest.approx(brier)
    found = metrics.confusion(p, labels)
    np.testing.assert_array_equal(found, sk.confusion_matrix(labels, best, labels=every))
    assert found.dtype.kind == "i"


def test_two_classes_are_twice_the_score_of_one(rng):
    p, labels = right_classes(rng, n_classes=2)
    assert metrics.brier(p, labels) == pytest.approx(2 * sk.brier_score_loss(labels, p[:, 1]))


@pytest.mark.parametrize("name", SCORES)
def test_probabilities_may_come_in_any_form(name, rng):
    score = SCORES[name]
    members = rng.dirichlet([1.0, 1.0], (4, 50))
    labels = rng.integers(2, size=50)
    p = members.mean(axis=0)
    exact = score(p, labels)
    dist = Predictive.from_members(members, members * (1 - members), "categorical")
    yes = members[..., 1]
    bernoulli = Predictive.from_members(yes, yes * (1 - yes), "bernoulli")
    for form in (dist, bernoulli, members, p[:, 1]):
        np.testing.assert_allclose(score(form, labels), exact, rtol=1e-12)
    for form in (labels.astype(float), labels == 1, list(labels)):
        np.testing.assert_array_equal(score(p, form), exact)


def test_nll_of_classes_is_the_log_loss(rng):
    p, labels = right_classes(rng)
    assert metrics.nll(predictive(p), labels) == pytest.approx(metrics.log_loss(p, labels))
    with pytest.raises(ValueError, match="`labels` must be whole numbers from 0 to 2"):
        metrics.nll(predictive(p), labels + 1)


def test_scores_of_chance_are_those_of_the_docstrings():
    labels = np.arange(8) % 4
    equal = np.full((8, 4), 0.25)
    assert metrics.log_loss(equal, labels) == pytest.approx(np.log(4))
    assert metrics.brier(equal, labels) == pytest.approx(1 - 1 / 4)
    wrong = np.eye(4)[(labels + 1) % 4]
    assert metrics.brier(wrong, labels) == 2.0
    assert metrics.brier(np.eye(4)[labels], labels) == 0.0
    assert metrics.log_loss(np.eye(4)[labels], labels) == 0.0
    assert metrics.accuracy(wrong, labels) == 0.0
    assert np.isfinite(metrics.log_loss(wrong, labels))


def naive_bins(p, labels, n_bins):
    edges = np.linspace(0, 1, n_bins + 1)
    rows = []
    for low, high in itertools.pairwise(edges):
        here = (p.max(axis=1) > low) & (p.max(axis=1) <= high)
        if here.any():
            right = p[here].argmax(axis=1) == labels[here]
            rows.append((p[here].max(axis=1).mean(), right.mean(), here.sum()))
    return np.array(rows).T


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_reliability_by_a_loop_over_bins(n_bins, rng):
    p, labels = right_classes(rng)
    found, exact = metrics.reliability(p, labels, n_bins), naive_bins(p, labels, n_bins)
    np.testing.assert_allclose(found.confidence, exact[0])
    np.testing.assert_allclose(found.accuracy, exact[1])
    np.testing.assert_array_equal(found.count, exact[2])
    error = np.sum(exact[2] * np.abs(exact[0] - exact[1])) / len(p)
    assert metrics.expected_calibration_error(p, labels, n_bins) == pytest.approx(error)


def test_reliability_agrees_with_scikit_learn(rng):
    p, labels = right_classes(rng, 500)
    right = p.argmax(axis=1) == labels
    share, confidence = calibration.calibration_curve(right, p.max(axis=1), n_bins=10)
    found = metrics.reliability(p, labels, 10)
    np.testing.assert_allclose(found.accuracy, share)
    np.testing.assert_allclose(found.confidence, confidence)


def test_an_edge_belongs_to_the_bin_below_it():
    p = np.array([[0.5, 0.5], [0.75, 0.25], [0.76, 0.24]])
    found = metrics.reliability(p, [0, 1, 0], 4)
    np.testing.assert_allclose(found, [[0.5, 0.75, 0.76], [1, 0, 1], [1, 1, 1]])


def test_sure_rows_fall_into_the_last_bin():
    found = metrics.reliability(np.eye(3), [0, 1, 1])
    np.testing.assert_array_equal(np.concatenate(found), [1.0, 2 / 3, 3])
    assert metrics.expected_calibration_error(np.eye(3), [0, 1, 1]) == pytest.approx(1 / 3)


def test_chance_alone_gives_the_calibration_error_of_the_docstring(rng):
    """Right probabilities of a half, where chance does most.

    One bin: E|share - 1/2| = 0.4 / sqrt(n), by the normal approximation, rounded from 0.3989.
    """
    n, n_repeats = 400, 4000
    p = np.column_stack([np.full(n, 0.5 + 1e-9), np.full(n, 0.5 - 1e-9)])
    labels = rng.integers(2, size=(n_repeats, n))
    errors = [metrics.expected_calibration_error(p, row, 1) for row in labels]
    standard_error = np.std(errors, ddof=1) / np.sqrt(n_repeats)
    assert abs(np.mean(errors) - 0.4 / np.sqrt(n)) < 0.002 / np.sqrt(n) + 4 * standard_error


def test_the_calibration_error_of_right_probabilities_stays_below_chance_s(rng):
    errors = []
    for _ in range(200):
        p, labels = right_classes(rng, 150)
        errors.append(metrics.expected_calibration_error(p, labels))
    assert np.mean(errors) < 0.4 * np.sqrt(15 / 150)
    sure = np.eye(3)[rng.integers(3, size=150)]
    assert metrics.expected_calibration_error(sure, rng.integers(3, size=150)) > 0.5


def test_over_confidence_is_accuracy_below_confidence(rng):
    p, labels = right_classes(rng, 20_000)
    sharper = p**2 / np.sum(p**2, axis=1, keepdims=True)
    found = metrics.reliability(sharper, labels, 5)
    assert np.all(found.accuracy[1:] < found.confidence[1:])
    for score in (metrics.expected_calibration_error, metrics.log_loss, metrics.brier):
        assert score(p, labels) < score(sharper, labels)
    assert metrics.accuracy(p, labels) == metrics.accuracy(sharper, labels)


# Misuse


@pytest.mark.parametrize(
    ("dist", "error", "message"),
    [
        ((np.zeros(2), 1.0), TypeError, "`dist` must be a `Predictive` of classes .* got tuple"),
        ([[0.5, 0.5]] * 2, TypeError, "`dist` must be a `Predictive` of classes .* got list"),
        (np.zeros((2, 2, 2, 2)), ValueError, r"got shape \(2, 2, 2, 2\)"),
        (np.zeros((0, 2)), ValueError, r"got shape \(0, 2\)"),
        (np.full((2, 2), 0.4), ValueError, "not negative and sum to one"),
        (np.array([[1.5, -0.5]] * 2), ValueError, "not negative and sum to one"),
        (np.full((2, 2), np.nan), ValueError, "not negative and sum to one"),
        (np.array([0.5, 1.2]), ValueError, "not negative and sum to one"),
        (
            Predictive(np.zeros(2), np.ones(2), np.ones(2)),
            TypeError,
            "A 'gaussian' predictive has no class probabilities",
        ),
    ],
)
def test_what_are_no_probabilities_is_named(dist, error, message):
    with pytest.raises(error, match=message):
        metrics.accuracy(dist, [0, 1])


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        ([0, 2], "2"),
        ([0, -1], "-1"),
        ([0, 0.5], "0.5"),
        ([0, np.nan], "nan"),
        (["yes", "no"], "'yes'"),
        (["0", "1"], "'0'"),
        (np.array([0, None]), "0"),
    ],
)
def test_labels_that_are_no_columns_are_named(labels, got):
    with pytest.raises(ValueError, match=rf"whole numbers from 0 to 1, .*{got}.*searchsorted"):
        metrics.brier(np.full((2, 2), 0.5), labels)


def test_shapes_and_bins_are_checked():
    p = np.full((2, 2), 0.5)
    with pytest.raises(ValueError, match=r"`labels` must have shape \(2,\); got \(2, 1\)"):
        metrics.brier(p, [[0], [1]])
    for n_bins in (0, 2.5, "x"):
        with pytest.raises(ValueError, match="`n_bins` must be a positive whole number"):
            metrics.reliability(p, [0, 1], n_bins)
