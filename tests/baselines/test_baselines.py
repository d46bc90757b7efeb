"""Rivals and gold standards: one protocol, and each against what it should be exactly."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from anchored import MLP, Categorical, Data, Gaussian, Predictive, Prior, Schedule
from anchored.baselines import (
    HMC,
    METHODS,
    NUTS,
    SGHMC,
    Chains,
    ConvergenceDoubt,
    EnsembleOf,
    FiniteWidthPosterior,
    Inference,
    InfiniteWidthGP,
    Laplace,
    MCDropout,
    MeanFieldVI,
    Problem,
    SingleNetwork,
)
from anchored.baselines.problem import Whitened
from anchored.core.members import in_threads
from anchored.errors import EnsembleError
from anchored.exact import rms

QUICK = Schedule(epochs=50, learning_rate=0.01)
# Every method with settings for a test that looks at the answer's form only.
SMALL = {
    "gp": InfiniteWidthGP(),
    "finite-width": FiniteWidthPosterior(2000),
    "nuts": NUTS(2, 20, 20, max_doublings=5),
    "hmc": HMC(2, 20, 20, n_steps=5),
    "sghmc": SGHMC(2, 20, 20, n_steps=5),
    "vi": MeanFieldVI(QUICK, 5, n_draws=20),
    "dropout": MCDropout(0.3, QUICK, 2, n_draws=20),
    "laplace": Laplace(schedule=QUICK, n_draws=20),
    "last-layer": Laplace("last", QUICK, n_draws=20),
    "anchored": EnsembleOf("anchored", 3, QUICK),
    "rms": EnsembleOf("rms", 3, QUICK),
    "random-features": EnsembleOf("random-features", 3, QUICK),
    "deep": EnsembleOf("deep", 3, QUICK),
    "regularised": EnsembleOf("regularised", 3, QUICK),
    "unconstrained": EnsembleOf("unconstrained", 3, QUICK, prior_start=False),
    "single": SingleNetwork(QUICK),
}
REGRESSION_ONLY = ("gp", "finite-width")
GRID = np.linspace(-2, 2, 7)[:, None]


def regression():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(8, 1))
    network = MLP((6,))
    prior = Prior.for_network(network, x, first_var=2.0)
    data = Data.make(x, np.sin(3 * x) + 0.3 * rng.normal(size=(8, 1)))
    return Problem(network, prior, Gaussian(0.1), data, GRID)


def classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2))
    network = MLP((6,), n_outputs=3)
    prior = Prior.for_network(network, x, first_var=2.0)
    labels = np.argmax(x @ rng.normal(size=(2, 3)), axis=1)
    return Problem(network, prior, Categorical(), Data.make(x, labels), rng.normal(size=(5, 2)))


def test_every_method_is_tested_here():
    assert set(SMALL) == set(METHODS)
    for name, make in METHODS.items():
        assert type(make()) is type(SMALL[name])


@pytest.mark.filterwarnings("ignore::anchored.baselines.ConvergenceDoubt")
@pytest.mark.parametrize("name", SMALL)
def test_protocol_in_regression(name):
    method, problem = SMALL[name], regression()
    assert isinstance(method, Inference)
    with pytest.raises(dataclasses.FrozenInstanceError):  # a frozen record of settings
        method.anything = 1
    dist = method(jax.random.key(0), problem)
    assert isinstance(dist, Predictive)
    for array in (dist.mean, dist.epistemic_var, dist.aleatoric_var):
        assert array.shape == (7, 1)
        assert np.isfinite(array).all()
    assert np.all(dist.epistemic_var >= 0)
    assert np.all(dist.aleatoric_var > 0)
    again, other = method(jax.random.key(0), problem), method(jax.random.key(1), problem)
    np.testing.assert_array_equal(dist.mean, again.mean)
    assert (name == "gp") == np.array_equal(dist.mean, other.mean)


@pytest.mark.filterwarnings("ignore::anchored.baselines.ConvergenceDoubt")
# NUTS compiles long and differs from HMC in one word; the figure of losses runs it on classes.
@pytest.mark.parametrize("name", [n for n in SMALL if n not in (*REGRESSION_ONLY, "nuts")])
def test_protocol_with_classes(name):
    dist = SMALL[name](jax.random.key(0), classes())
    assert dist.family == "categorical"
    assert dist.mean.shape == (5, 3)
    np.testing.assert_allclose(dist.probabilities.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", REGRESSION_ONLY)
def test_regression_only_methods_say_so(name):
    with pytest.raises((TypeError, ValueError), match=r"Gaussian.*got Categorical"):
        SMALL[name](jax.random.key(0), classes())


# A linear model, whose posterior is known in closed form


def linear(n_rows=10):
    """The problem, its exact posterior, prior and likelihood, and the design at its inputs."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n_rows, 2)) @ [[1.0, 0.7], [0.0, 0.5]]
    y = x @ [1.0, -1.0] + 0.5 + 0.5 * rng.normal(size=n_rows)
    at = rng.normal(size=(6, 2))
    network = MLP(())
    prior = Prior.for_network(network, x, first_var=2.0)
    problem = Problem(network, prior, Gaussian(0.25), Data.make(x, y), at)
    normal = rms.Normal(np.zeros(3), np.diag([2.0, 1.0, 1.0]))
    likelihood = rms.linear_likelihood(np.column_stack([np.ones(n_rows), x]), y, 0.25)
    design = np.column_stack([np.ones(6), at])
    return problem, rms.posterior(normal, *likelihood), normal, likelihood, design


