import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from anchored import MLP, Prior, tuning
from anchored.core.rows import Standardiser
from anchored.exact import gp
from anchored.exact.kernels import EXACT, Kernel


@pytest.fixture
def problem(rng):
    x = rng.normal(size=(30, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=30), rng.normal(size=(7, 2))


LINEAR = Kernel(0.9, 0.5, (), EXACT["relu"])  # no hidden layer: b + w x.x'


def sklearn_linear(fitted=True):
    return ConstantKernel(0.5, "fixed") * DotProduct(np.sqrt(0.9 / 0.5), "fixed")


def test_posterior_and_evidence_match_scikit_learn(problem):
    x, y, x_new = problem
    other = GaussianProcessRegressor(sklearn_linear(), alpha=0.04, optimizer=None).fit(x, y)
    mean, std = other.predict(x_new, return_std=True)
    ours = gp.condition(LINEAR, x, y, 0.04).predict(x_new)
    np.testing.assert_allclose(ours.mean[:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(ours.epistemic_var[:, 0]), std, rtol=1e-5)
    np.testing.assert_allclose(ours.aleatoric_var, 0.04)
    evidence = gp.log_evidence(LINEAR, x, y, 0.04)
    assert evidence == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-8)


def test_laplace_evidence_matches_scikit_learn(problem):
    x, y, _ = problem
    labels = np.where(y > 0, 1.0, -1.0)
    other = GaussianProcessClassifier(sklearn_linear(), optimizer=None).fit(x, labels)
    ours = gp.laplace_log_evidence(LINEAR, x, labels)
    assert ours == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-5)


def test_evidence_is_the_normal_density(problem):
    x, y, _ = problem
    kernel = Kernel.paper(3.0, 2, (50,), "relu")
    exact = gp.condition(kernel, x, y, 0.1)
    cov = exact.factors[0] @ exact.factors[0].T
    expected = stats.multivariate_normal(np.zeros(30), cov).logpdf(y)
    assert gp.log_evidence(kernel, x, y, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("activation", EXACT)
def test_evidence_gradient_against_finite_differences(problem, activation):
    x, y, _ = problem
    y = np.stack([y, y**2], axis=1)
    weight = np.linspace(0.5, 2, 30)
    make = tuning.Twin(2, (10, 10), activation)
    theta = np.log([2.0, 0.4, 3.0, 0.1, 0.3])  # two relevances and two levels of noise

    def value(t):
        return gp.evidence_gradient(make, t[:3], x, y, np.exp(t[3:]), weight)

    _, in_theta, in_log_noise = value(theta)
    step = 1e-5
    numeric = [
        (value(theta + step * e)[0] - value(theta - step * e)[0]) / (2 * step) for e in np.eye(5)
    ]
    np.testing.assert_allclose(np.concatenate([in_theta, in_log_noise]), numeric, rtol=1e-5)


def test_a_weight_is_a_repetition(problem):
    x, y, x_new = problem
    kernel, count = Kernel.paper(3.0, 2, (50,), "erf"), np.arange(30) % 3 + 1
    weighted = gp.condition(kernel, x, y, 0.1, count).predict(x_new)
    x_all, y_all = x.repeat(count, axis=0), y.repeat(count)
    repeated = gp.condition(kernel, x_all, y_all, 0.1).predict(x_new)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-6)
    np.testing.assert_allclose(weighted.epistemic_var, repeated.epistemic_var, rtol=1e-6)
    assert gp.log_evidence(kernel, x, y, 0.1, count) == pytest.approx(
        gp.log_evidence(kernel, x_all, y_all, 0.1), rel=1e-8
    )
    labels = np.sign(y)
    assert gp.laplace_log_evidence(kernel, x, labels, count) == pytest.approx(
        gp.laplace_log_evidence(kernel, x_all, labels.repeat(count)), rel=1e-5
    )


def test_samples_have_the_posterior_moments(problem):
    x, y, x_new = problem
    exact = gp.condition(Kernel.paper(3.0, 2, (50,), "relu"), x, y, 0.1)
    n = 4000
    draws = exact.sample(0, x_new, n)[..., 0]
    dist = exact.predict(x_new)
    std = np.sqrt(dist.epistemic_var[:, 0])
    z_mean = (draws.mean(0) - dist.mean[:, 0]) / (std / np.sqrt(n))
    z_var = (draws.var(0, ddof=1) / std**2 - 1) / np.sqrt(2 / (n - 1))
    assert np.all(np.abs([z_mean, z_var]) < stats.norm.isf(1e-3 / 28))


def test_tiny_noise_interpolates_in_float64(problem):
    x, y, _ = problem
    dist = gp.condition(Kernel.paper(10.0, 2, (50,), "relu"), x, y, 1e-7).predict(x)
    np.testing.assert_allclose(dist.mean[:, 0], y, atol=1e-4)
    assert np.all(dist.epistemic_var < 1e-6)


