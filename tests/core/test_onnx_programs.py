"""Programs of networks as ONNX graphs, run by onnxruntime, give what JAX gives."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from anchored import ConvNet, TextCNN
from anchored.core.adapters import as_network
from anchored.core.onnx_programs import networks
from anchored.model.onnx_graph import OPSET, Graph, onnx_type
from tests.core.adapters.zoo import import_torch, torch_sequence

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(9, 3)).astype(np.float32)
SERIES = RNG.normal(size=(9, 6, 4)).astype(np.float32)
IMAGES = RNG.normal(size=(9, 8, 8, 2)).astype(np.float32)
WORDS = RNG.integers(0, 10, size=(9, 6)).astype(np.int32)


def graph_and_jax(network, x, n_members=2):
    """Outputs for all rows and for two, by the graph and by JAX."""
    network = as_network(network)
    drawn = [network.init(jax.random.key(j), x[:1]) for j in range(n_members)]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
    graph = Graph()
    graph.add("Identity", [networks(network, params, x.shape[1:], x.dtype)(graph, "x")], "out")
    described = [
        onnx.helper.make_tensor_value_info("x", onnx_type(x.dtype), ["row", *x.shape[1:]]),
        onnx.helper.make_tensor_value_info("out", onnx_type(np.float32), [n_members, "row", "o"]),
    ]
    made = onnx.helper.make_graph(graph.nodes, "g", [described[0]], [described[1]], graph.constants)
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(made, opset_imports=opset, ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for rows in (x, x[:2]):
        ours = jax.jit(jax.vmap(network.apply, (0, None)))(params, rows)
        yield session.run(None, {"x": rows})[0], ours


def check(network, x):
    for found, expected in graph_and_jax(network, x):
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


FUNCTIONS = {
    "softplus": lambda z: jax.nn.softplus(z),
    "gelu by erf": lambda z: jax.nn.gelu(z, approximate=False),
    "elu": jax.nn.elu,
    "softmax": jax.nn.softmax,
    "logsumexp": lambda z: jax.nn.logsumexp(z, axis=1, keepdims=True) * jnp.ones_like(z),
    "powers": lambda z: z**3 + jnp.abs(z) ** 0.5 + jnp.exp2(z) + jnp.expm1(z) + 1 / (2 + z**2),
    "rounding": lambda z: jnp.floor(z) + jnp.ceil(z) + jnp.sign(z) + jnp.fmod(z, 0.3),
    "clipped": lambda z: jnp.clip(z, -0.5, 0.5),
    "where all are finite": lambda z: jnp.where(jnp.all(jnp.isfinite(z), 1, keepdims=True), z, 0),
    "largest first": lambda z: z * (jnp.argmax(z, axis=1) + jnp.argmin(z, axis=1))[:, None],
    "sums so far": lambda z: jnp.cumsum(z, axis=1) + jnp.prod(z, axis=1, keepdims=True),
    "backwards": lambda z: z[:, ::-1] + jnp.roll(z, 1, axis=1),
    "each second": lambda z: jnp.repeat(z[:, ::2], 2, axis=1) + jnp.pad(z[:, :2], ((0, 0), (2, 0))),
    "picked by number": lambda z: z + z[jnp.arange(len(z)), jnp.argmax(z, axis=1)][:, None],
    "taken along": lambda z: (
        jnp.take_along_axis(z, jnp.argsort(jnp.arange(4))[None] * 0, axis=1) + z
    ),
    "stacked and split": lambda z: jnp.concatenate(
        jnp.split(jnp.stack([z, -z], 1).max(1), 2, 1), 1
    ),
    "a loop": lambda z: jax.lax.fori_loop(0, 3, lambda i, s: jnp.tanh(s + i), z),
    "outer products": lambda z: jnp.einsum("bi,bj->bij", z, z).sum(axis=2),
    "all rows the same start": lambda z: z + jnp.zeros((z.shape[0], 1)) + jnp.arange(4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations(name):
    def apply(params, x):
        return FUNCTIONS[name](x @ params["w"]).reshape(x.shape[0], -1)

    check((apply, {"w": np.zeros((3, 4), np.float32)}), TABLE)


def test_images_of_ours():
    check(ConvNet(((4,), (6,)), (10,), 1), IMAGES)


@pytest.mark.slow
def test_texts_of_ours():
    check(TextCNN(10), WORDS)


@pytest.mark.slow
def test_equinox_pools_and_norms():
    eqx = pytest.importorskip("equinox")

    class Images(eqx.Module):
        convolution: eqx.nn.Conv2d
        norm: eqx.nn.GroupNorm
        last: eqx.nn.Linear

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.convolution = eqx.nn.Conv2d(2, 6, 3, stride=1, padding=1, groups=2, key=a)
            self.norm = eqx.nn.GroupNorm(2, 6)
            self.last = eqx.nn.Linear(6, 1, key=b)

        def __call__(self, image):
            z = jax.nn.relu(self.norm(self.convolution(jnp.moveaxis(image, -1, 0))))
            z = eqx.nn.AvgPool2d(2, 1)(eqx.nn.MaxPool2d(2, 2)(z))
            return self.last(z.mean(axis=(1, 2)))

    check(Images(jax.random.key(0)), IMAGES)


def test_nnx_transformer():
    nnx = pytest.importorskip("flax.nnx")

    class Transformer(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(10, 8, rngs=rngs)
            self.place = nnx.Embed(6, 8, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.norm = nnx.LayerNorm(8, rngs=rngs)
            self.last = nnx.Linear(8, 1, rngs=rngs)

        def __call__(self, tokens):
            z = self.embed(tokens) + self.place(jnp.arange(tokens.shape[1]))
            return self.last(self.norm(z + self.attention(z)).mean(axis=1))

    check(Transformer(nnx.Rngs(0)), WORDS)


@pytest.mark.slow
def test_linen_recurrence():
    linen = pytest.importorskip("flax.linen")

    class Series(linen.Module):
        @linen.compact
        def __call__(self, x):
            forth = linen.RNN(linen.LSTMCell(5))(x)
            back = linen.RNN(linen.GRUCell(4), reverse=True, keep_order=True)(x)
            return linen.Dense(1)(jnp.concatenate([forth[:, -1], back[:, 0]], axis=1))

    check(Series(), SERIES)


@pytest.mark.slow
def test_torch_transformer_and_recurrence():
    check(torch_sequence(), WORDS)


def test_torch_convolution():
    nn = import_torch().nn

    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6)
            self.pool, self.last = nn.MaxPool2d(2), nn.Linear(6 * 16, 1)

        def forward(self, x):
            z = self.norm(self.convolution(x.permute(0, 3, 1, 2))).relu()
            return self.last(self.pool(z).flatten(1))

    check(Images(), IMAGES)


def refused(function):
    def apply(params, x):
        return function(x @ params["w"])

    with pytest.raises(ValueError, match=r"apply cannot become ONNX: ") as error:
        list(graph_and_jax((apply, {"w": np.zeros((3, 4), np.float32)}), TABLE))
    return str(error.value)


def test_what_cannot_be_translated_is_named():
    assert "it uses the operation `sort`" in refused(lambda z: jnp.sort(z, axis=1))
    assert "depends on the number of rows" in refused(lambda z: z - jnp.mean(z, axis=0))
    assert "changes with the number of rows" in refused(lambda z: z if len(z) == 97 else z + z)
    kernel = jnp.ones((2, 1, 1))
    turned = refused(lambda z: jax.lax.conv_transpose(z[:, :, None], kernel, (2,), "SAME")[..., 0])
    assert "transposed convolution" in turned