def assert_moments(dist, normal, design, n_effective, slack=0.0):
    """Mean and variance at each row within their Monte-Carlo error plus a share of bias."""
    mean, var = design @ normal.mean, np.sum(design @ normal.cov * design, axis=1)
    limit = stats.norm.isf(1e-3 / 2 / (2 * len(mean)))
    assert np.all(
        np.abs(dist.mean[:, 0] - mean) < limit * np.sqrt(var / n_effective) + slack * np.sqrt(var)
    )
    error = var * np.sqrt(2 / n_effective)
    assert np.all(np.abs(dist.epistemic_var[:, 0] - var) < limit * error + slack * var)


@pytest.mark.parametrize("method", [NUTS(4, 300, 500), HMC(4, 300, 500, n_steps=4)])
def test_chains_recover_a_known_posterior(method):
    problem, exact, *_, design = linear()
    chains = method.sample(jax.random.key(0), problem)
    assert chains.rhat < 1.01
    assert chains.n_divergent == 0
    assert_moments(chains.predictive, exact, design, chains.ess)


@pytest.mark.parametrize("batch_size", [200, 32])
def test_stochastic_gradients_recover_it_up_to_their_bias(batch_size):
    """A tenth from the discretisation, a twentieth from the noise of the batches."""
    problem, exact, *_, design = linear(n_rows=200)
    method = SGHMC(20, 1000, 200, n_steps=20, batch_size=batch_size)
    chains = method.sample(jax.random.key(0), problem)
    assert_moments(chains.predictive, exact, design, chains.ess, slack=0.15)


def test_chains_that_have_not_mixed_are_doubted():
    with pytest.warns(ConvergenceDoubt, match=r"R-hat .* effective sample size"):
        HMC(2, 5, 5, n_steps=3)(jax.random.key(0), linear()[0])


def test_diagnostics_that_are_not_numbers_are_doubted():
    dist = Predictive(np.zeros(1), np.ones(1), np.ones(1))
    with pytest.warns(ConvergenceDoubt):
        Chains(dist, np.nan, np.nan, 0, 0).warn()


def test_too_few_chains_are_refused():
    with pytest.raises(ValueError, match="`n_chains` must be at least 2; got 1"):
        NUTS(n_chains=1).sample(jax.random.key(0), linear()[0])
    with pytest.raises(ValueError, match="`n_samples` must be at least 4; got 3"):
        SGHMC(n_samples=3).sample(jax.random.key(0), linear()[0])


def test_a_missing_sampler_library_is_named(monkeypatch):
    monkeypatch.setattr("anchored.baselines.mcmc.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'anchored\[baselines\]'"):
        NUTS()(jax.random.key(0), linear()[0])


