"""Layers that work, and layers that are refused by a message that names them and the repair."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.core.adapters import as_network
from tests.core.adapters.zoo import import_torch, torch_sequence

RNG = np.random.default_rng(0)
SEQUENCES = RNG.normal(size=(20, 6, 4)).astype(np.float32)
IMAGES = RNG.normal(size=(20, 8, 8, 4)).astype(np.float32)
TOKENS = RNG.integers(0, 10, size=(20, 6))


def trained(network, x, n_steps=30):
    """Members improve, and rows do not depend on other rows."""
    y = RNG.normal(size=len(jax.tree.leaves(x)[0]))
    first = jax.tree.map(lambda a: a[:1], x)
    data = Data.make(x, y)
    fitted = fit_ensemble(
        jax.random.key(0), network, Prior.for_network(network, first), Gaussian(0.1), data,
        n_members=2, schedule=Schedule(n_steps, 64),
    )  # fmt: skip
    assert np.all(fitted.info.objective[-1] < fitted.info.objective[0])
    whole, part = fitted.outputs(x), fitted.outputs(jax.tree.map(lambda a: a[:3], x))
    np.testing.assert_allclose(whole[:, :3], part, atol=1e-4)
    return fitted


# Equinox


@pytest.fixture
def eqx():
    return pytest.importorskip("equinox")


def gru(eqx):
    class Recurrent(eqx.Module):
        cell: eqx.nn.GRUCell
        last: eqx.nn.Linear

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.cell = eqx.nn.GRUCell(4, 8, key=a)
            self.last = eqx.nn.Linear(8, 1, key=b)

        def __call__(self, row):
            final, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(8), row)
            return self.last(final)

    return Recurrent(jax.random.key(0))


def test_equinox_recurrence(eqx):
    prior = Prior.for_network(gru(eqx), SEQUENCES[:1], 10.0)
    np.testing.assert_allclose(prior.scale["cell.weight_ih"], np.sqrt(10 / 4), rtol=1e-6)
    np.testing.assert_allclose(prior.scale["cell.weight_hh"], np.sqrt(1 / 8), rtol=1e-6)
    trained(gru(eqx), SEQUENCES)


def test_equinox_attention_norm_and_residual(eqx):
    class Block(eqx.Module):
        attention: eqx.nn.MultiheadAttention
        norm: eqx.nn.LayerNorm
        last: eqx.nn.Linear

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.attention = eqx.nn.MultiheadAttention(2, 4, key=a)
            self.norm = eqx.nn.LayerNorm(4)
            self.last = eqx.nn.Linear(4, 1, key=b)

        def __call__(self, row):
            row = jax.vmap(self.norm)(row + self.attention(row, row, row))
            return self.last(row.mean(axis=0))

    network = Block(jax.random.key(0))
    prior = Prior.for_network(network, SEQUENCES[:1])
    np.testing.assert_array_equal(prior.mean["norm.weight"], 1.0)
    np.testing.assert_array_equal(prior.mean["norm.bias"], 0.0)
    trained(network, SEQUENCES)


def test_equinox_convolution_and_group_norm(eqx):
    class Images(eqx.Module):
        convolution: eqx.nn.Conv2d
        norm: eqx.nn.GroupNorm
        last: eqx.nn.Linear

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.convolution = eqx.nn.Conv2d(4, 6, 3, key=a)
            self.norm = eqx.nn.GroupNorm(2, 6)
            self.last = eqx.nn.Linear(6, 1, key=b)

        def __call__(self, image):
            z = jax.nn.relu(self.norm(self.convolution(jnp.moveaxis(image, -1, 0))))
            return self.last(z.mean(axis=(1, 2)))

    prior = Prior.for_network(Images(jax.random.key(0)), IMAGES[:1])
    np.testing.assert_allclose(prior.scale["convolution.weight"], np.sqrt(1 / 36), rtol=1e-6)
    trained(Images(jax.random.key(0)), IMAGES)


def test_equinox_dropout_is_refused_by_name(eqx):
    network = eqx.nn.Sequential([eqx.nn.Linear(3, 1, key=jax.random.key(0)), eqx.nn.Dropout(0.1)])
    with pytest.raises(
        TypeError, match=r"dropout in its layer `layers.1` \(Dropout\).*rate to zero"
    ):
        as_network(network)
    as_network(eqx.nn.inference_mode(network))


def test_equinox_batch_norm_is_refused_by_name(eqx):
    network = eqx.nn.Sequential([eqx.nn.BatchNorm(3, "batch", mode="ema")])
    with pytest.raises(
        TypeError, match=r"running statistics in its layer `layers.0`.*layer or group"
    ):
        as_network(network)


def own_layer(eqx):
    class Own(eqx.Module):
        gain: jax.Array

        def __init__(self, size, key):
            self.gain = jax.random.normal(key, (size,))

        def __call__(self, row):
            return jnp.sum(self.gain * row)

    return Own


def test_an_unknown_layer_is_named_and_its_class_taken(eqx):
    own = own_layer(eqx)
    with pytest.raises(
        TypeError, match=r"cannot be created again.* Own with parameters .*\(gain\)"
    ):
        as_network(own(4, jax.random.key(0)))
    network = as_network(functools.partial(own, 4))
    draws = [network.init(jax.random.key(seed), SEQUENCES)["gain"] for seed in (0, 1)]
    np.testing.assert_array_equal(draws[0], jax.random.normal(jax.random.key(0), (4,)))
    assert not np.array_equal(*draws)


def test_graph_convolution():
    """Inputs are a tuple: features of nodes and the adjacency matrix of each graph."""
    nodes = RNG.normal(size=(20, 5, 3)).astype(np.float32)
    edges = RNG.random((20, 5, 5)) < 0.4

    def apply(params, x):
        features, near = x
        mean = near / jnp.maximum(near.sum(axis=2, keepdims=True), 1)
        hidden = jax.nn.relu(mean @ features @ params["w0"] + params["b0"])
        return (mean @ hidden @ params["w1"]).mean(axis=1)

    shapes = {"w0": (3, 8), "b0": (8,), "w1": (8, 1)}
    example = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    trained((apply, example), (nodes, edges))


# Flax


def test_nnx_transformer_block():
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(10, 8, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.norm = nnx.LayerNorm(8, rngs=rngs)
            self.last = nnx.Linear(8, 1, rngs=rngs)

        def __call__(self, tokens):
            z = self.embed(tokens)
            return self.last(self.norm(z + self.attention(z)).mean(axis=1))

    prior = Prior.for_network(Block(nnx.Rngs(0)), TOKENS[:1], 2.0)
    np.testing.assert_allclose(prior.scale["embed.embedding"], np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(prior.scale["attention.query.kernel"], np.sqrt(1 / 8), rtol=1e-6)
    np.testing.assert_allclose(prior.scale["attention.out.kernel"], np.sqrt(1 / 8), rtol=1e-6)
    trained(Block(nnx.Rngs(0)), TOKENS)


def test_nnx_dropout_and_batch_norm_are_refused_by_name():
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    dropping = nnx.Sequential(nnx.Linear(3, 1, rngs=rngs), nnx.Dropout(0.1, rngs=rngs))
    with pytest.raises(TypeError, match=r"dropout in its layer `layers.1`.*`network.eval\(\)`"):
        as_network(dropping)
    keeping = nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs))
    with pytest.raises(TypeError, match=r"running statistics in its layer `layers.1`"):
        as_network(keeping)
    dropping.eval()
    keeping.eval()
    assert as_network(dropping).init(jax.random.key(0), None).keys() == {
        "layers.0.kernel",
        "layers.0.bias",
    }
    as_network(keeping)


def test_nnx_unknown_layer():
    nnx = pytest.importorskip("flax.nnx")

    class Own(nnx.Module):
        def __init__(self, rngs):
            self.gain = nnx.Param(jax.random.normal(rngs.params(), (3,)))

        def __call__(self, x):
            return x @ self.gain

    with pytest.raises(TypeError, match=r"Own with parameters of its own \(gain\)"):
        as_network(Own(nnx.Rngs(0)))
    draws = [as_network(Own).init(jax.random.key(seed), None)["gain"] for seed in (0, 1)]
    assert not np.array_equal(*draws)


def test_linen_attention_and_refusals():
    linen = pytest.importorskip("flax.linen")

    class Block(linen.Module):
        dropping: float = 0.0
        norm: type = linen.LayerNorm

        @linen.compact
        def __call__(self, x):
            x = linen.Dense(8)(x)
            x = x + linen.MultiHeadDotProductAttention(2)(x)
            x = linen.Dropout(self.dropping, deterministic=False)(self.norm()(x))
            return linen.Dense(1)(x.mean(axis=1))

    trained(Block(), SEQUENCES)
    with pytest.raises(TypeError, match=r"dropout in its layer `Dropout_0`.*`deterministic`"):
        trained(Block(dropping=0.5), SEQUENCES)
    keeping = functools.partial(linen.BatchNorm, use_running_average=False)
    with pytest.raises(TypeError, match="running statistics in its layer `BatchNorm_0`"):
        trained(Block(norm=keeping), SEQUENCES)
    with pytest.raises(ValueError, match=r"`network` must be an instance, Block\(...\)"):
        as_network(Block)


def test_linen_layers_that_are_not_told_whether_they_train_are_named():
    """Flax asks for an argument there; our message says which layer it is."""
    linen = pytest.importorskip("flax.linen")

    class Inner(linen.Module):
        layer: linen.Module

        @linen.compact
        def __call__(self, x):
            return linen.Dense(1)(self.layer(linen.Dense(4)(x)))

    class Outer(linen.Module):
        layer: linen.Module

        @linen.compact
        def __call__(self, x):
            return Inner(self.layer, name="block")(x)

    x = RNG.normal(size=(5, 3)).astype(np.float32)
    dropping = Outer(linen.Dropout(0.5))
    with pytest.raises(TypeError, match=r"dropout in its layer `.*layer` \(Dropout\).*determin"):
        Prior.for_network(dropping, x)
    attending = Outer(linen.MultiHeadDotProductAttention(2, dropout_rate=0.5))
    with pytest.raises(TypeError, match=r"dropout in its layer .*MultiHeadDotProductAttention"):
        Prior.for_network(attending, x[:, None])
    keeping = Outer(linen.BatchNorm())
    with pytest.raises(TypeError, match=r"statistics in its layer `.*layer` \(BatchNorm\).*layer"):
        Prior.for_network(keeping, x)
    Prior.for_network(Outer(linen.Dropout(0.5, deterministic=True)), x)


# PyTorch


def test_torch_transformer_and_recurrence():
    prior = Prior.for_network(torch_sequence(), TOKENS[:1])
    np.testing.assert_array_equal(prior.mean["layer.norm1.weight"], 1.0)
    np.testing.assert_allclose(prior.scale["recurrent.weight_hh_l0"], np.sqrt(1 / 8), rtol=1e-6)
    trained(torch_sequence(), TOKENS)


def test_torch_dropout_and_batch_norm_are_refused_by_name():
    nn = import_torch().nn
    dropping = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.1))
    with pytest.raises(
        TypeError, match=r"dropout in its layer `1` \(Dropout\).*`network.eval\(\)`"
    ):
        as_network(dropping)
    as_network(dropping.eval())
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with pytest.raises(TypeError, match=r"dropout in its layer `self_attn`"):
        as_network(attention)
    keeping = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    with pytest.raises(TypeError, match=r"running statistics in its layer `1` \(BatchNorm1d\)"):
        as_network(keeping)
    network = as_network(keeping.eval())
    params = network.init(jax.random.key(0), None)
    assert "1.running_mean" not in params  # buffers are not trained
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    torch = import_torch()
    theirs = network.with_params(params)(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(network.apply(params, x), theirs, atol=1e-6)


def test_torch_unknown_layer():
    torch = import_torch()

    class Own(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.gain = torch.nn.Parameter(torch.randn(size))

        def forward(self, x):
            return x @ self.gain

    with pytest.raises(TypeError, match=r"Own with parameters of its own \(gain\)"):
        as_network(Own(3))
    network = as_network(functools.partial(Own, 3))
    draws = [network.init(jax.random.key(seed), None)["gain"] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    before = torch.random.get_rng_state()
    network.init(jax.random.key(5), None)
    assert torch.equal(before, torch.random.get_rng_state())


def test_inputs_by_name_and_in_order():
    """A dict is one argument, a tuple several; rows that are asked for again are laid out alike."""
    table, flags = RNG.normal(size=(20, 3)).astype(np.float32), RNG.random((20, 2)) < 0.5

    def by_name(params, x):
        return x["table"] @ params["w"] + x["flags"].sum(axis=1, keepdims=True) * params["b"]

    example = {"w": np.zeros((3, 1), np.float32), "b": np.zeros(1, np.float32)}
    fitted = trained((by_name, example), {"table": table, "flags": flags})
    with pytest.raises(ValueError, match=r"`X` must have the parts 'flags'.*it has 'flags'"):
        fitted.outputs({"table": table[:, :2], "flags": flags})
