"""Outputs of dense networks with NumPy alone, for all members at once."""

from collections.abc import Callable

import numpy as np

from anchored.prediction.special import erf, softplus

# Rows of a product of matrices. In large products rows differ by their place in the last digits;
# in products of eight rows they do not, so an output does not depend on the rows beside it.
_ROWS = 8
LEAKY_SLOPE = 0.2  # the paper's leaky ReLU
Leaves = dict[str, np.ndarray]  # parameters by path, "0/weight" say, stacked over members


def outputs(params: Leaves, activation: str, x: np.ndarray) -> np.ndarray:
    """Outputs [member, row, out] for standardised rows [row, feature].

    They are computed in the precision of the parameters.
    """
    activate, n_layers = ACTIVATIONS[activation], count_layers(params)
    n_rows, x = len(x), x.astype(type_of(params), copy=False)
    if n_rows % _ROWS:
        x = np.concatenate([x, np.zeros((-n_rows % _ROWS, x.shape[1]), x.dtype)])
    x = x.reshape(len(x) // _ROWS, _ROWS, x.shape[1])
    for i in range(n_layers):
        x = np.matmul(x, params[f"{i}/weight"][:, None])
        if f"{i}/bias" in params:
            x += params[f"{i}/bias"][:, None, None]
        if i < n_layers - 1:
            x = activate(x)
    whole = x.reshape(len(x), x.shape[1] * _ROWS, x.shape[3])
    return whole[:, :n_rows].astype(np.float64)


def type_of(params: Leaves) -> np.dtype:
    """The type that these parameters compute in: double precision if any of them has it."""
    return np.result_type(np.float32, *params.values())


def count_layers(params: Leaves) -> int:
    return sum(path.endswith("/weight") for path in params)


def dense_shapes(widths: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Shapes of one member's parameters; the last layer has no bias unless it is alone."""
    shapes: dict[str, tuple[int, ...]] = {}
    n_layers = len(widths) - 1
    for i in range(n_layers):
        if i < n_layers - 1 or n_layers == 1:
            shapes[f"{i}/bias"] = (widths[i + 1],)
        shapes[f"{i}/weight"] = (widths[i], widths[i + 1])
    return shapes


def _leaky_relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, LEAKY_SLOPE * z, out=z)


def _gelu(z: np.ndarray) -> np.ndarray:
    """Its usual approximation by tanh."""
    inner = z * z
    inner *= 0.044715
    inner += 1
    inner *= z
    inner *= np.sqrt(2 / np.pi).astype(z.dtype)
    np.tanh(inner, out=inner)
    inner += 1
    inner *= 0.5
    inner *= z
    return inner


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda z: np.maximum(z, 0, out=z),
    "leaky_relu": _leaky_relu,
    "erf": erf,
    "tanh": lambda z: np.tanh(z, out=z),
    "gelu": _gelu,
    "softplus": softplus,
}