def test_mean_field_finds_its_optimum():
    problem, _, prior, likelihood, _ = linear()
    optimum = rms.mean_field_posterior(prior, *likelihood)
    schedule = Schedule(3000, 16, 0.03, 0.97)
    factors, info = MeanFieldVI(schedule, 50).fit(jax.random.key(0), problem)
    scale = np.sqrt(np.diag(prior.cov))
    deviation = np.sqrt(np.diag(optimum.cov))
    # The last steps' gradient noise leaves about a percent of a deviation.
    assert np.all(np.abs(np.asarray(factors.mean) * scale - optimum.mean) < 0.05 * deviation)
    np.testing.assert_allclose(np.exp(factors.log_scale) * scale, deviation, rtol=0.05)
    assert info.objective[-1, 0] < info.objective[0, 0]


def test_variational_batches_do_not_change_the_optimum():
    """The bound's two parts are scaled alike whatever the batch size."""
    problem, *_ = linear()
    whole = MeanFieldVI(Schedule(3000, 16, 0.03, 0.97), 50).fit(jax.random.key(0), problem)[0]
    halves = MeanFieldVI(Schedule(3000, 5, 0.03, 0.98), 50).fit(jax.random.key(0), problem)[0]
    np.testing.assert_allclose(halves.log_scale, whole.log_scale, atol=0.1)
    np.testing.assert_allclose(halves.mean, whole.mean, atol=0.1)


@pytest.mark.parametrize("subset", ["all", "last"])
def test_laplace_is_exact_for_a_linear_model(subset):
    problem, exact, *_, design = linear()
    dist = Laplace(subset, Schedule(4000, 16, 0.03, 0.98), 4000)(jax.random.key(0), problem)
    mean, var = design @ exact.mean, np.sum(design @ exact.cov * design, axis=1)
    np.testing.assert_allclose(dist.mean[:, 0], mean, atol=1e-3)
    np.testing.assert_allclose(dist.epistemic_var[:, 0], var, rtol=1e-4)
    drawn = Predictive.from_members(dist.members, np.full_like(dist.members, 0.25))
    assert_moments(drawn, exact, design, 4000)


def test_laplace_of_classes_agrees_with_finite_differences():
    """The Gauss-Newton curvature of a linear softmax model is its Hessian."""
    problem = dataclasses.replace(classes(), network=MLP((), n_outputs=3))
    problem = dataclasses.replace(
        problem, prior=Prior.for_network(problem.network, GRID[:, [0, 0]])
    )
    from anchored.baselines.laplace import _curvature, _linearise

    whitened, model = Whitened.of(problem)
    z = jax.random.normal(jax.random.key(1), (whitened.size,))
    _, jacobian = _linearise(whitened, z, jnp.arange(whitened.size), model, model.data.x)
    curvature = _curvature(whitened, z, model, model.data.x, model.data.y)
    ours = np.eye(whitened.size) + np.einsum("noi,nop,npj->ij", jacobian, curvature, jacobian)
    hessian = -np.asarray(jax.hessian(partial(whitened.log_posterior, model=model))(z))
    np.testing.assert_allclose(ours, hessian, rtol=1e-4, atol=1e-4)


def test_laplace_refuses_what_does_not_fit():
    problem = regression()
    with pytest.raises(ValueError, match="`subset` must be one of all, last; got 'lats'"):
        Laplace("lats")(jax.random.key(0), problem)
    wide = MLP((3000,))
    big = dataclasses.replace(problem, network=wide, prior=Prior.for_network(wide, GRID))
    with pytest.raises(ValueError, match=r"9,000 parameters.*subset='last'"):
        Laplace()(jax.random.key(0), big)


# The exact posterior at finite width


def test_finite_width_agrees_with_quadrature():
    """One hidden node: the posterior is an integral over its weight and bias."""
    x, y = np.array([[-0.5], [0.4], [1.0]]), np.array([0.1, 0.6, 0.2])
    network = MLP((1,), activation="erf")
    prior = Prior.for_network(network, x, first_var=1.5)
    problem = Problem(network, prior, Gaussian(0.05), Data.make(x, y), GRID)
    repeats = [FiniteWidthPosterior(4000)(jax.random.key(seed), problem) for seed in range(12)]
    side = np.linspace(-8, 8, 801)  # Gauss-Hermite nodes would be too few for the steep ones
    w, b = (values.ravel() for values in np.meshgrid(side, side))
    mass = np.exp(-(w**2 + b**2) / 3)
    seen, at = special.erf(np.outer(w, x) + b[:, None]), special.erf(np.outer(w, GRID) + b[:, None])
    precision = 1 + np.sum(seen**2, axis=1) / 0.05  # of the one last-layer weight
    centre = seen @ y / 0.05 / precision
    fit = -0.5 * np.sum(y**2) / 0.05 + 0.5 * precision * centre**2 - 0.5 * np.log(precision)
    mass = mass * np.exp(fit - fit.max())
    mass /= mass.sum()
    mean = mass @ (at * centre[:, None])
    var = mass @ (at**2 * (1 / precision + centre**2)[:, None]) - mean**2
    limit = stats.t.isf(1e-3 / 2 / 14, df=11)
    ours = np.array([[dist.mean[:, 0], dist.epistemic_var[:, 0]] for dist in repeats])
    error = ours.std(axis=0, ddof=1) / np.sqrt(12)
    assert np.all(np.abs(ours.mean(axis=0) - [mean, var]) < limit * error)
    assert np.all(error < 0.02 * np.sqrt([var, var**2]))  # the comparison is a sharp one


