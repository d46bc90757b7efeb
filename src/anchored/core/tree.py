"""Pytree helpers: stacked members, leaf paths, and a hashable ravelling of parameters."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from anchored.core.precision import doubled, is_double
from anchored.typing import Array, Params


def is_traced(tree: Any) -> bool:
    """Whether any leaf is inside a function that is being compiled."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def on_device(array: Any) -> Array:
    """An array of NumPy on the device; `jnp.asarray` would compile a program for its shape."""
    return jax.device_put(np.asarray(array))


def leaf_paths(tree: Params) -> list[str]:
    """The path of each leaf as text, e.g. ``0/weight``, in flattening order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]


@doubled(lambda tree, index: is_double(tree))
def take_members(tree: Params, index: Any) -> Params:
    """Select members (axis 0) of a stacked tree; an integer index drops the axis.

    By NumPy: JAX would compile several programs for each shape of a leaf.
    """
    return jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[index]), tree)


def member_of(tree: Params, index: int) -> Params:
    """One member of a stacked tree, in NumPy, which a compiled program takes without a copy."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


@doubled(lambda tree, index, others: is_double(tree))
def put_members(tree: Params, index: Any, others: Params) -> Params:
    """Replace some members of a stacked tree by others; by NumPy, which compiles nothing."""

    def put(old: Array, new: Array) -> Array:
        out = np.array(old)
        out[index] = new
        return on_device(out)

    return jax.tree.map(put, tree, others)


def concatenate_members(trees: list[Params]) -> Params:
    """Join stacked trees along the member axis."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


@doubled(lambda trees: is_double(trees))
def stack_members(trees: list[Params]) -> Params:
    """Stack the trees of single members along a new member axis; by NumPy, which compiles nothing.

    JAX would also start a program for every leaf of every member.
    """
    return jax.tree.map(lambda *leaves: on_device(np.stack(leaves)), *trees)


def squared_distance(a: Params, b: Params, scale: Params) -> Array:
    """sum_i ((a_i - b_i) / scale_i)^2 over all leaves."""
    terms = jax.tree.map(lambda u, v, s: jnp.sum(jnp.square((u - v) / s)), a, b, scale)
    return jax.tree.reduce(jnp.add, terms)


@dataclasses.dataclass(frozen=True)
class Raveller:
    """Turns a pytree of one structure into a vector and back.

    Unlike `jax.flatten_util.ravel_pytree` it is hashable, so a compiled program that
    contains it is found again by the next fit of the same shapes.
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def like(cls, tree: Params) -> "Raveller":
        leaves, treedef = jax.tree.flatten(tree)
        return cls(treedef, tuple(leaf.shape for leaf in leaves))

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def ravel(self, tree: Params) -> Array:
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])

    def ravel_members(self, tree: Params) -> Array:
        """Vectors [member, size] of a stacked tree; by NumPy, which compiles nothing."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        flat = [leaf.reshape(len(leaf), -1) for leaf in leaves]
        return on_device(np.concatenate(flat, axis=1))

    def unravel_members(self, vectors: Array) -> Params:
        """The stacked tree of vectors [member, size]; the inverse of `ravel_members`."""
        flat: Any = vectors if is_traced(vectors) else np.asarray(vectors)  # compiles nothing
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        leaves = [
            jax.device_put(flat[:, end - math.prod(shape) : end].reshape(len(flat), *shape))
            for end, shape in zip(ends, self.shapes, strict=True)
        ]
        return jax.tree.unflatten(self.treedef, leaves)

    def unravel(self, vector: Array) -> Params:
        leaves, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            leaves.append(vector[start:stop].reshape(shape))
            start = stop
        return jax.tree.unflatten(self.treedef, leaves)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Carried:
    """An object that is passed to a compiled program: its arrays as data, the rest as part of the
    key.

    We add the class to this key. JAX 0.10 treats two registered dataclasses with the same number of
    fields as one structure, so it could run one with the program of the other.
    """

    arrays: Any  # the object itself if it is a pytree
    plain: Any = dataclasses.field(metadata={"static": True})  # its class, or else the object


def as_pytree(value: Any) -> Carried:
    """Wrap a registered pytree or a plain (hashable) object for `jit`."""
    leaves = jax.tree.leaves(value)
    is_plain = len(leaves) == 1 and leaves[0] is value
    return Carried(None, value) if is_plain else Carried(value, type(value))


def from_pytree(carried: Carried) -> Any:
    """Inverse of `as_pytree`."""
    return carried.plain if carried.arrays is None else carried.arrays
