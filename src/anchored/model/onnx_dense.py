"""Dense networks as ONNX nodes, all members at once."""

import numpy as np

from anchored.model.forward import LEAKY_SLOPE, Leaves, count_layers, type_of
from anchored.model.onnx_graph import Graph
from anchored.model.record import NetworkRecord

_KINDS = {"relu": "Relu", "erf": "Erf", "tanh": "Tanh", "softplus": "Softplus"}


def dense_outputs(graph: Graph, x: str, network: NetworkRecord, params: Leaves) -> str:
    """Outputs [member, row, out] of the networks, in the precision of their parameters."""
    assert network.fields is not None
    n_layers, dtype = count_layers(params), type_of(params)
    x = graph.cast(x, dtype)
    for i in range(n_layers):
        x = graph.add("MatMul", [x, graph.constant(params[f"{i}/weight"], dtype)])
        if f"{i}/bias" in params:
            x = graph.add("Add", [x, graph.constant(params[f"{i}/bias"][:, None], dtype)])
        if i < n_layers - 1:
            x = _activated(graph, x, network.fields["activation"], dtype)
    return x


def _activated(graph: Graph, x: str, name: str, dtype) -> str:
    if name == "leaky_relu":
        return graph.add("LeakyRelu", [x], alpha=LEAKY_SLOPE)
    if name != "gelu":
        return graph.add(_KINDS[name], [x])

    def number(value: float) -> str:
        return graph.constant(value, dtype)

    cube = graph.add("Mul", [graph.add("Mul", [x, x]), x])
    inner = graph.add("Add", [x, graph.add("Mul", [cube, number(0.044715)])])
    bent = graph.add("Tanh", [graph.add("Mul", [inner, number(np.sqrt(2 / np.pi))])])
    half = graph.add("Mul", [x, number(0.5)])
    return graph.add("Mul", [half, graph.add("Add", [bent, number(1.0)])])
