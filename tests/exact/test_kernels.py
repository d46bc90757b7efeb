import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from anchored import MLP, Prior
from anchored.core.priors import draw_anchors
from anchored.exact import kernels
from anchored.exact.gp import twin
from anchored.exact.kernels import EXACT, Kernel, Waves

POINTS = arrays(np.float64, (5, 2), elements=st.floats(-3, 3))


def covariance(kernel, x1, x2):
    with jax.enable_x64(True):
        return np.asarray(kernel.covariance(jnp.asarray(x1), jnp.asarray(x2)))


def test_the_arc_cosine_is_numpys():
    """Also at the ends, where rows are equal or opposite."""
    cos = np.concatenate([np.linspace(-1, 1, 1001), 1 - np.logspace(-16, -1, 50)])
    with jax.enable_x64(True):
        np.testing.assert_allclose(kernels._arccos(jnp.asarray(cos)), np.arccos(cos), atol=1e-13)


@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("hidden", [(500,), (150, 150)])
def test_matches_finite_networks(activation, hidden, rng):
    """Outputs of prior draws of a wide network have the kernel's covariance."""
    x = rng.normal(size=(3, 2))
    network = MLP(hidden, 1, activation)
    prior = Prior.for_network(network, jnp.asarray(x), first_var=2.0)
    n = 3000
    draws = draw_anchors(jax.random.key(0), prior, n)
    f = np.asarray(jax.vmap(lambda p: network.apply(p, x))(draws))[..., 0]
    exact = covariance(twin(network, prior), x, x)
    products = f[:, :, None] * f[:, None, :]
    z = (products.mean(0) - exact) / (products.std(0) / np.sqrt(n))
    # One hidden layer is exact at any width; two are biased by order 1 / width.
    slack = 0.0 if len(hidden) == 1 else 3 / hidden[0] * np.abs(exact / products.std(0)) * n**0.5
    assert np.all(np.abs(z) < stats.norm.isf(1e-3 / 9) + slack)


@pytest.mark.parametrize("activation", EXACT)
def test_matches_numerical_expectation(activation):
    """Gauss-Hermite quadrature of E[phi(z) phi(z')] in two dimensions."""
    from anchored.core.networks import ACTIVATIONS

    k = np.array([[2.0, 0.7], [0.7, 1.5]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    u, v = np.meshgrid(nodes, nodes)
    w = np.outer(weights, weights) / (2 * np.pi)
    root = np.linalg.cholesky(k)
    z1, z2 = root[0, 0] * u, root[1, 0] * u + root[1, 1] * v
    with jax.enable_x64(True):
        phi = ACTIVATIONS[activation]
        expected = np.sum(w * np.asarray(phi(jnp.asarray(z1)) * phi(jnp.asarray(z2))))
        got = EXACT[activation].covariance(k[0, 1], k[0, 0], k[1, 1])
    # The kink of a rectifier limits the quadrature to about 1e-3.
    np.testing.assert_allclose(got, expected, rtol=2e-3 if "relu" in activation else 1e-8)


@given(POINTS, st.sampled_from(list(EXACT)), st.sampled_from([(9,), (9, 9, 9), ()]))
def test_symmetric_and_positive_semidefinite(x, activation, hidden):
    kernel = Kernel.paper(3.0, 2, hidden, activation)
    k = covariance(kernel, x, x)
    np.testing.assert_allclose(k, k.T, rtol=1e-12)
    # A rectifier's arccos loses half the digits beside the diagonal.
    assert np.linalg.eigvalsh(k).min() > -1e-6 * np.trace(k)
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.diag(k), kernel.variance(jnp.asarray(x)), rtol=1e-6)


@pytest.mark.parametrize("activation", EXACT)
def test_gradient_is_finite_on_the_diagonal(activation):
    with jax.enable_x64(True):
        x = jnp.array([[1.0, 2.0], [1.0, 2.0], [0.3, 0.1]])

        def total(log_var):
            return Kernel.paper(jnp.exp(log_var), 2, (5, 5), activation).covariance(x, x).sum()

        slope = jax.grad(total)(0.3)
        step = 1e-5
        numeric = (total(0.3 + step) - total(0.3 - step)) / (2 * step)
        np.testing.assert_allclose(slope, numeric, rtol=1e-6)


def test_relu_kernel_is_homogeneous(rng):
    x = rng.normal(size=(4, 3))
    one, ten = (covariance(Kernel.paper(v, 3, (50,), "relu"), x, x) for v in (1.0, 10.0))
    np.testing.assert_allclose(ten, 10 * one)


@pytest.mark.parametrize("hidden", [(), (8,), (8, 6, 4)])
@pytest.mark.parametrize("activation", EXACT)
def test_twin_of_the_paper_prior_is_the_paper_kernel(hidden, activation, rng):
    x = rng.normal(size=(4, 3))
    network = MLP(hidden, 1, activation)
    kernel = twin(network, Prior.for_network(network, jnp.asarray(x), first_var=7.0))
    expected = covariance(Kernel.paper(7.0, 3, hidden, activation), x, x)
    np.testing.assert_allclose(covariance(kernel, x, x), expected, rtol=1e-5)


def test_twin_takes_one_weight_scale_for_each_feature(rng):
    x, network = rng.normal(size=(4, 2)), MLP((8,))
    prior = Prior.for_network(network, jnp.asarray(x))
    uneven = prior.with_leaf("0/weight", variance=np.array([[4.0], [1e-12]]))
    shifted = np.stack([x[:, 0], x[:, 1] + 5], axis=1)
    np.testing.assert_allclose(
        covariance(twin(network, uneven), x, x),
        covariance(twin(network, uneven), shifted, shifted),
        rtol=1e-6,
    )


def test_no_twin_is_explained():
    x = jnp.zeros((1, 2))
    prior = Prior.for_network(MLP((8,)), x)
    with pytest.raises(ValueError, match="`activation` must be one of relu, leaky_relu, erf"):
        twin(MLP((8,), 1, "tanh"), prior)
    with pytest.raises(ValueError, match="`prior` must have zero means"):
        twin(MLP((8,)), prior.with_leaf("0/bias", mean=1.0))
    with pytest.raises(ValueError, match="`prior` has differing scales inside layer 1"):
        twin(MLP((8,)), prior.with_leaf("1/weight", variance=np.arange(1.0, 9.0)[:, None]))
    with pytest.raises(TypeError, match="Only an `MLP` has a known infinite-width twin"):
        twin(object(), prior)


def test_cosines_have_the_kernel_of_matern(rng):
    from sklearn.gaussian_process.kernels import Matern

    x1, x2, lengths = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), np.array([0.5, 1.0, 3.0])
    with jax.enable_x64(True):
        waves = Waves(2.0, 1 / lengths**2)
        found, same = waves.covariance(x1, x2), waves.covariance(x1, x1)
        variance, slope = waves.variance(x1), jax.jacobian(waves.covariance)(x1, x1)
    np.testing.assert_allclose(found, 2 * Matern(lengths, nu=2.5)(x1, x2), rtol=1e-12)
    np.testing.assert_allclose(np.diag(same), variance)
    assert np.isfinite(slope).all()
