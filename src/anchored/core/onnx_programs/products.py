"""ONNX nodes of the operations that do the work: products, convolutions, pools and look-ups."""

import string
from typing import Any

import numpy as np

from anchored.core.onnx_programs.values import (
    Operation,
    Scope,
    Size,
    Translate,
    named,
    product,
    sizes,
)


def dot_general(scope: Scope, op: Operation) -> str:
    left, right = op.inputs
    (left_sums, right_sums), (left_batch, right_batch) = op.params["dimension_numbers"]
    names = [scope.name(left), scope.name(right)]
    inputs = [
        name if value.dtype == op.dtype else scope.graph.cast(name, op.dtype)
        for name, value in zip(names, op.inputs, strict=True)
    ]
    plain = right.rank == 2 and not left_batch and left_sums == (left.rank - 1,)
    if plain and right_sums == (0,):
        return scope.graph.add("MatMul", inputs)
    letters = iter(string.ascii_letters)
    of_left = [next(letters) for _ in left.shape]
    of_right = [next(letters) for _ in right.shape]
    pairs = zip((*left_batch, *left_sums), (*right_batch, *right_sums), strict=True)
    for at_left, at_right in pairs:
        of_right[at_right] = of_left[at_left]
    kept = [of_left[i] for i in left_batch]
    for axes, summed, batch in (
        (of_left, left_sums, left_batch),
        (of_right, right_sums, right_batch),
    ):
        kept += [axis for i, axis in enumerate(axes) if i not in (*summed, *batch)]
    equation = f"{''.join(of_left)},{''.join(of_right)}->{''.join(kept)}"
    return scope.graph.add("Einsum", inputs, equation=equation)


def convolution(scope: Scope, op: Operation) -> str:
    params = op.params
    if any(n != 1 for n in params["lhs_dilation"]) or params["batch_group_count"] != 1:
        raise ValueError(
            "it uses a transposed convolution, for which there are no ONNX nodes here."
        )
    numbers, (image, kernel) = params["dimension_numbers"], named(scope, op)
    lows, highs = zip(*params["padding"], strict=True)
    made = scope.graph.add(
        "Conv",
        [scope.transposed(image, numbers.lhs_spec), scope.transposed(kernel, numbers.rhs_spec)],
        strides=list(params["window_strides"]),
        pads=[*lows, *highs],
        dilations=list(params["rhs_dilation"]),
        group=params["feature_group_count"],
    )
    return scope.transposed(made, np.argsort(numbers.out_spec))


def pool(kind: str) -> Translate:
    """Windows over some axes. These axes come last; the others are joined into one axis before
    them.
    """

    def translate(scope: Scope, op: Operation) -> str:
        params, value = op.params, op.inputs[0]
        window, strides, padding = (
            params[name] for name in ("window_dimensions", "window_strides", "padding")
        )
        if any(n != 1 for n in (*params["base_dilation"], *params["window_dilation"])):
            raise ValueError("it pools with dilation, for which there are no ONNX nodes here.")
        spread = [
            n > 1 or s > 1 or any(p) for n, s, p in zip(window, strides, padding, strict=True)
        ]
        along = [i for i, has in enumerate(spread) if has]
        if not along:
            return scope.graph.add("Identity", named(scope, op))
        others = [i for i, has in enumerate(spread) if not has]
        lows, highs = zip(*(padding[i] for i in along), strict=True)
        shape = [product([value.shape[i] for i in others]), Size(0, 1)]
        flat = scope.transposed(scope.name(value), [*others, *along])
        flat = scope.reshaped(flat, shape + [value.shape[i] for i in along])
        more: dict[str, Any] = {"count_include_pad": 1} if kind == "AveragePool" else {}
        made = scope.graph.add(
            kind,
            [flat],
            kernel_shape=[window[i] for i in along],
            strides=[strides[i] for i in along],
            pads=[*lows, *highs],
            **more,
        )
        if kind == "AveragePool":
            size = float(np.prod(window))
            made = scope.graph.add("Mul", [made, scope.graph.constant(size, op.dtype)])
        ordered = [op.shapes[0][i] for i in (*others, *along)]
        return scope.transposed(scope.reshaped(made, ordered), np.argsort([*others, *along]))

    return translate


def gather(scope: Scope, op: Operation) -> str:
    """Rows of a table by number, and other operations that pick single places along some axes."""
    numbers, graph, (table, index) = op.params["dimension_numbers"], scope.graph, op.inputs
    picked, batch = list(numbers.start_index_map), list(numbers.operand_batching_dims)
    lengths = sizes(*op.both("slice_sizes"))
    rest = [i for i in range(table.rank) if i not in (*picked, *batch)]
    if any(lengths[i] != table.shape[i] for i in rest) or any(lengths[i].plus != 1 for i in picked):
        raise ValueError(
            "it uses `gather` of parts of axes, for which there are no ONNX nodes here."
        )
    places = graph.cast(scope.name(index), np.int64)
    ends = graph.add("Sub", [scope.vector([table.shape[i] for i in picked]), scope.whole(1)])
    places = graph.add("Max", [graph.add("Min", [places, ends]), scope.whole(0)])
    of_batch = list(numbers.start_indices_batching_dims)
    looked_up = [i for i in range(index.rank - 1) if i not in of_batch]
    places = scope.transposed(places, [*of_batch, *looked_up, index.rank - 1])
    ordered = scope.transposed(scope.name(table), [*batch, *picked, *rest])
    found = graph.add("GatherND", [ordered, places], batch_dims=len(batch))
    # Axes of what was found: batch, looked up, rest. In the result the rest, with axes of length
    # one that were picked but not dropped, is at `offset_dims`, and the others are in their order.
    before = np.argsort([*of_batch, *looked_up]).tolist()
    behind = [len(before) + i for i in range(len(rest))]
    offset = [i for i in range(table.rank) if i not in (*numbers.collapsed_slice_dims, *batch)]
    kept = iter(behind)
    at_offset = dict(zip(numbers.offset_dims, [i in rest for i in offset], strict=True))
    front, order = iter(before), []
    for i in range(len(op.shapes[0])):
        if i not in at_offset:
            order.append(next(front))
        elif at_offset[i]:
            order.append(next(kept))
    found = scope.transposed(found, order)
    return found if len(order) == len(op.shapes[0]) else scope.reshaped(found, op.shapes[0])
