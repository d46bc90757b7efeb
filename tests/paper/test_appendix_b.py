"""Every number of the paper's appendix B.

A printed number is held to half a unit of its last digit. The appendix drops trailing zeros, so
the digits are those of the block: "0.11" among numbers of three decimals is 0.110.
"""

from fractions import Fraction

import numpy as np
import pytest

from anchored.exact import rms

EPS = np.finfo(float).eps
TIE = np.sqrt(EPS)


def assert_printed(actual, printed, decimals=3):
    # The rounding allowance is for ties: the appendix has 0.145 as 0.15.
    limit = 0.5 * 10.0**-decimals + 4 * EPS * np.abs(printed).max()
    np.testing.assert_allclose(actual, printed, rtol=0, atol=limit)


def assert_printed_axes(cov, values, axes, decimals, value_decimals):
    """Each printed axis lies in the eigenspace of its printed eigenvalue.

    If the true axis has been rounded by r, the part of the printed one outside the eigenspace is
    at most |r|, which is half a unit in each of the coordinates.
    """
    true_values, true_axes = np.linalg.eigh(cov)
    assert_printed(true_values, np.sort(values), value_decimals)
    half = 0.5 * 10.0**-decimals
    for value, axis in zip(values, np.array(axes), strict=True):
        same = np.abs(true_values - value) <= 0.5 * 10.0**-value_decimals
        space = true_axes[:, same]
        assert np.linalg.norm(axis - space @ (space.T @ axis)) <= half * np.sqrt(len(axis))
        if same.sum() == 1:  # then the axis itself is known, but for its sign
            true = space[:, 0] * np.sign(space[:, 0] @ axis)
            np.testing.assert_allclose(axis, true, rtol=0, atol=half + 4 * EPS)


# B.1.1: the general case -----------------------------------------------------------------------

GENERAL_AXES = [[-0.8352, -0.471, -0.284], [-0.465, 0.3288, 0.822], [0.2938, -0.8186, 0.4936]]


@pytest.fixture(scope="module")
def general():
    """Prior and exact posterior. The likelihood printed as 0.707, 0.283 is built from variances
    2, 1, 1 and correlations 0.5, 0.2, 0.4."""
    scale = np.sqrt([2.0, 1.0, 1.0])
    corr = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]])
    like = corr * np.outer(scale, scale)
    assert_printed(like, [[2.0, 0.707, 0.283], [0.707, 1.0, 0.4], [0.283, 0.4, 1.0]])
    prior = rms.Normal(np.zeros(3), 2 * np.eye(3))
    return prior, rms.posterior(prior, np.linalg.inv(like), np.zeros(3))


def test_general_case_covariances(general):
    prior, exact = general
    assert_printed(exact.cov, [[0.953, 0.238, 0.067], [0.238, 0.589, 0.166], [0.067, 0.166, 0.638]])
    assert_printed(
        rms.anchored_cov(prior.cov, exact.cov),
        [[0.485, 0.189, 0.073], [0.189, 0.215, 0.11], [0.073, 0.11, 0.22]],
    )


def test_general_case_bias(general):
    prior, exact = general
    bias = rms.bias(prior.cov, exact.cov)
    assert_printed(
        bias.exact_correlation, [[1.0, 0.317, 0.086], [0.317, 1.0, 0.27], [0.086, 0.27, 1.0]]
    )
    assert_printed(
        bias.anchored_correlation, [[1.0, 0.585, 0.224], [0.585, 1.0, 0.504], [0.224, 0.504, 1.0]]
    )
    assert (bias.variance_ratio < 1).all()
    assert (bias.correlation_excess[~np.eye(3, dtype=bool)] > 0).all()
    assert bias.angle < TIE


def test_general_case_axes(general):
    prior, exact = general
    assert_printed_axes(exact.cov, [1.1101, 0.6667, 0.4032], GENERAL_AXES, 4, 4)
    anchored = rms.anchored_cov(prior.cov, exact.cov)
    assert_printed_axes(anchored, [0.6162, 0.2222, 0.0813], GENERAL_AXES, 4, 4)


# B.1.2: exact cases ----------------------------------------------------------------------------

