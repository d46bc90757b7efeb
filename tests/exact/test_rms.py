"""Bayesian truth: for a linear model the ensemble's distribution is known exactly."""

import jax
import numpy as np
import pytest
from scipy import stats

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.exact import rms

NOISE_VAR = 0.3
PRIOR_MEAN = (0.5, -0.2)
N_MEMBERS = 1500
SCHEDULE = Schedule(2000, 16, 0.05, 0.95)  # long enough: members without noise are the MAP


@pytest.fixture(scope="module")
def problem():
    """Prior, likelihood and data of a linear model with two weights and a bias."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    y = x @ [1.0, -1.0] + 0.4 + np.sqrt(NOISE_VAR) * rng.normal(size=9)
    design = np.column_stack([np.ones(9), x])  # bias first, as in the parameters
    prior = rms.Normal(np.array([PRIOR_MEAN[0], *[PRIOR_MEAN[1]] * 2]), np.diag([2.0, 1.0, 1.0]))
    return x, y, prior, rms.linear_likelihood(design, y, NOISE_VAR)


def trained(problem, method, n_members=N_MEMBERS):
    x, y, _, _ = problem
    network = MLP(())
    prior = Prior.for_network(network, x, first_var=2.0)
    prior = prior.with_leaf("0/bias", mean=PRIOR_MEAN[0]).with_leaf("0/weight", mean=PRIOR_MEAN[1])
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(NOISE_VAR),
        Data.make(x, y),
        method=method,
        n_members=n_members,
        schedule=SCHEDULE,
    )
    layer = ensemble.params[0]
    return np.column_stack([layer["bias"], layer["weight"][..., 0]])


def z_scores(draws, expected):
    """How many standard errors the sample mean and covariance are from the expected ones."""
    n, cov = len(draws), expected.cov
    z_mean = (draws.mean(0) - expected.mean) / np.sqrt(np.diag(cov) / n)
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / (n - 1))
    return z_mean, (np.cov(draws.T) - cov) / error


LIMIT = stats.norm.isf(1e-3 / 2 / 9)  # nine numbers compared, two-sided


def test_anchored_recovers_corollary_1(problem):
    draws = trained(problem, "anchored")
    z_mean, z_cov = z_scores(draws, rms.anchored_posterior(problem[2], *problem[3]))
    assert np.abs(z_mean).max() < LIMIT
    assert np.abs(z_cov).max() < LIMIT
    # The exact posterior is another distribution, and the test can tell.
    _, z_cov = z_scores(draws, rms.posterior(problem[2], *problem[3]))
    assert np.abs(z_cov).max() > 5


def test_rms_recovers_the_exact_posterior(problem):
    draws = trained(problem, "rms")
    z_mean, z_cov = z_scores(draws, rms.posterior(problem[2], *problem[3]))
    assert np.abs(z_mean).max() < LIMIT
    assert np.abs(z_cov).max() < LIMIT


def test_regularised_members_are_all_the_map(problem):
    draws = trained(problem, "regularised", n_members=20)
    exact = rms.posterior(problem[2], *problem[3])
    np.testing.assert_allclose(draws, np.broadcast_to(exact.mean, draws.shape), atol=2e-4)


def test_exact_anchors_give_the_exact_posterior(problem):
    """Theorem 1: push the exact anchor distribution through the map to the MAP solution."""
    _, _, prior, (precision, _) = problem
    exact = rms.posterior(prior, *problem[3])
    anchors = rms.exact_anchor_distribution(prior, precision)
    push = exact.cov @ np.linalg.inv(prior.cov)
    np.testing.assert_allclose(push @ anchors.cov @ push.T, exact.cov, rtol=1e-10)


def test_rms_takes_weights_as_repetitions():
    """Target noise of a row of weight w is that of the mean of w rows."""
    x, y, weight = np.array([[-1.0], [0.5], [2.0]]), np.array([0.0, 1.0, 0.5]), np.full(3, 25.0)
    network = MLP(())
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        Prior.for_network(network, x, first_var=1.0),
        Gaussian(NOISE_VAR),
        Data.make(x, y, weight),
        method="rms",
        n_members=N_MEMBERS,
        schedule=SCHEDULE,
    )
    layer = ensemble.params[0]
    draws = np.column_stack([layer["bias"], layer["weight"][..., 0]])
    design = np.column_stack([np.ones(3), x]).repeat(25, axis=0)
    likelihood = rms.linear_likelihood(design, y.repeat(25), NOISE_VAR)
    exact = rms.posterior(rms.Normal(np.zeros(2), np.eye(2)), *likelihood)
    z_mean, z_cov = z_scores(draws, exact)
    assert np.abs(z_mean).max() < LIMIT
    assert np.abs(z_cov).max() < LIMIT
