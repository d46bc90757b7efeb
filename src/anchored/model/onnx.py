"""A saved model as an ONNX graph, for programs that are not written in Python.

Input ``x`` [row, feature], float32, as it comes: standardising is part of the graph. Outputs are
float64: ``mean``, ``epistemic_std`` and ``std`` [row, out] in the units of the target, or
``probabilities`` [row, class]. Intervals, the novelty score and the encoding of tables are not
part of the graph; the names of features and labels are in its ``doc_string``.
Needs ``pip install 'anchored[onnx]'``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from anchored import __version__
from anchored._files import write_whole
from anchored.model.forward import LEAKY_SLOPE, Leaves, count_layers
from anchored.model.record import LOG_NOISE_CLIP, FittedModel, NetworkRecord, Noise, Regression
from anchored.model.runtime import Predictor

OPSET = 18  # read by every runtime since 2023
_IR_VERSION = 8  # that of this opset


def export(model: Predictor, path: str | Path) -> None:
    """Write the graph of a model from `anchored.model.runtime.load`, whole or not at all."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX files need `pip install 'anchored[onnx]'`.") from error

    graph = _Graph()
    fitted = model.fitted
    rows = graph.cast(graph.standardised("x", fitted), np.float32)
    outputs = graph.cast(
        graph.network(rows, fitted.members.network, fitted.members.params), np.float64
    )
    if fitted.regression is None:
        made = {"probabilities": graph.probabilities(outputs, fitted.temperature)}
    else:
        made = graph.moments(outputs, rows, fitted.members.n_members, fitted.regression)
    for name, value in made.items():
        graph.add("Identity", [value], name)
    n_outputs = {True: "class", False: "output"}[fitted.regression is None]
    proto = onnx.helper.make_graph(
        graph.nodes,
        "anchored",
        [_described("x", onnx.TensorProto.FLOAT, fitted.n_features)],
        [_described(name, onnx.TensorProto.DOUBLE, n_outputs) for name in made],
        graph.constants,
        doc_string=_doc(fitted),
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    whole = onnx.helper.make_model(
        proto,
        opset_imports=[opset],
        ir_version=_IR_VERSION,
        producer_name="anchored",
        producer_version=__version__,
    )
    onnx.checker.check_model(whole, full_check=True)
    write_whole(Path(path), whole.SerializeToString())


def _described(name: str, kind: int, n_columns: int | str):
    import onnx

    return onnx.helper.make_tensor_value_info(name, kind, ["row", n_columns])


def _doc(fitted: FittedModel) -> str:
    """Names of features and labels, as JSON."""
    labels = None if fitted.classes is None else fitted.classes.tolist()
    names = fitted.feature_names
    if names is None and fitted.encoder is not None:
        names = fitted.encoder.feature_names
    return json.dumps({"features": names, "classes": labels})


class _Graph:
    """Nodes and constants as they are added; values are known by name."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, kind: str, inputs: list[str], name: str | None = None, **attributes) -> str:
        import onnx

        name = name or f"v{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value, dtype: Any = np.float64) -> str:
        import onnx

        name = f"c{len(self.constants)}"
        array = np.asarray(value, dtype, order="C")
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype) -> str:
        import onnx

        return self.add("Cast", [value], to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def mean(self, value: str) -> str:
        """Over members."""
        axes = self.constant([0], np.int64)
        return self.add("ReduceMean", [value, axes], keepdims=0)

    def last_sum(self, value: str) -> str:
        axes = self.constant([-1], np.int64)
        return self.add("ReduceSum", [value, axes], keepdims=1)

    def clipped(self, value: str, least: float, most: float) -> str:
        return self.add("Clip", [value, self.constant(least), self.constant(most)])

    def columns(self, value: str, start: int, stop: int) -> str:
        """Of the last axis."""
        bounds = [self.constant([n], np.int64) for n in (start, stop, -1)]
        return self.add("Slice", [value, *bounds])

    def standardised(self, x: str, fitted: FittedModel) -> str:
        centred = self.add("Sub", [self.cast(x, np.float64), self.constant(fitted.x_mean)])
        z = self.add("Div", [centred, self.constant(fitted.x_scale)])
        if fitted.x_reach is not None:
            z = self.add("Max", [z, self.constant(fitted.x_reach[0])])
            z = self.add("Min", [z, self.constant(fitted.x_reach[1])])
        if fitted.x_limit is not None:
            share = self.add("Mul", [z, self.constant(1.0 / fitted.x_limit)])
            square = self.add("Add", [self.add("Mul", [share, share]), self.constant(1.0)])
            z = self.add("Div", [z, self.add("Sqrt", [square])])
        if fitted.x_ramps is None:
            return z
        column, start, end, height = fitted.x_ramps
        climbed = self.add("Gather", [z, self.constant(column, np.int64)], axis=1)
        climbed = self.add("Sub", [climbed, self.constant(start)])
        share = self.add("Div", [climbed, self.constant(end - start)])
        share = self.add("Sub", [self.clipped(share, 0.0, 1.0), self.constant(0.5)])
        return self.add("Concat", [z, self.add("Mul", [share, self.constant(height)])], axis=1)

    def network(self, x: str, network: NetworkRecord, params: Leaves) -> str:
        """Outputs [member, row, out] of the networks, in single precision."""
        assert network.fields is not None
        n_layers = count_layers(params)
        for i in range(n_layers):
            x = self.add("MatMul", [x, self.constant(params[f"{i}/weight"], np.float32)])
            if f"{i}/bias" in params:
                bias = self.constant(params[f"{i}/bias"][:, None], np.float32)
                x = self.add("Add", [x, bias])
            if i < n_layers - 1:
                x = self.activated(x, network.fields["activation"])
        return x

    def activated(self, x: str, name: str) -> str:
        if name == "leaky_relu":
            return self.add("LeakyRelu", [x], alpha=LEAKY_SLOPE)
        if name != "gelu":
            kinds = {"relu": "Relu", "erf": "Erf", "tanh": "Tanh", "softplus": "Softplus"}
            return self.add(kinds[name], [x])

        def number(value: float) -> str:
            return self.constant(value, np.float32)

        cube = self.add("Mul", [self.add("Mul", [x, x]), x])
        inner = self.add("Add", [x, self.add("Mul", [cube, number(0.044715)])])
        bent = self.add("Tanh", [self.add("Mul", [inner, number(np.sqrt(2 / np.pi))])])
        half = self.add("Mul", [x, number(0.5)])
        return self.add("Mul", [half, self.add("Add", [bent, number(1.0)])])

    def probabilities(self, logits: str, temperature: float) -> str:
        mean = self.mean(self.add("Softmax", [logits], axis=-1))
        if temperature == 1:
            return mean
        powers = self.add("Pow", [mean, self.constant(1 / temperature)])
        return self.add("Div", [powers, self.last_sum(powers)])

    def moments(
        self, outputs: str, rows: str, n_members: int, regression: Regression
    ) -> dict[str, str]:
        n_targets = len(regression.scale)
        scale = self.constant(regression.scale)
        members = self.columns(outputs, 0, n_targets)
        members = self.add(
            "Add", [self.add("Mul", [members, scale]), self.constant(regression.mean)]
        )
        noise = self.noise(outputs, rows, regression)
        noise = self.add("Mul", [noise, self.constant(np.square(regression.scale))])
        if regression.warp is not None:
            members, noise = self.unwarped(members, noise, regression)
        mean = self.mean(members)
        apart = self.add("Sub", [members, mean])
        # The mean of squares, times M / (M - 1); one member has no spread.
        factor = np.full(n_targets, n_members / max(n_members - 1, 1))
        if regression.noise is not None:
            factor = factor * [part.factor for part in regression.noise]
        square = self.mean(self.add("Mul", [apart, apart]))
        epistemic = self.add("Mul", [square, self.constant(factor)])
        total = self.add("Add", [epistemic, noise])
        return {
            "mean": mean,
            "epistemic_std": self.add("Sqrt", [epistemic]),
            "std": self.add("Sqrt", [total]),
        }

    def unwarped(self, members: str, noise: str, regression: Regression) -> tuple[str, str]:
        """Means [member, row, out] and the variance of the noise, as in `Predictive.unwarped`."""
        warp = regression.warp
        assert warp is not None
        top = self.constant(np.log(warp.most + warp.shift))
        raised = self.add("Exp", [self.add("Min", [members, top])])
        above = self.add("Mul", [raised, self.constant(warp.raised)])
        means = self.add("Sub", [above, self.constant(warp.shift)])
        if regression.noise is not None:
            bulk = np.array([1 - 2 / part.noise_dof for part in regression.noise])
            noise = self.add("Mul", [noise, self.constant(bulk)])
        grown = self.add("Exp", [self.add("Min", [noise, self.constant(1.0)])])
        share = self.add("Sub", [grown, self.constant(1.0)])
        square = self.mean(self.add("Mul", [above, above]))
        return self.clipped(means, warp.least, warp.most), self.add("Mul", [square, share])

    def noise(self, outputs: str, rows: str, regression: Regression) -> str:
        """Variance of the noise, standardised: [row, out] or [out]."""
        n_targets = len(regression.scale)
        if regression.floor is not None:
            raw = self.columns(outputs, n_targets, 2 * n_targets)
            positive = self.add("Softplus", [raw])
            return self.mean(self.add("Add", [positive, self.constant(regression.floor)]))
        if regression.noise is not None:
            parts = [self.noise_at(rows, part) for part in regression.noise]
            return self.add("Concat", parts, axis=-1)
        assert regression.noise_var is not None
        return self.constant(regression.noise_var / regression.scale**2)

    def noise_at(self, rows: str, noise: Noise) -> str:
        """Variance of the noise of one output [row, 1]."""
        if noise.shape is None:
            # A column of the inputs gives the number of rows.
            column = self.cast(self.columns(rows, 0, 1), np.float64)
            nothing = self.add("Mul", [column, self.constant(0.0)])
            return self.add("Add", [nothing, self.constant(noise.noise_var)])
        assert noise.shape.network.row_shape is not None
        features = self.columns(rows, 0, noise.shape.network.row_shape[0])
        networks = self.network(features, noise.shape.network, noise.shape.params)
        outputs = self.cast(networks, np.float64)
        log_noise = self.mean(self.clipped(outputs, -LOG_NOISE_CLIP, LOG_NOISE_CLIP))
        log_noise = self.clipped(log_noise, noise.shape.least, noise.shape.most)
        return self.add("Mul", [self.add("Exp", [log_noise]), self.constant(noise.noise_var)])
