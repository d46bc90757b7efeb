"""The theorems of randomised MAP sampling as properties, and their sampling versions."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from anchored.exact import rms

from .test_rms import z_scores

EPS = np.finfo(float).eps
TIE = np.sqrt(EPS)


dims = st.integers(1, 8)
log10 = st.floats(-3, 3)
proportions = st.floats(0, 1)


@st.composite
def axes(draw, dim):
    """A random orthogonal matrix; hypothesis picks the seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return np.linalg.qr(rng.normal(size=(dim, dim)))[0]


@st.composite
def covariances(draw, dim, exponents=log10):
    """Full or diagonal, with eigenvalues from 1e-3 to 1e3."""
    values = 10.0 ** np.array(draw(st.lists(exponents, min_size=dim, max_size=dim)))
    vectors = draw(axes(dim)) if draw(st.booleans()) else np.eye(dim)
    return symmetric((vectors * values) @ vectors.T)


def symmetric(matrix):
    return (matrix + matrix.T) / 2


@st.composite
def posteriors(draw, shares=proportions):
    """Any prior, and any posterior covariance it can have: shares l of variance kept."""
    dim = draw(dims)
    prior, turn = draw(covariances(dim)), draw(axes(dim))
    kept = np.array(draw(st.lists(shares, min_size=dim, max_size=dim)))
    root = np.linalg.cholesky(prior) @ turn
    return prior, symmetric((root * kept) @ root.T)


@st.composite
def inferences(draw):
    """A prior, and a likelihood's precision that leaves some directions alone."""
    dim = draw(dims)
    exponents = st.floats(-1, 1)
    prior = rms.Normal(np.array(draw(st.lists(exponents, min_size=dim, max_size=dim))), np.eye(dim))
    vectors = draw(axes(dim))[:, : draw(st.integers(0, dim))]
    values = 10.0 ** np.array(draw(st.lists(exponents, min_size=dim, max_size=dim)))
    precision = symmetric((vectors * values[: vectors.shape[1]]) @ vectors.T)
    return prior._replace(cov=draw(covariances(dim, exponents))), precision


def rounding(prior_cov, size):
    """Error of anchored_cov and scaled_posterior: solving with the prior loses its condition."""
    return 10 * len(prior_cov) * EPS * np.linalg.cond(prior_cov) * size


def inference_rounding(prior, precision, size):
    """Error after inverting the prior and then the posterior precision."""
    total = np.linalg.inv(prior.cov) + precision
    return rounding(prior.cov, size) * np.linalg.cond(total)


@given(posteriors())
def test_variance_is_never_over_estimated(problem):
    """Lemma 1, in the Loewner order; and what is lost is at most a quarter of the prior."""
    prior, exact = problem
    lost = exact - rms.anchored_cov(prior, exact)
    slack = rounding(prior, np.linalg.norm(prior, 2))
    assert np.linalg.eigvalsh(symmetric(lost)).min() >= -slack
    assert np.linalg.eigvalsh(symmetric(prior / 4 - lost)).min() >= -slack
    assert (np.diag(lost) >= -slack).all()
    assert rms.exactness_gap(prior, exact) <= 0.25 + rounding(prior, 1)


@given(st.integers(1, 8).flatmap(covariances), log10)
def test_isotropic_prior_keeps_the_axes(exact, exponent):
    """Lemma 2. An eigenvector moves by error over gap (Davis, Kahan); gaps are above TIE."""
    prior = 10.0**exponent * np.eye(len(exact))
    assert rms.bias(prior, exact).angle <= 10 * len(exact) * EPS / TIE


@given(posteriors())
def test_any_prior_keeps_the_axes_in_its_own_units(problem):
    prior, exact = problem
    scaled = rms.scaled_posterior(prior, exact)
    both = rms.scaled_posterior(prior, rms.anchored_cov(prior, exact))
    np.testing.assert_allclose(both, scaled @ scaled, rtol=0, atol=rounding(prior, 1))
    assert rms.bias(np.eye(len(prior)), symmetric(scaled)).angle <= 10 * len(prior) * EPS / TIE


