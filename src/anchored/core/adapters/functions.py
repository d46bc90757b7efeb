"""Networks that are plain functions of (params, x)."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from anchored.core.adapters.common import Constant, checked_outputs, dotted, is_trained
from anchored.errors import bad_value
from anchored.typing import Array, Params


def from_pair(first: Callable, second: Any) -> Any:
    """A network from ``(init, apply)`` or from ``(apply, params)``."""
    return FunctionPair(first, second) if callable(second) else Function.of(first, second)


@dataclasses.dataclass(frozen=True)
class FunctionPair:
    """``init(key)`` or ``init(key, x)``, and ``apply(params, x)``."""

    init_params: Callable
    apply_params: Callable

    @property
    def title(self) -> str:
        return _name(self.apply_params)

    def init(self, key: Array, x: Any) -> Params:
        given = (key, x)[: _n_arguments(self.init_params)]
        params = self.init_params(*given)
        _check_real(params, self.title)
        return params

    def apply(self, params: Params, x: Any) -> Array:
        return checked_outputs(self.apply_params(params, x), x, self.title)


@dataclasses.dataclass(frozen=True)
class Function:
    """``apply(params, x)`` with example parameters.

    A member starts with weights of variance 1 / fan-in, as our own networks do; parameters with at
    most one axis (biases, scales) start as in the example.
    """

    apply_params: Callable
    treedef: Any
    example: tuple[Constant, ...]

    @classmethod
    def of(cls, apply_params: Callable, params: Params) -> "Function":
        _check_real(params, _name(apply_params))
        leaves, treedef = jax.tree.flatten(params)
        return cls(apply_params, treedef, tuple(map(Constant.of, leaves)))

    @property
    def title(self) -> str:
        return _name(self.apply_params)

    def init(self, key: Array, x: Any) -> Params:
        leaves = []
        for i, constant in enumerate(self.example):
            leaf = jnp.asarray(constant.value)
            if leaf.ndim > 1:
                normals = jax.random.normal(jax.random.fold_in(key, i), leaf.shape, leaf.dtype)
                leaf = normals / math.sqrt(math.prod(leaf.shape[:-1]))
            leaves.append(leaf)
        return jax.tree.unflatten(self.treedef, leaves)

    def apply(self, params: Params, x: Any) -> Array:
        return checked_outputs(self.apply_params(params, x), x, self.title)


def _name(function: Callable) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _n_arguments(init: Callable) -> int:
    """One, if a key is all it takes; else two."""
    kinds = inspect.Parameter
    positional = [
        p
        for p in inspect.signature(init).parameters.values()
        if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL)
    ]
    if not positional:
        raise bad_value("network", init, "(init, apply) with init(key) or init(key, x)")
    several = len(positional) > 1 or positional[0].kind is kinds.VAR_POSITIONAL
    return 2 if several else 1


def _check_real(params: Params, title: str) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not is_trained(leaf):
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            raise TypeError(
                f"`network` {title} has the parameter `{dotted(path)}` of type {kind}; parameters "
                "must be arrays of real numbers. Keep what is not trained inside the function."
            )
    if not jax.tree.leaves(params):
        raise ValueError(f"`network` {title} has no parameters, so there is nothing to train.")
