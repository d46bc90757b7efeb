import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from anchored import Bernoulli, Categorical, Gaussian, HeteroskedasticGaussian, Poisson
from anchored.typing import Likelihood

OUTPUTS = jnp.array([[0.3, -1.2], [2.0, 0.5]])


def _softplus(r):
    return np.log1p(np.exp(r)) + 1e-6


CASES = {
    "gaussian": (
        Gaussian(0.25),
        [[0.0, 1.0], [2.5, 0.0]],
        lambda y: stats.norm.logpdf(y, OUTPUTS, 0.5),
    ),
    "per output": (
        Gaussian(jnp.array([0.25, 4.0])),
        [[0.0, 1.0], [2.5, 0.0]],
        lambda y: stats.norm.logpdf(y, OUTPUTS, [0.5, 2.0]),
    ),
    "heteroskedastic": (
        HeteroskedasticGaussian(),
        [[0.1], [1.0]],
        lambda y: stats.norm.logpdf(y, OUTPUTS[:, :1], np.sqrt(_softplus(OUTPUTS[:, 1:]))),
    ),
    "categorical": (
        Categorical(),
        [[1], [0]],
        lambda y: np.take_along_axis(special.log_softmax(OUTPUTS, axis=1), y.astype(int), 1),
    ),
    "bernoulli": (
        Bernoulli(),
        [[0, 1], [1, 1]],
        lambda y: stats.bernoulli.logpmf(y, special.expit(OUTPUTS)),
    ),
    "poisson": (
        Poisson(),
        [[0, 2], [7, 1]],
        lambda y: stats.poisson.logpmf(y, np.exp(OUTPUTS)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_log_prob_matches_scipy(name):
    likelihood, y, expected = CASES[name]
    y = np.asarray(y, float)
    got = likelihood.log_prob(OUTPUTS, jnp.asarray(y))
    assert got.shape == (2,)
    np.testing.assert_allclose(got, np.sum(expected(y), axis=1), rtol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_conforms_and_samples_have_the_moments(name):
    likelihood = CASES[name][0]
    assert isinstance(likelihood, Likelihood)
    n = 4000
    keys = jax.random.split(jax.random.key(0), n)
    draws = np.asarray(jax.vmap(lambda k: likelihood.sample(k, OUTPUTS))(keys), float)
    mean, var = (np.asarray(f(OUTPUTS), float) for f in (likelihood.mean, likelihood.variance))
    if name == "categorical":
        draws = np.asarray(draws == np.arange(2), float)
    z = (draws.mean(axis=0) - mean) / np.sqrt(var / n)
    assert np.all(np.abs(z) < stats.norm.isf(1e-3 / z.size))
    fourth = np.mean((draws - mean) ** 4, axis=0)
    z_var = (np.mean((draws - mean) ** 2, axis=0) - var) / np.sqrt((fourth - var**2) / n + 1e-12)
    assert np.all(np.abs(z_var) < stats.norm.isf(1e-3 / z.size))


def test_the_noise_is_data_not_program():
    traces = []

    @jax.jit
    def log_prob(likelihood):
        traces.append(likelihood)
        return likelihood.log_prob(OUTPUTS, OUTPUTS)

    log_prob(Gaussian(0.1))
    log_prob(Gaussian(0.7))
    assert len(traces) == 1


def _labels(name, likelihood, outputs):
    """Targets [y, 1] of one output row, and how probable each is."""
    if name in ("gaussian", "heteroskedastic"):
        nodes, share = np.polynomial.hermite_e.hermegauss(20)
        mean, var = likelihood.mean(outputs)[0, 0], likelihood.variance(outputs)[0, 0]
        return (mean + np.sqrt(var) * nodes)[:, None], share / share.sum()
    y = np.arange({"categorical": outputs.shape[1], "bernoulli": 2, "poisson": 60}[name])[:, None]
    return y, np.exp([likelihood.log_prob(outputs, jnp.asarray([row]))[0] for row in y])


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("gaussian", [0.3]),
        ("heteroskedastic", [0.3, -1.2]),
        ("categorical", [0.3, -1.2, 2.0]),
        ("bernoulli", [0.7]),
        ("poisson", [1.1]),
    ],
)
def test_score_noise_has_the_covariance_of_the_score(name, outputs):
    """The Fisher information, as the mean over all labels of the score's outer product."""
    likelihood, outputs = CASES[name][0], jnp.asarray([outputs])
    y, share = _labels(name, likelihood, outputs)
    score = jax.grad(lambda f, label: likelihood.log_prob(f, label[None])[0])
    scores = np.stack([score(outputs, jnp.asarray(label))[0] for label in y])
    fisher = (scores * np.asarray(share)[:, None]).T @ scores
    root = jax.jacobian(lambda z: likelihood.score_noise(outputs, z[None])[0])
    root = np.asarray(root(jnp.zeros(outputs.shape[1])))
    np.testing.assert_allclose(root @ root.T, fisher, rtol=1e-4, atol=1e-5)
