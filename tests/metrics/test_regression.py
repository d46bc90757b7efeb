"""CRPS and calibration against integrals, draws, and what chance gives."""

import dataclasses

import numpy as np
import pytest
from scipy import integrate, stats

from anchored import Predictive, metrics

# Variance of the members and of the noise: from all members to all noise, so from the fewest
# degrees of freedom, M - 1, to a normal.
VARIANCES = [(1.0, 0.0), (1.0, 0.05), (0.6, 0.4), (0.1, 3.0), (0.0, 2.0)]


def make(n_members, family="student-t"):
    """A marginal for each of `VARIANCES`, with mean 1."""
    epistemic, aleatoric = np.array(VARIANCES).T
    pattern = stats.zscore(np.arange(n_members), ddof=1)[:, None]
    members = 1 + pattern * np.sqrt(epistemic)
    return Predictive.from_members(members, np.broadcast_to(aleatoric, members.shape), family)


def marginals(dist):
    """The same marginals as scipy's distributions, from the module's docstring."""
    if dist.family == "gaussian":
        return [stats.norm(m, s) for m, s in zip(dist.mean, dist.std, strict=True)]
    spread = (1 + 1 / dist.n_members) * dist.epistemic_var
    scale = np.sqrt(spread + dist.aleatoric_var)
    return [
        stats.t((dist.n_members - 1) / (a / s**2) ** 2, m, s) if a > 0 else stats.norm(m, s)
        for a, m, s in zip(spread, dist.mean, scale, strict=True)
    ]


def by_integration(marginal, y):
    """The defining integral, left and right of ``y``."""
    left, _ = integrate.quad(lambda t: marginal.cdf(t) ** 2, -np.inf, y, epsabs=1e-10, limit=200)
    right, _ = integrate.quad(lambda t: marginal.sf(t) ** 2, y, np.inf, epsabs=1e-10, limit=200)
    return left + right


@pytest.mark.parametrize("y", [-30.0, 0.2, 1.0, 4.0])
@pytest.mark.parametrize("n_members", [2, 3, 5, 50])
@pytest.mark.parametrize("family", ["gaussian", "student-t"])
def test_crps_is_the_integral_of_the_cdf(family, n_members, y):
    dist = make(n_members, family)
    exact = [by_integration(marginal, y) for marginal in marginals(dist)]
    # 2 members: evaluated a millionth above one degree of freedom
    np.testing.assert_allclose(dist.crps(np.full(len(exact), y)), exact, rtol=3e-6)
    assert metrics.crps(dist, np.full(len(exact), y)) == pytest.approx(np.mean(exact), rel=3e-6)


@pytest.mark.parametrize("family", ["gaussian", "student-t"])
def test_crps_agrees_with_draws(family, rng):
    """E|T - y| - E|T - T'| / 2 for draws T and T', within four standard errors."""
    dist, y = make(6, family), np.array([1.5, -2.0, 1.0, 0.0, 9.0])
    draws = np.stack([m.rvs((2, 200_000), random_state=rng) for m in marginals(dist)])
    each = np.abs(draws[:, 0] - y[:, None]) - np.abs(draws[:, 0] - draws[:, 1]) / 2
    error = each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])
    assert np.all(np.abs(dist.crps(y) - each.mean(axis=1)) < 4 * error)


def test_crps_of_a_sure_forecast_is_the_absolute_error():
    zero = np.zeros(2)
    sure = Predictive(np.array([1.0, 2.0]), zero, zero)
    np.testing.assert_array_equal(sure.crps([1.0, -1.5]), [0.0, 3.5])


def test_crps_follows_the_target_s_units(rng):
    dist, y = make(4), rng.normal(size=5)
    scaled = Predictive(
        10 * dist.mean,
        100 * dist.epistemic_var,
        100 * dist.aleatoric_var,
        10 * dist.members,
        dist.family,
    )
    assert metrics.crps(scaled, 10 * y) == pytest.approx(10 * metrics.crps(dist, y))


def standard_normals(n, std=1.0):
    return Predictive(np.zeros(n), np.zeros(n), np.full(n, std**2))


def test_honest_spread_has_the_lowest_scores(rng):
    y = rng.normal(size=4000)
    for score in (metrics.crps, metrics.calibration_error):
        honest, narrow, wide = (score(standard_normals(4000, s), y) for s in (1.0, 0.5, 2.0))
        assert honest < min(narrow, wide)


def test_calibration_error_of_known_cases():
    dist = standard_normals(1000)
    even = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    assert metrics.calibration_error(dist, even) == pytest.approx(0, abs=1e-12)
    assert metrics.calibration_error(dist, np.full(1000, -9.0)) == pytest.approx(0.5)
    assert metrics.calibration_error(dist, np.full(1000, 9.0)) == pytest.approx(0.5)
    # All targets at the median: shares 0 below level 0.5 and 1 from there on.
    assert metrics.calibration_error(dist, np.zeros(1000)) == pytest.approx(
        np.mean([*np.arange(0.05, 0.5, 0.05), 0.5, *np.arange(0.05, 0.5, 0.05)])
    )


