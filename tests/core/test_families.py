"""Each likelihood is a density, draws from it, and covers what it should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from anchored import (
    Censored,
    Data,
    Gaussian,
    Mixture,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Prior,
    Quantile,
    StudentT,
    ZeroInflatedPoisson,
    fit_ensemble,
)
from anchored.core.sampled import moments_of, sample_predictive

CONTINUOUS = {
    "student": (StudentT(3.0), [0.4, 0.2]),
    "quantile": (Quantile(0.8), [0.4, 0.2]),
    "mixture": (Mixture(2), [0.3, -0.2, -1.0, 1.5, 0.1, -0.5]),
}
DISCRETE = {
    "negative binomial": (NegativeBinomial(), [1.2, 0.7]),
    "zero-inflated": (ZeroInflatedPoisson(), [0.8, -0.5]),
    "ordinal": (Ordinal(4), [-0.6, 0.3, 0.8]),
}
LIMITED = {
    "both ends": (Censored(-0.5, 1.0), [0.4, 0.2]),
    "one end": (Censored(low=0.0), [0.4, 0.2]),
}
ALL = CONTINUOUS | DISCRETE | LIMITED


def density(likelihood, outputs, y):
    y = np.atleast_1d(np.asarray(y, np.float32))[:, None]
    rows = np.tile(np.asarray(outputs, np.float32), (len(y), 1))
    return np.exp(np.asarray(likelihood.log_prob(jnp.asarray(rows), jnp.asarray(y)), np.float64))


def draws(likelihood, outputs, n=20_000):
    rows = jnp.tile(jnp.asarray(outputs, jnp.float32), (n, 1))
    return np.asarray(likelihood.sample(jax.random.key(0), rows))[:, 0].astype(np.float64)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one(name):
    likelihood, outputs = CONTINUOUS[name]
    y = np.concatenate([-np.geomspace(1e4, 30, 4_000), np.linspace(-30, 30, 60_001)[1:-1],
                        np.geomspace(30, 1e4, 4_000)])  # fmt: skip
    assert integrate.trapezoid(density(likelihood, outputs, y), y) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_add_up_to_one(name):
    likelihood, outputs = DISCRETE[name]
    most = likelihood.n_levels if name == "ordinal" else 400
    assert density(likelihood, outputs, np.arange(most)).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", LIMITED)
def test_mass_at_the_limits_and_density_between_are_one(name):
    likelihood, outputs = LIMITED[name]
    low, high = max(float(likelihood.low), -30.0), min(float(likelihood.high), 30.0)
    y = np.linspace(low + 1e-6, high - 1e-6, 60_001)
    total = integrate.trapezoid(density(likelihood, outputs, y), y)
    ends = [end for end in (float(likelihood.low), float(likelihood.high)) if np.isfinite(end)]
    assert total + density(likelihood, outputs, ends).sum() == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_draws_agree_with_the_density(name):
    """PIT of draws under the integrated density: uniform, by Kolmogorov-Smirnov."""
    likelihood, outputs = CONTINUOUS[name]
    y = np.linspace(-60, 60, 240_001)
    cdf = integrate.cumulative_trapezoid(density(likelihood, outputs, y), y, initial=0)
    pit = np.interp(draws(likelihood, outputs), y, cdf)
    assert stats.kstest(pit, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", DISCRETE | LIMITED)
def test_shares_of_draws_agree_with_the_probabilities(name):
    """Of whole numbers each, of limited targets those at the limits; z-scores below 4."""
    likelihood, outputs = (DISCRETE | LIMITED)[name]
    drawn = draws(likelihood, outputs)
    values = np.arange(6) if name in DISCRETE else [likelihood.low, likelihood.high]
    for value in [float(v) for v in values if np.isfinite(v)]:
        if name == "ordinal" and value >= likelihood.n_levels:
            continue
        p = density(likelihood, outputs, value)[0]
        error = np.sqrt(p * (1 - p) / len(drawn))
        assert abs(np.mean(drawn == np.float32(value)) - p) < 4 * error


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_finite(name):
    """Also where a limit is infinite, and at zero counts."""
    likelihood, outputs = ALL[name]

    def total(outputs):
        rows = jnp.tile(outputs, (3, 1))
        return jnp.sum(likelihood.log_prob(rows, jnp.asarray([[0.0], [1.0], [2.0]])))

    slope = jax.grad(total)(jnp.asarray(outputs, jnp.float32))
    assert np.isfinite(slope).all()
    assert np.any(np.asarray(slope) != 0)


def test_known_densities():
    """Against SciPy's own."""
    y = np.array([0.0, 1.0, 3.0])
    scale = np.log1p(np.exp(0.2)) + 1e-3
    found = density(StudentT(3.0), [0.4, 0.2], y)
    np.testing.assert_allclose(found, stats.t.pdf(y, 3, 0.4, scale), rtol=1e-5)
    r, mean = np.log1p(np.exp(0.7)) + 1e-3, np.exp(1.2)
    found = density(NegativeBinomial(), [1.2, 0.7], y)
    np.testing.assert_allclose(found, stats.nbinom.pmf(y, r, r / (r + mean)), rtol=1e-4)
    assert np.mean(draws(Quantile(0.8), [0.4, 0.2]) < 0.4) == pytest.approx(0.8, abs=0.012)


