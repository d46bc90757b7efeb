"""Decisions against the costs written out, and thresholds against rows that come later."""

import numpy as np
import pytest

from anchored import Predictive, metrics
from anchored.decisions import choose_reject, cost_coverage, decide, realised_costs


def classes(p):
    p = np.asarray(p, float)
    return Predictive.from_members(p[None], p[None] * (1 - p[None]), "categorical")


def normal(mean, std):
    mean, std = np.asarray(mean, float), np.asarray(std, float)
    return Predictive(mean, np.zeros_like(mean), np.square(std))


def drawn(seed, n):
    """Probabilities of three classes, and labels that follow them."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5, 0.5, 0.5], size=n)
    return classes(p), (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1)


def test_the_least_expected_cost_is_chosen_and_costly_rows_are_rejected():
    costs = np.array([[0.0, 1.0, 4.0], [6.0, 0.0, 2.0]])  # three actions for two classes
    dist = classes([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    found = decide(dist, costs, actions=("wait", "treat", "operate"), reject=0.5)
    np.testing.assert_allclose(found.costs[0], [0.6, 0.9, 3.8])
    assert found.action.tolist() == [-1, 1, -1]
    assert found.chosen == [None, "treat", None]
    np.testing.assert_allclose(found.expected_cost, [0.5, 0.4, 0.5])
    assert str(found).startswith("3 rows, 2 rejected (67%). Expected cost a row: 0.4667")


def test_two_classes_may_come_as_one_probability():
    p = np.array([0.2, 0.9])
    dist = Predictive(p, np.zeros(2), p * (1 - p), family="bernoulli")
    np.testing.assert_allclose(decide(dist).costs, [[0.2, 0.8], [0.9, 0.1]])


def test_numbers_are_decided_by_the_quantile_that_costs_say():
    """Too little costs three times too much: the best order is the 75 % quantile."""
    dist = normal([0.0, 10.0], [1.0, 2.0])
    actions = np.linspace(-3, 15, 1_801)

    def costs(y, a):
        return np.where(y > a, 3 * (y - a), a - y)

    found = decide(dist, costs, actions=actions)
    np.testing.assert_allclose(
        actions[found.action], dist.quantiles([0.75])[0], atol=0.04
    )  # quantiles are 1/199 apart in level


def test_the_curve_of_errors_is_that_of_the_metrics():
    dist, y = drawn(0, 300)
    ours, theirs = cost_coverage(dist, y), metrics.risk_coverage(dist, y)
    np.testing.assert_allclose(ours.risk, theirs.risk, atol=1e-12)
    np.testing.assert_allclose(ours.coverage, theirs.coverage)
    assert ours.area == pytest.approx(metrics.aurc(dist, y))


def test_expected_costs_are_those_that_come():
    costs = np.array([[0, 1, 5], [2, 0, 1], [9, 3, 0]])
    dist, y = drawn(1, 4_000)
    found = decide(dist, costs, reject=0.8)
    came = realised_costs(found, y, costs)
    assert np.isnan(came[found.rejected]).all()
    kept = ~found.rejected
    error = came[kept].std() / np.sqrt(kept.sum())
    assert abs(came[kept].mean() - found.expected_cost[kept].mean()) < 4 * error


def test_a_threshold_chosen_on_some_rows_holds_on_others():
    """In at least 85 of 100 draws, three standard errors below the 90 % it is chosen for."""
    held = 0
    for seed in range(100):
        dist, y = drawn(seed, 400)
        later, labels = drawn(1_000 + seed, 4_000)
        found = decide(later, reject=choose_reject(dist, y, most_cost=0.15))
        held += np.nanmean(realised_costs(found, labels, "errors")) <= 0.15
    assert held >= 90 - 3 * np.sqrt(100 * 0.1 * 0.9)


def test_what_is_wrong_is_named():
    dist, y = drawn(0, 50)
    with pytest.raises(
        ValueError, match=r"`costs` must be finite numbers \[3 classes, 2 actions\]"
    ):
        decide(dist, [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="`costs` must be a matrix"):
        decide(dist, "error")
    with pytest.raises(TypeError, match="needs `costs`, a function"):
        decide(normal([0.0], [1.0]))
    with pytest.raises(ValueError, match="`reject` must be a finite cost"):
        decide(dist, reject=np.nan)
    with pytest.raises(ValueError, match="`most_cost` 1e-05 cannot be met"):
        choose_reject(dist, y, most_cost=1e-5)
    with pytest.raises(ValueError, match="`confidence`"):
        choose_reject(dist, y, most_cost=0.1, confidence=1.0)
