"""Novelty scores and abstention against scikit-learn, naive loops, and what chance gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from anchored import Predictive, metrics

# Few different values, so that many are tied
SCORES = st.lists(st.integers(0, 5), min_size=1, max_size=30)


def is_novel(familiar, novel):
    return np.repeat([0, 1], [len(familiar), len(novel)]), np.concatenate([familiar, novel])


@given(SCORES, SCORES)
def test_areas_are_scikit_learn_s(familiar, novel):
    exact = is_novel(familiar, novel)
    assert metrics.auroc(familiar, novel) == pytest.approx(sk.roc_auc_score(*exact))
    assert metrics.aupr(familiar, novel) == pytest.approx(sk.average_precision_score(*exact))


def test_areas_of_known_cases():
    low, high = [1.0, 2.0], [3.0, 4.0]
    assert metrics.auroc(low, high) == metrics.aupr(low, high) == 1.0
    assert metrics.auroc(high, low) == 0.0
    assert metrics.auroc(low, low) == 0.5
    assert metrics.aupr([1.0] * 3, [1.0]) == 0.25  # chance: the share of novel rows
    assert metrics.auroc([0.0, np.inf], [np.inf]) == 0.75


def test_chance_gives_the_areas_of_the_docstrings(rng):
    """Within four standard errors of 200 repeats; average precision is biased by about 1/n."""
    pairs = [(rng.normal(size=900), rng.normal(size=300)) for _ in range(200)]
    for score, chance, bias in ((metrics.auroc, 0.5, 0.0), (metrics.aupr, 0.25, 0.01)):
        found = [score(*pair) for pair in pairs]
        assert abs(np.mean(found) - chance) < bias + 4 * np.std(found) / np.sqrt(200)


def test_order_is_all_that_counts(rng):
    familiar, novel = rng.normal(size=40), rng.normal(1, 1, 30)
    for score in (metrics.auroc, metrics.aupr):
        assert score(familiar, novel) == score(np.exp(familiar), np.exp(novel))


def test_scores_of_distributions(rng):
    members = rng.normal(size=(5, 8))
    dist = Predictive.from_members(members, np.ones_like(members), "student-t")
    np.testing.assert_allclose(metrics.novelty_scores(dist), members.std(axis=0, ddof=1))
    std = rng.uniform(1, 2, 8)
    np.testing.assert_allclose(metrics.novelty_scores((np.zeros(8), std)), std)
    np.testing.assert_allclose(metrics.novelty_scores(members), members.std(axis=0, ddof=1))
    p = rng.dirichlet(np.ones(3), (5, 8))
    classes = Predictive.from_members(p, p * (1 - p), "categorical")
    np.testing.assert_array_equal(metrics.novelty_scores(classes), classes.mutual_information)


def test_areas_take_distributions(rng):
    familiar, novel = rng.normal(size=(5, 30)), rng.normal(0, 1.5, (5, 20))
    stds = [m.std(axis=0, ddof=1) for m in (familiar, novel)]
    dists = [Predictive.from_members(m, np.ones_like(m)) for m in (familiar, novel)]
    pairs = [(m.mean(axis=0), s) for m, s in zip((familiar, novel), stds, strict=True)]
    for score in (metrics.auroc, metrics.aupr):
        exact = score(*stds)
        assert score(*dists) == score(familiar, novel) == score(*pairs) == pytest.approx(exact)


# Abstention


def test_risk_by_a_loop(rng):
    n = 60
    std = rng.permutation(n) + 1.0
    y = rng.normal(0, std)
    coverage, risk = metrics.risk_coverage((np.zeros(n), std), y)
    np.testing.assert_allclose(coverage, np.arange(1, n + 1) / n)
    naive = [metrics.rmse((np.zeros(k), 1.0), y[std <= k]) for k in range(1, n + 1)]
    np.testing.assert_allclose(risk, naive)
    assert metrics.aurc((np.zeros(n), std), y) == pytest.approx(np.mean(naive))


def classes(rng, n=80):
    p = rng.dirichlet(np.full(3, 0.5), n)
    labels = np.minimum((rng.uniform(size=(n, 1)) > p.cumsum(axis=1)).sum(axis=1), 2)
    return p, Predictive.from_members(p[None], (p * (1 - p))[None], "categorical"), labels


def test_risk_of_classes_by_a_loop(rng):
    p, dist, labels = classes(rng)
    _, risk = metrics.risk_coverage(dist, labels)
    best = np.argsort(-p.max(axis=1))
    for k in range(1, len(p) + 1):
        kept = best[:k]
        assert risk[k - 1] == pytest.approx(1 - metrics.accuracy(p[kept], labels[kept]))
    assert risk[-1] == pytest.approx(1 - metrics.accuracy(dist, labels))
    assert metrics.aurc(dist, labels) < risk[-1]


def test_yes_no_predictives_are_classes(rng):
    yes, labels = rng.uniform(size=50), rng.integers(2, size=50)
    bernoulli = Predictive(yes, 0 * yes, yes * (1 - yes), family="bernoulli")
    p = np.column_stack([1 - yes, yes])
    categorical = Predictive(p, 0 * p, p * (1 - p), family="categorical")
    np.testing.assert_allclose(
        metrics.risk_coverage(bernoulli, labels), metrics.risk_coverage(categorical, labels)
    )


def test_the_last_risk_is_that_of_all_rows(rng):
    mean, std, y = rng.normal(size=(3, 100))
    pair = (mean, np.abs(std))
    assert metrics.risk_coverage(pair, y).risk[-1] == pytest.approx(metrics.rmse(pair, y))


def test_equal_uncertainty_says_nothing(rng):
    """Whatever the order of the rows, each counts as their average."""
    y = rng.normal(size=50)
    pair = (np.zeros(50), 1.0)
    np.testing.assert_allclose(metrics.risk_coverage(pair, y).risk, metrics.rmse(pair, y))
    std = np.repeat([1.0, 2.0], 25)
    risk = metrics.risk_coverage((np.zeros(50), std), y).risk
    shuffled = np.concatenate([rng.permutation(25), 25 + rng.permutation(25)])
    np.testing.assert_allclose(metrics.risk_coverage((np.zeros(50), std), y[shuffled]).risk, risk)
    np.testing.assert_allclose(risk[:25], np.sqrt(np.mean(y[:25] ** 2)))


def test_ties_are_the_average_over_orders(rng):
    """Squared risk is linear in the losses, so its mean over random orders is exact."""
    n, n_repeats = 12, 4000
    std, y = np.repeat([1.0, 2.0, 3.0], 4), rng.normal(size=n)
    exact = np.square(metrics.risk_coverage((np.zeros(n), std), y).risk)
    found = []
    for _ in range(n_repeats):
        broken = std + rng.uniform(0, 0.5, n)
        found.append(np.square(metrics.risk_coverage((np.zeros(n), broken), y).risk))
    error = np.std(found, axis=0) / np.sqrt(n_repeats)
    assert np.all(np.abs(np.mean(found, axis=0) - exact) < 4.5 * error + 1e-12)


def test_area_of_the_best_order_and_of_none(rng):
    """Wrong rows last: e + (1 - e) log(1 - e) for many rows; no order: e itself."""
    n, e = 10_000, 0.2
    wrong = np.arange(n) >= n - e * n
    confidence = np.linspace(0.99, 0.6, n)
    p = np.column_stack([confidence, 1 - confidence])
    dist = Predictive(p, 0 * p, p * (1 - p), family="categorical")
    best = metrics.aurc(dist, wrong)
    assert best == pytest.approx(e + (1 - e) * np.log(1 - e), abs=1 / n)
    none = [metrics.aurc(dist, rng.permutation(wrong)) for _ in range(200)]
    assert abs(np.mean(none) - e) < 4 * np.std(none) / np.sqrt(200)


def test_misuse_is_named(rng):
    two = (np.zeros((4, 2)), 1.0)
    with pytest.raises(ValueError, match=r"shape \(4, 2\); .* Give one output at a time"):
        metrics.risk_coverage(two, np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"shape \(4, 2\); .* Give one output at a time"):
        metrics.auroc(two, two)
    for bad in ([], [1.0, np.nan]):
        with pytest.raises(
            ValueError, match=r"`scores_out` must be scores \[row\] of at least one"
        ):
            metrics.auroc([1.0], bad)
        with pytest.raises(ValueError, match=r"`scores_in` must be scores \[row\] of at least one"):
            metrics.aupr(bad, [1.0])
    _, dist, labels = classes(rng)
    with pytest.raises(ValueError, match="`labels` must be whole numbers from 0 to 2"):
        metrics.risk_coverage(dist, labels + 1)
