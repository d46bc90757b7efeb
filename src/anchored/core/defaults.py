"""The default prior of a network, made from its leaves and its program.

| leaf | mean | variance |
|---|---|---|
| weight or embedding of the input layer | 0 | first_var / fan-in |
| other weight | 0 | 1 / fan-in |
| bias of the input layer | 0 | first_var |
| other bias | 0 | 1 / fan-in of its layer |
| scale of a normalisation | 1 | 0.1 |
| shift of a normalisation | 0 | 0.1 |

The input layer consists of the parameters that multiply the inputs directly, and of the biases
added to these products (`anchored.core.program`). A token picks one row of an embedding, so its
fan-in is one.
"""

from typing import Any

import jax
import numpy as np

from anchored.core.adapters.common import dotted
from anchored.core.adapters.leaves import Leaf, leaf_of
from anchored.core.program import program_of
from anchored.typing import Network, Params

_NORM_VAR = 0.1  # a third, either way, of what a normalisation starts at


def default_moments(
    network: Network, params: Params, x: Any, first_var: float
) -> tuple[Params, Params]:
    """Means and variances, a number for each leaf, as trees like ``params``."""
    leaves = _leaves(network, params)
    program = program_of(network, params, _described(x))
    moments = [
        _moments(leaf, path in program.input_layer, first_var) for path, leaf in leaves.items()
    ]
    treedef = jax.tree.structure(params)
    means, variances = zip(*moments, strict=True)
    return jax.tree.unflatten(treedef, means), jax.tree.unflatten(treedef, variances)


def _moments(leaf: Leaf, is_first: bool, first_var: float) -> tuple[float, float]:
    if leaf.kind == "scale":
        return 1.0, _NORM_VAR
    if leaf.kind == "shift":
        return 0.0, _NORM_VAR
    if leaf.kind == "bias" and is_first:
        return 0.0, first_var
    return 0.0, (first_var if is_first else 1.0) / leaf.fan_in


def _leaves(network: Any, params: Params) -> dict[str, Leaf]:
    """What each leaf is, by path, in the order of the tree."""
    found = jax.tree_util.tree_leaves_with_path(params)
    shapes = {dotted(path): tuple(np.shape(leaf)) for path, leaf in found}
    inner = getattr(network, "inner", network)
    if hasattr(inner, "leaves"):
        known = inner.leaves(params)
        return {path: known[path] for path in shapes}
    return {path: leaf_of(path, shapes, out_first=False) for path in shapes}


def _described(x: Any) -> Any:
    """Shapes and types of inputs, as the device holds them."""
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(np.shape(a), jax.dtypes.canonicalize_dtype(a.dtype)), x
    )
