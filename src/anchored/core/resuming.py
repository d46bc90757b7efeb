"""A training in progress as a record, and as the content of a checkpoint.

A checkpoint keeps only what changes: parameters, the optimiser's state, the number of the step and
the rates. Everything else is drawn again from the same key, with the same bits.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from anchored.core.checkpoints import Keeper, Saved
from anchored.core.fingerprints import array_of, is_key
from anchored.core.state import EnsembleState
from anchored.core.tree import on_device
from anchored.errors import ModelFileError

_MOVING = ("theta", "opt_state")
_RATES = ("log_rate", "log_decay", "fade")

Turn = Callable[[EnsembleState], EnsembleState]


@dataclasses.dataclass(frozen=True)
class Run:
    """A training between two steps.

    Attributes
    ----------
    state : the state after the steps so far, which may be more than at the last look.
    looks : the objective [member] at each look.
    steps : done before each look.
    n_steps : steps of the whole run, if time allows.
    turned : number of the look at which the state was turned; 0 before.
    seconds : seconds that the run took so far.
    ended : whether there is nothing left to do.
    origin : step of the state before the first step of the run.
    """

    state: EnsembleState
    looks: tuple[np.ndarray, ...]
    steps: tuple[int, ...]
    n_steps: int
    turned: int = 0
    seconds: float = 0.0
    ended: bool = False
    origin: int = 0


def keep(keeper: Keeper, run: Run) -> None:
    """Write a run to its checkpoint."""
    state = run.state
    fields: dict[str, Any] = {
        "step": int(state.step),
        "rates": [float(getattr(state, name)) for name in _RATES],
        "n_steps": run.n_steps,
        "turned": run.turned,
        "seconds": run.seconds,
        "ended": run.ended,
    }
    arrays = {"looks": _stored(np.stack(run.looks)), "steps": np.asarray(run.steps)}
    for name in _MOVING:
        for i, leaf in enumerate(jax.tree.leaves(getattr(state, name))):
            arrays[f"{name}/{i}"] = _stored(array_of(leaf))
    keeper.save(fields, arrays)


def resumed(keeper: Keeper, state: EnsembleState, turn: Turn | None) -> Run | None:
    """The run that ``keeper`` has stored, completed from the state before the first step; None if
    there is none.
    """
    saved = keeper.load()
    if saved is None:
        return None
    try:
        return _run_of(saved, state, turn)
    except (KeyError, TypeError, ValueError) as error:
        where = keeper.checkpoint.folder
        keeper.checkpoint.tell(f"The checkpoint in {where} is ignored: {error!r}.")
        return None


def _run_of(saved: Saved, state: EnsembleState, turn: Turn | None) -> Run:
    fields, arrays, origin = saved.fields, saved.arrays, int(state.step)
    moving = {name: _like(getattr(state, name), name, arrays) for name in _MOVING}
    rates = dict(zip(_RATES, map(np.float32, fields["rates"]), strict=True))
    state = dataclasses.replace(state, step=np.int32(fields["step"]), **moving, **rates)
    turned = int(fields["turned"])
    if turned and turn is not None:
        state = turn(state)
    looks = tuple(arrays["looks"])
    steps = tuple(int(step) for step in arrays["steps"])
    seconds, n_steps = float(fields["seconds"]), int(fields["n_steps"])
    return Run(state, looks, steps, n_steps, turned, seconds, bool(fields["ended"]), origin)


def _like(tree: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The leaves of a file in the form of ``tree``."""
    leaves, structure = jax.tree.flatten(tree)
    made = []
    for i, leaf in enumerate(leaves):
        array, like = arrays[f"{name}/{i}"], array_of(leaf)
        if array.shape != like.shape:
            raise ModelFileError(f"`{name}/{i}` has the shape {array.shape}, not {like.shape}")
        made.append(_restored(array, leaf, like.dtype))
    return jax.tree.unflatten(structure, made)


def _stored(array: np.ndarray) -> np.ndarray:
    """In a type that files hold, which loses nothing."""
    if array.dtype in (np.float32, np.float64, np.int64):
        return array
    if array.dtype == np.uint64:
        return array.view(np.int64)
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float32)


def _restored(array: np.ndarray, leaf: Any, dtype: np.dtype) -> Any:
    array = array.view(np.uint64) if dtype == np.uint64 else array.astype(dtype)
    if is_key(leaf):
        return jax.random.wrap_key_data(on_device(array), impl=jax.random.key_impl(leaf))
    return on_device(array)
