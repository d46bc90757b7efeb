import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats

from anchored import Predictive, metrics

MEMBERS = arrays(np.float64, (5, 4), elements=st.floats(-100, 100))


def make(family="student-t", n_members=5, noise=0.3):
    rng = np.random.default_rng(0)
    members = rng.normal(size=(n_members, 6))
    return Predictive.from_members(members, np.full_like(members, noise), family)


def test_moments_are_the_paper_s():
    dist = make()
    np.testing.assert_allclose(dist.mean, dist.members.mean(0))
    np.testing.assert_allclose(dist.epistemic_var, dist.members.var(0, ddof=1))
    np.testing.assert_allclose(dist.std**2, dist.epistemic_var + 0.3)


def test_gaussian_matches_scipy(rng):
    dist, y = make("gaussian"), rng.normal(size=6)
    exact = stats.norm(dist.mean, dist.std)
    np.testing.assert_allclose(dist.log_density(y), exact.logpdf(y))
    np.testing.assert_allclose(dist.cdf(y), exact.cdf(y))
    np.testing.assert_allclose(dist.quantiles([0.05, 0.5]), [exact.ppf(0.05), exact.ppf(0.5)])


def test_student_t_matches_scipy(rng):
    dist, y, n = make(), rng.normal(size=6), 5
    spread = (1 + 1 / n) * dist.epistemic_var
    dof = (n - 1) * (spread + 0.3) ** 2 / spread**2
    exact = stats.t(dof, dist.mean, np.sqrt(spread + 0.3))
    np.testing.assert_allclose(dist.log_density(y), exact.logpdf(y))
    np.testing.assert_allclose(dist.cdf(y), exact.cdf(y))
    np.testing.assert_allclose(dist.interval(0.9), exact.interval(0.9))


def test_student_t_tends_to_its_limits():
    no_noise = make(noise=0.0)
    scale = np.sqrt(1.2 * no_noise.epistemic_var)
    np.testing.assert_allclose(
        no_noise.interval(0.9), stats.t(4, no_noise.mean, scale).interval(0.9)
    )
    all_noise = make(noise=1e12)
    normal = dataclasses.replace(all_noise, family="gaussian")
    np.testing.assert_allclose(all_noise.interval(0.9), normal.interval(0.9), rtol=1e-5)


def test_few_members_are_covered_by_student_t_and_not_by_gaussian():
    """Members and target are draws of one normal: the t interval is exact, by construction."""
    rng = np.random.default_rng(0)
    n_rows, n_members = 40_000, 5
    members = rng.normal(size=(n_members, n_rows))
    y = rng.normal(size=n_rows)
    dist = Predictive.from_members(members, np.zeros_like(members), "student-t")
    error = 4 * np.sqrt(0.9 * 0.1 / n_rows)
    assert abs(metrics.coverage(dist, y, 0.9) - 0.9) < error
    gaussian = dataclasses.replace(dist, family="gaussian")
    assert metrics.coverage(gaussian, y, 0.9) < 0.85


def test_one_member_has_no_spread():
    dist = make(n_members=1)
    np.testing.assert_array_equal(dist.epistemic_var, 0)
    np.testing.assert_allclose(dist.interval(0.9), stats.norm(dist.mean, 0.3**0.5).interval(0.9))


@given(MEMBERS, st.permutations(range(5)))
def test_permuting_members_changes_nothing(members, order):
    var = np.ones_like(members)
    one = Predictive.from_members(members, var, "student-t")
    two = Predictive.from_members(members[list(order)], var, "student-t")
    np.testing.assert_allclose(one.interval(0.9), two.interval(0.9), rtol=1e-9, atol=1e-9)


@given(MEMBERS, st.floats(0.01, 0.98), st.sampled_from(["gaussian", "student-t"]))
def test_wider_coverage_is_a_wider_interval(members, coverage, family):
    dist = Predictive.from_members(members, np.ones_like(members), family)
    narrow, wide = dist.interval(coverage), dist.interval(coverage + 0.01)
    assert np.all(wide[0] < narrow[0])
    assert np.all(narrow[1] < wide[1])
    np.testing.assert_allclose(
        dist.cdf(narrow[1]) - dist.cdf(narrow[0]), coverage, rtol=1e-6, atol=1e-9
    )


def test_class_probabilities():
    members = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.1, 0.9], [0.5, 0.5]]])
    dist = Predictive.from_members(members, members * (1 - members), "categorical")
    np.testing.assert_allclose(dist.probabilities, 0.5)
    np.testing.assert_allclose(dist.entropy, np.log(2))
    each = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    np.testing.assert_allclose(dist.mutual_information, [np.log(2) - each, 0], atol=1e-12)
    np.testing.assert_allclose(dist.log_density([0, 1]), np.log(0.5))
    # One-hot targets: total variance is p (1 - p) up to the M - 1 of the epistemic part.
    np.testing.assert_allclose(dist.aleatoric_var + dist.epistemic_var / 2, 0.25)


