"""Randomised MAP sampling in parameter space: the closed forms for a normal likelihood.

With prior N(mu_prior, S_prior) and parameter likelihood of precision P and mean mu_like,

    S_post = (S_prior^-1 + P)^-1,   mu_post = S_post (S_prior^-1 mu_prior + P mu_like)

Anchors drawn from the prior give MAP solutions of mean mu_post and covariance
S_post S_prior^-1 S_post (corollary 1). Exact draws need anchors of covariance
S_prior + S_prior P S_prior (theorem 1).

In units of the prior, where S_post has eigenvalues l in [0, 1], that covariance has eigenvalues
l^2. All else follows. Variance is lost wherever 0 < l < 1 (lemma 1). Principal axes do not change
in these units (lemma 2). Directions that the data do not inform (l = 1) or fix (l = 0) are exact
(theorems 3 and 4).

Numbers and theorems are those of Pearce et al. (2020), "Uncertainty in Neural Networks:
Approximately Bayesian Ensembling", appendix A.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg

_TIE = np.sqrt(np.finfo(float).eps)  # eigenvalues nearer than this do not fix their eigenvectors


class Normal(NamedTuple):
    """A multivariate normal distribution; the covariance may be singular."""

    mean: np.ndarray
    cov: np.ndarray

    def sample(self, seed: int | np.random.Generator, n: int) -> np.ndarray:
        """Draws [n, dim]."""
        tol = _TIE * np.trace(self.cov)
        return np.random.default_rng(seed).multivariate_normal(
            self.mean, self.cov, size=n, check_valid="raise", tol=tol, method="eigh"
        )


class Bias(NamedTuple):
    """What anchors from the prior do to a posterior.

    `variance_ratio` is the anchored variance divided by the exact one, for each parameter. `angle`
    is the largest angle between axes of equal rank, in radians.
    """

    variance_ratio: np.ndarray
    exact_correlation: np.ndarray
    anchored_correlation: np.ndarray
    angle: float

    @property
    def correlation_excess(self) -> np.ndarray:
        """By how much the magnitude of each correlation grows.

        It is never negative for two parameters with a diagonal prior (theorem 2). With three
        parameters or more, or with a correlated prior, it can be negative.
        """
        return np.abs(self.anchored_correlation) - np.abs(self.exact_correlation)


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
    return Normal(exact.mean, anchored_cov(prior.cov, exact.cov))


def mean_field_posterior(prior: Normal, precision: np.ndarray, precision_mean) -> Normal:
    """The diagonal normal q of least KL(q || posterior): what mean-field VI converges to."""
    exact = posterior(prior, precision, precision_mean)
    return Normal(exact.mean, np.diag(1 / np.diag(np.linalg.inv(prior.cov) + precision)))


def exact_anchor_distribution(prior: Normal, precision: np.ndarray) -> Normal:
    """The anchor distribution that makes the MAP solutions exact draws (theorem 1)."""
    return Normal(prior.mean, prior.cov + prior.cov @ precision @ prior.cov)


def map_solutions(
    anchors: np.ndarray, prior: Normal, precision: np.ndarray, precision_mean: np.ndarray
) -> np.ndarray:
    """The MAP solution [n, dim] of each anchor [n, dim].

    `precision_mean` may have one row for each anchor. If its rows are drawn from
    Normal(P mu_like, P) and the anchors from the prior, the solutions are draws from the exact
    posterior. For a linear model, such rows mean noise on the targets.
    """
    prior_precision = np.linalg.inv(prior.cov)
    pull = anchors @ prior_precision + precision_mean
    return np.linalg.solve(prior_precision + precision, pull.T).T


def anchored_cov(prior_cov: np.ndarray, posterior_cov: np.ndarray) -> np.ndarray:
    """S_post S_prior^-1 S_post, for a posterior that may be singular."""
    half = linalg.solve_triangular(np.linalg.cholesky(prior_cov), posterior_cov, lower=True)
    return half.T @ half


def scaled_posterior(prior_cov: np.ndarray, posterior_cov: np.ndarray) -> np.ndarray:
    """S_prior^-1/2 S_post S_prior^-1/2: the posterior in units where the prior is standard."""
    values, vectors = np.linalg.eigh(prior_cov)
    root = (vectors / np.sqrt(values)) @ vectors.T
    return root @ posterior_cov @ root


def exactness_gap(prior_cov: np.ndarray, posterior_cov: np.ndarray) -> float:
    """Largest |l (1 - l)| over eigenvalues l of the scaled posterior; 0 if exact (theorem 4).

    It is the largest loss of variance in any direction, as a share of the prior variance, and never
    above 1/4.
    """
    values = np.linalg.eigvalsh(scaled_posterior(prior_cov, posterior_cov))
    return float(np.abs(values * (1 - values)).max())


def extrapolation_parameters(precision: np.ndarray) -> np.ndarray:
    """Indices of the parameters that the likelihood does not depend on.

    Their marginals are exact (theorem 3) if the prior does not correlate them with the others.
    """
    return np.flatnonzero(~precision.any(axis=0))


def correlation(cov: np.ndarray) -> np.ndarray:
    """Correlation matrix; a parameter of zero variance correlates with itself only."""
    scale = np.sqrt(np.diag(cov))
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    matrix = inverse[:, None] * cov * inverse
    np.fill_diagonal(matrix, 1.0)
    return matrix


def bias(prior_cov: np.ndarray, posterior_cov: np.ndarray) -> Bias:
    """Compare the anchored posterior with the exact one: lemmas 1 and 2, theorem 2."""
    anchored = anchored_cov(prior_cov, posterior_cov)
    exact_var, anchored_var = np.diag(posterior_cov), np.diag(anchored)
    return Bias(
        np.divide(anchored_var, exact_var, out=np.ones_like(anchored_var), where=exact_var > 0),
        correlation(posterior_cov),
        correlation(anchored),
        _largest_angle(posterior_cov, anchored),
    )


def _largest_angle(first: np.ndarray, second: np.ndarray) -> float:
    """Largest angle between eigenvectors of equal rank; tied ones are compared as a subspace."""
    values, vectors = zip(np.linalg.eigh(first), np.linalg.eigh(second), strict=True)
    apart = np.all([np.diff(v) > _TIE * v[-1] for v in values], axis=0)
    groups = np.split(np.arange(len(first)), np.flatnonzero(apart) + 1)
    return max(float(linalg.subspace_angles(*(v[:, g] for v in vectors)).max()) for g in groups)
