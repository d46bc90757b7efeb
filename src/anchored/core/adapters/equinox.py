"""Equinox modules. They are written for one row, and lifted over rows here."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax

from anchored.core.adapters.common import (
    arguments,
    check_layers,
    check_parameters,
    checked_outputs,
    compared,
    constructor_arguments,
    dotted,
    is_trained,
    title_of,
    unknown_layer,
)
from anchored.core.adapters.leaves import Leaf, leaves_of
from anchored.typing import Array, Params


@dataclasses.dataclass(frozen=True)
class EquinoxNetwork:
    """A module without its parameters.

    Attributes
    ----------
    title : of its class.
    make : the parameters of a new module, from a key.
    paths : of each leaf of the module that is trained, None where one is not.
    constants : the other leaves.
    treedef : what puts them together again.
    """

    title: str
    make: Callable[[Array], Params] = dataclasses.field(compare=False)
    paths: tuple[str | None, ...]
    constants: tuple[Any, ...] = dataclasses.field(compare=False)
    treedef: Any
    key: tuple  # the constants, as they are compared
    kinds: tuple[tuple[str, str], ...]  # of layers, by path

    def init(self, key: Array, x: Any) -> Params:
        return self.make(key)

    def module(self, params: Params) -> Any:
        """The module of one member."""
        rest = iter(self.constants)
        leaves = [next(rest) if path is None else params[path] for path in self.paths]
        return jax.tree.unflatten(self.treedef, leaves)

    def apply(self, params: Params, x: Any) -> Array:
        module = self.module(params)
        return checked_outputs(jax.vmap(lambda row: module(*arguments(row)))(x), x, self.title)

    def leaves(self, params: Params) -> dict[str, Leaf]:
        return leaves_of(params, True, dict(self.kinds))


def from_module(module: Any) -> EquinoxNetwork:
    title = title_of(type(module))
    return _network(module, title, lambda key: _anew(module, key, title))


def from_class(make: Any) -> EquinoxNetwork:
    """A network from a class, or a partial one, that lacks only its key."""
    module = make(key=jax.random.key(0))
    return _network(module, title_of(type(module)), lambda key: make(key=key))


def _network(module: Any, title: str, make: Callable) -> EquinoxNetwork:
    layers = [(dotted(path), layer) for path, layer in _layers(module)]
    check_layers(title, layers, _drops, _keeps, "hand `equinox.nn.inference_mode(network)`")
    flat, treedef = jax.tree_util.tree_flatten_with_path(module)
    paths = tuple(dotted(path) if is_trained(leaf) else None for path, leaf in flat)
    constants = tuple(leaf for _, leaf in flat if not is_trained(leaf))
    check_parameters({path: None for path in paths if path}, title)
    kinds = tuple((path, type(layer).__name__) for path, layer in layers)
    key = tuple(map(compared, constants))

    def params(key: Array) -> Params:
        leaves = jax.tree.leaves(make(key))
        return {path: leaf for path, leaf in zip(paths, leaves, strict=True) if path}

    jax.eval_shape(params, jax.random.key(0))  # layers that cannot be made anew are refused now
    return EquinoxNetwork(title, params, paths, constants, treedef, key, kinds)


def _children(node: Any) -> tuple[list[tuple[tuple, Any]], Any]:
    """Modules right below a module, and other leaves of it, with their paths."""
    below = jax.tree_util.tree_flatten_with_path(
        node, is_leaf=lambda n: n is not node and isinstance(n, eqx.Module)
    )
    return below[0], below[1]


def _layers(node: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """All modules, with their paths."""
    yield path, node
    for below, child in _children(node)[0]:
        if isinstance(child, eqx.Module):
            yield from _layers(child, (*path, *below))


def _drops(layer: Any) -> bool:
    return isinstance(layer, eqx.nn.Dropout) and layer.p > 0 and not layer.inference


def _keeps(layer: Any) -> bool:
    is_sum = isinstance(layer, eqx.nn.Sequential)  # stateful if one of its layers is
    return isinstance(layer, eqx.nn.StatefulLayer) and not is_sum


def _anew(node: Any, key: Array, title: str, path: tuple = ()) -> Any:
    """The same module with parameters drawn again, layer by layer."""
    flat, treedef = _children(node)
    own = [dotted(below) for below, leaf in flat if is_trained(leaf)]
    if own:
        return _made_again(node, key, title, path, own)
    leaves = [
        _anew(leaf, jax.random.fold_in(key, i), title, (*path, *below))
        if isinstance(leaf, eqx.Module)
        else leaf
        for i, (below, leaf) in enumerate(flat)
    ]
    return jax.tree.unflatten(treedef, leaves)


def _made_again(layer: Any, key: Array, title: str, path: tuple, own: list[str]) -> Any:
    """A layer of Equinox by its constructor, whose arguments are its fields."""
    kind = type(layer)
    refused = unknown_layer(title, dotted(path), kind, ", ".join(own))
    if kind.__module__.partition(".")[0] != "equinox":
        raise refused
    special: dict[str, Any] = {
        name: _anew(value, jax.random.fold_in(key, 0), title, path)
        for name, value in vars(layer).items()
        if isinstance(value, eqx.Module)
    }
    special["key"] = key
    special["dtype"] = next(leaf.dtype for leaf in jax.tree.leaves(layer) if is_trained(leaf))
    given = constructor_arguments(layer, special, lambda value: not is_trained(value))
    if given is None:
        raise refused
    made = kind(**given)
    if jax.tree.structure(made) != jax.tree.structure(layer):
        raise refused
    return made
