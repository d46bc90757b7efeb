"""An agent in one file: arrays of its state by name, and its settings as text; no pickle."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchored.core.tree import leaf_paths
from anchored.errors import ModelFileError
from anchored.model import tensors
from anchored.rl.q_learning import Curve, QState
from anchored.rl.q_settings import QSettings

_KIND, _FORMAT = "q-agent", 1
_STATE, _CURVE = "state/", "curve/"


def write(path: Path, about: dict[str, Any], state: QState, curve: Curve) -> None:
    """Write the file whole or not at all."""
    arrays = {_STATE + name: leaf for name, leaf in _named(state).items()}
    arrays |= {_CURVE + name: np.asarray(a, np.float32) for name, a in curve._asdict().items()}
    fields = {"kind": _KIND, "format": _FORMAT, **about}
    tensors.write(path, fields, {name: _storable(array) for name, array in arrays.items()})


def read_about(path: Path) -> tuple[dict[str, Any], tensors.Arrays]:
    """Settings, seed and sizes of the agent in a file, checked, and its arrays, unchecked."""
    fields, arrays = tensors.read(path)
    if "kind" not in fields or fields.text("kind") != _KIND:
        raise ModelFileError("it holds no Q-learning agent. Give a file of `QAgent.save`.")
    if fields.whole("format") != _FORMAT:
        raise ModelFileError("it is of another version of anchored. Train and save it again.")
    given = fields.plain_object("settings")
    names = {field.name for field in dataclasses.fields(QSettings)}
    if not set(given) <= names:  # one that did not exist yet has its default
        raise ModelFileError("its settings are not those of a `QSettings`.")
    try:
        settings = QSettings(**given)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"its settings are impossible: {error}") from error
    about = {
        "settings": settings,
        "seed": fields.whole("seed"),
        "n_observed": fields.whole("n_observed", 1),
        "n_actions": fields.whole("n_actions", 1),
        "network": fields.text("network"),
    }
    fields.close()
    return about, arrays


def read_state(arrays: tensors.Arrays, like: QState) -> tuple[QState, Curve]:
    """The state of the file in the form of another, each array of its type and shape."""
    leaves, treedef = jax.tree.flatten(like)

    def taken(name: str, leaf: Any) -> jax.Array:
        stored = np.int64 if np.asarray(leaf).dtype.kind in "iu" else np.float32
        found = arrays.take(_STATE + name, np.shape(leaf), stored, finite=False)
        return jax.numpy.asarray(found.astype(np.asarray(leaf).dtype))

    found = [taken(name, leaf) for name, leaf in zip(leaf_paths(like), leaves, strict=True)]
    curve = Curve(*(arrays.take(_CURVE + name, (None,), np.float32) for name in Curve._fields))
    arrays.close()
    return jax.tree.unflatten(treedef, found), curve


def _named(state: QState) -> dict[str, np.ndarray]:
    return dict(zip(leaf_paths(state), map(np.asarray, jax.tree.leaves(state)), strict=True))


def _storable(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64) if array.dtype.kind in "iu" else array.astype(np.float32)