def test_counts_and_yes_no_targets():
    rates = np.array([[1.0, 4.0], [3.0, 4.0]])
    dist = Predictive.from_members(rates, rates, "poisson")
    mixture = np.mean(stats.poisson.pmf([2, 5], rates), axis=0)
    np.testing.assert_allclose(dist.log_density([2, 5]), np.log(mixture))
    p = np.array([[0.2, 0.7], [0.4, 0.7]])
    dist = Predictive.from_members(p, p * (1 - p), "bernoulli")
    np.testing.assert_allclose(dist.log_density([0, 1]), np.log([0.7, 0.7]))
    np.testing.assert_allclose(dist.probabilities, [[0.7, 0.3], [0.3, 0.7]])


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, "x", None, float("nan")])
def test_bad_coverage(coverage):
    with pytest.raises(ValueError, match="`coverage` must be a number between 0 and 1"):
        make().interval(coverage)


def test_misuse_is_named():
    with pytest.raises(ValueError, match="`levels` must be between 0 and 1"):
        make().quantiles([0.5, 1.0])
    with pytest.raises(ValueError, match=r"`y` must have the predictive's shape \(6,\)"):
        make().log_density(np.zeros((6, 1)))
    with pytest.raises(TypeError, match="need a continuous predictive"):
        make("poisson").interval(0.9)
    with pytest.raises(TypeError, match="has no class probabilities"):
        _ = make().probabilities
    with pytest.raises(ValueError, match="`family` must be one of"):
        make("normal")


def test_metrics(rng):
    dist, y = make("gaussian"), rng.normal(size=6)
    assert metrics.rmse(dist, y) == pytest.approx(np.sqrt(np.mean((dist.mean - y) ** 2)))
    assert metrics.nll(dist, y) == pytest.approx(-stats.norm.logpdf(y, dist.mean, dist.std).mean())


def test_metrics_refuse_shapes_that_would_broadcast():
    for score in (metrics.rmse, metrics.nll, lambda d, y: metrics.coverage(d, y, 0.9)):
        with pytest.raises(ValueError, match=r"`y` must have the predictive's shape \(6,\)"):
            score(make(), np.zeros((6, 1)))


def test_gp_comparison_against_numerical_kl():
    one = Predictive(np.array([0.3]), np.array([0.5]), np.array([0.2]))
    exact = Predictive(np.array([0.0]), np.array([0.3]), np.array([0.2]))
    grid = np.linspace(-12, 12, 200_001)
    p, q = stats.norm(0.0, 0.5**0.5), stats.norm(0.3, 0.7**0.5)
    kl = np.trapezoid(p.pdf(grid) * (p.logpdf(grid) - q.logpdf(grid)), grid)
    gap = metrics.GPComparison.between(one, exact)
    assert gap.kl == pytest.approx(kl, rel=1e-6)
    assert gap.variance_ratio == pytest.approx(0.7 / 0.5)
    assert gap.mean_error == pytest.approx(0.3 / 0.5**0.5)


def test_gp_comparison_of_spreads_is_one_for_draws_of_the_exact_posterior():
    """On average, however few there are; roots of the ratios are in the words."""
    rng = np.random.default_rng(0)
    var = np.exp(rng.normal(size=4_000))
    exact = Predictive(np.zeros(4_000), var, np.ones(4_000))
    error = np.sqrt(special.polygamma(1, 4 / 2) / 4_000)  # of the mean of a log chi^2
    few = Predictive.from_members(np.sqrt(var) * rng.normal(size=(5, 4_000)), np.ones((5, 4_000)))
    far = dataclasses.replace(exact, epistemic_var=1.44 * var)
    gap = metrics.GPComparison.between(few, exact, (far, exact))
    assert abs(np.log(gap.epistemic_ratio)) < 3.3 * error
    assert gap.outside_ratio == pytest.approx(1.44)
    root = "1.0" if gap.epistemic_ratio >= 1 else f"{gap.epistemic_ratio**0.5:.2f}"
    words = f"The networks' spread is {root} times that of exact inference on rows like these"
    assert gap.words == f"{words}, and 1.2 times far from the data."
    assert str(gap).endswith(gap.words)


def test_gp_comparison_of_what_has_no_spread():
    exact = Predictive(np.zeros(3), np.ones(3), np.ones(3))
    pair = (np.zeros(3), np.ones(3))
    draws = np.random.default_rng(0).normal(size=(4, 3))
    for one, other in ((pair, exact), (exact, pair), (draws, exact)):
        gap = metrics.GPComparison.between(one, other)
        assert (gap.epistemic_ratio, gap.words) == (None, "")
    alone = Predictive.from_members(np.zeros((1, 3)), np.ones((1, 3)))
    assert metrics.GPComparison.between(alone, exact).epistemic_ratio == 0


# Student-t noise


