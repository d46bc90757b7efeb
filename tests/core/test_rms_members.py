"""Members of ``rms`` are posterior draws: linear models beside their exact or Laplace posterior."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from anchored import (
    MLP,
    Bernoulli,
    Categorical,
    Data,
    Gaussian,
    HeteroskedasticGaussian,
    Poisson,
    Prior,
    Schedule,
    advance,
    fit_ensemble,
    init_ensemble,
    objective,
)
from anchored.core.drawing import noise_seed_of
from anchored.core.score_noise import inverse_normal, normals, row_bits, score_noise, sign_of
from anchored.exact import rms

N_MEMBERS = 300
FIRST_VAR = 1.0
LIMIT = stats.norm.isf(1e-3 / 2)


@dataclasses.dataclass(frozen=True)
class Waiting:
    """Exponential times whose log mean is the output: a likelihood of one's own."""

    family: ClassVar[str] = "gaussian"

    def log_prob(self, outputs, y):
        return jnp.sum(-outputs - y * jnp.exp(-outputs), axis=-1)

    def mean(self, outputs):
        return jnp.exp(outputs)

    def variance(self, outputs):
        return jnp.exp(2 * outputs)

    def sample(self, key, outputs):
        return jnp.exp(outputs) * jax.random.exponential(key, outputs.shape)


CASES = {
    "gaussian": (Gaussian(0.5), 2),
    "logistic": (Bernoulli(), 1),
    "softmax": (Categorical(), 3),
    "counts": (Poisson(), 1),
    "own noise": (HeteroskedasticGaussian(), 2),
    "resampled labels": (Waiting(), 1),
}