# name: prior variances, directions the data fix, then as printed: posterior, scaled posterior,
# and the eigenvalues, axes and decimals of each. 0.667 is 2/3 and 1.818 is 20/11.
SPECIAL = {
    "two tied, one free": (
        [2.0, 2.0, 2.0],
        [[1.0, -1.0, 0.0]],
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]],
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        ([2.0, 0.0, 2.0], [[0.7071, 0.7071, 0.0], [-0.7071, 0.7071, 0.0], [0.0, 0.0, 1.0]], 4),
        ([1.0, 0.0, 1.0], [[0.707, 0.707, 0.0], [-0.707, 0.707, 0.0], [0.0, 0.0, 1.0]], 3),
    ),
    "all tied": (
        [2.0, 2.0, 2.0],
        [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]],
        np.full((3, 3), 0.667),
        np.full((3, 3), 0.333),
        (
            [2.0, 0.0, 0.0],
            [[-0.5774, -0.5774, -0.5774], [0.0, -0.7071, 0.7071], [-0.6667, -0.0749, 0.7416]],
            4,
        ),
        (
            [1.0, 0.0, 0.0],
            [[0.577, 0.577, 0.577], [0.0, -0.707, 0.707], [-0.521, -0.284, 0.805]],
            3,
        ),
    ),
    "anisotropic prior": (
        [20.0, 2.0, 2.0],
        [[1.0, 0.0, -1.0]],
        [[1.818, 0.0, 1.818], [0.0, 2.0, 0.0], [1.818, 0.0, 1.818]],
        [[0.091, 0.0, 0.287], [0.0, 1.0, 0.0], [0.287, 0.0, 0.909]],
        ([3.636, 0.0, 2.0], [[0.707, 0.0, 0.707], [-0.707, 0.0, 0.707], [0.0, 1.0, 0.0]], 3),
        ([0.0, 1.0, 1.0], [[-0.953, 0.0, 0.302], [-0.302, 0.0, -0.953], [0.0, 1.0, 0.0]], 3),
    ),
}


@pytest.fixture(params=SPECIAL.values(), ids=list(SPECIAL))
def special(request):
    """Prior, fixed directions C, the limit posterior S - S C'(C S C')^-1 C S, what is printed."""
    variances, directions, *printed = request.param
    prior, fixed = np.diag(variances), np.array(directions)
    gain = prior @ fixed.T @ np.linalg.inv(fixed @ prior @ fixed.T)
    return prior, fixed, prior - gain @ fixed @ prior, gain, printed


def test_special_cases_are_exact(special):
    prior, _, exact, _, (printed, printed_scaled, axes, scaled_axes) = special
    scaled = rms.scaled_posterior(prior, exact)
    assert_printed(exact, printed)
    assert_printed(rms.anchored_cov(prior, exact), printed)
    assert_printed(scaled, printed_scaled)
    assert_printed(rms.scaled_posterior(prior, prior), np.eye(3))
    assert_printed(rms.anchored_cov(np.eye(3), scaled), printed_scaled)
    for cov in exact, rms.anchored_cov(prior, exact):
        assert_printed_axes(cov, *axes, value_decimals=3)
    for cov in scaled, rms.anchored_cov(np.eye(3), scaled):
        assert_printed_axes(cov, *scaled_axes, value_decimals=3)
    limit = 10 * EPS * np.linalg.cond(prior)
    assert rms.exactness_gap(prior, exact) < limit
    np.testing.assert_allclose(rms.bias(prior, exact).variance_ratio, 1, rtol=limit)


def test_special_cases_are_limits_of_inference(special):
    """Weight w on the fixed directions leaves at most |gain|^2 / w of variance in them."""
    prior, fixed, exact, gain, _ = special
    for weight in 1e2, 1e4, 1e6:
        precision = weight * fixed.T @ fixed
        found = rms.posterior(rms.Normal(np.zeros(3), prior), precision, np.zeros(3)).cov
        slack = 10 * EPS * np.linalg.cond(np.linalg.inv(prior) + precision)
        bound = np.linalg.norm(gain, 2) ** 2 / weight
        assert np.linalg.norm(found - exact, 2) <= bound + slack * np.linalg.norm(prior, 2)
        kept = 1 / (1 + weight * np.linalg.eigvalsh(fixed @ prior @ fixed.T))
        gap = rms.exactness_gap(prior, found)
        np.testing.assert_allclose(gap, (kept * (1 - kept)).max(), rtol=0, atol=slack)


# B.2: mixtures ---------------------------------------------------------------------------------

MIXTURE = np.array(
    [
        [1.0, 1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.2, 0.0],
        [0.0, 0.0, 0.2, 0.8, 0.0],
        [0.0, 0.0, 0.0, 0.0, 2.0],
    ]
)


def test_mixture_of_blocks():
    prior = rms.Normal(np.zeros(5), 2 * np.eye(5))
    anchored = rms.anchored_cov(prior.cov, MIXTURE)
    assert_printed(
        anchored,
        [
            [1.0, 1.0, 0.0, 0.0, 0.0],
            [1.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.145, 0.13, 0.0],
            [0.0, 0.0, 0.13, 0.34, 0.0],
            [0.0, 0.0, 0.0, 0.0, 2.0],
        ],
    )
    ratio = rms.bias(prior.cov, MIXTURE).variance_ratio
    np.testing.assert_allclose(ratio, [1, 1, 0.29, 0.425, 1], rtol=4 * EPS)
    # An inference that has this posterior, but for 1 / weight in the first block.
    precision, weight = np.zeros((5, 5)), 1e6
    precision[:2, :2] = weight * np.array([[1, -1], [-1, 1]])
    precision[2:4, 2:4] = np.linalg.inv(MIXTURE[2:4, 2:4]) - np.eye(2) / 2
    found = rms.posterior(prior, precision, np.zeros(5)).cov
    np.testing.assert_allclose(found, MIXTURE, rtol=0, atol=1 / weight)
    np.testing.assert_array_equal(rms.extrapolation_parameters(precision), [4])


