"""The program of a network, whatever it was written in, as ONNX nodes.

`networks` hands `anchored.model.onnx` the members of an ensemble. JAX traces `network.apply`, and
each operation of the program becomes a few nodes; values that depend only on parameters are
computed beforehand. If an operation has no nodes, the error names it.
"""

from typing import Any

import jax
import numpy as np

from anchored.core.checks import title_of
from anchored.core.onnx_programs.programs import Program
from anchored.core.onnx_programs.values import TRACED_ROWS, Scope, Size, Value, sizes
from anchored.core.tree import take_members
from anchored.model.onnx import Networks
from anchored.model.onnx_graph import Graph
from anchored.typing import Network, Params


def networks(network: Network, params: Params, row_shape: tuple[int, ...], dtype: Any) -> Networks:
    """Members with ``params`` [member, ...] for rows of a shape and type."""
    n_members = len(jax.tree.leaves(params)[0])
    dtype = np.dtype(dtype)
    if any(leaf.dtype.name == "bfloat16" for leaf in jax.tree.leaves(params)):
        raise TypeError("ONNX files can store networks with float32 or float64 parameters only.")

    def added(graph: Graph, x: str) -> str:
        rows = graph.add("Shape", [x], start=0, end=1)
        programs = _programs(network, params, row_shape, dtype)
        shape = sizes(*((n_rows, *row_shape) for n_rows in TRACED_ROWS))
        given = Value(shape, dtype, x)
        outputs = []
        for j in range(n_members):
            leaves = jax.tree.leaves(take_members(params, j))
            inputs = [*map(Value.constant, leaves), given]
            scope = Scope(graph, rows)
            try:
                (made,) = programs.outputs(scope, inputs)
            except ValueError as error:
                raise ValueError(f"{title_of(network)} cannot become ONNX: {error}") from error
            outputs.append(scope.reshaped(scope.name(made), [Size(0, 1), *made.shape]))
        return graph.add("Concat", outputs, axis=0)

    return added


def _programs(network: Network, params: Params, row_shape: tuple[int, ...], dtype: Any) -> Program:
    """The program of one member, traced for two numbers of rows."""
    one = jax.eval_shape(lambda tree: jax.tree.map(lambda leaf: leaf[0], tree), params)
    traced = [
        jax.make_jaxpr(network.apply)(one, jax.ShapeDtypeStruct((n_rows, *row_shape), dtype))
        for n_rows in TRACED_ROWS
    ]
    return Program.of(*traced)
