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
