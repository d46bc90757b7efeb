"""Flax NNX modules."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

from anchored.core.adapters.common import (
    Constant,
    arguments,
    check_layers,
    check_parameters,
    checked_outputs,
    constructor_arguments,
    title_of,
    unknown_layer,
)
from anchored.core.adapters.leaves import Leaf, leaves_of
from anchored.typing import Array, Params

_OFF = "call `network.eval()` before"


@dataclasses.dataclass(frozen=True)
class NNXNetwork:
    """A module without its parameters.

    Attributes
    ----------
    title : of its class.
    make : the flat parameters of a module, from a key.
    graph : what the module is beside its arrays.
    rest : its arrays that are not trained, as a state.
    key : of them, what is compared.
    kinds : of layers, by path.
    """

    title: str
    make: Callable[[Array], Params] = dataclasses.field(compare=False)
    graph: Any
    rest: Any = dataclasses.field(compare=False)
    key: tuple
    kinds: tuple[tuple[str, str], ...]

    def init(self, key: Array, x: Any) -> Params:
        return self.make(key)

    def module(self, params: Params) -> Any:
        """The module of one member."""
        nested: dict = {}
        for path, leaf in params.items():
            *parents, name = path.split(".")
            here = nested
            for parent in parents:
                here = here.setdefault(_part(parent), {})
            here[_part(name)] = nnx.Param(leaf)
        return nnx.merge(self.graph, nnx.State(nested), self.rest)

    def apply(self, params: Params, x: Any) -> Array:
        return checked_outputs(self.module(params)(*arguments(x)), x, self.title)

    def leaves(self, params: Params) -> dict[str, Leaf]:
        return leaves_of(params, False, dict(self.kinds))


def from_module(module: Any) -> NNXNetwork:
    title = title_of(type(module))
    return _network(module, title, lambda key: _flat(_params(_anew(module, key, title))))


def from_class(make: Any) -> NNXNetwork:
    """A network from a class, or a partial one, that lacks only its ``rngs``."""
    module = make(rngs=nnx.Rngs(0))
    title = title_of(type(module))
    return _network(module, title, lambda key: _flat(_params(make(rngs=nnx.Rngs(key)))))


def _network(module: Any, title: str, make: Callable) -> NNXNetwork:
    layers = [(_dotted(path), layer) for path, layer in nnx.iter_modules(module)]
    check_layers(title, layers, _drops, _keeps, _OFF, _OFF)
    graph, params, rest = nnx.split(module, nnx.Param, ...)
    check_parameters(_flat(params), title)
    key = tuple(
        (path, Constant.of(leaf[...]))
        for path, leaf in nnx.to_flat_state(rest)
        if not isinstance(leaf, nnx.RngState)
    )
    kinds = tuple((path, type(layer).__name__) for path, layer in layers)
    jax.eval_shape(make, jax.random.key(0))  # layers that cannot be made anew are refused now
    return NNXNetwork(title, make, graph, rest, key, kinds)


def _drops(layer: Any) -> bool:
    rate = getattr(layer, "dropout_rate", getattr(layer, "rate", 0.0))
    return bool(rate) and not getattr(layer, "deterministic", True)


def _keeps(layer: Any) -> bool:
    return not getattr(layer, "use_running_average", True)


def _params(module: Any) -> Any:
    return nnx.split(module, nnx.Param, ...)[1]


def _flat(params: Any) -> Params:
    return {_dotted(path): leaf[...] for path, leaf in nnx.to_flat_state(params)}


def _dotted(path: tuple) -> str:
    return ".".join(map(str, path))


def _part(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def _anew(module: Any, key: Array, title: str) -> Any:
    """A copy of a module whose layers are made again by their constructors.

    An NNX layer does not remember its initialisers: those of its class are taken.
    """
    copy = nnx.clone(module)
    layers = list(nnx.iter_modules(copy))
    done: list[tuple] = []
    for i, (path, layer) in enumerate(sorted(layers, key=lambda found: len(found[0]))):
        if any(path[: len(above)] == above for above in done):
            continue
        own = [name for name, field in vars(layer).items() if isinstance(field, nnx.Param)]
        made = _made_again(layer, jax.random.fold_in(key, i))
        if made is None and own:
            raise unknown_layer(title, _dotted(path), type(layer), ", ".join(own))
        if made is not None:
            nnx.update(layer, _params(made))
            done.append(path)
    return copy


def _made_again(layer: Any, key: Array) -> Any | None:
    """A layer of Flax by its constructor, whose arguments are its fields; None if it cannot be."""
    kind = type(layer)
    if not kind.__module__.startswith("flax.nnx.nn"):
        return None
    special = {"rngs": nnx.Rngs(key)}
    given = constructor_arguments(layer, special, lambda value: not isinstance(value, nnx.Variable))
    if given is None:
        return None
    made = kind(**given)
    return made if _shapes(made) == _shapes(layer) else None


def _shapes(module: Any) -> dict[str, tuple[int, ...]]:
    return {path: leaf.shape for path, leaf in _flat(_params(module)).items()}
