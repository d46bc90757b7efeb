"""Flax Linen modules."""

import dataclasses
from collections.abc import Callable
from typing import Any

from flax import linen
from flax.errors import InvalidRngError
from flax.traverse_util import flatten_dict, unflatten_dict

from anchored.core.adapters.common import (
    arguments,
    check_parameters,
    checked_outputs,
    compared,
    has_dropout,
    has_statistics,
    title_of,
)
from anchored.core.adapters.leaves import Leaf, leaves_of
from anchored.errors import bad_value
from anchored.typing import Array, Params

# What Flax complains of where a layer was not told whether it trains.
_UNSAID_DROPOUT = 'Parameter "deterministic"'
_UNSAID_STATISTICS = 'Parameter "use_running_average"'


@dataclasses.dataclass(frozen=True)
class LinenNetwork:
    """A Linen module, which holds no parameters."""

    module: linen.Module = dataclasses.field(compare=False)
    key: Any  # the module, as it is compared

    @property
    def title(self) -> str:
        return title_of(type(self.module))

    def init(self, key: Array, x: Any) -> Params:
        with linen.intercept_methods(self._watched):
            variables = self.module.init(key, *arguments(x))
        for name, state in variables.items():
            if name != "params":
                layer = next(iter(flatten_dict(state, sep="."))).rpartition(".")[0]
                raise has_statistics(self.title, layer, f"collection {name!r}", "")
        params = flatten_dict(variables.get("params", {}), sep=".")
        check_parameters(params, self.title)
        return params

    def apply(self, params: Params, x: Any) -> Array:
        variables = {"params": unflatten_dict(params, sep=".")}
        with linen.intercept_methods(self._watched):
            outputs = self.module.apply(variables, *arguments(x))
        return checked_outputs(outputs, x, self.title)

    def _watched(self, call: Callable, args: tuple, kwargs: dict, context: Any) -> Any:
        """A call of a layer; what Flax says of dropout and statistics becomes our message."""
        try:
            return call(*args, **kwargs)
        except (InvalidRngError, ValueError) as error:
            layer = context.module
            about = self.title, ".".join(layer.path) or "itself", type(layer).__name__
            if isinstance(error, InvalidRngError) or _UNSAID_DROPOUT in str(error):
                raise has_dropout(*about, "make it `deterministic`") from error
            if _UNSAID_STATISTICS in str(error):
                raise has_statistics(*about, "set `use_running_average=True`") from error
            raise

    def leaves(self, params: Params) -> dict[str, Leaf]:
        return leaves_of(params, False)


def from_module(module: linen.Module) -> LinenNetwork:
    module = module.clone(parent=None)
    return LinenNetwork(module, compared(module))


def from_class(make: Any) -> LinenNetwork:
    """Refuse a class: only an instance of a Linen module has its fields."""
    raise bad_value("network", make, f"an instance, {getattr(make, '__name__', 'Net')}(...)")
