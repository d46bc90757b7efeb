"""The conformance kit says in words what is wrong."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import MLP, testing
from tests.core.adapters.zoo import FRAMEWORKS, network

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def init(key):
    return {"w": jax.random.normal(key, (3, 1)), "b": jnp.zeros(1)}


def linear(params, x):
    return x @ params["w"] + params["b"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nothing_is_wrong_with_those_that_train(framework):
    assert testing.check_network(network(framework), X) == []
    assert testing.check_network(MLP((8,)), X) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (3, "It cannot be called: `network` must be a `Network`"),
        ((init, lambda p, x: x @ p["v"]), "It cannot be called: 'v'"),
        ((init, lambda p, x: linear(p, x)[:2]), "It cannot be called: .*must return an array"),
        ((lambda key: init(key) | {"b": jnp.full(1, jnp.nan)}, linear), "`b` starts with values"),
        ((lambda key: init(jax.random.key(7)), linear), "starts the same for every key"),
        ((init, lambda p, x: linear(p, x) / 0), "outputs are not finite"),
        ((init, lambda p, x: linear(p, x) + np.random.rand()), "differ when it is called twice"),
        ((init, lambda p, x: linear(p, x) - x.mean()), "depends on the other rows of its batch"),
        ((init, lambda p, x: x[:, :1]), "do not depend on its parameters"),
        ((init, lambda p, x: x @ p["w"]), "do not depend on `b`: leave unused"),
        ((init, lambda p, x: linear(p, x) + jnp.sqrt(p["b"])), "gradient of its parameter `b`"),
    ],
)
def test_what_is_wrong_is_said(bad, words):
    found = testing.check_network(bad, X)
    assert len(found) == 1, found
    assert re.search(words, found[0]), found
