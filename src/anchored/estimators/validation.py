"""Checks of the users' arguments, each with a message that names the repair."""

import numpy as np

from anchored.core.mapped import spans
from anchored.errors import bad_value
from anchored.model.runtime import MAX_INPUT


def whole(argument: str, value) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1:
        return int(value)
    raise bad_value(argument, value, "a positive whole number")


def positive(argument: str, value, need: str = 'a positive number or "auto"') -> float:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if is_number and np.isfinite(value) and value > 0:
        return float(value)
    raise bad_value(argument, value, need)


def check_tokens(network, x: np.ndarray) -> np.ndarray:
    """Numbers of words must be whole, and inside the network's vocabulary if it states one."""
    most = getattr(network, "vocabulary", np.inf)
    if not np.issubdtype(x.dtype, np.integer) or x.min() < 0 or x.max() >= most:
        raise ValueError(
            f"`X` must contain whole numbers from 0 to {most - 1}, the numbers of words."
        )
    return x


def check_finite(x: np.memmap) -> None:
    """Read all inputs of a file, and refuse them if any is not finite."""
    if x.dtype.kind == "f" and not all(np.isfinite(part).all() for part in spans(x)):
        raise ValueError("Input X contains NaN or infinity; leave such rows out.")


def check_range(z: np.ndarray) -> np.ndarray:
    """Refuse standardised inputs that single precision cannot hold."""
    if z.dtype.kind == "f" and not np.all(np.abs(z) < MAX_INPUT):
        raise ValueError(
            f"`X` has values more than {MAX_INPUT:.0e} deviations of the training data away "
            "from its mean; check the units or clip them."
        )
    return z