def test_chance_alone_gives_the_calibration_error_of_the_docstring(rng):
    n, n_repeats = 100, 2000
    dist = standard_normals(n)
    errors = [metrics.calibration_error(dist, rng.normal(size=n)) for _ in range(n_repeats)]
    standard_error = np.std(errors, ddof=1) / np.sqrt(n_repeats)
    # 0.33 is rounded from 0.326
    assert abs(np.mean(errors) - 0.33 / np.sqrt(n)) < 0.005 / np.sqrt(n) + 4 * standard_error


def test_student_t_of_members_is_calibrated(rng):
    """Members and target drawn alike: the Student-t is exact, the Gaussian is not."""
    n, n_members = 20_000, 4
    members = rng.normal(size=(n_members, n))
    dist = Predictive.from_members(members, np.zeros_like(members), "student-t")
    y = rng.normal(size=n)
    gaussian = dataclasses.replace(dist, family="gaussian")
    chance = 0.33 / np.sqrt(n)
    assert metrics.calibration_error(dist, y) < 4 * chance < metrics.calibration_error(gaussian, y)


@pytest.mark.parametrize("score", [metrics.crps, metrics.calibration_error])
def test_misuse_is_named(score):
    with pytest.raises(ValueError, match=r"`y` must have the predictive's shape \(5,\); got"):
        score(make(3), np.zeros((5, 1)))
    with pytest.raises(TypeError, match="need a continuous predictive; this one is 'poisson'"):
        score(make(3, "poisson"), np.zeros(5))


def test_several_outputs_are_averaged(rng):
    mean, y = rng.normal(size=(2, 30, 2))
    one = np.ones_like(mean)
    both = Predictive(mean, 0 * one, one)
    columns = [Predictive(mean[:, k], 0 * one[:, k], one[:, k]) for k in range(2)]
    each = [metrics.crps(column, y[:, k]) for k, column in enumerate(columns)]
    assert metrics.crps(both, y) == pytest.approx(np.mean(each))
    flat = Predictive(mean.ravel(), 0 * one.ravel(), one.ravel())
    assert metrics.calibration_error(both, y) == metrics.calibration_error(flat, y.ravel())


# Intervals, curves, histograms


def by_members(rng, n_rows=200):
    """Members and targets drawn alike: a predictive that is right, as a Student-t."""
    members = rng.normal(size=(5, n_rows))
    return Predictive.from_members(members, np.zeros_like(members), "student-t")


def test_interval_score_by_hand():
    """Width 2 x 1.2816; one target inside, one 1 below its interval, one 2 above."""
    half = stats.norm.ppf(0.9)
    y = [0.5, -half - 1, half + 2]
    exact = 2 * half + (0 + 10 * 1 + 10 * 2) / 3
    assert metrics.interval_score((np.zeros(3), 1.0), y, 0.8) == pytest.approx(exact)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_interval_score_is_two_pinball_losses(level, rng):
    dist, y = by_members(rng), rng.normal(size=200)
    tail = (1 - level) / 2
    pinball = 0.0
    for q in (tail, 1 - tail):
        error = y - dist.quantiles(q)[0]
        pinball += np.mean(np.maximum(q * error, (q - 1) * error))
    assert metrics.interval_score(dist, y, level) == pytest.approx(2 / (1 - level) * pinball)


def test_scores_of_the_right_normal_are_those_of_the_docstrings(rng):
    """The means of 40,000 rows within four standard errors, and the docstrings' roundings."""
    n, s = 40_000, 3.0
    y = rng.normal(0, s, n)
    pair = (np.zeros(n), s)
    tail = stats.norm.ppf(0.95)
    exact = {
        "nll": 0.5 * np.log(2 * np.pi * np.e) + np.log(s),
        "crps": s / np.sqrt(np.pi),
        "interval_score": 4 * s * stats.norm.pdf(tail) / 0.1,
    }
    assert exact["nll"] == pytest.approx(1.42 + np.log(s), abs=0.005)
    assert exact["crps"] == pytest.approx(0.56 * s, abs=0.005 * s)
    assert exact["interval_score"] == pytest.approx(4.13 * s, abs=0.005 * s)
    row_by_row = {
        "nll": -stats.norm.logpdf(y, 0, s),
        "crps": Predictive(np.zeros(n), np.zeros(n), np.full(n, s**2)).crps(y),
        "interval_score": 2 * tail * s + 20 * np.maximum(np.abs(y) - tail * s, 0),
    }
    found = {
        "nll": metrics.nll(pair, y),
        "crps": metrics.crps(pair, y),
        "interval_score": metrics.interval_score(pair, y, 0.9),
    }
    for name, value in found.items():
        assert value == pytest.approx(row_by_row[name].mean(), rel=1e-12)
        assert abs(value - exact[name]) < 4 * row_by_row[name].std() / np.sqrt(n)


