"""ONNX nodes of JAX's operations, those of ordinary networks."""

import string
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from anchored.core.onnx_programs.values import Scope, Size, Value, product, sizes

_END = np.iinfo(np.int64).max


class Operation(NamedTuple):
    """An operation in both programs, its inputs, and the shapes of its results."""

    few: Any
    more: Any
    inputs: list[Value]
    shapes: list[tuple[Size, ...]]

    @property
    def kind(self) -> str:
        return self.few.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        return self.few.params

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.few.outvars[0].aval.dtype)

    def both(self, name: str) -> tuple[Any, Any]:
        """A parameter in both programs."""
        return self.few.params[name], self.more.params[name]


Translate = Callable[[Scope, Operation], str | list[str]]


def _named(scope: Scope, operation: Operation) -> list[str]:
    return [scope.name(value) for value in operation.inputs]


def _node(kind: str, **attributes) -> Translate:
    """One node of the same inputs."""
    return lambda scope, op: scope.graph.add(kind, _named(scope, op), **attributes)


def _after(first: str, second: str) -> Translate:
    """A node of one input behind another."""
    return lambda scope, op: scope.graph.add(second, [scope.graph.add(first, _named(scope, op))])


def _number(scope: Scope, operation: Operation, value: float) -> str:
    return scope.graph.constant(value, operation.inputs[0].dtype)


def _with_number(kind: str, value: float, number_first: bool = False) -> Translate:
    """A node of the input and a number."""

    def translate(scope: Scope, op: Operation) -> str:
        pair = [scope.name(op.inputs[0]), _number(scope, op, value)]
        return scope.graph.add(kind, pair[::-1] if number_first else pair)

    return translate


def _chain(*steps: tuple[str, float | None]) -> Translate:
    """Nodes one behind another, each of one input or of it and a number."""

    def translate(scope: Scope, op: Operation) -> str:
        (value,) = _named(scope, op)
        for kind, number in steps:
            more = [] if number is None else [_number(scope, op, number)]
            value = scope.graph.add(kind, [value, *more])
        return value

    return translate


def _square(scope: Scope, op: Operation) -> str:
    (value,) = _named(scope, op)
    return scope.graph.add("Mul", [value, value])


def _integer_pow(scope: Scope, op: Operation) -> str:
    power = scope.graph.constant(op.params["y"], op.inputs[0].dtype)
    return scope.graph.add("Pow", [scope.name(op.inputs[0]), power])


def _is_finite(scope: Scope, op: Operation) -> str:
    (value,) = _named(scope, op)
    odd = [scope.graph.add(kind, [value]) for kind in ("IsInf", "IsNaN")]
    return scope.graph.add("Not", [scope.graph.add("Or", odd)])


def _cast(scope: Scope, op: Operation) -> str:
    return scope.graph.cast(scope.name(op.inputs[0]), op.dtype)


def _clamp(scope: Scope, op: Operation) -> str:
    least, value, most = _named(scope, op)
    return scope.graph.add("Min", [scope.graph.add("Max", [value, least]), most])


def _select(scope: Scope, op: Operation) -> str:
    which, *cases = op.inputs
    if which.dtype != np.bool_ or len(cases) != 2:
        raise ValueError("it uses `select_n` of more than two cases; use `jax.numpy.where`.")
    return scope.graph.add("Where", [scope.name(v) for v in (which, cases[1], cases[0])])


def _reshape(scope: Scope, op: Operation) -> str:
    return scope.reshaped(scope.name(op.inputs[0]), op.shapes[0])


def _transpose(scope: Scope, op: Operation) -> str:
    return scope.transposed(scope.name(op.inputs[0]), op.params["permutation"])


def _broadcast(scope: Scope, op: Operation) -> str:
    value, shape = op.inputs[0], op.shapes[0]
    places = op.params["broadcast_dimensions"]
    laid_out = [Size(0, 1)] * len(shape)
    for place, size in zip(places, value.shape, strict=True):
        laid_out[place] = size
    name = scope.name(value)
    if len(laid_out) != value.rank:
        name = scope.reshaped(name, laid_out)
    if tuple(laid_out) == shape:
        return name
    # An axis that is there already is as long as it is.
    wanted = [Size(0, 1) if a == b else b for a, b in zip(laid_out, shape, strict=True)]
    return scope.graph.add("Expand", [name, scope.vector(wanted)])


