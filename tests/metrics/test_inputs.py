"""A predictive, a pair and draws are the same thing to a metric; draws against their limits."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, stats

from anchored import Predictive, metrics
from anchored.metrics.inputs import Samples, as_dist

SCORES = {
    "rmse": metrics.rmse,
    "nll": metrics.nll,
    "coverage": lambda d, y: metrics.coverage(d, y, 0.8),
    "interval_score": lambda d, y: metrics.interval_score(d, y, 0.8),
    "crps": metrics.crps,
    "calibration_error": metrics.calibration_error,
    "aurc": metrics.aurc,
    "sharpness": lambda d, y: metrics.sharpness(d),
    "width": lambda d, y: metrics.sharpness(d, 0.8),
    "pit": metrics.pit,
    "shares": lambda d, y: metrics.calibration_curve(d, y).shares,
    "risk": lambda d, y: metrics.risk_coverage(d, y).risk,
    "kl": lambda d, y: metrics.kl(d, (np.zeros(len(y)), 2.0)),
    "wasserstein": lambda d, y: metrics.wasserstein(d, (np.zeros(len(y)), 2.0)),
}


def normals(rng, n_rows=40):
    """Means, deviations, and targets drawn from them."""
    mean, std = rng.normal(size=n_rows), rng.uniform(0.5, 2, n_rows)
    return mean, std, rng.normal(mean, std)


@pytest.mark.parametrize("name", SCORES)
def test_a_pair_is_a_gaussian_predictive(name, rng):
    mean, std, y = normals(rng)
    dist = Predictive(mean, np.zeros_like(mean), std**2)
    np.testing.assert_allclose(SCORES[name]((mean, std), y), SCORES[name](dist, y), rtol=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_many_draws_are_the_distribution_they_were_drawn_from(name, rng):
    """4,000 draws at even levels of the exact quantile function.

    The farthest, at level 1/8002, is 3.7 deviations out: what is beyond contributes less than
    1e-3 to each score. The kernels add (4 / 12,000)^(2/5) = 0.04 to the relative variance, which
    costs at most 0.02 z^2 nats, and z^2 averages one. Two shares may differ by one of 40 rows.
    """
    mean, std, y = normals(rng)
    levels = (np.arange(4000) + 0.5) / 4000
    draws = stats.norm.ppf(levels)[:, None] * std + mean
    allowed = {"nll": 0.03, "coverage": 0.025, "shares": 0.025}.get(name, 3e-3)
    exact = SCORES[name]((mean, std), y)
    np.testing.assert_allclose(SCORES[name](draws, y), exact, rtol=0, atol=allowed)


def test_several_outputs_have_their_own_marginals(rng):
    draws, y = rng.normal(size=(50, 20, 2)), rng.normal(size=(20, 2))
    for score in (metrics.crps, metrics.calibration_error, SCORES["interval_score"]):
        each = [score(draws[..., k], y[:, k]) for k in range(2)]
        if score is not metrics.calibration_error:
            assert score(draws, y) == pytest.approx(np.mean(each))
        assert score(draws, y) == pytest.approx(score(draws.reshape(50, 40), y.ravel()))
    both = [metrics.nll(draws[..., k], y[:, k]) for k in range(2)]
    assert metrics.nll(draws, y) == pytest.approx(sum(both))


# Draws


def test_log_density_of_draws_is_scipy_s_kernel_estimate(rng):
    draws, y = rng.gamma(2.0, size=(60, 7)), rng.gamma(2.0, size=7)
    exact = [
        stats.gaussian_kde(d, "silverman").logpdf(t)[0] for d, t in zip(draws.T, y, strict=True)
    ]
    np.testing.assert_allclose(Samples(draws).log_density(y), exact, rtol=1e-10)


def test_crps_of_draws_is_the_sum_over_pairs(rng):
    draws, y = 1e6 + rng.normal(size=(9, 5)), 1e6 + rng.normal(size=5)
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (9 * 8)
    naive = np.abs(draws - y).mean(axis=0) - pairs / 2
    np.testing.assert_allclose(Samples(draws).crps(y), naive, rtol=1e-8)


@pytest.mark.parametrize("n_draws", [2, 5])
def test_crps_of_few_draws_is_unbiased(n_draws, rng):
    """Over many sets of draws its mean is the CRPS of a standard normal at y, in closed form."""
    y = np.full(100_000, 0.7)
    each = Samples(rng.normal(size=(n_draws, len(y)))).crps(y)
    exact = metrics.crps((np.zeros(1), 1.0), y[:1])
    assert abs(each.mean() - exact) < 4 * each.std(ddof=1) / np.sqrt(len(y))


def test_crps_of_draws_tends_to_the_integral(rng):
    """Of one large set: the squared gap of the empirical cdf, integrated."""
    draws, y = np.sort(rng.normal(size=500)), 0.3
    grid = np.linspace(-6, 6, 60_001)
    gap = np.searchsorted(draws, grid, side="right") / 500 - (grid >= y)
    by_integration = integrate.trapezoid(np.square(gap), grid)
    # The fair estimate takes E|T - T'| / 2 over 499/500 of the pairs of the integral.
    unfair = np.abs(draws[:, None] - draws).mean() / 2
    fair = Samples(draws[:, None]).crps([y])[0]
    assert fair + unfair / 499 == pytest.approx(by_integration, abs=2 * 12 / 60_000)


@pytest.mark.parametrize(("n_draws", "level"), [(19, 0.9), (9, 0.8), (3, 0.5), (99, 0.9)])
def test_intervals_of_few_draws_hold_what_they_say(n_draws, level, rng):
    """Draws and target alike: exact for levels at draws, whatever the distribution."""
    n = 20_000
    draws, y = rng.exponential(size=(n_draws, n)), rng.exponential(size=n)
    error = np.sqrt(level * (1 - level) / n)
    assert abs(metrics.coverage(draws, y, level) - level) < 4 * error


def test_quantiles_and_cdf_of_draws_agree(rng):
    draws = rng.normal(size=(7, 3))
    dist = Samples(draws)
    levels = np.arange(1, 8) / 8
    np.testing.assert_allclose(dist.quantiles(levels), np.sort(draws, axis=0), rtol=1e-12)
    for level in levels:
        np.testing.assert_allclose(dist.cdf(dist.quantiles(level)[0]), level, atol=1 / 16 + 1e-12)
    np.testing.assert_allclose(dist.cdf(draws.min(axis=0)), 1 / 8)
    np.testing.assert_allclose(dist.cdf(draws.max(axis=0) + 1), 7.5 / 8)


def test_pit_of_few_draws_is_uniform_over_its_values(rng):
    draws, y = rng.normal(size=(4, 50_000)), rng.normal(size=50_000)
    values, counts = np.unique(metrics.pit(draws, y), return_counts=True)
    np.testing.assert_allclose(values, [0.1, 0.3, 0.5, 0.7, 0.9])
    assert np.all(np.abs(counts / 50_000 - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 50_000))


def test_draws_that_agree_have_no_density():
    draws = np.ones((5, 2))
    assert metrics.crps(draws, [1.0, 3.0]) == 1.0
    with pytest.raises(ValueError, match="draws are all equal; they have no density"):
        metrics.nll(draws, [1.0, 3.0])


# Misuse


@pytest.mark.parametrize(
    ("dist", "error", "message"),
    [
        ([np.zeros(3), np.ones(3)], TypeError, "`dist` must be a `Predictive`, .* got list"),
        ((np.zeros(3),) * 3, TypeError, "`dist` must be a `Predictive`, .* got tuple"),
        (np.zeros(3), ValueError, r"at least two of them; got shape \(3,\)"),
        (np.zeros((1, 3)), ValueError, r"at least two of them; got shape \(1, 3\)"),
        (np.full((4, 3), np.nan), ValueError, "draws that are not finite"),
        ((np.zeros(3), np.ones((3, 1))), ValueError, r"got \(3,\) and \(3, 1\)"),
        ((0.0, 1.0), ValueError, r"got \(\) and \(\)"),
        ((np.zeros(3), 0.0), ValueError, "its std finite and positive"),
        ((np.array([0, np.nan, 1]), 1.0), ValueError, "its mean must be finite"),
    ],
)
def test_what_is_no_distribution_is_named(dist, error, message):
    with pytest.raises(error, match=message):
        metrics.crps(dist, np.zeros(3))


@pytest.mark.parametrize("score", [SCORES[n] for n in ("rmse", "nll", "crps", "coverage", "pit")])
def test_targets_are_checked(score):
    pair = (np.zeros(3), 1.0)
    with pytest.raises(ValueError, match=r"`y` must have the predictive's shape \(3,\); got"):
        score(pair, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="`y` must be finite; row 1 is nan"):
        score(pair, [0.0, np.nan, np.inf])
    with pytest.raises(ValueError, match="`y` has no rows"):
        score((np.zeros(0), 1.0), [])


def test_levels_of_draws_are_checked():
    draws = Samples(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="`coverage` must be a number between 0 and 1"):
        draws.interval(1.0)
    with pytest.raises(ValueError, match="`levels` must be between 0 and 1"):
        draws.quantiles([0.0])


def test_what_is_a_distribution_already_passes():
    dist = Samples(np.zeros((3, 2)))
    assert as_dist(dist) is dist


def test_metrics_load_neither_jax_nor_scikit_learn():
    heavy = ["jax", "sklearn", "scipy.stats", "pandas"]
    code = f"import sys, anchored.metrics; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "[]"