def test_anisotropic_prior_turns_the_axes():
    """Those of two parameters, from 45 degrees; a third, on its own, keeps its axis."""
    prior = np.diag([2.0, 1.0, 1.0])
    exact = np.array([[0.5, 0.25, 0.0], [0.25, 0.5, 0.0], [0.0, 0.0, 0.05]])
    anchored = rms.anchored_cov(prior, exact)
    np.testing.assert_allclose(anchored[:2, :2] * 16, [[3, 3], [3, 4.5]])
    turn = (np.arctan2(6, 3 - 4.5) - np.pi / 2) / 2  # an axis of (a, b; b, c): tan 2t = 2b/(a-c)
    np.testing.assert_allclose(rms.bias(prior, exact).angle, turn, rtol=1e-12)


@example(np.array([[1.0, -2.0], [-2.0, 4.0]]), 0.0, 1.0)  # perfect correlation is kept
@given(covariances(2), log10, log10)
def test_correlation_of_two_parameters_is_never_under_estimated(exact, first, second):
    """Theorem 2, for any diagonal prior: correlations do not see the scale of a parameter.

    With a diagonal prior an entry's rounding error is relative to the product of the two
    standard deviations, so that of a correlation is a few units of EPS.
    """
    bias = rms.bias(np.diag([10.0**first, 10.0**second]), exact)
    assert bias.correlation_excess.min() >= -20 * EPS


@pytest.mark.parametrize(("small", "anchored"), [(1 / 8, 0.0), (1 / 16, -32 / 321)])
def test_correlation_of_three_parameters_can_be_under_estimated(small, anchored):
    """Theorem 2 stops at two parameters, although the paper suggests it goes on.

    The first two are correlated directly, and with opposite signs through the third. Squaring
    adds the paths: 2 * small - 1/4 remains, which vanishes or turns negative.
    """
    exact = np.array([[1.0, small, 0.5], [small, 1.0, -0.5], [0.5, -0.5, 1.0]])
    prior = 2 * np.eye(3)
    assert 0 < np.linalg.eigvalsh(exact).min() < np.linalg.eigvalsh(exact).max() < 2
    bias = rms.bias(prior, exact)
    assert bias.exact_correlation[0, 1] == small
    np.testing.assert_allclose(bias.anchored_correlation[0, 1], anchored, rtol=4 * EPS, atol=EPS)
    if anchored == 0:
        assert bias.correlation_excess[0, 1] < -0.12


def test_correlation_under_a_correlated_prior_can_be_under_estimated():
    """Two parameters of correlation 1/4 end at -1/26, because the prior's is 1/2."""
    prior, exact = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[0.5, 0.125], [0.125, 0.5]])
    assert np.linalg.eigvalsh(prior - exact).min() > 0
    bias = rms.bias(prior, exact)
    np.testing.assert_allclose(bias.anchored_correlation[0, 1], -1 / 26, rtol=1e-14)
    assert bias.correlation_excess[0, 1] < -0.2


@given(posteriors(shares=st.sampled_from([0.0, 1.0])))
def test_idempotent_posteriors_are_exact(problem):
    """Theorem 4."""
    prior, exact = problem
    assert rms.exactness_gap(prior, exact) <= rounding(prior, 1)
    slack = rounding(prior, np.linalg.norm(prior, 2))
    np.testing.assert_allclose(rms.anchored_cov(prior, exact), exact, rtol=0, atol=slack)


@given(posteriors(shares=st.floats(0.1, 0.9)))
def test_other_posteriors_are_not(problem):
    prior, exact = problem
    slack = rounding(prior, 1)
    assume(slack < 0.01)
    assert rms.exactness_gap(prior, exact) >= 0.09 - slack