def _concatenate(scope: Scope, op: Operation) -> str:
    return scope.graph.add("Concat", _named(scope, op), axis=op.params["dimension"])


def _stack(scope: Scope, op: Operation) -> str:
    shape, axis = list(op.shapes[0]), op.params["axis"]
    shape[axis] = Size(0, 1)
    parts = [scope.reshaped(name, shape) for name in _named(scope, op)]
    return scope.graph.add("Concat", parts, axis=axis)


def _split(scope: Scope, op: Operation) -> list[str]:
    names = [scope.graph.fresh() for _ in op.shapes]
    lengths = scope.whole(*op.params["sizes"])
    given = [scope.name(op.inputs[0]), lengths]
    return scope.graph.add_several("Split", given, names, axis=op.params["axis"])


def _slice(scope: Scope, op: Operation) -> str:
    starts = sizes(*op.both("start_indices"))
    stops = sizes(*op.both("limit_indices"))
    steps = op.params["strides"] or [1] * len(starts)
    bounds = [scope.vector(starts), scope.vector(stops)]
    axes = scope.whole(*range(len(starts)))
    return scope.graph.add("Slice", [scope.name(op.inputs[0]), *bounds, axes, scope.whole(*steps)])


def _dynamic_slice(scope: Scope, op: Operation) -> str:
    value, *starts = op.inputs
    lengths, graph = op.shapes[0], scope.graph
    one = [graph.add("Reshape", [scope.name(s), scope.whole(1)]) for s in starts]
    start = graph.cast(graph.add("Concat", one, axis=0), np.int64)
    room = graph.add("Sub", [scope.vector(value.shape), scope.vector(lengths)])
    start = graph.add("Max", [graph.add("Min", [start, room]), scope.whole(0)])
    stop = graph.add("Add", [start, scope.vector(lengths)])
    return graph.add("Slice", [scope.name(value), start, stop, scope.whole(*range(value.rank))])


def _reverse(scope: Scope, op: Operation) -> str:
    axes = op.params["dimensions"]
    ends = [scope.whole(*[n] * len(axes)) for n in (-1, -_END)]
    steps = scope.whole(*[-1] * len(axes))
    return scope.graph.add("Slice", [scope.name(op.inputs[0]), *ends, scope.whole(*axes), steps])


def _pad(scope: Scope, op: Operation) -> str:
    lows, highs, between = zip(*op.params["padding_config"], strict=True)
    if any(between):
        raise ValueError("it uses `pad` between values, for which there are no ONNX nodes here.")
    value, filled = _named(scope, op)
    return scope.graph.add("Pad", [value, scope.whole(*lows, *highs), filled])


def _iota(scope: Scope, op: Operation) -> str:
    shape, axis = op.shapes[0], op.params["dimension"]
    length = scope.graph.add("Squeeze", [scope.vector([shape[axis]])])
    zero, one = (scope.graph.constant(n, np.int64) for n in (0, 1))
    counted = scope.graph.cast(scope.graph.add("Range", [zero, length, one]), op.dtype)
    laid_out = [size if i == axis else Size(0, 1) for i, size in enumerate(shape)]
    return scope.graph.add("Expand", [scope.reshaped(counted, laid_out), scope.vector(shape)])


def _reduce(kind: str) -> Translate:
    def translate(scope: Scope, op: Operation) -> str:
        axes = scope.whole(*op.params["axes"])
        return scope.graph.add(kind, [scope.name(op.inputs[0]), axes], keepdims=0)

    return translate


def _reduce_flags(kind: str) -> Translate:
    def translate(scope: Scope, op: Operation) -> str:
        whole = scope.graph.cast(scope.name(op.inputs[0]), np.int32)
        axes = scope.whole(*op.params["axes"])
        return scope.graph.cast(scope.graph.add(kind, [whole, axes], keepdims=0), np.bool_)

    return translate


