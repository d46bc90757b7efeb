"""Values of a program on their way into a graph, and sizes that depend on the number of rows.

A program of JAX has fixed sizes, and a graph must take any number of rows. So the program is traced
twice, for two numbers of rows: a size that differs is a multiple of the rows plus a number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anchored.model.onnx_graph import Graph

TRACED_ROWS = (97, 101)  # the program is traced for each; no ordinary size of a layer


class Size(NamedTuple):
    """``times`` the number of rows, plus ``plus``."""

    times: int
    plus: int

    @classmethod
    def of(cls, few: Any, more: Any) -> "Size":
        """From the same size in the two programs."""
        times, rest = divmod(int(more) - int(few), TRACED_ROWS[1] - TRACED_ROWS[0])
        if rest:
            raise ValueError(
                "`network` has an array whose size is not a multiple of the number of rows plus a "
                "constant. Write it so that each row is computed on its own."
            )
        return cls(times, int(few) - times * TRACED_ROWS[0])


def sizes(few: Any, more: Any) -> tuple[Size, ...]:
    """Sizes of the axes, from the shapes in the two programs."""
    return tuple(Size.of(a, b) for a, b in zip(few, more, strict=True))


def product(several: "tuple[Size, ...] | list[Size]") -> Size:
    """The size of an axis that joins several axes; at most one of these may hold rows."""
    result = Size(0, 1)
    for size in several:
        if result.times and size.times:
            raise ValueError("`network` joins two axes that both grow with the number of rows.")
        plus = result.plus * size.plus
        result = Size(result.times * size.plus + size.times * result.plus, plus)
    return result


@dataclass(frozen=True)
class Value:
    """One value: its name in the graph or, until a name is needed, the array itself."""

    shape: tuple[Size, ...]
    dtype: Any
    name: str = ""
    known: Any = None

    @classmethod
    def constant(cls, array: Any) -> "Value":
        if not hasattr(array, "shape"):  # a number of Python's, which may know its type
            array = np.asarray(array, getattr(array, "dtype", None))
        return cls(tuple(Size(0, n) for n in array.shape), array.dtype, known=array)

    @property
    def rank(self) -> int:
        return len(self.shape)


class Scope:
    """The graph that nodes go to, and the number of rows as a value in it."""

    def __init__(self, graph: Graph, rows: str):
        self.graph, self.rows = graph, rows

    def inner(self) -> "Scope":
        return Scope(self.graph.body(), self.rows)

    def name(self, value: Value) -> str:
        """Name of a value in the graph; an array becomes a constant."""
        if value.known is None:
            return value.name
        return self.graph.constant(value.known, value.dtype)

    def whole(self, *numbers: int) -> str:
        """A vector of whole numbers."""
        return self.graph.constant(list(numbers), np.int64)

    def vector(self, several: "tuple[Size, ...] | list[Size]") -> str:
        """A vector of sizes."""
        if not any(size.times for size in several):
            return self.whole(*(size.plus for size in several))
        parts = []
        for times, plus in several:
            if not times:
                parts.append(self.whole(plus))
                continue
            grown = self.graph.add("Mul", [self.rows, self.whole(times)])
            parts.append(self.graph.add("Add", [grown, self.whole(plus)]))
        return self.graph.add("Concat", parts, axis=0)

    def reshaped(self, name: str, shape: "tuple[Size, ...] | list[Size]") -> str:
        """One size that depends on the rows follows from the others."""
        if sum(size.times > 0 for size in shape) == 1:
            shape = [Size(0, -1) if size.times else size for size in shape]
        return self.graph.add("Reshape", [name, self.vector(shape)], allowzero=1)

    def transposed(self, name: str, order: Any) -> str:
        order = [int(axis) for axis in order]
        if order == sorted(order):
            return name
        return self.graph.add("Transpose", [name], perm=order)


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


def named(scope: Scope, operation: Operation) -> list[str]:
    return [scope.name(value) for value in operation.inputs]
