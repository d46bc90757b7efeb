"""The walk through a program: each operation is folded, inlined or translated."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from anchored.core.onnx_programs import operations
from anchored.core.onnx_programs.values import Operation, Scope, Size, Value, sizes

# Operations that call a program, and the name of the parameter that it is.
_CALLS = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
}
_MOST_FOLDED = 1 << 22  # values of an array that is computed beforehand


class Program(NamedTuple):
    """The same program for two numbers of rows."""

    few: Any
    more: Any
    constants: tuple[list, list]

    @classmethod
    def of(cls, few: Any, more: Any) -> "Program":
        """One program made from two that JAX traced, with or without constants."""
        inner = [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in (few, more)]
        consts = [list(p.consts) if isinstance(p, ClosedJaxpr) else [] for p in (few, more)]
        return cls(inner[0], inner[1], (consts[0], consts[1]))

    def outputs(self, scope: Scope, inputs: list[Value]) -> list[Value]:
        """Values of the results, for values of the arguments."""
        needed = _needed(self.few), _needed(self.more)
        kinds = [[equation.primitive.name for equation in some] for some in needed]
        if kinds[0] != kinds[1]:
            raise ValueError(
                "its program changes with the number of rows. What it computes must not depend on "
                "the number of rows."
            )
        known: dict[Any, Value] = dict(zip(self.few.invars, inputs, strict=True))
        for variable, few, more in zip(self.few.constvars, *self.constants, strict=True):
            known[variable] = _constant(scope, few, more)

        def value(few: Any, more: Any) -> Value:
            return _constant(scope, few.val, more.val) if isinstance(few, Literal) else known[few]

        for few, more in zip(*needed, strict=True):
            given = [value(a, b) for a, b in zip(few.invars, more.invars, strict=True)]
            shapes = [
                sizes(a.aval.shape, b.aval.shape)
                for a, b in zip(few.outvars, more.outvars, strict=True)
            ]
            made = _translated(scope, Operation(few, more, given, shapes))
            known |= dict(zip(few.outvars, made, strict=True))
        return [value(a, b) for a, b in zip(self.few.outvars, self.more.outvars, strict=True)]


def _translated(scope: Scope, operation: Operation) -> list[Value]:
    kind = operation.kind
    if all(value.known is not None for value in operation.inputs) and _is_fixed(operation):
        return _folded(operation)
    if kind in _CALLS:
        return Program.of(*operation.both(_CALLS[kind])).outputs(scope, operation.inputs)
    if kind == "scan":
        return _scan(scope, operation)
    translate = operations.KNOWN.get(kind)
    if translate is None:
        raise ValueError(
            f"it uses the operation `{kind}`, for which there are no ONNX nodes here. Write that "
            "layer with other operations, or predict with `anchored.load`."
        )
    made = translate(scope, operation)
    names = [made] if isinstance(made, str) else made
    return [
        Value(shape, operation.dtype, n) for shape, n in zip(operation.shapes, names, strict=True)
    ]


def _is_fixed(operation: Operation) -> bool:
    """Whether results are the same for every number of rows, and not too large to keep."""
    fixed = all(not size.times for shape in operation.shapes for size in shape)
    n_values = sum(np.prod([size.plus for size in shape]) for shape in operation.shapes)
    return fixed and bool(n_values <= _MOST_FOLDED)


def _folded(operation: Operation) -> list[Value]:
    """What JAX computes from constants."""
    equation = operation.few
    given = [value.known for value in operation.inputs]
    params = equation.primitive.get_bind_params(equation.params)
    functions, params = params if isinstance(params, tuple) else ((), params)
    results = equation.primitive.bind(*functions, *given, **params)
    several = results if equation.primitive.multiple_results else [results]
    return [Value.constant(result) for result in several]


def _constant(scope: Scope, few: Any, more: Any) -> Value:
    """The same array in both programs, or a number of rows."""
    if np.shape(few) == np.shape(more):
        kind = np.asarray(few).dtype if not hasattr(few, "dtype") else few.dtype
        is_real = jnp.issubdtype(kind, jnp.floating)
        if jnp.issubdtype(kind, jax.dtypes.extended) or np.array_equal(few, more, is_real):
            return Value.constant(few)
        if np.shape(few) == () and jnp.issubdtype(kind, jnp.integer):
            number = scope.graph.add("Squeeze", [scope.vector([Size.of(few, more)])])
            return Value((), kind, scope.graph.cast(number, kind))
    raise ValueError(
        "a constant in its program depends on the number of rows, as in a mean over the batch. "
        "The output of a row must not depend on other rows."
    )


def _needed(jaxpr: Any) -> list[Any]:
    """Operations that results depend on."""
    wanted, kept = {v for v in jaxpr.outvars if not isinstance(v, Literal)}, []
    for equation in reversed(jaxpr.eqns):
        if wanted.intersection(equation.outvars):
            wanted |= {v for v in equation.invars if not isinstance(v, Literal)}
            kept.append(equation)
    return kept[::-1]


def _scan(scope: Scope, operation: Operation) -> list[Value]:
    """A loop over the first axis of some arrays."""
    params, inputs, graph = operation.params, operation.inputs, scope.graph
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, first = inputs[:n_consts], inputs[n_consts : n_consts + n_carry]
    along = inputs[n_consts + n_carry :]
    inner = scope.inner()
    passed = [Value(v.shape, v.dtype, graph.fresh()) for v in first]
    passed += [Value(v.shape[1:], v.dtype, graph.fresh()) for v in along]
    made = Program.of(*operation.both("jaxpr")).outputs(inner, [*consts, *passed])
    names = [inner.graph.add("Identity", [inner.name(value)]) for value in made]
    taken = [scope.name(value) for value in [*first, *along]]
    if not along:  # a loop over nothing but its number
        passed.append(Value((), np.dtype(np.float32), graph.fresh()))
        taken.append(graph.constant(np.zeros(params["length"]), np.float32))
    types = [np.dtype(variable.aval.dtype) for variable in operation.few.outvars]
    outputs = graph.scan(
        inner.graph,
        [(value.name, value.dtype) for value in passed],
        list(zip(names, types, strict=True)),
        taken,
        n_carry,
        params["reverse"],
    )
    return [Value(*found) for found in zip(operation.shapes, types, outputs, strict=True)]
