"""Checks of a network before it is trained, with results in words."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.adapters import as_network
from anchored.core.adapters.common import dotted
from anchored.core.defaults import default_moments
from anchored.core.program import program_of
from anchored.core.tree import squared_distance

_MOST_SHOWN = 3  # leaves named in one sentence


def check_network(module: Any, x: Any) -> list[str]:
    """What is wrong with a network for inputs like ``x``: a list of sentences, or none.

    ``module`` is anything that `fit_ensemble` accepts. The checks cover its start (finite,
    different for different keys, equal for equal keys), its outputs (shape, finite, equal when
    called twice, each row independent of the others), its parameters (real, all used) and its
    gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from anchored import MLP, testing
    >>> testing.check_network(MLP((8,)), np.zeros((5, 3), np.float32))
    []
    """
    try:
        network = as_network(module)
        x = jax.tree.map(_as_held, x)
        params = network.init(jax.random.key(0), x)
        outputs = network.apply(params, x)
    except Exception as error:  # whatever a framework raises is the finding
        return [f"It cannot be called: {error}"]
    found = _about_start(network, params, x)
    if not _finite(params):  # nothing else is finite then
        return found
    found += _about_outputs(network, params, x, outputs)
    return found + (_about_parameters(network, params, x) if _finite(outputs) else [])


def _about_start(network: Any, params: Any, x: Any) -> list[str]:
    found = [
        f"Its parameter `{path}` starts with values that are not finite: check its initialiser."
        for path, leaf in _leaves(params)
        if not _finite(leaf)
    ]
    again, other = (network.init(jax.random.key(seed), x) for seed in (0, 1))
    if not _same(params, again):
        found.append("It starts differently for the same key: draw from the key alone.")
    if _same(params, other):
        found.append(
            "It starts the same for every key, so members differ only in their anchors: draw its "
            "weights from the key."
        )
    return found


def _about_outputs(network: Any, params: Any, x: Any, outputs: Any) -> list[str]:
    n_rows = len(jax.tree.leaves(x)[0])
    if np.ndim(outputs) != 2 or len(outputs) != n_rows:
        return [f"It must return an array [batch, out]; for {n_rows} rows it is {outputs.shape}."]
    found = []
    if not _finite(outputs):
        found.append("Its outputs are not finite before training: check its layers and the inputs.")
    elif not np.array_equal(outputs, network.apply(params, x)):
        found.append(
            "Its outputs differ when it is called twice: it draws random numbers or keeps a state. "
            "A member must be a function of its parameters and inputs alone."
        )
    elif n_rows > 1:
        first = network.apply(params, jax.tree.map(lambda a: a[:1], x))
        if not np.allclose(outputs[:1], first, atol=1e-4):
            found.append(
                "The output of a row depends on the other rows of its batch, as in batch "
                "normalisation: use layer or group normalisation."
            )
    return found


def _about_parameters(network: Any, params: Any, x: Any) -> list[str]:
    paths = [path for path, _ in _leaves(params)]
    program = program_of(network, params, x)
    if not program.used:
        return ["Its outputs do not depend on its parameters: read them from its first argument."]
    found = []
    unused = [path for path in paths if path not in program.used]
    if unused:
        names = ", ".join(f"`{path}`" for path in unused[:_MOST_SHOWN])
        found.append(f"Its outputs do not depend on {names}: leave unused parameters out.")
    means, variances = default_moments(network, params, x, 1.0)

    def loss(params: Any) -> Any:
        pull = squared_distance(params, means, jax.tree.map(np.sqrt, variances))
        return jnp.sum(jnp.square(network.apply(params, x))) + pull

    for path, slope in _leaves(jax.grad(loss)(params)):
        if not _finite(slope):
            found.append(
                f"The gradient of its parameter `{path}` is not finite at the start: a root or a "
                "division by zero, perhaps."
            )
    return found


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    return [(dotted(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _finite(tree: Any) -> bool:
    return all(np.isfinite(np.asarray(a, np.float32)).all() for a in jax.tree.leaves(tree))


def _same(one: Any, other: Any) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in leaves)


def _as_held(array: Any) -> np.ndarray:
    """As the device holds it."""
    array = np.asarray(array)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