def _place(kind: str) -> Translate:
    """Of the largest or smallest value."""

    def translate(scope: Scope, op: Operation) -> str:
        (axis,) = op.params["axes"]
        found = scope.graph.add(kind, [scope.name(op.inputs[0])], axis=axis, keepdims=0)
        return scope.graph.cast(found, op.dtype)

    return translate


def _cumulative_sum(scope: Scope, op: Operation) -> str:
    axis = scope.graph.constant(op.params["axis"], np.int64)
    backwards = int(op.params["reverse"])
    return scope.graph.add("CumSum", [scope.name(op.inputs[0]), axis], reverse=backwards)


def _dot_general(scope: Scope, op: Operation) -> str:
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


def _convolution(scope: Scope, op: Operation) -> str:
    params = op.params
    if any(n != 1 for n in params["lhs_dilation"]) or params["batch_group_count"] != 1:
        raise ValueError(
            "it uses a transposed convolution, for which there are no ONNX nodes here."
        )
    numbers, (image, kernel) = params["dimension_numbers"], _named(scope, op)
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


def _pool(kind: str) -> Translate:
    """Windows over some axes, which come last and the others as one before them."""

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
            return scope.graph.add("Identity", _named(scope, op))
        others = [i for i, has in enumerate(spread) if not has]
        lows, highs = zip(*(padding[i] for i in along), strict=True)
        shape = [product([value.shape[i] for i in others]), Size(0, 1)]
        flat = scope.transposed(scope.name(value), [*others, *along])
        flat = scope.reshaped(flat, shape + [value.shape[i] for i in along])
        more = {"count_include_pad": 1} if kind == "AveragePool" else {}
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


def _gather(scope: Scope, op: Operation) -> str:
    """Rows of a table by number, and what else picks single places along some axes."""
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


KNOWN: dict[str, Translate] = {
    **{
        kind.lower(): _node(kind)
        for kind in (
            "Abs Add Ceil Cos Cosh Div Erf Exp Floor Log Max Min Mul Neg Not Or Pow Sign Sin Sinh "
            "Sqrt Sub Tan Tanh And Xor"
        ).split()
    },
    "add_any": _node("Add"),
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "conv_general_dilated": _convolution,
    "convert_element_type": _cast,
    "copy": _node("Identity"),
    "copy_p": _node("Identity"),
    "cumsum": _cumulative_sum,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "eq": _node("Equal"),
    "erfc": _chain(("Erf", None), ("Neg", None), ("Add", 1.0)),
    "exp2": _with_number("Pow", 2.0, number_first=True),
    "expand_dims": _reshape,
    "expm1": _chain(("Exp", None), ("Sub", 1.0)),
    "gather": _gather,
    "ge": _node("GreaterOrEqual"),
    "gt": _node("Greater"),
    "integer_pow": _integer_pow,
    "iota": _iota,
    "is_finite": _is_finite,
    "le": _node("LessOrEqual"),
    "log1p": _chain(("Add", 1.0), ("Log", None)),
    "logistic": _node("Sigmoid"),
    "lt": _node("Less"),
    "ne": _after("Equal", "Not"),
    "pad": _pad,
    "reduce_and": _reduce_flags("ReduceMin"),
    "reduce_max": _reduce("ReduceMax"),
    "reduce_min": _reduce("ReduceMin"),
    "reduce_or": _reduce_flags("ReduceMax"),
    "reduce_prod": _reduce("ReduceProd"),
    "reduce_sum": _reduce("ReduceSum"),
    "reduce_window_max": _pool("MaxPool"),
    "reduce_window_sum": _pool("AveragePool"),
    "rem": _node("Mod", fmod=1),
    "reshape": _reshape,
    "rev": _reverse,
    "rsqrt": _chain(("Sqrt", None), ("Reciprocal", None)),
    "select_n": _select,
    "slice": _slice,
    "split": _split,
    "square": _square,
    "squeeze": _reshape,
    "stack": _stack,
    "stop_gradient": _node("Identity"),
    "transpose": _transpose,
}
