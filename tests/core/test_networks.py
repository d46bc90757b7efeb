import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from anchored import MLP, ConvNet, TextCNN
from anchored.core.networks import ACTIVATIONS, cnn
from anchored.core.networks._layers import affine
from anchored.typing import Network

NETWORKS = [
    (MLP((7,), 2), jnp.ones((3, 4))),
    (MLP((), 1), jnp.ones((3, 4))),
    (MLP((5, 4, 3), 1, "erf"), jnp.ones((3, 4))),
    (ConvNet(((4, 4), (6,)), (8,), 5), jnp.ones((3, 9, 8, 2))),
    (TextCNN(20, 4, 6, 3, 8, 3), jnp.ones((3, 12), int)),
]


@pytest.mark.parametrize(("network", "x"), NETWORKS)
def test_contract(network, x):
    assert isinstance(network, Network)
    assert hash(network) == hash(type(network)(**vars(network)))
    params = network.init(jax.random.key(0), x)
    assert network.apply(params, x).shape == (3, network.n_outputs)
    variances = network.prior_variances(params, 2.0)
    assert jax.tree.structure(variances) == jax.tree.structure(params)
    assert all(v > 0 for v in jax.tree.leaves(variances))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_mlp_matches_numpy(name, rng):
    by_hand = {
        "relu": lambda z: np.maximum(z, 0),
        "leaky_relu": lambda z: np.where(z > 0, z, 0.2 * z),
        "erf": special.erf,
        "tanh": np.tanh,
        "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
        "softplus": lambda z: np.log1p(np.exp(z)),
    }[name]
    network, x = MLP((6, 5), 2, name), rng.normal(size=(4, 3))
    shapes = network.init(jax.random.key(0), jnp.asarray(x))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)
    hidden = by_hand(x @ params[0]["weight"] + params[0]["bias"])
    hidden = by_hand(hidden @ params[1]["weight"] + params[1]["bias"])
    expected = hidden @ params[2]["weight"]
    np.testing.assert_allclose(network.apply(params, x), expected, rtol=2e-4, atol=1e-6)


def test_last_layer_has_no_bias_unless_it_is_alone():
    assert "bias" not in MLP((3,)).init(jax.random.key(0), jnp.ones((1, 2)))[-1]
    assert "bias" in MLP(()).init(jax.random.key(0), jnp.ones((1, 2)))[-1]


def test_initial_weights_have_variance_one_over_fan_in():
    params = MLP((4000,), 1).init(jax.random.key(0), jnp.ones((1, 16)))
    n = params[0]["weight"].size
    z = (float(jnp.var(params[0]["weight"])) * 16 - 1) / np.sqrt(2 / n)
    assert abs(z) < 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP((5,), 1, "rellu"), r"`activation` must be one of .*Did you mean 'relu'\?"),
        (lambda: MLP((0,)), "`hidden` must be a positive whole number or a tuple of them"),
        (lambda: MLP((5,), 0), "`n_outputs` must be"),
        (
            lambda: ConvNet(((4,), (4,), (4,))).init(jax.random.key(0), jnp.ones((1, 4, 4, 1))),
            "`blocks` has 3 poolings, too many",
        ),
        (
            lambda: TextCNN(9, 2, 2, 5).init(jax.random.key(0), jnp.ones((1, 4), int)),
            "`window` is 5 but the sequences have only 4 tokens",
        ),
    ],
)
def test_errors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_vgg13_has_the_papers_number_of_parameters():
    network = ConvNet.vgg13()
    shapes = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 8_689_472
    assert ConvNet.vgg13(8, narrower=8).blocks == ((8, 8), (16, 16), (32,) * 3, (64,) * 3)


@pytest.mark.parametrize("width", [5, 6, 8])  # 1, 2 and 8 places of the output at a time
def test_convolutions_on_cpu_are_the_compilers(width, rng):
    x = jnp.asarray(rng.normal(size=(7, 6, width, 3)), jnp.float32)  # not in whole chunks
    weight = jnp.asarray(rng.normal(size=(3, 3, 3, 4)), jnp.float32)
    slope = jnp.asarray(rng.normal(size=(7, 6, width, 4)), jnp.float32)
    ours, compilers = (
        (value, *gradients(slope))
        for value, gradients in (
            jax.vjp(convolve, weight, x)
            for convolve in (cnn._convolve_on_cpu, cnn._same_convolution)
        )
    )
    for first, second in zip(ours, compilers, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_pooling_shares_the_slope_of_equal_inputs(rng):
    x = jnp.asarray(rng.integers(0, 3, (4, 6, 8, 2)), jnp.float32)  # many of the four are equal
    slope = jnp.asarray(rng.normal(size=(4, 3, 4, 2)), jnp.float32)

    def plainly(x):
        return x.reshape(4, 3, 2, 4, 2, 2).max(axis=(2, 4))

    (ours, gradient), (value, expected) = (jax.vjp(f, x) for f in (cnn._pool_on_cpu, plainly))
    np.testing.assert_array_equal(ours, value)
    np.testing.assert_allclose(gradient(slope)[0], expected(slope)[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["relu", "gelu"])  # gelu does not grow everywhere
def test_a_text_network_is_a_maximum_over_windows(name, rng):
    network = TextCNN(20, 4, 6, 3, 8, 3, name)
    tokens = jnp.asarray(rng.integers(0, 20, (5, 12)))
    params = network.init(jax.random.key(0), tokens)
    activation = ACTIVATIONS[name]

    def plainly(params):
        words = params[0]["embedding"][tokens]
        windows = jnp.concatenate([words[:, i : i + 10] for i in range(3)], axis=-1)
        z = jnp.max(activation(affine(params[1], windows)), axis=1)
        return affine(params[3], activation(affine(params[2], z)))

    def loss(apply):
        return jax.value_and_grad(lambda p: jnp.sum(jnp.sin(apply(p))))(params)

    ours, plain = loss(lambda p: network.apply(p, tokens)), loss(plainly)
    for first, second in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
