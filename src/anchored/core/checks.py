"""Whether a network can be trained as it is: one message for each thing that can be wrong."""

from functools import lru_cache
from typing import Any

import jax
import numpy as np

from anchored.core.adapters.common import dotted
from anchored.core.program import Program, program_of
from anchored.typing import Network, Params, traits


@lru_cache
def program_on(network: Network, row_shape: tuple[int, ...], dtype: Any) -> Program:
    """The program of a network on rows of this shape and type."""
    x = jax.ShapeDtypeStruct((2, *row_shape), dtype)
    params = jax.eval_shape(network.init, jax.random.key(0), x)
    return program_of(network, params, x)


def check_uses_parameters(network: Network, row_shape: tuple[int, ...], dtype: Any) -> None:
    """Outputs must depend on the parameters."""
    if not program_on(network, row_shape, dtype).used:
        raise ValueError(
            f"`network` {title_of(network)} does not use its parameters: its outputs are the same "
            "whatever they are. Read them from the first argument of `apply`."
        )


def takes_tokens(network: Network, x: Any) -> bool:
    """Whether inputs are numbers of words: the network says so, or it fails with real numbers."""
    if hasattr(network, "takes_tokens") or not hasattr(network, "title"):
        return traits(network).takes_tokens
    if not np.issubdtype(x.dtype, np.integer):
        return False
    return not _works(network, x.shape[1:], np.float32) and _works(network, x.shape[1:], np.int32)


@lru_cache
def _works(network: Network, row_shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether a network takes inputs of a type; frameworks refuse in ways of their own."""
    try:
        program_on(network, row_shape, dtype)
    except Exception:
        return False
    return True


def check_start(network: Network, start: Params) -> None:
    """A module that is not finite in any member is refused; single members may fail in training."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(start):
        values = np.asarray(leaf, np.float32).reshape(len(leaf), -1)
        if hasattr(network, "title") and not np.isfinite(values).all(axis=1).any():
            raise ValueError(
                f"`network` {title_of(network)} starts with values that are not finite in its "
                f"parameter `{dotted(path)}`. Check its initialiser."
            )


def title_of(network: Any) -> str:
    return getattr(network, "title", type(network).__name__)
