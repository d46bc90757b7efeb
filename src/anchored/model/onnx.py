"""A fitted model as an ONNX graph, for programs that are not written in Python.

The input ``x`` [row, ...] needs no preparation: standardising is part of the graph. It is float32
(float64 if the networks are), or int64 for numbers of words. If the inputs are several arrays, the
graph has one input for each, by name. Outputs are float64, in the units of the target: ``mean``,
``epistemic_std``, ``aleatoric_std``, ``std`` and the ends ``lower`` and ``upper`` of an interval
[row, out], or ``probabilities`` [row, class]. The novelty score and the encoding of tables are not
part of the graph; the coverage of the interval and the names of features and labels are in its
``doc_string``. Needs ``pip install 'anchored[onnx]'``.

Dense networks need nothing else. For all others use `export_onnx` of the estimator, which
translates the program of the network (`anchored.core.onnx_programs`).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anchored import __version__
from anchored._files import write_whole
from anchored.errors import ModelFileError, missing_package
from anchored.model.forward import type_of
from anchored.model.onnx_dense import dense_outputs
from anchored.model.onnx_graph import OPSET, Graph, onnx_type
from anchored.model.onnx_pooling import probabilities, regression_columns
from anchored.model.record import FittedModel
from anchored.model.runtime import Predictor
from anchored.prediction.predictive import checked_coverage

_IR_VERSION = 8  # that of this opset
_KINDS = {"f": np.float32, "i": np.int64, "b": np.bool_}

# Adds networks to a graph: from the name of rows to that of outputs [member, row, out].
Networks = Callable[[Graph, str], str]


def export(model: Predictor, path: str | Path) -> None:
    """Write a model from `anchored.runtime.load` as an ONNX file."""
    write(model.fitted, path, model.coverage)


def write(
    fitted: FittedModel, path: str | Path, coverage: float, networks: Networks | None = None
) -> None:
    """Write the graph of a fitted model; ``networks`` are needed unless they are dense."""
    try:
        import onnx
    except ImportError as error:
        raise missing_package("ONNX files need the package onnx", "onnx") from error

    coverage = checked_coverage(coverage)
    if fitted.sampled is not None:
        raise ModelFileError(
            f"The model has its own likelihood, {fitted.sampled.name}. Its predictions are "
            "samples, which an ONNX graph cannot draw. Use `anchored.load` to predict."
        )
    graph, dtype = Graph(), type_of(fitted.members.params)
    inputs, x = _inputs(graph, fitted, dtype)
    rows, standardised = _rows(graph, x, fitted, dtype)
    made = _columns(graph, fitted, _outputs(graph, fitted, rows, networks), standardised, coverage)
    for name, value in made.items():
        graph.add("Identity", [value], name)
    n_outputs = {True: "class", False: "output"}[fitted.regression is None]
    proto = onnx.helper.make_graph(
        graph.nodes,
        "anchored",
        inputs,
        [_described(name, np.float64, (n_outputs,)) for name in made],
        graph.constants,
        doc_string=_doc(fitted, coverage),
    )
    whole = onnx.helper.make_model(
        proto,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="anchored",
        producer_version=__version__,
    )
    onnx.checker.check_model(whole, full_check=True)
    write_whole(Path(path), whole.SerializeToString())


def _inputs(graph: Graph, fitted: FittedModel, dtype: Any) -> tuple[list, str]:
    """Descriptions of the inputs, and the name of all of them together as one array."""
    network = fitted.members.network
    if network.inputs is None:
        shape = (fitted.n_features,) if network.is_dense else network.row_shape
        assert shape is not None
        kind = np.int64 if fitted.x_mean is None else dtype
        return [_described("x", kind, shape)], "x"
    described, parts = [], []
    for part in network.inputs["parts"]:
        name = part["name"] if network.inputs["named"] else f"x{part['name']}"
        kind = dtype if part["kind"] == "f" else _KINDS[part["kind"]]
        described.append(_described(name, kind, tuple(part["shape"])))
        size = graph.constant([-1, int(np.prod(part["shape"]))], np.int64)
        parts.append(graph.add("Reshape", [graph.cast(name, np.float64), size]))
    return described, graph.add("Concat", parts, axis=1)


def _rows(graph: Graph, x: str, fitted: FittedModel, dtype: Any) -> tuple[str, str]:
    """Rows as the networks take them, and standardised in double precision."""
    if fitted.x_mean is None:
        return graph.cast(x, np.int32), x
    standardised = _standardised(graph, x, fitted)
    return graph.cast(standardised, dtype), standardised


def _outputs(graph: Graph, fitted: FittedModel, rows: str, networks: Networks | None) -> str:
    """Outputs [member, row, out] in double precision."""
    members = fitted.members
    if members.network.is_dense:
        outputs = dense_outputs(graph, rows, members.network, members.params)
    elif networks is None:
        raise ModelFileError(
            f"The model has a {members.network.name}; only MLP networks can be exported without "
            "JAX. Use `export_onnx` of the estimator: anchored.load(path, ...).export_onnx(...)."
        )
    else:
        outputs = networks(graph, rows)
    return graph.cast(outputs, np.float64)


def _columns(
    graph: Graph, fitted: FittedModel, outputs: str, rows: str, coverage: float
) -> dict[str, str]:
    if fitted.regression is None:
        return {"probabilities": probabilities(graph, outputs, fitted.temperature)}
    n_members = fitted.members.n_members
    return regression_columns(graph, outputs, rows, n_members, fitted.regression, coverage)


def _described(name: str, dtype: Any, shape: tuple):
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx_type(dtype), ["row", *shape])


def _doc(fitted: FittedModel, coverage: float) -> str:
    """Names of features and labels, and the coverage of intervals, as JSON."""
    labels = None if fitted.classes is None else fitted.classes.tolist()
    names = fitted.feature_names
    if names is None and fitted.encoder is not None:
        names = fitted.encoder.feature_names
    told = {"features": names, "classes": labels}
    return json.dumps(told if labels is not None else told | {"coverage": coverage})


def _standardised(graph: Graph, x: str, fitted: FittedModel) -> str:
    """As in `FittedModel.standardised`."""
    centred = graph.add("Sub", [graph.cast(x, np.float64), graph.constant(fitted.x_mean)])
    z = graph.add("Div", [centred, graph.constant(fitted.x_scale)])
    if fitted.x_reach is not None:
        z = graph.add("Max", [z, graph.constant(fitted.x_reach[0])])
        z = graph.add("Min", [z, graph.constant(fitted.x_reach[1])])
    if fitted.x_limit is not None:
        share = graph.add("Mul", [z, graph.constant(1.0 / fitted.x_limit)])
        square = graph.add("Add", [graph.add("Mul", [share, share]), graph.constant(1.0)])
        z = graph.add("Div", [z, graph.add("Sqrt", [square])])
    if fitted.x_ramps is None:
        return z
    column, start, end, height = fitted.x_ramps
    climbed = graph.add("Gather", [z, graph.constant(column, np.int64)], axis=1)
    climbed = graph.add("Sub", [climbed, graph.constant(start)])
    share = graph.add("Div", [climbed, graph.constant(end - start)])
    share = graph.add("Sub", [graph.clipped(share, 0.0, 1.0), graph.constant(0.5)])
    return graph.add("Concat", [z, graph.add("Mul", [share, graph.constant(height)])], axis=1)
