"""Fingerprints of everything that decides a training: rows, members, program, schedule, versions.

JAX can print the program of one step. This text contains the network, the likelihood, the optimiser
and the batch size, even those written by a user. On one kind of machine and one version of JAX, the
text and the bytes of all input arrays decide every bit of the result.
"""

import dataclasses
import hashlib
import platform
import re
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.checkpoints import Marks
from anchored.core.rows import Data, HostRows
from anchored.core.state import EnsembleState, step_program

_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of functions, other in every process


def training_marks(state: EnsembleState, data: Data, schedule: Any, turn: Any) -> Marks:
    """Fingerprints of what decides a training: state, rows, schedule and the function ``turn``."""
    step, given = step_program(state, data)
    shapes, structure = jax.tree.flatten(given)
    later = None if turn is None else turn(state).extra
    members = (state.theta, state.opt_state, state.own, state.extra, state.unit, later)
    numbers = (state.step, state.seed, state.log_rate, state.log_decay, state.fade)
    return {
        "rows": _of_data(data),
        "members": _of_leaves((members, numbers)),
        "network, likelihood or optimiser": _mark_of_step(step, structure, tuple(shapes)),
        "schedule": digest(_without_addresses(_plain(schedule)), []),
    } | machine_marks()


def machine_marks() -> Marks:
    """Marks of the versions and of the kind of machine."""
    return {"versions": digest(_machine(), [])}


@lru_cache(maxsize=16)  # the members of a fit and those of its folds take the same steps
def _mark_of_step(step: Any, structure: Any, shapes: tuple[jax.ShapeDtypeStruct, ...]) -> str:
    return program_mark(step, *jax.tree.unflatten(structure, shapes))


def program_mark(function: Any, *args: Any) -> str:
    """Mark of a function as JAX writes it down for arguments of some shapes."""
    program = jax.make_jaxpr(function)(*args)
    consts = [np.asarray(const) for const in program.consts]
    return digest(_without_addresses(program), consts)


def _without_addresses(value: Any) -> str:
    return _ADDRESS.sub("0x", str(value))


def _plain(schedule: Any) -> dict:
    """The optimiser is part of the program."""
    given = {f.name: getattr(schedule, f.name) for f in dataclasses.fields(schedule)}
    return given | {"optimiser": given["optimiser"] is not None}


def _machine() -> str:
    """What rounding depends on."""
    device = jax.devices()[0]
    versions = f"jax {jax.__version__}, jaxlib {version('jaxlib')}, numpy {np.__version__}"
    return f"{versions}, {device.platform} {device.device_kind}, {platform.machine()}"


def _of_data(data: Data) -> str:
    if not isinstance(data.x, HostRows):
        return _of_leaves((data.x, data.y, data.weight, data.n_rows, data.total_weight))
    rows, found = data.x, hashlib.sha256()
    for piece in rows.pieces():
        found.update(np.ascontiguousarray(piece).data)
    code = getattr(rows.augment, "__code__", None)
    about = (rows.augment is not None, code and code.co_code.hex(), rows.shape)
    scaler = [leaf for leaf in vars(rows.standardiser).values() if leaf is not None]
    others = _of_leaves((data.y, data.weight, data.n_rows, data.total_weight, scaler))
    return digest(f"{found.hexdigest()} {about} {others}", [])


def _of_leaves(tree: Any) -> str:
    leaves, structure = jax.tree.flatten(tree)
    arrays = [array_of(leaf) for leaf in leaves]
    return digest(_without_addresses(structure), arrays)


def is_key(leaf: Any) -> bool:
    """Whether a leaf is an array of random keys."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def array_of(leaf: Any) -> np.ndarray:
    """A leaf in NumPy; a random key becomes an array of its words."""
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def digest(text: str, arrays: list[np.ndarray]) -> str:
    """Fingerprint of a text and of arrays, their types and shapes."""
    found = hashlib.sha256(text.encode())
    for array in arrays:
        found.update(f"|{array.dtype}|{array.shape}|".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
