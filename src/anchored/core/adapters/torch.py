"""PyTorch modules, run in JAX through torchax, with parameters and buffers kept separately."""

import contextlib
import copy
import dataclasses
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from anchored.core.adapters.common import (
    arguments,
    check_layers,
    check_parameters,
    checked_outputs,
    title_of,
    unknown_layer,
)
from anchored.core.adapters.leaves import Leaf, leaves_of
from anchored.errors import missing_package
from anchored.typing import Array, Params

_OFF = "call `network.eval()` before"
_TENSORS = ("_parameters", "_buffers", "_modules")
_LOCK = threading.RLock()  # a module has one set of parameters at a time


@dataclasses.dataclass(frozen=True)
class TorchNetwork:
    """A module; its parameters are put in when it is called.

    Two are equal if their layers, attributes and buffers are equal, as in a copy.
    """

    title: str
    make: Callable[[], torch.nn.Module] = dataclasses.field(compare=False)
    module: torch.nn.Module = dataclasses.field(compare=False)
    key: Any

    def init(self, key: Array, x: Any) -> Params:
        shapes = {
            name: jax.ShapeDtypeStruct(tuple(p.shape), _dtype(p.dtype))
            for name, p in self.module.named_parameters()
        }
        seed = jax.random.bits(key, dtype=jnp.uint32)
        return jax.pure_callback(self._drawn, shapes, seed, vmap_method="sequential")

    def _drawn(self, seed: Array) -> dict[str, np.ndarray]:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(int(seed))
            found = self.make().named_parameters()
            return {name: p.numpy().astype(_dtype(p.dtype)) for name, p in found}

    def with_params(self, params: Params) -> torch.nn.Module:
        """A copy of the module with the parameters of one member."""
        made = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                parameter.copy_(torch.from_numpy(np.array(params[name])))
        return made

    def apply(self, params: Params, x: Any) -> Array:
        bridge = _bridge()
        with _LOCK, bridge:
            buffers = {n: bridge.to_xla(b) for n, b in self.module.named_buffers()}
            inputs = jax.tree.map(jnp.asarray, arguments(x))
            given = bridge.j2t_iso((dict(params), inputs))
            outputs = torch.func.functional_call(self.module, {**given[0], **buffers}, given[1])
            return checked_outputs(bridge.t2j_iso(outputs), x, self.title)

    def leaves(self, params: Params) -> dict[str, Leaf]:
        kinds = {name: type(layer).__name__ for name, layer in self.module.named_modules()}
        return leaves_of(params, True, kinds)


def from_module(module: torch.nn.Module) -> TorchNetwork:
    title = title_of(type(module))
    for name, layer in module.named_modules():
        own = [path for path, _ in layer.named_parameters(recurse=False)]
        if own and _reset_of(layer) is None:
            raise unknown_layer(title, name, type(layer), ", ".join(own))

    def make() -> torch.nn.Module:
        made = copy.deepcopy(module)
        for layer in made.modules():
            reset = _reset_of(layer)
            if reset is not None:
                reset()
        return made

    return _network(module, title, make)


def from_class(make: Any) -> TorchNetwork:
    """A network from a module class with its arguments; each member seeds PyTorch with its key."""
    module = make()
    return _network(module, title_of(type(module)), make)


def _network(module: torch.nn.Module, title: str, make: Callable) -> TorchNetwork:
    check_layers(title, module.named_modules(), _drops, _keeps, _OFF, _OFF)
    check_parameters(dict(module.named_parameters()), title)
    return TorchNetwork(title, make, module, _compared(module))


def _compared(module: torch.nn.Module) -> Any:
    """All of a module but its parameters; itself if that cannot be written down."""
    try:
        return tuple((name, type(layer), _written(layer)) for name, layer in module.named_modules())
    except (pickle.PicklingError, TypeError, AttributeError):
        return id(module)


def _written(layer: torch.nn.Module) -> bytes:
    plain = {name: value for name, value in vars(layer).items() if name not in _TENSORS}
    buffers = {name: buffer.numpy() for name, buffer in layer.named_buffers(recurse=False)}
    return pickle.dumps((sorted(plain.items(), key=lambda item: item[0]), buffers))


def _drops(layer: torch.nn.Module) -> bool:
    """Whether a layer drops; some have no layer of their own for it."""
    rate = getattr(layer, "p", getattr(layer, "dropout", 0.0))
    inside = isinstance(layer, (torch.nn.MultiheadAttention, torch.nn.RNNBase))
    inside = inside and isinstance(getattr(layer, "dropout", 0.0), float)
    return layer.training and ("Dropout" in type(layer).__name__ or inside) and bool(rate)


def _keeps(layer: torch.nn.Module) -> bool:
    """Whether a layer keeps running statistics."""
    return layer.training and getattr(layer, "track_running_stats", False)


def _reset_of(layer: torch.nn.Module) -> Callable | None:
    """What draws a layer's own parameters again."""
    return getattr(layer, "reset_parameters", getattr(layer, "_reset_parameters", None))


def _dtype(dtype: torch.dtype) -> Any:
    """As JAX holds it."""
    return jax.dtypes.canonicalize_dtype(str(dtype).removeprefix("torch."))


@functools.cache
def _bridge() -> Any:
    """The environment of torchax."""
    try:
        with _LOCK, _without_named_tensors():
            import torchax  # pyright: ignore[reportMissingImports]

            return torchax.default_env()
    except ModuleNotFoundError as error:
        need = "PyTorch modules run in JAX through torchax"
        raise missing_package(need, "torch") from error
    except (ImportError, AttributeError) as error:  # it uses what PyTorch may drop at any time
        have = f"torchax {version('torchax')} cannot be loaded beside PyTorch {torch.__version__}"
        raise ImportError(
            f"{have} ({error}). Versions that fit each other: pip install 'anchored[torch]'."
        ) from error


@contextlib.contextmanager
def _without_named_tensors() -> Iterator[None]:
    """While torchax 0.0.13 is loaded, which lists operators that PyTorch dropped."""
    packet: Any = torch._ops.OpOverloadPacket
    found = packet.__getattr__

    def stand_in(self: Any, name: str) -> Any:
        try:
            return found(self, name)
        except AttributeError:
            if "name" not in name.lower() or name.startswith("_"):
                raise
            return f"{self}.{name}"  # no operator has this key

    packet.__getattr__ = stand_in
    try:
        yield
    finally:
        packet.__getattr__ = found
