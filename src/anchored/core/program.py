"""What the program of a network shows about its parameters: which ones multiply the inputs, and
which ones affect the outputs.

The program is JAX's, so it does not matter in which framework, or in which order, layers were
written down.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Literal

from anchored.core.adapters.common import dotted
from anchored.typing import Network, Params

_MEETINGS = ("dot_general", "conv_general_dilated", "gather", "mul")
_SUMS = ("add", "add_any")
_SHAPES = ("broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "transpose")
_CONVOLUTION = "conv_general_dilated"


class Program(NamedTuple):
    """Paths of parameters, and the operations of the program."""

    input_layer: frozenset[str]  # that meet the inputs before any other, biases included
    used: frozenset[str]  # that the outputs depend on
    operations: frozenset[str]

    @property
    def convolves(self) -> bool:
        return _CONVOLUTION in self.operations


class _Seen(NamedTuple):
    """What a value depends on."""

    params: frozenset[int] = frozenset()
    inputs: bool = False
    bare: bool = False  # a parameter as it is, but for its shape

    def joined(self, other: "_Seen") -> "_Seen":
        return _Seen(self.params | other.params, self.inputs or other.inputs)


def program_of(network: Network, params: Params, x: Any) -> Program:
    """The program of ``network.apply`` for these shapes; nothing is computed."""
    paths = [dotted(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    closed = jax.make_jaxpr(network.apply)(params, x)
    n_inputs = len(closed.jaxpr.invars) - len(paths)
    given = [_Seen(frozenset([i]), bare=True) for i in range(len(paths))] + [
        _Seen(inputs=True)
    ] * n_inputs
    first: set[int] = set()
    outputs = _through(closed.jaxpr, given, first)
    used = frozenset().union(*(seen.params for seen in outputs))
    names = frozenset(equation.primitive.name for equation in _equations(closed.jaxpr))
    return Program(frozenset(paths[i] for i in first), frozenset(paths[i] for i in used), names)


def _through(jaxpr: Any, given: list[_Seen], first: set[int]) -> list[_Seen]:
    """What the outputs of a program depend on; parameters that meet inputs go to ``first``."""
    known = dict(zip(jaxpr.invars, given, strict=True))

    def seen(variable: Any) -> _Seen:
        return _Seen() if isinstance(variable, Literal) else known.get(variable, _Seen())

    for equation in jaxpr.eqns:
        inputs = [seen(variable) for variable in equation.invars]
        for one, other in (inputs[:2], inputs[1::-1]) if len(inputs) > 1 else ():
            if one.inputs and other.params and not other.inputs:
                meets = equation.primitive.name in _MEETINGS and not one.params
                joins = equation.primitive.name in _SUMS and other.bare and one.params
                if meets or (joins and one.params <= first):
                    first |= other.params
        together = _Seen()
        for value in inputs:
            together = together.joined(value)
        if equation.primitive.name in _SHAPES:
            together = together._replace(bare=inputs[0].bare)
        for inner in _inner(equation):
            spare = len(inputs) - len(inner.invars)  # a branch does not take its number
            if spare >= 0:
                _through(inner, inputs[spare:], first)
        known |= dict.fromkeys(equation.outvars, together)
    return [seen(variable) for variable in jaxpr.outvars]


def _inner(equation: Any) -> Iterator[Any]:
    """Programs inside an operation, such as the body of a loop."""
    for value in equation.params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif hasattr(part, "eqns"):
                yield part


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inner(equation):
            yield from _equations(inner)
