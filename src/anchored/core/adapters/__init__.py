"""Turns networks of other frameworks, and plain functions, into a `Network`.

    equinox.Module       written for one row; it is lifted over rows
    flax.nnx.Module      flax.linen.Module      torch.nn.Module (by way of torchax)
    (init, apply)        two functions: init(key) or init(key, x), and apply(params, x)
    (apply, params)      a function of (params, x), and parameters as an example

The module of the type tells them apart, so a framework is imported only if you use it. For each
member, the initialisers of the layers make a new module. If a module has layers that the framework
does not know, or initialisers of its own, pass ``functools.partial(Net, 3, 8)`` instead: the class
with all its arguments but the key (``key=``, ``rngs=``, or PyTorch's seed).

Inputs that are a tuple of arrays are the arguments of a module; a dict is one argument.
Parameters of a module are one dict by dotted path, such as ``layers.0.weight``.
"""

import functools
from importlib import import_module
from typing import Any

from anchored.core.adapters.functions import from_pair
from anchored.errors import bad_value
from anchored.typing import Network

# The first part of the name of a module in which a base class lives, and who adapts it.
_HOMES = {
    "equinox": "equinox",
    "flax.nnx": "nnx",
    "flax.linen": "linen",
    "torch.nn": "torch",
}
_NEED = (
    "a `Network` such as MLP((50,)), a module of Equinox, Flax or PyTorch, a pair of functions "
    "(init, apply), or a function of (params, x) with example parameters (apply, params)"
)


def as_network(value: Any, argument: str = "network") -> Network:
    """A `Network` made from a user's network; one of our own is returned as it is."""
    made_by = value.func if isinstance(value, functools.partial) else value
    home = _home(made_by if isinstance(made_by, type) else type(made_by))
    if home is not None:
        adapter = import_module(f"anchored.core.adapters.{home}")
        is_class = isinstance(made_by, type)
        return _hashable(adapter.from_class(value) if is_class else adapter.from_module(value))
    if isinstance(value, tuple) and len(value) == 2 and callable(value[0]):
        return _hashable(from_pair(*value))
    if isinstance(value, type) or not (hasattr(value, "init") and hasattr(value, "apply")):
        raise bad_value(argument, value, _NEED)
    return _hashable(value)


def is_foreign(value: Any) -> bool:
    """Whether `as_network` has something to adapt."""
    return value is not None and as_network(value) is not value


def _home(kind: type) -> str | None:
    for base in kind.__mro__:
        for prefix, home in _HOMES.items():
            if base.__module__ == prefix or base.__module__.startswith(prefix + "."):
                return home
    return None


def _hashable(network: Any) -> Network:
    """A network is part of the key under which compiled programs are found again."""
    try:
        hash(network)
    except TypeError as error:
        raise TypeError(
            f"`network` must be hashable, and {getattr(network, 'title', type(network).__name__)} "
            f"is not ({error}): {_culprit(network)}"
        ) from None
    return network


def _culprit(network: Any) -> str:
    for name, field in sorted(vars(getattr(network, "module", network)).items()):
        try:
            hash(field)
        except TypeError:
            return f"its field `{name}` is a {type(field).__name__}. Make it a tuple, or frozen."
    return "make it a frozen dataclass whose fields are numbers, texts, functions and tuples."
