"""What is said of held-out rows, against the chance that it allows for."""

import numpy as np
import pytest
from scipy import stats

from anchored import Predictive, metrics
from anchored.reporting import verdicts


def fake(y, std, n=400):
    return Predictive(np.zeros(n), np.zeros(n), np.full(n, std**2))


@pytest.mark.parametrize(
    ("std", "kind", "words"),
    [(1.0, "good", "as they should"), (0.5, "low", "too narrow"), (2.0, "high", "wider")],
)
def test_verdict_on_intervals(std, kind, words):
    y = stats.norm.ppf((np.arange(400) + 0.5) / 400)  # a perfect sample
    found = verdicts.of_intervals(fake(y, std), y, 0.9)
    assert found.kind == kind
    assert words in found.headline


def test_verdict_allows_for_chance_as_the_binomial_does():
    n, nominal = 150, 0.9
    low, high = stats.binom.ppf([0.025, 0.975], n, nominal)
    half = stats.norm.ppf(0.95)
    for inside in range(n + 1):
        y = np.where(np.arange(n) < inside, 0.0, 2 * half)
        kind = verdicts.of_intervals(fake(y, 1.0, n), y, nominal).kind
        assert (kind == "good") == (low <= inside <= high)


def test_verdict_names_the_level_to_ask_for():
    y = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    asked = verdicts.of_intervals(fake(y, 0.8), y, 0.9).instead
    assert metrics.coverage(fake(y, 0.8), y, asked) >= 0.9
    assert metrics.coverage(fake(y, 0.8), y, asked - 0.01) < 0.9


def test_band_of_right_answers_against_simulation(rng):
    confidence = rng.uniform(0.6, 1, 80)
    low, high = verdicts.right_band(confidence)
    right = (rng.random((40_000, 80)) < confidence).sum(axis=1)
    # Beyond either end there is at most 2.5 %, and with the end itself more; four standard
    # errors of a share of 40,000 are 0.3 %.
    assert np.mean(right < low) <= 0.025 + 0.003
    assert np.mean(right <= low) >= 0.025 - 0.003
    assert np.mean(right > high) <= 0.025 + 0.003
    assert np.mean(right >= high) >= 0.025 - 0.003


def test_band_of_right_answers_is_the_binomial_of_equal_confidence():
    low, high = verdicts.right_band(np.full(200, 0.9))
    wrong = stats.binom.ppf([0.025, 0.975], 200, 0.1)
    assert (200 - high, 200 - low) == tuple(wrong)


@pytest.mark.parametrize(
    ("confidence", "n_right", "kind", "words"),
    [(0.8, 80, "good", "as it should"), (0.95, 80, "low", "over-confident"),
     (0.6, 80, "high", "under-confident")],
)  # fmt: skip
def test_verdict_on_confidence(confidence, n_right, kind, words):
    p = np.tile([confidence, 1 - confidence], (100, 1))
    found = verdicts.of_confidence(p, (np.arange(100) >= n_right).astype(int))
    assert found.kind == kind
    assert words in found.headline
