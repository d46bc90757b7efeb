"""ONNX nodes of JAX's operations, those of ordinary networks."""

import numpy as np

from anchored.core.onnx_programs import products
from anchored.core.onnx_programs.values import Operation, Scope, Size, Translate, named, sizes

# Operations that are one node of the same name.
_SAME_NAME = (
    "Abs",
    "Add",
    "And",
    "Ceil",
    "Cos",
    "Cosh",
    "Div",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "Sign",
    "Sin",
    "Sinh",
    "Sqrt",
    "Sub",
    "Tan",
    "Tanh",
    "Xor",
)
_END = np.iinfo(np.int64).max


def _node(kind: str, **attributes) -> Translate:
    """One node of the same inputs."""
    return lambda scope, op: scope.graph.add(kind, named(scope, op), **attributes)


def _after(first: str, second: str) -> Translate:
    """A node of one input behind another."""
    return lambda scope, op: scope.graph.add(second, [scope.graph.add(first, named(scope, op))])


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
        (value,) = named(scope, op)
        for kind, number in steps:
            more = [] if number is None else [_number(scope, op, number)]
            value = scope.graph.add(kind, [value, *more])
        return value

    return translate


def _square(scope: Scope, op: Operation) -> str:
    (value,) = named(scope, op)
    return scope.graph.add("Mul", [value, value])


def _integer_pow(scope: Scope, op: Operation) -> str:
    power = scope.graph.constant(op.params["y"], op.inputs[0].dtype)
    return scope.graph.add("Pow", [scope.name(op.inputs[0]), power])


def _is_finite(scope: Scope, op: Operation) -> str:
    (value,) = named(scope, op)
    odd = [scope.graph.add(kind, [value]) for kind in ("IsInf", "IsNaN")]
    return scope.graph.add("Not", [scope.graph.add("Or", odd)])


def _cast(scope: Scope, op: Operation) -> str:
    return scope.graph.cast(scope.name(op.inputs[0]), op.dtype)


def _clamp(scope: Scope, op: Operation) -> str:
    least, value, most = named(scope, op)
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
    return scope.graph.add("Concat", named(scope, op), axis=op.params["dimension"])


def _stack(scope: Scope, op: Operation) -> str:
    shape, axis = list(op.shapes[0]), op.params["axis"]
    shape[axis] = Size(0, 1)
    parts = [scope.reshaped(name, shape) for name in named(scope, op)]
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
    value, filled = named(scope, op)
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
    """Translates the place of the largest or smallest value."""

    def translate(scope: Scope, op: Operation) -> str:
        (axis,) = op.params["axes"]
        found = scope.graph.add(kind, [scope.name(op.inputs[0])], axis=axis, keepdims=0)
        return scope.graph.cast(found, op.dtype)

    return translate


def _cumulative_sum(scope: Scope, op: Operation) -> str:
    axis = scope.graph.constant(op.params["axis"], np.int64)
    backwards = int(op.params["reverse"])
    return scope.graph.add("CumSum", [scope.name(op.inputs[0]), axis], reverse=backwards)


KNOWN: dict[str, Translate] = {
    **{kind.lower(): _node(kind) for kind in _SAME_NAME},
    "add_any": _node("Add"),
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "conv_general_dilated": products.convolution,
    "convert_element_type": _cast,
    "copy": _node("Identity"),
    "copy_p": _node("Identity"),
    "cumsum": _cumulative_sum,
    "dot_general": products.dot_general,
    "dynamic_slice": _dynamic_slice,
    "eq": _node("Equal"),
    "erfc": _chain(("Erf", None), ("Neg", None), ("Add", 1.0)),
    "exp2": _with_number("Pow", 2.0, number_first=True),
    "expand_dims": _reshape,
    "expm1": _chain(("Exp", None), ("Sub", 1.0)),
    "gather": products.gather,
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
    "reduce_window_max": products.pool("MaxPool"),
    "reduce_window_sum": products.pool("AveragePool"),
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