def test_a_plain_object_is_enough():
    """Moments come from draws; a Gaussian without them agrees with the one that has them."""

    class Plain:
        def log_prob(self, outputs, y):
            return Gaussian(0.04).log_prob(outputs, y)

        def sample(self, key, outputs):
            return Gaussian(0.04).sample(key, outputs)

    x = np.linspace(-1, 1, 40)[:, None]
    network = (lambda p, x: x @ p["w"] + p["b"], {"w": np.zeros((1, 1), np.float32),
                                                  "b": np.zeros(1, np.float32)})  # fmt: skip
    prior, data = Prior.for_network(network, x[:1]), Data.make(x, 2 * x)
    plain, known = (
        fit_ensemble(jax.random.key(0), network, prior, likelihood, data, n_members=3)
        for likelihood in (Plain(), Gaussian(0.04))
    )
    np.testing.assert_allclose(plain.outputs(x), known.outputs(x), atol=1e-5)
    one, other = plain.predict(x), known.predict(x)
    assert one.family == "samples"
    np.testing.assert_allclose(one.mean, other.mean, atol=4 * 0.2 / np.sqrt(2_000))
    np.testing.assert_allclose(one.aleatoric_var, 0.04, rtol=0.2)
    members = np.stack([Gaussian(0.04).log_prob(f, 2 * x) for f in known.outputs(x)])
    exact = np.log(np.mean(np.exp(members.astype(np.float64)), axis=0))
    np.testing.assert_allclose(one.log_density(2 * x), exact, atol=1e-4)
    mean, var = moments_of(Plain(), jnp.zeros((500, 1)))
    assert abs(np.mean(mean)) < 4 * 0.2 / np.sqrt(200)
    assert np.mean(var) == pytest.approx(0.04, rel=0.1)


def test_what_is_no_likelihood_is_refused():
    network = (lambda p, x: x @ p["w"], {"w": np.zeros((1, 1), np.float32)})
    data = Data.make(np.ones((5, 1)), np.ones(5))
    for bad in (object(), StudentT):
        with pytest.raises(ValueError, match="`likelihood` must be an object with `log_prob"):
            fit_ensemble(
                jax.random.key(0), network, Prior.for_network(network, np.ones((1, 1))), bad, data
            )


def test_predictives_of_samples_are_scored_as_those_in_closed_form():
    """CRPS, PIT and quantiles of one Gaussian member against the exact ones."""
    from anchored import Predictive

    outputs, y = np.zeros((1, 300, 1), np.float32), np.linspace(-3, 3, 300)
    found = sample_predictive(Gaussian(1.0), outputs, mean=1.0, scale=2.0, one_target=True)
    exact = Predictive(np.ones(300), np.zeros(300), np.full(300, 4.0))
    error = 4 * 2 / np.sqrt(2_000)
    np.testing.assert_allclose(found.crps(y), exact.crps(y), atol=error)
    np.testing.assert_allclose(found.pit(y), exact.pit(y), atol=4 * 0.5 / np.sqrt(2_000))
    np.testing.assert_allclose(found.log_density(y), exact.log_density(y), atol=1e-5)
    low, high = found.interval(0.9)
    assert np.mean(high - low) == pytest.approx(2 * 2 * 1.645, rel=0.01)
    assert found.sample(5, 0).shape == (5, 300)


def test_the_pit_of_counts_is_uniform():
    rates = np.linspace(-1, 2, 400, dtype=np.float32)
    outputs = rates[None, :, None]
    y = np.random.default_rng(0).poisson(np.exp(rates)).astype(float)
    dist = sample_predictive(Poisson(), outputs, one_target=True)
    assert dist.discrete
    assert stats.kstest(dist.pit(y), "uniform").pvalue > 1e-3
    assert np.all(dist.quantiles([0.3]) == np.round(dist.quantiles([0.3])))


@pytest.mark.parametrize("bad", [1, 2.5])
def test_bad_numbers_of_levels(bad):
    with pytest.raises(ValueError, match="`n_levels` must be a whole number of at least 2"):
        Ordinal(bad)
