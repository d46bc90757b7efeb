"""An agent in one file: trees of arrays by name, and its description as text; no pickle."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchored._json import Fields
from anchored.core.tree import leaf_paths, on_device
from anchored.errors import ModelFileError
from anchored.model import tensors

_FORMAT = 1


def write(path: str | Path, kind: str, about: dict[str, Any], trees: dict[str, Any]) -> None:
    """Write the file whole or not at all; whole numbers are kept in 64 bits."""
    arrays = {
        f"{tree}/{name}": _storable(np.asarray(leaf))
        for tree, value in trees.items()
        for name, leaf in zip(leaf_paths(value), jax.tree.leaves(value), strict=True)
    }
    tensors.write(path, {"kind": kind, "format": _FORMAT, **about}, arrays)


def read(path: str | Path, kind: str, agent: str) -> tuple[Fields, tensors.Arrays]:
    """The content of the file of an agent of this class: text and arrays, both unchecked."""
    fields, arrays = tensors.read(path)
    if "kind" not in fields or fields.text("kind") != kind:
        raise ModelFileError(
            f"it does not contain an agent of this kind. Give a file that `{agent}.save` wrote."
        )
    if fields.whole("format") != _FORMAT:
        raise ModelFileError(
            "it was written by another version of anchored. Train and save it again."
        )
    return fields, arrays


def tree_like(arrays: tensors.Arrays, tree: str, like: Any, *, finite: bool) -> Any:
    """A tree of the file in the structure of another tree, with arrays of the same types and
    shapes.
    """
    leaves, treedef = jax.tree.flatten(like)

    def taken(name: str, leaf: Any) -> jax.Array:
        dtype = np.asarray(leaf).dtype
        found = arrays.take(f"{tree}/{name}", np.shape(leaf), _stored(dtype), finite=finite)
        return on_device(found.astype(dtype))

    found = [taken(name, leaf) for name, leaf in zip(leaf_paths(like), leaves, strict=True)]
    return jax.tree.unflatten(treedef, found)


def vectors(arrays: tensors.Arrays, tree: str, names: tuple[str, ...]) -> list[np.ndarray]:
    """Numbers [...] of any length, by the names of the tuple that was written."""
    return [arrays.take(f"{tree}/{name}", (None,), np.float32) for name in names]


def _stored(dtype: np.dtype) -> type:
    return np.int64 if dtype.kind in "iu" else np.float32


def _storable(array: np.ndarray) -> np.ndarray:
    return array.astype(_stored(array.dtype))