def with_noise_dof(noise_dof, n_members=5):
    """One predictive, and scipy's distribution by the formulas of the module."""
    dist = dataclasses.replace(make(n_members=n_members), noise_dof=noise_dof)
    spread, spread_dof = np.zeros(6), np.inf
    if n_members > 1:
        spread, spread_dof = (1 + 1 / n_members) * dist.epistemic_var, n_members - 1
    noise = 0.3 * (1 - 2 / noise_dof)
    share = spread / (spread + noise)
    dof = 1 / (share**2 / spread_dof + (1 - share) ** 2 / noise_dof)
    return dist, stats.t(dof, dist.mean, np.sqrt(spread + noise))


def assert_same_distribution(dist, exact, y):
    np.testing.assert_allclose(dist.log_density(y), exact.logpdf(y))
    np.testing.assert_allclose(dist.cdf(y), exact.cdf(y))
    np.testing.assert_allclose(dist.quantiles([0.05, 0.5]), [exact.ppf(0.05), exact.ppf(0.5)])
    np.testing.assert_allclose(dist.interval(0.9), exact.interval(0.9))


@pytest.mark.parametrize("noise_dof", [2.1, 5.0, 300.0, np.linspace(2.5, 40, 6)])
@pytest.mark.parametrize("n_members", [1, 2, 5])
def test_noise_with_tails_matches_scipy(rng, noise_dof, n_members):
    dist, exact = with_noise_dof(noise_dof, n_members)
    assert_same_distribution(dist, exact, 3 * rng.normal(size=6))
    plain = make(n_members=n_members)
    np.testing.assert_array_equal(dist.variance, plain.variance)
    np.testing.assert_array_equal(dist.std, plain.std)


def test_noise_with_tails_of_an_exact_method(rng):
    """Without members the spread is known, so it is normal; all noise has the noise's tails."""
    mean, var = rng.normal(size=6), np.full(6, 0.3)
    dist = Predictive(mean, 0 * var, var, family="student-t", noise_dof=5.0)
    assert_same_distribution(dist, stats.t(5, mean, np.sqrt(0.3 * 0.6)), rng.normal(size=6))
    dist = Predictive(mean, 2 * var, var, family="student-t", noise_dof=5.0)
    dof = 5 * ((0.6 + 0.18) / 0.18) ** 2
    assert_same_distribution(dist, stats.t(dof, mean, np.sqrt(0.78)), rng.normal(size=6))


def test_normal_noise_is_the_limit(rng):
    y, plain = rng.normal(size=6), make()
    nearly = dataclasses.replace(plain, noise_dof=1e9)
    np.testing.assert_allclose(nearly.log_density(y), plain.log_density(y), rtol=1e-6)
    scale2 = (1 + 1 / 5) * plain.epistemic_var + 0.3
    np.testing.assert_allclose(
        plain.interval(0.5)[1] - plain.mean,
        stats.t(4 * (scale2 / (scale2 - 0.3)) ** 2).ppf(0.75) * np.sqrt(scale2),
    )
    gaussian = dataclasses.replace(plain, family="gaussian", noise_dof=3.0)
    np.testing.assert_array_equal(
        gaussian.interval(0.9), dataclasses.replace(plain, family="gaussian").interval(0.9)
    )


def test_a_factor_on_the_spread_leaves_the_error_of_the_mean():
    """`epistemic_var` may be scaled; the mean of the members is off by var / M all the same."""
    plain = make()
    dist = dataclasses.replace(plain, epistemic_var=4 * plain.epistemic_var, noise_dof=5.0)
    spread, noise = (4 + 1 / 5) * plain.epistemic_var, 0.3 * 0.6
    share = spread / (spread + noise)
    dof = 1 / (share**2 / 4 + (1 - share) ** 2 / 5)
    exact = stats.t(dof, plain.mean, np.sqrt(spread + noise))
    np.testing.assert_allclose(dist.interval(0.9), exact.interval(0.9))


@pytest.mark.parametrize("noise_dof", [[3.0, 30.0], [[3.0, 30.0]] * 4])
def test_tails_by_output(rng, noise_dof):
    members, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(4, 2))
    var, scale, shift = np.full(members.shape, 0.3), np.array([2.0, 50.0]), np.array([1.0, -7.0])
    both = Predictive.from_members(members, var, "student-t")
    both = dataclasses.replace(both, noise_dof=np.array(noise_dof))
    alone = [
        dataclasses.replace(
            Predictive.from_members(members[..., i], var[..., i], "student-t"), noise_dof=dof
        )
        for i, dof in enumerate((3.0, 30.0))
    ]
    np.testing.assert_allclose(
        both.log_density(y), sum(d.log_density(y[:, i]) for i, d in enumerate(alone))
    )
    rescaled = both.rescaled(scale, shift)
    np.testing.assert_allclose(rescaled.cdf(scale * y + shift), both.cdf(y))
    np.testing.assert_allclose(
        rescaled.log_density(scale * y + shift), both.log_density(y) - np.log(scale).sum()
    )
    first = Predictive.from_members(members[..., :1], var[..., :1], "student-t")
    first = dataclasses.replace(first, noise_dof=np.array(noise_dof)[..., :1]).output(0)
    np.testing.assert_allclose(first.interval(0.9), alone[0].interval(0.9))
