"""The correction by held-out rows: order statistics, coverage on either side, one distribution."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from anchored.prediction.conformal import Conformal, order_statistic
from anchored.prediction.predictive import Predictive


def exact(mean, std, family="gaussian", dof=np.inf):
    mean = np.asarray(mean, float)
    std = np.broadcast_to(std, mean.shape)
    return Predictive(mean, np.square(std) * 0.3, np.square(std) * 0.7, None, family, dof)


def test_order_statistics_count_the_row_to_come(rng):
    scores = rng.permutation(np.arange(1.0, 20.0))  # 19 rows: the k-th of 20
    ones = np.ones(19)
    for level, k in ((0.55, 11), (0.9, 18), (0.95, 19)):
        assert order_statistic(scores, ones, level) == k
        assert order_statistic(scores, ones, 1 - level) == 20 - k
    assert order_statistic(scores, ones, 0.5) == 10
    assert order_statistic(scores, ones, 0.96) is None
    assert order_statistic(scores, ones, 0.04) is None


def test_a_weight_counts_as_rows(rng):
    scores, weight = rng.normal(size=40), rng.integers(1, 5, 40).astype(float)
    repeated = scores.repeat(weight.astype(int))
    for level in (0.1, 0.5, 0.9):
        assert order_statistic(scores, weight, level) == order_statistic(
            repeated, np.ones(len(repeated)), level
        )


def test_knots_grow_with_the_rows(rng):
    assert Conformal.fit(rng.normal(size=8), np.ones(8)) is None
    counts = []
    for n in (30, 300, 600, 1_200, 3_000):
        found = Conformal.fit(rng.normal(size=n), np.ones(n))
        counts.append(len(found.levels))
        assert np.all(np.diff(found.scores) > 0)
        assert {0.05, 0.95} <= set(found.levels)
    assert counts == [2, 5, 7, 9, 11]


@pytest.mark.parametrize("n_rows", [10, 20, 40])
def test_few_rows_widen_both_sides_alike_and_never_narrow(rng, n_rows):
    """Scores are twice as far out as stated: the k-th of n + 1 in size, so k / (n + 1) covered."""
    covered, k = [], int(np.ceil(0.9 * (n_rows + 1)))
    for _ in range(2_000):
        found = Conformal.fit(2 * rng.normal(size=n_rows), np.ones(n_rows))
        lower, upper = found.scores
        assert lower == -upper
        covered.append(1 - 2 * stats.norm.sf(upper / 2))
    error = np.std(covered) / np.sqrt(len(covered))
    assert -4 * error < np.mean(covered) - k / (n_rows + 1) < 4 * error + 0.01  # none narrowed
    calm = Conformal.fit(0.1 * rng.normal(size=n_rows), np.ones(n_rows))
    np.testing.assert_allclose(calm.scores, [-stats.norm.ppf(0.95), stats.norm.ppf(0.95)])


def test_rows_that_are_all_alike_still_give_a_map():
    found = Conformal.fit(np.full(400, 0.3), np.ones(400))
    assert np.all(np.diff(found.scores) > 0)
    np.testing.assert_allclose(found.scores, 0.3, atol=5e-3)


@pytest.mark.parametrize("overstated", [0.4, 1.0, 2.5])
def test_covers_what_it_says_on_either_side_whatever_was_stated(rng, overstated):
    """Over many draws of 60 held-out rows, skewed targets: each side misses at most 5 %."""
    n_held, n_new, n_repeats = 60, 50, 300
    below, above = [], []
    for _ in range(n_repeats):
        std = rng.uniform(0.5, 2.0, n_held + n_new)
        y = std * (rng.exponential(size=n_held + n_new) - 1)
        held = exact(np.zeros(n_held), overstated * std[:n_held])
        rows = held.held_out(y[:n_held], np.ones(n_held))
        new = dataclasses.replace(exact(np.zeros(n_new), overstated * std[n_held:]), conformal=rows)
        lower, upper = new.interval(0.9)
        below.append(np.mean(y[n_held:] < lower))
        above.append(np.mean(y[n_held:] > upper))
    for misses in (below, above):
        error = np.std(misses) / np.sqrt(n_repeats)
        assert 0.05 - 1 / (n_held + 1) - 3 * error < np.mean(misses) < 0.05 + 3 * error


def corrected(seed, family, n_outputs):
    """A predictive with a correction from skewed rows, and targets."""
    rng = np.random.default_rng(seed)
    shape = (6,) if n_outputs is None else (6, n_outputs)
    members = rng.normal(size=(5, *shape))
    dist = Predictive.from_members(members, np.full((5, *shape), rng.uniform(0.1, 3)), family)
    n_held = int(rng.integers(30, 1_500))
    skewed = rng.gamma(2.0, size=(n_outputs or 1, n_held))
    maps = [Conformal.fit(stats.zscore(row) * 1.3 + 0.2, np.ones(n_held)) for row in skewed]
    conformal = maps[0] if n_outputs is None else Conformal.stacked(maps)
    dof = 4.0 if n_outputs is None else np.linspace(3, 40, n_outputs)
    dist = dataclasses.replace(dist, noise_dof=dof, conformal=conformal)
    return dist.rescaled(3.0, 10.0), 10 + 3 * rng.normal(size=shape)


@given(
    st.integers(0, 10_000),
    st.sampled_from(["gaussian", "student-t"]),
    st.sampled_from([None, 1, 3]),
    st.floats(0.02, 0.98),
)
def test_one_distribution(seed, family, n_outputs, coverage):
    """Intervals, quantiles, distribution function, PIT and density belong together."""
    dist, y = corrected(seed, family, n_outputs)
    lower, upper = dist.interval(coverage)
    levels = [(1 - coverage) / 2, (1 + coverage) / 2]
    np.testing.assert_allclose(dist.quantiles(levels), [lower, upper], rtol=1e-9)
    np.testing.assert_allclose(dist.cdf(lower), levels[0], rtol=1e-6)
    np.testing.assert_allclose(dist.cdf(upper), levels[1], rtol=1e-6)
    np.testing.assert_array_equal(dist.pit(y), dist.cdf(y))
    # The density is the slope of the distribution function, by central differences.
    if n_outputs is None:
        step = 1e-5
        slope = (dist.cdf(y + step) - dist.cdf(y - step)) / (2 * step)
        density = np.exp(dist.log_density(y))
        between = np.abs(dist.cdf(y)[:, None] - dist.conformal.levels).min(axis=1) > 1e-4
        np.testing.assert_allclose(slope[between], density[between], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "student-t"])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_samples_are_of_the_distribution(family, n_outputs):
    """By the share below quantiles, within 4 standard errors, and by the CRPS of the samples."""
    dist, y = corrected(7, family, n_outputs)
    n = 40_000
    draws = dist.sample(n, random_state=0)
    assert draws.shape == (n, *dist.mean.shape)
    np.testing.assert_array_equal(draws, dist.sample(n, random_state=0))
    for level in (0.02, 0.3, 0.5, 0.9, 0.99):
        share = np.mean(draws < dist.quantiles([level])[0], axis=0)
        assert np.all(np.abs(share - level) < 4 * np.sqrt(level * (1 - level) / n))
    # E|T - y| - E|T - T'| / 2, the latter over neighbours
    apart, pairs = np.abs(draws - y), np.abs(draws[1:] - draws[:-1])
    crps = apart.mean(axis=0) - pairs.mean(axis=0) / 2
    error = (apart.std(axis=0) + pairs.std(axis=0)) / np.sqrt(n)
    assert np.all(np.abs(dist.crps(y) - crps) < 4 * error)


def test_no_correction_changes_nothing(rng):
    """A map through the diagonal is the distribution itself, closed forms included."""
    plain = exact(rng.normal(size=6), 1.5, "student-t", 5.0)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    same = dataclasses.replace(plain, conformal=Conformal(levels, stats.norm.ppf(levels)))
    y = 3 * rng.normal(size=6)
    np.testing.assert_allclose(same.interval(0.9), plain.interval(0.9), rtol=1e-9)
    np.testing.assert_allclose(same.cdf(y), plain.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(same.log_density(y), plain.log_density(y), rtol=1e-9)
    np.testing.assert_allclose(same.crps(y), plain.crps(y), rtol=1e-4)


def test_classes_and_counts_are_drawn_too():
    p = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
    draws = Predictive(p, p * 0, p * (1 - p), family="categorical").sample(20_000, 0)
    for row in range(2):
        share = np.bincount(draws[:, row], minlength=3) / 20_000
        assert np.all(np.abs(share - p[row]) <= 4 * np.sqrt(p[row] * (1 - p[row]) / 20_000))
    rates = np.array([[1.0, 4.0], [3.0, 4.0]])
    counts = Predictive.from_members(rates, rates, "poisson").sample(20_000, 0)
    np.testing.assert_allclose(counts.mean(axis=0), [2.0, 4.0], atol=4 * 2.5 / 20_000**0.5)


def test_a_correction_follows_units_and_outputs(rng):
    dist, y = corrected(3, "student-t", 3)
    other = dist.rescaled(10.0, 3.0)
    np.testing.assert_allclose(other.interval(0.9)[1], 10 * dist.interval(0.9)[1] + 3)
    np.testing.assert_allclose(other.cdf(10 * y + 3), dist.cdf(y))
    for i in range(3):
        np.testing.assert_allclose(dist.output(i).cdf(y[:, i]), dist.cdf(y)[:, i])
        np.testing.assert_allclose(dist.output(i).crps(y[:, i]), dist.crps(y)[:, i])
