"""A predictive on a logarithmic scale is one distribution of the target in its own units."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive
from anchored.prediction.warp import Warp

FAR = Warp(0.0, 0.0, 1e12)


def logged(family="student-t", conformal=True, warp=FAR):
    """Six rows of three members on the log scale."""
    rng = np.random.default_rng(3)
    dist = Predictive.from_members(rng.normal(1, 0.3, (3, 6)), np.full((3, 6), 0.04), family)
    scores = stats.zscore(stats.gamma(2.0).ppf(np.arange(1, 200) / 200))
    map_ = Conformal.fit(scores, np.ones(len(scores))) if conformal else None
    return dataclasses.replace(dist, noise_dof=6.0, conformal=map_).unwarped(warp)


@pytest.mark.parametrize("family", ["gaussian", "student-t"])
@pytest.mark.parametrize("conformal", [True, False])
def test_quantiles_probabilities_and_densities_belong_together(family, conformal):
    dist = logged(family, conformal, Warp(0.5, -0.5, 1e12))
    for level in (0.05, 0.4, 0.93):
        quantile = dist.quantiles([level])[0]
        np.testing.assert_allclose(dist.cdf(quantile), level, rtol=1e-6)
    y = dist.quantiles([0.37])[0] + 0.01
    step = 1e-5
    slope = (dist.cdf(y + step) - dist.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(slope, np.exp(dist.log_density(y)), rtol=1e-4)


def test_a_log_normal_in_closed_form():
    """One member and normal noise: the log-normal of SciPy."""
    t, noise = np.array([0.2, 1.0, -1.0]), 0.3
    plain = Predictive(t, np.zeros(3), np.full(3, noise))
    dist = plain.unwarped(dataclasses.replace(FAR, raised=np.exp(noise / 2)))
    exact = stats.lognorm(np.sqrt(noise), scale=np.exp(t))
    y = np.array([0.7, 4.0, 0.1])
    np.testing.assert_allclose(dist.mean, exact.mean(), rtol=1e-12)
    np.testing.assert_allclose(dist.std, exact.std(), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(y), exact.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(dist.log_density(y), exact.logpdf(y), rtol=1e-9)
    np.testing.assert_allclose(dist.quantiles([0.1, 0.9]), [exact.ppf(0.1), exact.ppf(0.9)])
    np.testing.assert_array_equal(dist.of_family("gaussian").cdf(y), dist.cdf(y))


def test_samples_and_crps_are_of_the_distribution():
    dist, n = logged(), 40_000
    draws = dist.sample(n, random_state=0)
    for level in (0.05, 0.5, 0.95):
        share = np.mean(draws < dist.quantiles([level])[0], axis=0)
        assert np.all(np.abs(share - level) < 4 * np.sqrt(level * (1 - level) / n))
    y = dist.quantiles([0.8])[0]
    apart, pairs = np.abs(draws - y), np.abs(draws[1:] - draws[:-1])
    crps = apart.mean(axis=0) - pairs.mean(axis=0) / 2
    error = (apart.std(axis=0) + pairs.std(axis=0)) / np.sqrt(n)
    assert np.all(np.abs(dist.crps(y) - crps) < 4 * error)


def test_nothing_leaves_the_possible_range():
    warp = Warp(2.0, 0.0, 5.0)
    dist = logged(warp=warp)
    lower, upper = dist.interval(0.999)
    assert np.all(lower >= 0)
    assert np.all(upper <= 5)
    assert np.all((dist.mean >= 0) & (dist.mean <= 5))
    assert np.isfinite(dist.log_density(np.full(6, -3.0))).all()  # impossible, yet no infinity
    np.testing.assert_array_equal(dist.cdf(np.full(6, -3.0)) < 1e-6, True)


def test_the_mean_is_that_of_held_out_rows():
    """Exact in the large: predictions and targets of the rows have the same weighted mean."""
    rng = np.random.default_rng(0)
    t, weight = rng.normal(size=(4, 300)), rng.random(300)
    y = np.exp(t.mean(axis=0) + rng.gamma(1.0, 0.5, 300))
    warp = Warp(0.3, -0.3, 1e9).lifted(t, y, weight)
    means = warp.moments(t, np.zeros(300))[0].mean(axis=0)
    assert weight @ means == pytest.approx(weight @ y, rel=1e-9)
