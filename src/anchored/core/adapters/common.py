"""What the adapters share: checks of outputs and parameters, comparison of constants, messages."""

import dataclasses
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.typing import Array

_ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Constant:
    """An array of a module that is not trained; two of them are equal if their values are equal."""

    value: Any = dataclasses.field(compare=False)
    key: tuple

    @classmethod
    def of(cls, value: Any) -> "Constant":
        array = np.asarray(value)
        return cls(value, (array.shape, array.dtype.str, array.tobytes()))


def compared(value: Any) -> Any:
    """A part of a network that is not trained; copies of it are equal."""
    if isinstance(value, (tuple, list)):
        return tuple(map(compared, value))
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return Constant.of(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (f.name for f in dataclasses.fields(value) if f.compare)
        return type(value), *((name, compared(getattr(value, name))) for name in fields)
    if isinstance(value, types.FunctionType):  # a copy of a function is the function
        return value
    where = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", None) or ""
    named = getattr(sys.modules.get(where[0]), where[1], None)
    return where if named is not None and type(named) is type(value) else value


def is_trained(leaf: Any) -> bool:
    """Whether a leaf of a module is an array of real numbers."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def arguments(x: Any) -> tuple:
    """What a module is called with: the parts of a tuple, or else the inputs as they are."""
    return x if isinstance(x, tuple) else (x,)


def checked_outputs(outputs: Any, x: Any, title: str) -> Array:
    """Outputs [batch, out]; outputs of shape [batch] become [batch, 1]."""
    n_rows = jax.tree.leaves(x)[0].shape[0]  # may be a symbol, where a program is exported
    if not hasattr(outputs, "shape"):
        raise TypeError(
            f"`network` {title} must return one array [batch, out]; it returned a "
            f"{type(outputs).__name__}. Return the outputs alone."
        )
    if outputs.shape == (n_rows,):
        return outputs[:, None]
    if len(outputs.shape) != 2 or outputs.shape[0] != n_rows:
        raise ValueError(
            f"`network` {title} must return an array [batch, out]; for {n_rows} rows it returned "
            f"shape {tuple(outputs.shape)}. Flatten or pool all axes but the first."
        )
    return outputs


def check_parameters(params: dict[str, Any], title: str) -> None:
    """There must be something to train."""
    if not params:
        raise ValueError(
            f"`network` {title} has no parameters of real numbers, so there is nothing to train."
        )


def check_layers(
    title: str,
    layers: Iterable[tuple[str, Any]],
    drops: Callable[[Any], bool],
    keeps: Callable[[Any], bool],
    off: str,
    off_statistics: str = "",
) -> None:
    """Refuse layers with dropout or running statistics; ``off`` says how to switch them off."""
    for path, layer in layers:
        if drops(layer):
            raise has_dropout(title, path, type(layer).__name__, off)
        if keeps(layer):
            raise has_statistics(title, path, type(layer).__name__, off_statistics)


def constructor_arguments(
    layer: Any, special: dict[str, Any], is_plain: Callable[[Any], bool]
) -> dict[str, Any] | None:
    """The arguments of a layer's constructor, taken from its fields of the same names.

    Values in ``special`` take precedence over fields, and fields that are not plain values are
    ignored. The result is None if an argument without a default is missing.
    """
    given: dict[str, Any] = {}
    _, *parameters = inspect.signature(type(layer).__init__).parameters.values()
    for parameter in parameters:
        name, value = parameter.name, getattr(layer, parameter.name, _ABSENT)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if name in special:
            given[name] = special[name]
        elif value is not _ABSENT and is_plain(value):
            given[name] = value
        elif parameter.default is inspect.Parameter.empty:
            return None
    return given


def dotted(path: tuple) -> str:
    """A path of JAX as text: ``layers.0.weight``."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def title_of(kind: type) -> str:
    """A class by its package and name, for messages and files."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def has_dropout(title: str, where: str, kind: str, off: str) -> TypeError:
    return TypeError(
        f"`network` {title} has dropout in its layer `{where}` ({kind}). A member must be a "
        f"function of its parameters alone: set the rate to zero, or {off}."
    )


def has_statistics(title: str, where: str, kind: str, off: str) -> TypeError:
    return TypeError(
        f"`network` {title} keeps running statistics in its layer `{where}` ({kind}), so that a "
        "row's output depends on other rows. Use layer or group normalisation instead"
        + (f", or {off}." if off else ".")
    )


def unknown_layer(title: str, where: str, kind: type, names: str) -> TypeError:
    return TypeError(
        f"`network` {title} has a layer that cannot be created again for each member: "
        f"`{where or 'itself'}`, a {kind.__name__} with parameters of its own ({names}). "
        "Pass the class with its arguments instead of an instance: "
        "network=functools.partial(Net, ...), all but the key."
    )