def test_overlapping_mixture_is_no_posterior():
    """The second mixture is printed right, but its variance grows: 1.03 for 1.

    Lemma 1 is not at fault. The posterior printed exceeds its prior in one direction, so no
    likelihood leads to it.
    """
    prior, mixed = 2 * np.eye(5, dtype=int), MIXTURE.copy()
    mixed[:2, 2:4] = [0.1, 0.2]
    mixed[2:4, :2] = [[0.1], [0.2]]
    assert_printed(
        rms.anchored_cov(prior, mixed),
        [
            [1.03, 1.03, 0.15, 0.29, 0.0],
            [1.03, 1.03, 0.15, 0.29, 0.0],
            [0.15, 0.15, 0.16, 0.15, 0.0],
            [0.29, 0.29, 0.15, 0.38, 0.0],
            [0.0, 0.0, 0.0, 0.0, 2.0],
        ],
        decimals=2,
    )
    bias = rms.bias(prior, mixed)
    np.testing.assert_allclose(bias.variance_ratio[[0, 1, 4]], [1.025, 1.025, 1], rtol=4 * EPS)
    np.testing.assert_allclose(bias.anchored_correlation[0, 1], 1, rtol=4 * EPS)
    assert np.linalg.eigvalsh(rms.scaled_posterior(prior, mixed)).max() > 1.02


# B.3: two perfectly correlated weights of a network --------------------------------------------


@pytest.fixture(scope="module")
def two_nodes():
    """Prior and likelihood of the output weights, with the noise variance that is printed with
    the matrices, 0.1. The text has 0.01, which would make the precision ten times larger."""
    hidden = np.maximum(np.outer([-5.0, 5.0], [-0.8, -0.4]) + np.array([-1.0, 0.1]), 0)
    likelihood = rms.linear_likelihood(hidden, np.zeros(2), 0.1)
    return rms.Normal(np.zeros(2), np.eye(2) / 2), likelihood


def test_two_node_network(two_nodes):
    prior, (precision, precision_mean) = two_nodes
    assert_printed(precision, [[90.0, 63.0], [63.0, 44.1]], decimals=1)
    exact = rms.posterior(prior, precision, precision_mean)
    assert_printed(exact.cov, [[0.169, -0.231], [-0.231, 0.338]])
    # In rationals: the posterior is (46.1, -63; -63, 92) / 272.2.
    a, b, d = (Fraction(n) / Fraction("272.2") for n in (Fraction("46.1"), -63, 92))
    anchored = [[2 * (a * a + b * b), 2 * b * (a + d)], [2 * b * (a + d), 2 * (b * b + d * d)]]
    found = rms.anchored_posterior(prior, precision, precision_mean)
    rounding = 10 * EPS * np.linalg.cond(precision + 2 * np.eye(2))
    np.testing.assert_allclose(found.cov, np.array(anchored, float), rtol=rounding)
    assert_printed(found.cov, [[0.1645, -0.2348], [-0.2348, 0.3356]], decimals=4)


def test_two_node_likelihood_covariance_is_a_rounding_error():
    """The precision is singular; elimination leaves minus one unit in the last place of 44.1.

    The inverse of that pivot, times the null direction, is the matrix printed, cut to 3 digits.
    """
    null = np.array([-0.7, 1.0])
    like = np.outer(null, null) / -np.spacing(44.1)
    cut = np.trunc(like / [[1e11, 1e11], [1e11, 1e12]])
    np.testing.assert_array_equal(cut, [[-689, 985], [985, -140]])


def test_two_node_anchored_covariance_as_printed():
    """0.166 and 0.338 are printed where 0.1645 and 0.3356 belong.

    However they were rounded, the numbers printed exceed the prior variance of 0.5 in one
    direction, which no exact arithmetic gives. They are off by less than the spacing of float64
    at the entries of the likelihood covariance above: an error of the size left when terms near
    1e14 cancel, as in S_like (S_like + S_prior)^-1 S_prior. Which formula was used is not known.
    """
    printed = np.array([[0.166, -0.235], [-0.235, 0.338]])
    exact = 2 * np.array([[6094.21, -8700.3], [-8700.3, 12433.0]]) / 272.2**2
    off = np.abs(printed - exact)
    assert_printed(exact[0, 1], -0.235)
    assert (np.diag(off) > [0.0014, 0.0023]).all()
    # Rounding moves an eigenvalue by at most the norm of a matrix of half units (Weyl).
    assert np.linalg.eigvalsh(printed).max() - 2 * 0.5e-3 > 0.5
    assert (off < np.spacing([[6.89e13, 9.85e13], [9.85e13, 1.40e14]])).all()