def test_tuning_finds_the_noise_and_scale_of_its_own_draws():
    """Data drawn from the GP itself: the truth is within the evidence's own error."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 3))
    kernel = Kernel.paper(4.0, 3, (50,), "erf")
    prior = gp.condition(kernel, x[:1] * 1e3, [0.0], 1e12)  # as good as no data
    y = prior.sample(0, x, 1)[0] + np.sqrt(0.05) * rng.normal(size=(400, 1))
    found = tuning.tune_regression(tuning.Twin(3, (50,), "erf"), x, y, np.ones(400))
    # The noise is estimated from about 400 squares: relative error sqrt(2 / 400) = 7 %.
    assert np.log(found.noise_var[0] / 0.05) == pytest.approx(0, abs=4 * 0.07)
    at_truth = gp.log_evidence(kernel, x, y, 0.05)
    best = gp.log_evidence(Kernel.paper(found.first_var, 3, (50,), "erf"), x, y, found.noise_var)
    # Twice the gain over the truth is chi-square with two degrees of freedom.
    assert 0 <= 2 * (best - at_truth) < stats.chi2.isf(1e-3, 2)


def test_tuning_keeps_what_is_given(problem):
    x, y, _ = problem
    twin = tuning.Twin(2, (50,), "relu")
    given = tuning.tune_regression(twin, x, y[:, None], np.ones(30), noise_var=np.array([0.2]))
    assert given.noise_var == pytest.approx([0.2])
    given = tuning.tune_regression(twin, x, y[:, None], np.ones(30), first_var=5.0)
    assert given.first_var == pytest.approx(5.0)


def test_evidence_of_many_numbers_of_rows_shares_three_programs(rng, monkeypatch):
    """Kernels are padded; the evidence and its gradient are those of the rows alone."""
    twin = tuning.Twin(7, (50,), "relu")  # of as many columns no other test compiles a program
    traced, covariance = [], Kernel.covariance

    def counted(kernel, a, b):
        traced.append(len(a))
        return covariance(kernel, a, b)

    monkeypatch.setattr(Kernel, "covariance", counted)
    for n in np.linspace(50, 100, 50).astype(int):
        x, y = rng.normal(size=(n, 7)), rng.normal(size=(n, 1))
        value, *_ = gp.evidence_gradient(twin, np.array([0.3]), x, y, 0.1)
        kernel = Kernel.paper(np.exp(0.3), 7, (50,), "relu")
        assert value == pytest.approx(gp.log_evidence(kernel, x, y, 0.1), rel=1e-9)
    sizes, counts = np.unique(traced, return_counts=True)
    assert len(sizes) == 3
    assert counts.max() <= 3  # the covariance, and what its gradient needs


def test_relevances_tell_columns_apart(rng):
    """Of four columns, in two pairs of features, one tells the target; labels say the same."""
    x = rng.normal(size=(1_000, 4))
    y = np.sin(2 * x[:, 2]) + 0.2 * rng.normal(size=1_000)
    ones = np.ones(1_000)
    twin = tuning.Twin(4, (50,), "relu")
    found = tuning.tune_regression(twin, x, y[:, None], ones, relevances=True)
    assert found.relevance[2] > 20 * found.relevance[[0, 1, 3]].max()
    assert found.noise_var == pytest.approx([0.04], rel=0.25)
    several = dataclasses.replace(twin, columns=(0, 0, 1, 1))
    pairs = tuning.tune_regression(several, x, y[:, None], ones, relevances=True).relevance
    assert pairs[2] == pairs[3] > 20 * pairs[0]
    assert pairs[0] == pairs[1]
    of_labels = tuning.tune_classification(twin, x, (y > 0).astype(float), ones).relevance
    assert of_labels[2] > 5 * of_labels[[0, 1, 3]].max()
    few = tuning.tune_regression(twin, x[:40], y[:40, None], ones[:40], relevances=True)
    np.testing.assert_array_equal(few.relevance, 1.0)


def test_ramps_are_kept_where_they_explain_and_left_out_where_not(rng):
    """A zigzag in one of two columns against a straight line."""
    x, ones = rng.uniform(-1, 1, size=(300, 2)), np.ones(300)
    scaler = Standardiser.fit(x, ones)
    scaler = scaler.with_ramps(x, ones, np.arange(2))
    z, n_ramps = scaler.forward(x), scaler.n_ramps
    assert n_ramps == 16
    twin = tuning.Twin(2 + n_ramps, (50,), "relu", (0, 1, *[2] * 8, *[3] * 8), n_ramps)
    noise = 0.1 * rng.normal(size=300)
    zigzag = np.interp(x[:, 0], np.linspace(-1, 1, 9), [0, 1, 0, 1, 0, 1, 0, 1, 0])
    for y, kept in ((zigzag + noise, True), (x[:, 0] + noise, False)):
        y = ((y - y.mean()) / y.std())[:, None]
        found = tuning.tune_regression(twin, z, y, ones, relevances=True).relevance
        assert len(found) == (2 + n_ramps if kept else 2)
        if kept:
            assert found[2] > 5 * found[10]  # the ramps of the column with the zigzag


def test_the_prior_of_relevances_has_the_twin_of_their_kernel(rng):
    x, relevance = rng.normal(size=(20, 3)), np.array([0.1, 1.0, 8.0])
    network = MLP((50,))
    prior = Prior.for_network(network, x[:1], 5.0).with_relevance(relevance)
    kernel = Kernel.paper(5.0, 3, (50,), "relu", relevance)
    ours = gp.twin(network, prior).covariance(x, x)
    np.testing.assert_allclose(ours, kernel.covariance(x, x), rtol=1e-5)