@given(inferences(), st.lists(st.booleans(), min_size=8, max_size=8))
def test_extrapolation_parameters_are_exact(problem, untouched):
    """Theorem 3: they keep their prior, exactly, if the prior does not tie them to the others."""
    prior, precision = problem
    free = np.flatnonzero(untouched[: len(precision)])
    precision[free], precision[:, free] = 0, 0
    assert set(free) <= set(rms.extrapolation_parameters(precision))
    free = rms.extrapolation_parameters(precision)
    tied = prior.cov.copy()
    tied[free], tied[:, free] = 0, 0
    prior = prior._replace(cov=tied + np.diag(np.isin(np.arange(len(tied)), free) * 1.5))
    anchored = rms.anchored_posterior(prior, precision, np.zeros(len(tied)))
    exact = rms.posterior(prior, precision, np.zeros(len(tied)))
    for found in anchored, exact:
        np.testing.assert_allclose(found.cov[free], prior.cov[free], rtol=4 * EPS)
        np.testing.assert_allclose(found.mean[free], prior.mean[free], rtol=0, atol=4 * EPS)


def test_extrapolation_parameter_tied_by_the_prior_is_not_exact():
    """Theorem 3 takes the prior to be diagonal: else the data speak of the parameter after all."""
    prior = rms.Normal(np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    precision = np.diag([0.0, 1.0])
    np.testing.assert_array_equal(rms.extrapolation_parameters(precision), [0])
    exact = rms.posterior(prior, precision, np.zeros(2))
    np.testing.assert_allclose(exact.cov[0, 0], 7 / 8, rtol=1e-14)
    np.testing.assert_allclose(
        rms.bias(prior.cov, exact.cov).variance_ratio[0], 13 / 14, rtol=1e-14
    )


@given(inferences())
def test_exact_anchors_push_forward_to_the_posterior(problem):
    """Theorem 1: the MAP solution is affine in the anchor; push mean and covariance through."""
    prior, precision = problem
    dim = len(precision)
    likelihood = precision, precision @ np.linspace(-1, 1, dim)
    exact = rms.posterior(prior, *likelihood)
    anchors = rms.exact_anchor_distribution(prior, precision)
    np.testing.assert_array_equal(anchors.mean, prior.mean)
    push = rms.map_solutions(np.eye(dim), prior, precision, np.zeros(dim)).T
    size = np.linalg.norm(push, 2) ** 2 * np.linalg.norm(anchors.cov, 2)
    slack = inference_rounding(prior, precision, size)
    np.testing.assert_allclose(push @ anchors.cov @ push.T, exact.cov, rtol=0, atol=slack)
    mean = rms.map_solutions(anchors.mean[None], prior, *likelihood)[0]
    slack = inference_rounding(prior, precision, 1 + np.linalg.norm(exact.mean))
    np.testing.assert_allclose(mean, exact.mean, rtol=0, atol=slack)
    # With anchors from the prior the same map gives corollary 1.
    anchored = rms.anchored_posterior(prior, *likelihood)
    slack = inference_rounding(prior, precision, size)
    np.testing.assert_allclose(push @ prior.cov @ push.T, anchored.cov, rtol=0, atol=slack)
    np.testing.assert_array_equal(anchored.mean, exact.mean)


def kl(q, p):
    """KL(q || p) of two normals."""
    precision, shift = np.linalg.inv(p.cov), q.mean - p.mean
    log_dets = np.linalg.slogdet(p.cov)[1] - np.linalg.slogdet(q.cov)[1]
    return (np.sum(precision * q.cov) + shift @ precision @ shift - len(shift) + log_dets) / 2


@given(inferences(), st.lists(st.floats(-1, 1), min_size=8, max_size=8))
def test_mean_field_is_the_nearest_diagonal_normal(problem, steps):
    """Variances off by factors exp(s) cost the sum of (exp(s) - 1 - s) / 2, never negative."""
    prior, precision = problem
    likelihood = precision, np.ones(len(precision))
    exact, found = (f(prior, *likelihood) for f in (rms.posterior, rms.mean_field_posterior))
    slack = inference_rounding(prior, precision, 1)
    np.testing.assert_array_equal(found.mean, exact.mean)
    assert (np.diag(found.cov) <= np.diag(exact.cov) * (1 + slack)).all()
    s = np.array(steps[: len(precision)])
    least = kl(found, exact)
    assert least >= -slack
    moved = found._replace(cov=found.cov * np.exp(s))
    np.testing.assert_allclose(
        kl(moved, exact) - least, np.sum(np.expm1(s) - s) / 2, rtol=0, atol=slack * (1 + least)
    )
    assert kl(found._replace(mean=found.mean + s), exact) >= least - slack


@example(np.zeros((2, 2)))
@given(st.integers(1, 8).flatmap(covariances))
def test_correlation(cov):
    cov = cov.copy()
    cov[0], cov[:, 0] = 0, 0
    found = rms.correlation(cov)
    np.testing.assert_array_equal(found[0], np.eye(len(cov))[0])
    np.testing.assert_array_equal(np.diag(found), 1)
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose((found * np.outer(sd, sd))[1:], cov[1:], rtol=10 * EPS, atol=0)
    assert rms.bias(np.eye(len(cov)), cov).variance_ratio[0] == 1


# The same by sampling --------------------------------------------------------------------------

N = 20_000


def assert_draws(draws, expected):
    """Five distributions of 3 means and 6 variances and covariances each: 45 two-sided tests."""
    limit = stats.norm.isf(1e-3 / 2 / 45)
    z_mean, z_cov = z_scores(draws, expected)
    assert np.abs(z_mean).max() < limit
    assert np.abs(z_cov).max() < limit


@pytest.fixture(scope="module")
def linear():
    """Prior, precision and its mean: three coefficients of a linear model, four points."""
    rng = np.random.default_rng(0)
    prior_root = rng.normal(size=(3, 3))
    prior = rms.Normal(np.array([1.0, 0.0, -1.0]), prior_root @ prior_root.T)
    return prior, *rms.linear_likelihood(rng.normal(size=(4, 3)), rng.normal(size=4), 0.5)


def test_draws_of_a_singular_normal():
    cov = 20 / 11 * np.array([[1.0, 0.0, 1.0], [0.0, 1.1, 0.0], [1.0, 0.0, 1.0]])
    normal = rms.Normal(np.array([1.0, 2.0, 3.0]), cov)
    draws = normal.sample(1, N)
    assert_draws(draws, normal)
    # A variance of zero comes out as EPS of the total, and no draw is beyond 10 deviations.
    slack = 10 * np.sqrt(EPS * np.trace(cov))
    np.testing.assert_allclose(draws[:, 0] + 2, draws[:, 2], rtol=0, atol=slack)
    np.testing.assert_array_equal(draws, normal.sample(np.random.default_rng(1), N))


def test_a_matrix_that_is_no_covariance_is_refused():
    with pytest.raises(ValueError, match="semidefinite"):
        rms.Normal(np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]])).sample(0, 1)


def test_anchors_from_the_prior(linear):
    prior, *likelihood = linear
    draws = rms.map_solutions(prior.sample(2, N), prior, *likelihood)
    assert_draws(draws, rms.anchored_posterior(prior, *likelihood))
    # The exact posterior is another distribution, and the test can tell.
    assert np.abs(z_scores(draws, rms.posterior(prior, *likelihood))[1]).max() > 5


def test_exact_anchors(linear):
    prior, *likelihood = linear
    anchors = rms.exact_anchor_distribution(prior, likelihood[0]).sample(3, N)
    draws = rms.map_solutions(anchors, prior, *likelihood)
    assert_draws(draws, rms.posterior(prior, *likelihood))


def test_anchors_from_the_prior_with_target_noise(linear):
    prior, precision, precision_mean = linear
    noisy = rms.Normal(precision_mean, precision).sample(5, N)
    draws = rms.map_solutions(prior.sample(4, N), prior, precision, noisy)
    assert_draws(draws, rms.posterior(prior, precision, precision_mean))


def test_mean_field_draws(linear):
    found = rms.mean_field_posterior(*linear)
    assert_draws(found.sample(6, N), found)