@pytest.mark.parametrize("score", [metrics.crps, lambda d, y: metrics.interval_score(d, y, 0.9)])
def test_scores_are_lowest_at_the_right_spread_and_place(score, rng):
    y = rng.normal(size=20_000)
    right = score((np.zeros(20_000), 1.0), y)
    for mean, std in ((0, 0.8), (0, 1.25), (0.3, 1), (-0.3, 1)):
        assert right < score((np.full(20_000, mean), std), y)


def test_pit_is_uniform_where_the_predictive_is_right(rng):
    dist, y = by_members(rng, 5000), rng.normal(size=5000)
    assert stats.kstest(metrics.pit(dist, y), "uniform").pvalue > 1e-3
    gaussian = dataclasses.replace(dist, family="gaussian")
    assert stats.kstest(metrics.pit(gaussian, y), "uniform").pvalue < 1e-6


def test_pit_is_the_cdf_and_leans_as_the_docstring_says(rng):
    y = rng.normal(size=2000)
    np.testing.assert_allclose(metrics.pit((np.zeros(2000), 1.0), y), stats.norm.cdf(y))
    narrow, wide, low = (
        metrics.pit((np.full(2000, mean), std), y) for mean, std in ((0, 0.5), (0, 2), (-1, 1))
    )
    assert narrow.var() > 1 / 12 > wide.var()
    assert low.mean() > 0.6


def test_sharpness_by_hand():
    std = np.array([1.0, 3.0])
    assert metrics.sharpness((np.zeros(2), std)) == 2.0
    width = 2 * stats.norm.ppf(0.95) * 2.0
    assert metrics.sharpness((np.zeros(2), std), 0.9) == pytest.approx(width)


def test_calibration_curve_is_coverage_at_each_level(rng):
    dist, y = by_members(rng), rng.normal(size=200)
    levels, shares, (lower, upper) = metrics.calibration_curve(dist, y, [0.2, 0.9])
    np.testing.assert_array_equal(levels, [0.2, 0.9])
    np.testing.assert_array_equal(shares, [metrics.coverage(dist, y, q) for q in (0.2, 0.9)])
    for k, level in enumerate(levels):
        assert (lower[k], upper[k]) == tuple(
            np.array(stats.binom(200, level).ppf([0.025, 0.975])) / 200
        )
    np.testing.assert_allclose(metrics.calibration_curve(dist, y).levels, np.arange(1, 20) / 20)


@pytest.mark.parametrize("n", [1, 2, 10, 150, 9999, 100_000])
def test_the_band_is_scipy_s_binomial(n):
    levels = np.array([1e-6, 0.05, 0.25, 0.5, 0.9, 0.95, 0.999])
    _, _, band = metrics.calibration_curve((np.zeros(n), 1.0), np.zeros(n), levels)
    for edge, q in zip(band, (0.025, 0.975), strict=True):
        np.testing.assert_array_equal(edge, stats.binom.ppf(q, n, levels) / n)


def test_the_band_holds_the_shares_of_right_intervals_as_often_as_it_says(rng):
    """Levels, rows, repeats: the share inside is at least 95 %, and not all."""
    n, n_repeats = 60, 2000
    inside = []
    for _ in range(n_repeats):
        curve = metrics.calibration_curve((np.zeros(n), 1.0), rng.normal(size=n), [0.3, 0.5, 0.9])
        inside.append((curve.band[0] <= curve.shares) & (curve.shares <= curve.band[1]))
    share = np.mean(inside, axis=0)
    # What the binomial says of counts between its own quantiles, both included
    exact = [
        b.cdf(b.ppf(0.975)) - b.cdf(b.ppf(0.025) - 1)
        for b in (stats.binom(n, level) for level in (0.3, 0.5, 0.9))
    ]
    assert np.all(np.abs(share - exact) < 4 * np.sqrt(0.05 * 0.95 / n_repeats))
    assert min(exact) >= 0.95


def test_outputs_of_one_row_do_not_narrow_the_band(rng):
    pair = (np.zeros((50, 4)), 1.0)
    one = metrics.calibration_curve((np.zeros(50), 1.0), np.zeros(50))
    four = metrics.calibration_curve(pair, rng.normal(size=(50, 4)))
    np.testing.assert_array_equal(one.band, four.band)


def test_intervals_corrected_by_held_out_rows_are_what_is_scored(rng):
    """Curve, score and sharpness look at the corrected `interval`, not at quantiles."""
    y = rng.normal(size=400)
    narrow = standard_normals(400, 0.5)
    right = dataclasses.replace(narrow, conformal=narrow.held_out(y, np.ones(400)))
    curve = metrics.calibration_curve(right, y, [0.5, 0.9])
    np.testing.assert_allclose(curve.shares, [0.5, 0.9], atol=0.005)
    assert metrics.sharpness(right, 0.9) > 1.5 * metrics.sharpness(narrow, 0.9)
    assert metrics.interval_score(right, y, 0.9) < metrics.interval_score(narrow, y, 0.9)