@dataclasses.dataclass(frozen=True)
class Linear:
    """A linear model of some likelihood, its rows, and its Laplace approximation."""

    likelihood: object
    n_outputs: int
    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    truth: np.ndarray  # the coefficients [3, out]: bias and weights

    @classmethod
    def make(cls, name, n_rows=300, weighted=True):
        likelihood, n_outputs = CASES[name]
        rng = np.random.default_rng(5)
        x = rng.normal(size=(n_rows, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
        truth = 0.5 * rng.normal(size=(3, n_outputs))
        outputs = jnp.asarray(np.column_stack([np.ones(n_rows), x]) @ truth)
        y = np.asarray(likelihood.sample(jax.random.key(1), outputs))
        weight = rng.choice([0.5, 1.0, 2.0], n_rows) if weighted else np.ones(n_rows)
        return cls(likelihood, n_outputs, x, y, weight, truth)

    @property
    def network(self):
        return MLP((), self.n_outputs)

    @property
    def prior_var(self):
        """Of bias and weights, for each output [3, out]."""
        return np.array([[FIRST_VAR]] + [[FIRST_VAR / 2]] * 2) * np.ones(self.n_outputs)

    def laplace(self):
        """Normal at the most probable coefficients, by Newton's method in double precision."""
        with jax.enable_x64(True):
            design, y = jnp.column_stack([np.ones(len(self.x)), self.x]), jnp.asarray(self.y)

            def loss(theta):
                theta = theta.reshape(3, self.n_outputs)
                log_prob = self.likelihood.log_prob(design @ theta, y)
                return 0.5 * jnp.sum(theta**2 / self.prior_var) - jnp.sum(self.weight * log_prob)

            hessian, slope = jax.jit(jax.hessian(loss)), jax.jit(jax.grad(loss))
            theta = self.truth.ravel()
            for _ in range(8):
                theta = theta - np.linalg.solve(hessian(theta), slope(theta))
            assert np.abs(slope(theta)).max() < 1e-8
            return rms.Normal(theta, np.linalg.inv(hessian(theta)))

    def trained(self, method, n_members=N_MEMBERS, schedule=None, n_places=None):
        """Coefficients [member, coefficient] of an ensemble that starts at the Laplace mode."""
        mode = self.laplace().mean.reshape(3, self.n_outputs)
        start = ({"bias": mode[0], "weight": mode[1:]},)
        data = Data.make(self.x, self.y, self.weight)
        ensemble = fit_ensemble(
            jax.random.key(0),
            self.network,
            Prior.for_network(self.network, self.x, FIRST_VAR),
            self.likelihood,
            data if n_places is None else data.with_capacity(n_places),
            method=method,
            n_members=n_members,
            schedule=schedule or Schedule(300, len(self.x), 0.1, 0.7),
            start=jax.tree.map(lambda a: jnp.stack([jnp.float32(a)] * n_members), start),
        )
        layer = ensemble.params[0]
        return np.concatenate([layer["bias"][:, None], layer["weight"]], 1).reshape(n_members, -1)


def whitened(draws, normal):
    """Draws in units where ``normal`` is standard."""
    return np.linalg.solve(np.linalg.cholesky(normal.cov), (draws - normal.mean).T).T


@pytest.mark.parametrize("name", CASES)
def test_covariance_of_members_is_the_posterior_s(name):
    """Within Monte-Carlo error for a Gaussian, 5 % more for others; anchors alone fall short."""
    model = Linear.make(name)
    exact = model.laplace()
    draws = whitened(model.trained("rms"), exact)
    n, dim = draws.shape
    n_pairs = n // 2  # of opposite noise: two members of a pair tell as much of a square as one
    slack = 0.0 if name == "gaussian" else 0.05
    limit = stats.norm.isf(1e-3 / dim**2)  # as many numbers compared
    cov = np.cov(draws.T)
    error = np.sqrt((1 + np.eye(dim)) / (n_pairs - 1))
    assert np.all(np.abs(cov - np.eye(dim)) < limit * error + slack)
    assert abs(np.trace(cov) / dim - 1) < LIMIT * np.sqrt(2 / (n_pairs * dim)) + slack
    assert np.abs(draws.mean(0)).max() < limit / np.sqrt(n) + slack
    # What all classes have in common is left to the prior, where anchors alone are exact.
    alone = np.linalg.eigvalsh(np.cov(whitened(model.trained("anchored", 60), exact).T))
    assert np.all(alone[: dim - 3 if name == "softmax" else dim] < 0.3)


@pytest.mark.parametrize("name", ["gaussian", "logistic"])
def test_batches_and_all_rows_at_once_give_the_same_members(name):
    """The order of the rows is another in each epoch; a row's noise is not."""
    model = Linear.make(name, 128)
    whole = model.trained("rms", 6)
    batches = model.trained("rms", 6, Schedule(1_000, 32, 0.03, 0.96))
    apart = whitened(batches, model.laplace()) - whitened(whole, model.laplace())
    assert np.abs(apart).max() < 0.05


@pytest.mark.parametrize("name", ["gaussian", "logistic", "resampled labels"])
def test_capacity_and_number_of_members_do_not_matter(name):
    model = Linear.make(name, 50)
    few = model.trained("rms", 2)
    np.testing.assert_allclose(few, model.trained("rms", 3, n_places=200)[:2], atol=1e-4)


def test_rows_that_come_later_have_noise_of_their_own():
    """The loss of the rows in two parts, the second appended, is that of all of them."""
    model = Linear.make("counts", 40)
    whole = Data.make(model.x, model.y, model.weight)
    first = Data.make(model.x[:25], model.y[:25], model.weight[:25]).with_capacity(64)
    later = first.append(model.x[25:], model.y[25:], model.weight[25:])
    prior = Prior.for_network(model.network, model.x)
    args = (model.network, prior, model.likelihood, first)
    noisy, plain = (
        init_ensemble(jax.random.key(0), *args, method=method, n_members=3)
        for method in ("rms", "anchored")
    )
    np.testing.assert_allclose(objective(noisy, whole), objective(noisy, later), rtol=1e-5)
    assert np.all(np.abs(objective(noisy, whole) - objective(plain, whole)) > 1e-4)
    assert np.all(np.isfinite(advance(noisy, later, 3).theta))


def test_nothing_is_stored_for_each_row():
    model = Linear.make("counts", 40)
    data = Data.make(model.x, model.y).with_capacity(1_000)
    prior = Prior.for_network(model.network, model.x)
    args = (jax.random.key(0), model.network, prior, model.likelihood, data)
    state = init_ensemble(*args, method="rms", n_members=3)
    assert max(np.size(leaf) for leaf in jax.tree.leaves(state)) < 40


def seeds(n):
    return np.random.default_rng(2).integers(2**32, size=(n, 2), dtype=np.uint32)


@pytest.fixture(scope="module")
def draws():
    """Normals [member, row, out]."""
    rows = jnp.arange(4_000)
    make = jax.vmap(lambda seed: normals(row_bits(seed, rows), 3))
    return np.asarray(make(jnp.asarray(seeds(8))))


def test_noise_is_standard_normal(draws):
    flat = draws.ravel().astype(float)
    assert stats.kstest(flat, "norm").pvalue > 0.01
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(flat**power) - moment) < LIMIT * np.sqrt(variance / len(flat))
    tail = np.mean(np.abs(flat) > 3.5)
    share = 2 * stats.norm.sf(3.5)
    assert abs(tail - share) < LIMIT * np.sqrt(share / len(flat))


def test_inverse_of_the_normal_distribution():
    """Between the two ends that bits can make, and there."""
    u = np.concatenate([np.linspace(-1, 1, 2_001)[1:-1], [-1 + 2.0**-24, 1 - 2.0**-24]])
    u = np.float32(u)
    exact = stats.norm.ppf((1 + u.astype(float)) / 2)
    np.testing.assert_allclose(inverse_normal(jnp.asarray(u)), exact, rtol=3e-4, atol=1e-6)


def test_rows_members_and_outputs_are_independent(draws):
    """Neighbours, and pairs whose numbers differ in one bit, values and their squares."""
    members, outputs = draws.reshape(8, -1), draws.reshape(-1, 3).T
    rows = np.arange(4_000)
    pairs = [members[[0, j]] for j in range(1, 8)] + [outputs[[0, 1]], outputs[[0, 2]]]
    pairs += [[draws[:, 1:, 0], draws[:, :-1, 1]]]
    pairs += [[draws[:, rows < 2_048], draws[:, rows[rows < 2_048] ^ 1 << k]] for k in range(11)]
    pairs += [[draws[0, :, 0], draws[1, rows ^ 1, 0]]]
    limit = stats.norm.isf(1e-3 / len(pairs) / 2)
    for one, other in pairs:
        for power in (1, 2):
            a, b = np.ravel(one) ** power, np.ravel(other) ** power
            # Exchanged neighbours count twice.
            assert abs(np.corrcoef(a, b)[0, 1]) < limit * np.sqrt(2 / len(a))


def test_noise_of_a_row_is_of_its_number_alone():
    seed, outputs = jnp.asarray(seeds(1)[0]), jnp.zeros((6, 2))
    order = jnp.array([5, 0, 3, 1, 4, 2])
    for likelihood in (Gaussian(0.3), Categorical(), Waiting()):
        noise = score_noise(likelihood, outputs, row_bits(seed, jnp.arange(6)))
        mixed = score_noise(likelihood, outputs, row_bits(seed, order))
        np.testing.assert_array_equal(mixed, noise[order])
        assert len(np.unique(noise)) == 12


def test_gaussian_noise_in_the_score_is_noise_on_the_targets():
    """The gradients of the two losses are equal."""
    likelihood, rng = Gaussian(jnp.array([0.3, 2.0])), np.random.default_rng(0)
    outputs, y = jnp.asarray(rng.normal(size=(2, 5, 2)), jnp.float32)
    bits = row_bits(jnp.asarray(seeds(1)[0]), jnp.arange(5))
    noise = score_noise(likelihood, outputs, bits)

    def score(y):
        return jax.grad(lambda f: jnp.sum(likelihood.log_prob(f, y)))(outputs)

    moved = y + jnp.sqrt(likelihood.noise_var) * normals(bits, 2)
    np.testing.assert_allclose(score(y) + noise, score(moved), rtol=1e-4, atol=1e-4)


def test_the_noise_of_a_pair_cancels_in_its_mean():
    """A linear Gaussian model: two members have the mean that they have without noise."""
    model = Linear.make("gaussian", 100)
    noisy, plain = (model.trained(method, 6) for method in ("rms", "anchored"))
    scale = np.sqrt(np.diag(model.laplace().cov))
    assert np.abs(noisy - plain).max() > 0.5 * scale.min()  # each for itself is moved
    for first in (0, 2, 4):
        pair = slice(first, first + 2)
        moved = (noisy[pair].mean(0) - plain[pair].mean(0)) / scale
        assert np.abs(moved).max() < 0.01


def test_members_of_folds_have_noise_of_their_own():
    key = jax.random.key(3)
    pair = [np.asarray(noise_seed_of(key, j)) for j in (2, 3)]
    lone = [np.asarray(noise_seed_of(key, j, True)) for j in (2, 3)]
    np.testing.assert_array_equal(pair[0][:2], pair[1][:2])
    assert [float(sign_of(seed)) for seed in (*pair, *lone)] == [1.0, -1.0, 1.0, 1.0]
    assert len({tuple(seed[:2]) for seed in (pair[0], *lone)}) == 3
