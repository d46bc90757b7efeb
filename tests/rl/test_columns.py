"""Rows as the last axis change nothing but rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import MLP
from anchored.rl.columns import outputs
from anchored.rl.environments.deep_sea import OneHotMLP


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_outputs_and_gradients_are_those_of_the_network(rng, hidden, activation):
    network = MLP(hidden, n_outputs=3, activation=activation)
    x = jnp.asarray(rng.normal(size=(11, 4)), jnp.float32)
    params = network.init(jax.random.key(0), x)
    np.testing.assert_allclose(outputs(network, params, x), network.apply(params, x), atol=1e-6)
    slope = jnp.asarray(rng.normal(size=(11, 3)), jnp.float32)
    got = jax.grad(lambda p, x: jnp.sum(slope * outputs(network, p, x)), argnums=(0, 1))(params, x)
    want = jax.grad(lambda p, x: jnp.sum(slope * network.apply(p, x)), argnums=(0, 1))(params, x)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_other_networks_are_applied_as_they_are(rng):
    network = OneHotMLP(9, (6, 5))
    x = jnp.asarray(rng.integers(0, 9, (8, 1)), jnp.float32)
    params = network.init(jax.random.key(1), x)
    np.testing.assert_array_equal(outputs(network, params, x), network.apply(params, x))
