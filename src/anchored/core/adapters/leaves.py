"""What a parameter is, from its path, its shape and the kind of its layer.

Weights have a fan-in: how many inputs reach one output. It is the product of all axes except the
axis of outputs. That axis comes first in Equinox and PyTorch, and last in Flax and in this library.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_SCALES = ("scale", "gamma")
_BIAS = re.compile(r"b\d*|beta|.*bias.*", re.IGNORECASE)
_PROJECTIONS = ("query", "key", "value")  # of Flax's attention: [in, head, out of a head]


class Leaf(NamedTuple):
    """A weight, bias, embedding, scale or shift (of a normalisation), and its fan-in."""

    kind: str
    fan_in: int


def leaf_of(
    path: str,
    shapes: Mapping[str, tuple[int, ...]],
    out_first: bool,
    layer: str = "",
) -> Leaf:
    """What the leaf at a dotted path is; ``layer`` is the class of its layer, if known."""
    shape = shapes[path]
    parent, _, name = path.rpartition(".")
    around = f"{parent.rpartition('.')[2]} {layer}".lower()
    if len(shape) <= 1 and "norm" in around and name != "scale" and "weight" not in name:
        return Leaf("shift", 1)
    if _BIAS.fullmatch(name):
        return Leaf("bias", _beside(path, parent, shapes, out_first))
    if len(shape) <= 1 and (name in _SCALES or "norm" in around):
        return Leaf("scale", 1)
    if len(shape) == 2 and ("embed" in around or "embed" in name.lower()):
        return Leaf("embedding", 1)
    return Leaf("weight", fan_in(path, shape, out_first))


def leaves_of(
    params: Mapping[str, Any], out_first: bool, kinds: Mapping[str, str] | None = None
) -> dict[str, Leaf]:
    """What each parameter is, by dotted path; ``kinds`` are classes of layers, if known."""
    shapes, kinds = {path: leaf.shape for path, leaf in params.items()}, kinds or {}
    return {
        path: leaf_of(path, shapes, out_first, kinds.get(path.rpartition(".")[0], ""))
        for path in shapes
    }


def fan_in(path: str, shape: tuple[int, ...], out_first: bool) -> int:
    if len(shape) <= 1:
        return math.prod(shape)
    if out_first:
        return math.prod(shape[1:])
    if len(shape) == 3 and path.split(".")[-2:-1] and path.split(".")[-2] in _PROJECTIONS:
        return shape[0]
    return math.prod(shape[:-1])


def _beside(path: str, parent: str, shapes: Mapping[str, tuple[int, ...]], out_first: bool) -> int:
    """Fan-in of the weights that a bias is added to: in the same layer, best of the same number."""
    number = _number(path)
    beside = [p for p, s in shapes.items() if p.rpartition(".")[0] == parent and len(s) > 1]
    for other in sorted(beside, key=lambda p: _number(p) != number):
        return fan_in(other, shapes[other], out_first)
    return 1


def _number(path: str) -> str:
    return path[len(path.rstrip("0123456789")) :]
