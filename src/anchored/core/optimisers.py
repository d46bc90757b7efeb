"""Optimisers by name, with schedules of the rate, gradient clipping, and rates for single layers.

`Schedule(optimiser=...)` takes any optax transformation; `optimiser` makes the usual ones.
"""

import fnmatch
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import optax

from anchored.core.adapters.common import dotted
from anchored.errors import bad_value, unknown_name
from anchored.typing import Params

SHAPES = ("constant", "cosine", "warmup-cosine")
_WARM_UP = 0.1  # share of the steps in which the rate rises
_END = 0.01  # share of the rate at the end


def optimiser(
    n_steps: int,
    learning_rate: float = 0.01,
    shape: str = "warmup-cosine",
    clip: float | None = None,
    rates: Mapping[str, float] | None = None,
) -> optax.GradientTransformation:
    """Adam for ``n_steps`` steps.

    Parameters
    ----------
    shape : how the rate changes: constant, cosine (down to 1 %), or warmup-cosine (first up, during
        a tenth of the steps).
    clip : maximum length of a member's gradient; longer gradients are shortened.
    rates : factors on the rate where a dotted path fits a pattern: ``{"embed.*": 0.1}``.
    """
    if shape not in SHAPES:
        raise unknown_name("shape", shape, SHAPES)
    if clip is not None and not clip > 0:
        raise bad_value("clip", clip, "a positive number or None")
    return _made(n_steps, learning_rate, shape, clip, tuple(sorted((rates or {}).items())))


def named(given: Any, n_steps: int, learning_rate: float) -> optax.GradientTransformation:
    """The optimiser of an estimator, from an optax transformation or the name of a shape."""
    if isinstance(given, optax.GradientTransformation):
        return given
    if not (isinstance(given, str) and given in SHAPES):
        need = f"an optax transformation or one of {', '.join(SHAPES)}"
        raise bad_value("optimiser", given, need)
    return optimiser(n_steps, learning_rate, given)


@lru_cache  # one object for equal settings: it is part of the compiled program's key
def _made(n_steps: int, rate: float, shape: str, clip: float | None, rates: tuple) -> Any:
    going: Any = rate
    if shape == "cosine":
        going = optax.cosine_decay_schedule(rate, n_steps, _END)
    if shape == "warmup-cosine":
        rising = max(1, int(_WARM_UP * n_steps))
        end = max(n_steps, rising + 1)
        going = optax.warmup_cosine_decay_schedule(0.0, rate, rising, end, rate * _END)
    before = [] if clip is None else [optax.clip_by_global_norm(clip)]
    behind = [_by_path(rates)] if rates else []
    return optax.chain(*before, optax.adam(going), *behind)


def _by_path(rates: tuple[tuple[str, float], ...]) -> optax.GradientTransformation:
    """Updates times the factor of the last pattern that fits their path."""

    def factor(path: tuple) -> float:
        fitting = [f for pattern, f in rates if fnmatch.fnmatchcase(dotted(path), pattern)]
        return fitting[-1] if fitting else 1.0

    def init(params: Params) -> optax.EmptyState:
        paths = [dotted(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
        for pattern, _ in rates:
            if not fnmatch.filter(paths, pattern):
                known = ", ".join(paths)
                raise ValueError(
                    f"`rates` names {pattern!r}, which is not a parameter; the "
                    f"parameters are {known}."
                )
        return optax.EmptyState()

    def update(updates: Params, state: Any, params: Params | None = None):
        scaled = jax.tree_util.tree_map_with_path(lambda path, u: factor(path) * u, updates)
        return scaled, state

    return optax.GradientTransformation(init, update)
