"""Randomised MAP sampling in parameter space: the closed forms for a normal likelihood.

With prior N(mu_prior, S_prior) and parameter likelihood of precision P and mean mu_like,

    S_post = (S_prior^-1 + P)^-1,   mu_post = S_post (S_prior^-1 mu_prior + P mu_like)

Anchors drawn from the prior give MAP solutions of mean mu_post and covariance
S_post S_prior^-1 S_post (corollary 1). Exactness needs anchors of covariance
S_prior + S_prior P S_prior (theorem 1).
"""

from typing import NamedTuple

import numpy as np


class Normal(NamedTuple):
    """A multivariate normal distribution."""

    mean: np.ndarray
    cov: np.ndarray


def linear_likelihood(x: np.ndarray, y: np.ndarray, noise_var: float) -> tuple:
    """Precision P and P mu_like of the coefficients of y = x theta + noise."""
    return x.T @ x / noise_var, x.T @ y / noise_var


def posterior(prior: Normal, precision: np.ndarray, precision_mean: np.ndarray) -> Normal:
    """The exact posterior, from the likelihood's precision P and P mu_like."""
    prior_precision = np.linalg.inv(prior.cov)
    cov = np.linalg.inv(prior_precision + precision)
    return Normal(cov @ (prior_precision @ prior.mean + precision_mean), cov)


def anchored_posterior(prior: Normal, precision: np.ndarray, precision_mean) -> Normal:
    """Distribution of MAP solutions when anchors come from the prior (corollary 1)."""
    exact = posterior(prior, precision, precision_mean)
    return Normal(exact.mean, exact.cov @ np.linalg.inv(prior.cov) @ exact.cov)


def exact_anchor_distribution(prior: Normal, precision: np.ndarray) -> Normal:
    """The anchor distribution that makes the MAP solutions exact draws (theorem 1)."""
    return Normal(prior.mean, prior.cov + prior.cov @ precision @ prior.cov)
