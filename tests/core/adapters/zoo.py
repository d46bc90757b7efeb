"""The same network of two layers in every framework, and how to put our weights into it."""

import importlib.util
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import MLP

N_IN, WIDTH = 3, 8
FRAMEWORKS = ("equinox", "nnx", "linen", "torch", "pair", "function")
OURS = MLP((WIDTH,))


def apply_plain(params, x):
    return jax.nn.relu(x @ params["w0"] + params["b0"]) @ params["w1"]


def init_plain(key, x):
    w0, w1 = jax.random.split(key)
    return {
        "w0": jax.random.normal(w0, (x.shape[-1], WIDTH)),
        "b0": jnp.zeros(WIDTH),
        "w1": jax.random.normal(w1, (WIDTH, 1)),
    }


def example_plain():
    return {
        "w0": np.zeros((N_IN, WIDTH), np.float32),
        "b0": np.zeros(WIDTH, np.float32),
        "w1": np.zeros((WIDTH, 1), np.float32),
    }


def equinox_network():
    eqx = pytest.importorskip("equinox")
    return eqx.nn.MLP(N_IN, 1, WIDTH, 1, use_final_bias=False, key=jax.random.key(0))


def nnx_network():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(N_IN, WIDTH, rngs=rngs)
            self.last = nnx.Linear(WIDTH, 1, use_bias=False, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.first(x)))

    return Net(nnx.Rngs(0))


def linen_network():
    linen = pytest.importorskip("flax.linen")
    layers = [linen.Dense(WIDTH), linen.relu, linen.Dense(1, use_bias=False)]
    return linen.Sequential(tuple(layers))


def import_torch():
    """PyTorch, where torchax is beside it; that alone cannot be imported."""
    if importlib.util.find_spec("torchax") is None:
        pytest.skip("torchax is not installed")
    return pytest.importorskip("torch")


def torch_network():
    torch = import_torch()
    nn = torch.nn
    return nn.Sequential(nn.Linear(N_IN, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1, bias=False))


def torch_sequence():
    """A transformer's layer and a recurrence over numbers of words below ten."""
    nn = import_torch().nn

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.recurrent = nn.GRU(8, 8, batch_first=True)
            self.last = nn.Linear(8, 1)

        def forward(self, tokens):
            return self.last(self.recurrent(self.layer(self.embed(tokens)))[0][:, -1])

    return Sequence()


def linear_network(framework):
    """A linear model with a bias, and the names of its weight and bias."""
    if framework == "equinox":
        eqx = pytest.importorskip("equinox")
        return eqx.nn.Linear(N_IN, 1, key=jax.random.key(0)), "weight", "bias"
    if framework == "nnx":
        nnx = pytest.importorskip("flax.nnx")
        return nnx.Linear(N_IN, 1, rngs=nnx.Rngs(0)), "kernel", "bias"
    if framework == "linen":
        return pytest.importorskip("flax.linen").Dense(1), "kernel", "bias"
    if framework == "torch":
        return import_torch().nn.Linear(N_IN, 1), "weight", "bias"
    example = {"w": np.zeros((N_IN, 1), np.float32), "b": np.zeros(1, np.float32)}

    def apply(params, x):
        return x @ params["w"] + params["b"]

    if framework == "function":
        return (apply, example), "w", "b"
    return (lambda key: example, apply), "w", "b"


def network(framework):
    """Of a framework, or a skip where it is not installed."""
    made = {
        "equinox": equinox_network,
        "nnx": nnx_network,
        "linen": linen_network,
        "torch": torch_network,
        "pair": lambda: (init_plain, apply_plain),
        "function": lambda: (apply_plain, example_plain()),
    }
    return made[framework]()


# Names of the first weight, its bias and the last weight, and whether weights are [out, in].
NAMES = {
    "equinox": ("layers.0.weight", "layers.0.bias", "layers.1.weight", True),
    "nnx": ("first.kernel", "first.bias", "last.kernel", False),
    "linen": ("layers_0.kernel", "layers_0.bias", "layers_2.kernel", False),
    "torch": ("0.weight", "0.bias", "2.weight", True),
    "pair": ("w0", "b0", "w1", False),
    "function": ("w0", "b0", "w1", False),
}


def as_theirs(framework, tree):
    """A tree of our `MLP`, stacked or not, as that of the framework's network."""
    first, bias, last, out_first = NAMES[framework]
    turned = partial(np.swapaxes, axis1=-1, axis2=-2) if out_first else np.asarray
    return {
        first: jnp.asarray(turned(np.asarray(tree[0]["weight"]))),
        bias: jnp.asarray(tree[0]["bias"]),
        last: jnp.asarray(turned(np.asarray(tree[1]["weight"]))),
    }
