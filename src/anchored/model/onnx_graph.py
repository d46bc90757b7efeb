"""Builds an ONNX graph by adding nodes and constants; values have names."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

OPSET = 18  # read by every runtime since 2023


class Graph:
    """A graph, or the body of a loop inside it; a body has nodes of its own."""

    def __init__(self, outer: "Graph | None" = None):
        self.nodes: list[Any] = []
        self.constants: list[Any] = [] if outer is None else outer.constants
        self._numbers: Iterator[int] = itertools.count() if outer is None else outer._numbers

    def body(self) -> "Graph":
        """A graph whose nodes can use the values of this graph."""
        return Graph(self)

    def fresh(self) -> str:
        """A name that no value has yet."""
        return f"v{next(self._numbers)}"

    def add(self, kind: str, inputs: Sequence[str], name: str | None = None, **attributes) -> str:
        """A node with one output."""
        return self.add_several(kind, inputs, [name or self.fresh()], **attributes)[0]

    def add_several(
        self, kind: str, inputs: Sequence[str], names: list[str], **attributes
    ) -> list[str]:
        import onnx

        self.nodes.append(onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def scan(
        self,
        body: "Graph",
        passed: list[tuple[str, Any]],
        made: list[tuple[str, Any]],
        taken: list[str],
        n_states: int,
        backwards: bool,
    ) -> list[str]:
        """A loop over the first axis of all of ``taken`` but the first ``n_states``.

        ``passed`` and ``made`` are the names and types of the body's inputs and outputs, states
        first.
        """
        import onnx

        described = [
            [onnx.helper.make_tensor_value_info(name, onnx_type(kind), None) for name, kind in some]
            for some in (passed, made)
        ]
        directions: dict[str, list[int]] = {}
        n_outputs = len(made) - n_states
        if backwards:
            directions["scan_input_directions"] = [1] * (len(taken) - n_states)
            if n_outputs:
                directions["scan_output_directions"] = [1] * n_outputs
        return self.add_several(
            "Scan",
            taken,
            [self.fresh() for _ in made],
            body=onnx.helper.make_graph(body.nodes, self.fresh(), described[0], described[1]),
            num_scan_inputs=len(taken) - n_states,
            **directions,
        )

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        import onnx

        name = f"c{next(self._numbers)}"
        array = np.asarray(value, dtype, order="C")
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        return self.add("Cast", [value], to=onnx_type(dtype))

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
        """Some columns of a value: a part of its last axis."""
        bounds = [self.constant([n], np.int64) for n in (start, stop, -1)]
        return self.add("Slice", [value, *bounds])


def onnx_type(dtype: Any) -> int:
    """ONNX's number for a type of NumPy."""
    import onnx

    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