def test_finite_width_tends_to_the_gp():
    problem = regression()
    wide = MLP((3000,))
    problem = dataclasses.replace(
        problem, network=wide, prior=Prior.for_network(wide, GRID, first_var=2.0)
    )
    exact = InfiniteWidthGP()(jax.random.key(0), problem)
    dist = FiniteWidthPosterior(600)(jax.random.key(0), problem)
    np.testing.assert_allclose(dist.std, exact.std, rtol=0.03)


def test_finite_width_says_when_draws_are_few():
    with pytest.warns(UserWarning, match="effective draws of 20"):
        FiniteWidthPosterior(20)(jax.random.key(0), regression())


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_nuts_agrees_with_the_exact_posterior_at_its_width(activation):
    """Two computations that share no inference code, on the six points of the paper."""
    from anchored.paper.figures import methods

    problem = methods.problem(methods.Settings(n_grid=31), activation)
    exact, n_effective = FiniteWidthPosterior(20_000).moments(jax.random.key(1), problem)
    chains = NUTS().sample(jax.random.key(0), problem)
    limit = stats.norm.isf(1e-3 / 2 / 62)
    error = limit * np.sqrt(2 / chains.ess + 2 / n_effective)
    np.testing.assert_allclose(chains.predictive.epistemic_var, exact.epistemic_var, rtol=error)
    shift = (chains.predictive.mean - exact.mean) / np.sqrt(exact.epistemic_var)
    assert np.abs(shift).max() < limit * np.sqrt(1 / chains.ess + 1 / n_effective)


# Dropout, single networks, deep ensembles


def test_dropping_nothing_is_one_network():
    problem = regression()
    dist = MCDropout(1e-7, Schedule(500, learning_rate=0.02), 1, n_draws=5)(
        jax.random.key(0), problem
    )
    np.testing.assert_allclose(dist.epistemic_var, 0, atol=1e-9)


def test_masks_keep_the_mean_and_are_shared_by_all_rows():
    from anchored.baselines.dropout import _dropped

    params = MLP((400,)).init(jax.random.key(0), jnp.ones((1, 1)))
    draws = jax.vmap(lambda k: _dropped(k, params, 0.4)[1]["weight"])(
        jax.random.split(jax.random.key(1), 2000)
    )
    z = (draws.mean(0) - params[1]["weight"]) / (draws.std(0) / np.sqrt(2000))
    assert np.abs(z).max() < stats.norm.isf(1e-3 / 2 / 400)
    np.testing.assert_allclose(np.mean(draws == 0), 0.4, atol=4 * np.sqrt(0.24 / draws.size))
    np.testing.assert_array_equal(
        params[0]["weight"], _dropped(jax.random.key(2), params, 0.4)[0]["weight"]
    )


def test_dropout_s_penalty_is_that_of_its_draws():
    """Monte-Carlo mean over masks of the squared weights in prior units."""
    from anchored.baselines.dropout import _dropped, expected_square

    network = MLP((30,))
    params = network.init(jax.random.key(0), jnp.ones((1, 2)))
    scale = Prior.for_network(network, jnp.ones((1, 2)), first_var=3.0).scale

    def square(key):
        drawn = _dropped(key, params, 0.4)
        return sum(
            jnp.sum((w / s) ** 2)
            for w, s in zip(jax.tree.leaves(drawn), jax.tree.leaves(scale), strict=True)
        )

    draws = jax.vmap(square)(jax.random.split(jax.random.key(1), 4000))
    error = draws.std() / np.sqrt(4000)
    assert abs(draws.mean() - expected_square(params, scale, 0.4)) < 3.3 * error


