"""The examples of appendix B: how each is computed, and the numbers the paper prints for it.

What is printed is in `examples.toml`.
"""

from typing import NamedTuple

import numpy as np

from anchored._files import package_data
from anchored.exact import rms
from anchored.exact.rms import Normal
from anchored.paper.figures import correlated

PRINTED = package_data("anchored.paper.figures", "examples.toml")
EXAMPLES = "general", *PRINTED["fixed"], *PRINTED["mixtures"], "two-node network", "counter-example"
POST, ANCHORED = "S_post", "S_post S_prior⁻¹ S_post"


class Example(NamedTuple):
    """Covariances, and what is printed: tuples (what, computed, as printed, decimals)."""

    section: str
    title: str
    prior: np.ndarray
    posterior: np.ndarray
    printed: list[tuple]


def example(name: str) -> Example:
    if name == "general":
        return _general()
    if name in PRINTED["fixed"]:
        return _special(**PRINTED["fixed"][name])
    if name in PRINTED["mixtures"]:
        return _mixture(**PRINTED["mixtures"][name])
    if name == "two-node network":
        return _two_nodes()
    posterior = np.array([[1, 1 / 8, 1 / 2], [1 / 8, 1, -1 / 2], [1 / 2, -1 / 2, 1]])
    return Example("ours", "correlation lost", 2 * np.eye(3), posterior, [])


def _general() -> Example:
    """The likelihood has variances 2, 1, 1 and correlations 0.5, 0.2, 0.4: hence the 0.707."""
    corr = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]])
    like = corr * np.sqrt(np.outer([2.0, 1.0, 1.0], [2.0, 1.0, 1.0]))
    prior = Normal(np.zeros(3), 2 * np.eye(3))
    exact = rms.posterior(prior, np.linalg.inv(like), np.zeros(3)).cov
    anchored = rms.anchored_cov(prior.cov, exact)
    computed = {
        "S_like": (like, "likelihood", 3),
        POST: (exact, "posterior", 3),
        ANCHORED: (anchored, "anchored", 3),
        "correlation of S_post": (rms.correlation(exact), "posterior_correlation", 3),
        "correlation, anchored": (rms.correlation(anchored), "anchored_correlation", 3),
        "eigenvalues of S_post": (np.linalg.eigvalsh(exact), "posterior_eigenvalues", 4),
        "eigenvalues, anchored": (np.linalg.eigvalsh(anchored), "anchored_eigenvalues", 4),
    }
    printed = [
        (what, value, PRINTED["general"][name], digits)
        for what, (value, name, digits) in computed.items()
    ]
    return Example("B.1.1", "General case", prior.cov, exact, printed)


def _special(
    title, variances, directions, posterior, scaled, posterior_eigenvalues, scaled_eigenvalues
) -> Example:
    """The posterior is the limit S - S C'(C S C')⁻¹ C S of a likelihood that fixes C theta."""
    prior, fixed = np.diag(variances).astype(float), np.array(directions, float)
    exact = prior - prior @ fixed.T @ np.linalg.solve(fixed @ prior @ fixed.T, fixed @ prior)
    exact_scaled = rms.scaled_posterior(prior, exact)
    checks = [
        (POST, exact, posterior, 3),
        (ANCHORED, rms.anchored_cov(prior, exact), posterior, 3),
        ("scaled S_post", exact_scaled, scaled, 3),
        ("scaled anchored", rms.anchored_cov(np.eye(3), exact_scaled), scaled, 3),
        ("eigenvalues of S_post", np.linalg.eigvalsh(exact), posterior_eigenvalues, 3),
        ("eigenvalues, scaled", np.linalg.eigvalsh(exact_scaled), scaled_eigenvalues, 3),
    ]
    return Example("B.1.2", title, prior, exact, checks)


def _mixture(title, overlap, digits, anchored) -> Example:
    """Two tied parameters, two partly correlated ones, a free one; `overlap` joins the first."""
    cov = np.diag([1.0, 1.0, 0.5, 0.8, 2.0])
    cov[0, 1], cov[2, 3], cov[:2, 2:4] = 1.0, 0.2, overlap
    prior, exact = 2 * np.eye(5), np.triu(cov) + np.triu(cov, 1).T
    checks = [(ANCHORED, rms.anchored_cov(prior, exact), anchored, digits)]
    return Example("B.2", title, prior, exact, checks)


def _two_nodes() -> Example:
    s = correlated.Settings()
    prior, precision, pull = correlated.inference(s, s.noise_var)
    exact, anchored = (
        f(prior, precision, pull).cov for f in (rms.posterior, rms.anchored_posterior)
    )
    nowhere = np.full_like(precision, np.nan)  # the precision is singular: S_like does not exist
    checks = [
        ("S_like", nowhere, correlated.PRINTED["likelihood"], -11),
        ("S_like⁻¹", precision, correlated.PRINTED["precision"], 1),
        (POST, exact, correlated.PRINTED["posterior"], 3),
        (ANCHORED, anchored, correlated.PRINTED["anchored"], 3),
    ]
    return Example("B.3", "Two-node network", prior.cov, exact, checks)
