"""The examples of appendix B: how each is computed, and the numbers the paper prints for it.

The appendix drops trailing zeros, so the digits of a number are those of its block: "0.11" among
numbers of three decimals is 0.110.
"""

from typing import NamedTuple

import numpy as np

from anchored.exact import rms
from anchored.exact.rms import Normal
from anchored.paper.figures import correlated

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
    if name in FIXED:
        return _special(name)
    if name in MIXTURES:
        title, posterior, printed, digits = MIXTURES[name]
        prior = 2 * np.eye(5)
        anchored = rms.anchored_cov(prior, posterior)
        return Example("B.2", title, prior, posterior, [(ANCHORED, anchored, printed, digits)])
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
    printed = [
        ("S_like", like, [[2, 0.707, 0.283], [0.707, 1, 0.4], [0.283, 0.4, 1]], 3),
        (POST, exact, [[0.953, 0.238, 0.067], [0.238, 0.589, 0.166], [0.067, 0.166, 0.638]], 3),
        (ANCHORED, anchored, [[0.485, 0.189, 0.073], [0.189, 0.215, 0.11], [0.073, 0.11, 0.22]], 3),
        (
            "correlation of S_post",
            rms.correlation(exact),
            [[1, 0.317, 0.086], [0.317, 1, 0.27], [0.086, 0.27, 1]],
            3,
        ),
        (
            "correlation, anchored",
            rms.correlation(anchored),
            [[1, 0.585, 0.224], [0.585, 1, 0.504], [0.224, 0.504, 1]],
            3,
        ),
        ("eigenvalues of S_post", np.linalg.eigvalsh(exact), [0.4032, 0.6667, 1.1101], 4),
        ("eigenvalues, anchored", np.linalg.eigvalsh(anchored), [0.0813, 0.2222, 0.6162], 4),
    ]
    return Example("B.1.1", "General case", prior.cov, exact, printed)


# Title, prior variances, directions the data fix; then printed: posterior, its scaled version, and
# the eigenvalues of each. The anchored covariances are printed as equal to these.
FIXED = {
    "tied and free": (
        "Two tied, one free",
        [2, 2, 2],
        [[1, -1, 0]],
        [[1, 1, 0], [1, 1, 0], [0, 0, 2]],
        [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]],
        [0, 2, 2],
        [0, 1, 1],
    ),
    "all tied": (
        "All tied",
        [2, 2, 2],
        [[1, -1, 0], [0, 1, -1]],
        np.full((3, 3), 0.667),
        np.full((3, 3), 0.333),
        [0, 0, 2],
        [0, 0, 1],
    ),
    "anisotropic prior": (
        "Anisotropic prior",
        [20, 2, 2],
        [[1, 0, -1]],
        [[1.818, 0, 1.818], [0, 2, 0], [1.818, 0, 1.818]],
        [[0.091, 0, 0.287], [0, 1, 0], [0.287, 0, 0.909]],
        [0, 2, 3.636],
        [0, 1, 1],
    ),
}


def _special(name: str) -> Example:
    """The posterior is the limit S - S C'(C S C')⁻¹ C S of a likelihood that fixes C theta."""
    title, variances, directions, *printed = FIXED[name]
    prior, fixed = np.diag(variances).astype(float), np.array(directions, float)
    exact = prior - prior @ fixed.T @ np.linalg.solve(fixed @ prior @ fixed.T, fixed @ prior)
    scaled = rms.scaled_posterior(prior, exact)
    anchored = rms.anchored_cov(prior, exact)
    scaled_anchored = rms.anchored_cov(np.eye(3), scaled)
    whole, whole_scaled, values, scaled_values = printed
    checks = [
        (POST, exact, whole, 3),
        (ANCHORED, anchored, whole, 3),
        ("scaled S_post", scaled, whole_scaled, 3),
        ("scaled anchored", scaled_anchored, whole_scaled, 3),
        ("eigenvalues of S_post", np.linalg.eigvalsh(exact), values, 3),
        ("eigenvalues, scaled", np.linalg.eigvalsh(scaled), scaled_values, 3),
    ]
    return Example("B.1.2", title, prior, exact, checks)


def _mixture(overlap: tuple[float, float]) -> np.ndarray:
    """Two tied parameters, two partly correlated ones, a free one; `overlap` joins the first."""
    cov = np.diag([1.0, 1.0, 0.5, 0.8, 2.0])
    cov[0, 1], cov[2, 3], cov[:2, 2:4] = 1.0, 0.2, overlap
    return np.triu(cov) + np.triu(cov, 1).T


MIXTURES = {
    "separate mixture": (
        "Mixture, separate",
        _mixture((0.0, 0.0)),
        [
            [1, 1, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [0, 0, 0.145, 0.13, 0],
            [0, 0, 0.13, 0.34, 0],
            [0, 0, 0, 0, 2],
        ],
        3,
    ),
    "overlapping mixture": (
        "Mixture, overlapping",
        _mixture((0.1, 0.2)),
        [
            [1.03, 1.03, 0.15, 0.29, 0],
            [1.03, 1.03, 0.15, 0.29, 0],
            [0.15, 0.15, 0.16, 0.15, 0],
            [0.29, 0.29, 0.15, 0.38, 0],
            [0, 0, 0, 0, 2],
        ],
        2,
    ),
}


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
