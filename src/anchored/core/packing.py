"""Inputs of several arrays, a dict or a tuple, as one array [row, value] and back.

Code that moves rows (batches, folds, standardising, files) then handles a single array, and the
network splits it again. Whole numbers and flags are stored as real numbers, which are exact up to
2^24.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from anchored.errors import bad_value
from anchored.typing import Array, Network, Params

_MOST_WHOLE = 2**24


@dataclasses.dataclass(frozen=True)
class Part:
    """One of the arrays: its name or place, the shape of a row, and its kind: f, i or b."""

    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where each array of the inputs lies in a row."""

    named: bool  # a dict, or else a tuple
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, x: dict | tuple) -> "Layout":
        """The layout of a dict or tuple of arrays [row, ...]."""
        if not x:
            raise bad_value("X", x, "a dict or tuple of at least one array")
        items = sorted(x.items()) if isinstance(x, dict) else enumerate(x)
        parts = []
        for name, value in items:
            array = np.asarray(value)
            kind = {"u": "i"}.get(array.dtype.kind, array.dtype.kind)
            if array.ndim < 1 or kind not in "fib":
                need = f"[row, ...] of numbers; its part {name!r} has type {array.dtype}"
                raise bad_value("X", type(x).__name__, f"arrays {need}")
            parts.append(Part(str(name), array.shape[1:], kind))
        return cls(isinstance(x, dict), tuple(parts))

    @property
    def standardised(self) -> np.ndarray:
        """Whether each value of a row is a real number [value]."""
        return np.concatenate([np.full(part.size, part.kind == "f") for part in self.parts])

    def pack(self, x: dict | tuple) -> np.ndarray:
        """One array [row, value] of inputs that are laid out like this."""
        found = Layout.of(x)
        if found != self:
            raise ValueError(
                f"`X` must have the parts {_words(self)}, as in training; it has {_words(found)}."
            )
        arrays = [
            np.asarray(x[part.name] if isinstance(x, dict) else x[int(part.name)])
            for part in self.parts
        ]
        lengths = {len(array) for array in arrays}
        if len(lengths) > 1:
            raise ValueError(f"`X` has parts of different numbers of rows: {sorted(lengths)}.")
        for part, array in zip(self.parts, arrays, strict=True):
            if part.kind == "i" and array.size and np.max(np.abs(array)) > _MOST_WHOLE:
                raise bad_value(f"X[{part.name}]", array.max(), f"at most {_MOST_WHOLE:,}")
        flat = [array.reshape(len(array), -1) for array in arrays]
        return np.concatenate(flat, axis=1, dtype=np.float64)

    def unpack(self, rows: Array) -> dict[str, Array] | tuple[Array, ...]:
        """The inputs of rows [row, value], as the network takes them."""
        arrays, start = [], 0
        for part in self.parts:
            piece = rows[:, start : start + part.size].reshape(rows.shape[0], *part.shape)
            kinds: dict[str, Any] = {"f": rows.dtype, "i": np.int32, "b": np.bool_}
            arrays.append(piece.astype(kinds[part.kind]))
            start += part.size
        if not self.named:
            return tuple(arrays)
        return {part.name: array for part, array in zip(self.parts, arrays, strict=True)}


@dataclasses.dataclass(frozen=True)
class Packed:
    """A network on inputs of several arrays, wrapped to take rows of one array."""

    inner: Network
    layout: Layout

    @property
    def title(self) -> str:
        return getattr(self.inner, "title", type(self.inner).__name__)

    def init(self, key: Array, x: Array) -> Params:
        return self.inner.init(key, self.layout.unpack(x))  # type: ignore[arg-type]

    def apply(self, params: Params, x: Array) -> Array:
        return self.inner.apply(params, self.layout.unpack(x))  # type: ignore[arg-type]


def on_parts(network: Network, layout: Layout | None) -> Any:
    """The network on rows of one array, if its inputs are several."""
    return network if layout is None else Packed(network, layout)


def is_several(x: Any) -> bool:
    """Whether inputs are several arrays; a tuple of numbers or rows is one array."""
    if isinstance(x, dict):
        return not hasattr(x, "shape")  # one kind of sparse matrix is a dict
    return (
        isinstance(x, tuple)
        and bool(x)
        and all(np.ndim(part) for part in x)
        and all(hasattr(part, "dtype") for part in x)
    )


def input_layout(x: Any) -> Layout | None:
    """The layout of inputs that are several arrays; None for one array."""
    return Layout.of(x) if is_several(x) else None


def _words(layout: Layout) -> str:
    words = {"f": "real", "i": "whole", "b": "flags"}
    return ", ".join(f"{p.name!r} {p.shape} {words[p.kind]}" for p in layout.parts)
