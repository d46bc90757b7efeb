"""Flax Linen modules."""

import dataclasses
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
from anchored.core.adapters.leaves import Leaf, leaf_of
from anchored.errors import bad_value
from anchored.typing import Array, Params


@dataclasses.dataclass(frozen=True)
class LinenNetwork:
    """A module, which is a description already."""

    module: linen.Module = dataclasses.field(compare=False)
    key: Any  # the module, as it is compared

    @property
    def title(self) -> str:
        return title_of(type(self.module))

    def init(self, key: Array, x: Any) -> Params:
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
        try:
            outputs = self.module.apply(variables, *arguments(x))
        except InvalidRngError as error:
            where = str(error).partition(" needs PRNG")[0].split("/")[-1]
            raise has_dropout(
                self.title, where, "it asks for a random key", "make it `deterministic`"
            ) from error
        return checked_outputs(outputs, x, self.title)

    def leaves(self, params: Params) -> dict[str, Leaf]:
        shapes = {path: leaf.shape for path, leaf in params.items()}
        return {path: leaf_of(path, shapes, False) for path in shapes}


def from_module(module: linen.Module) -> LinenNetwork:
    module = module.clone(parent=None)
    return LinenNetwork(module, compared(module))


def from_class(make: Any) -> LinenNetwork:
    """A Linen module is its own description: a class alone lacks its fields."""
    raise bad_value("network", make, f"an instance, {getattr(make, '__name__', 'Net')}(...)")