def test_dropout_needs_a_rate_hidden_nodes_and_a_centred_prior():
    problem = regression()
    with pytest.raises(ValueError, match="`rate` must be between 0 and 1"):
        MCDropout(rate=1.0)(jax.random.key(0), problem)
    with pytest.raises(TypeError, match="hidden nodes"):
        MCDropout()(jax.random.key(0), linear()[0])
    shifted = dataclasses.replace(problem, prior=problem.prior.with_leaf("0/bias", mean=1.0))
    with pytest.raises(ValueError, match="zero means"):
        MCDropout()(jax.random.key(0), shifted)


# Weights count rows


def test_a_row_of_weight_two_is_the_row_twice():
    x, y = np.array([[-0.5], [0.3], [0.9]]), np.array([0.2, -0.1, 0.4])
    network = MLP((4,), activation="erf")
    prior = Prior.for_network(network, x, first_var=2.0)
    weighted = Data.make(np.append(x, [[9.0]], 0), np.append(y, 9.0), [2.0, 1.0, 1.0, 0.0])
    repeated = Data.make(x[[0, 0, 1, 2]], y[[0, 0, 1, 2]])
    one, two = (Problem(network, prior, Gaussian(0.1), data, GRID) for data in (weighted, repeated))
    for method in (InfiniteWidthGP(), FiniteWidthPosterior(500)):
        a, b = method(jax.random.key(0), one), method(jax.random.key(0), two)
        np.testing.assert_allclose(a.mean, b.mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(a.variance, b.variance, rtol=1e-4)
    (whitened, first), (_, second) = Whitened.of(one), Whitened.of(two)
    z = jax.random.normal(jax.random.key(1), (2, whitened.size))
    log_posterior = jax.vmap(whitened.log_posterior, in_axes=(0, None))
    np.testing.assert_allclose(log_posterior(z, first), log_posterior(z, second), rtol=1e-5)


def test_what_diverged_is_refused():
    wild = Schedule(60, learning_rate=1e30)
    for method in (MeanFieldVI(wild, 2), MCDropout(0.2, wild, 2), Laplace(schedule=wild)):
        with pytest.raises(EnsembleError, match=r"[Dd]iverged"):
            method(jax.random.key(0), regression())
    with pytest.raises(EnsembleError, match="diverged twice"):
        EnsembleOf("anchored", 3, wild)(jax.random.key(0), regression())


def test_the_single_network_s_variance_is_its_held_out_error():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    network = MLP(())
    data = Data.make(x, 2 * x[:, 0] + 0.5 * rng.normal(size=200))
    problem = Problem(network, Prior.for_network(network, x), Gaussian(1.0), data, GRID)
    dist = SingleNetwork(Schedule(2000, 256, 0.02))(jax.random.key(0), problem)
    assert np.all(dist.epistemic_var == 0)
    assert len(np.unique(dist.aleatoric_var)) == 1
    # 40 held-out rows: the error's own standard error is sqrt(2 / 40) of the variance.
    assert abs(dist.aleatoric_var[0, 0] / 0.25 - 1) < 3.3 * np.sqrt(2 / 40)


def test_the_deep_ensemble_learns_where_the_noise_is():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 1))
    y = np.where(x[:, 0] > 0, 1.0, 0.1) * rng.normal(size=300)
    network = MLP((20,))
    prior = Prior.for_network(network, x, first_var=4.0)
    at = np.array([[-0.7], [0.7]])
    problem = Problem(network, prior, Gaussian(0.1), Data.make(x, y), at)
    dist = EnsembleOf("deep", 4, Schedule(300, 64, 0.01))(jax.random.key(0), problem)
    quiet, loud = dist.aleatoric_var[:, 0]
    assert quiet < 0.1 < loud


@dataclasses.dataclass(frozen=True)
class _Square:
    def __call__(self, own, shared):
        return shared * own**2


@pytest.mark.parametrize("n_tasks", [1, 3, 4])
def test_in_threads_keeps_the_order(n_tasks):
    own = jnp.arange(float(n_tasks))
    np.testing.assert_array_equal(in_threads(_Square(), own, 2.0), 2 * own**2)
