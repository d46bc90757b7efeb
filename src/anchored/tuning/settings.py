"""Settings of a regression with an anchored ensemble, and the file they are kept in.

The file is JSON: ``format``, ``version`` and the fields of `Settings`.
"""

import dataclasses
import json
import sys
from pathlib import Path

from anchored._files import write_whole
from anchored.core.networks import MLP
from anchored.core.training import Schedule
from anchored.errors import bad_value

_FORMAT = {"format": "anchored settings", "version": 1}
_MAX_BYTES = 10_000  # a file of settings has about 300


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the paper tunes for a data set (appendix E); variances in standardised units.

    Parameters
    ----------
    hidden, activation : of the network.
    noise_var : variance of the data noise.
    first_var : variance of the input layer's biases.
    batch_size, learning_rate, epochs : of the training.
    decay_rate : factor on the learning rate every 20 steps.
    single_var : constant variance of a single network; None if it was not tuned.
    """

    hidden: tuple[int, ...]
    activation: str
    noise_var: float
    first_var: float
    batch_size: int
    learning_rate: float
    epochs: int
    decay_rate: float
    single_var: float | None = None

    def __post_init__(self):
        if not isinstance(self.activation, str):
            raise bad_value("activation", self.activation, "a name")
        object.__setattr__(self, "hidden", self.network.hidden)  # checked, and a tuple
        for name in ("batch_size", "epochs"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise bad_value(name, value, "a positive whole number")
        for name in ("noise_var", "first_var", "learning_rate"):
            _check_number(name, getattr(self, name), sys.float_info.max, "a positive number")
        _check_number("decay_rate", self.decay_rate, 1.0, "a number above 0 and at most 1")
        if self.single_var is not None:
            need = "a positive number or None"
            _check_number("single_var", self.single_var, sys.float_info.max, need)

    @property
    def network(self) -> MLP:
        return MLP(self.hidden, 1, self.activation)

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.epochs, self.batch_size, self.learning_rate, self.decay_rate)

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all."""
        content = json.dumps(_FORMAT | dataclasses.asdict(self), indent=2) + "\n"
        write_whole(Path(path), content.encode())

    @classmethod
    def load(cls, path: str | Path) -> "Settings":
        """Read a file made by `save`; a ValueError names the file and the field at fault."""
        try:
            return cls(**_checked_fields(_read_object(Path(path))))
        except ValueError as error:
            raise ValueError(f"{path} does not hold settings: {error}") from error


def _check_number(name: str, value, most: float, need: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and 0 < value <= most):
        raise bad_value(name, value, need)


def _read_object(path: Path) -> dict:
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes.")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error}).") from error
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}, not an object with fields.")
    return found


def _checked_fields(found: dict) -> dict:
    """The fields of `Settings`, none missing and none besides."""
    for name, value in _FORMAT.items():
        if found.get(name) != value:
            raise bad_value(name, found.get(name), repr(value))
    fields = {field.name: field.default for field in dataclasses.fields(Settings)}
    for name, default in fields.items():
        if name not in found and default is dataclasses.MISSING:
            raise ValueError(f"`{name}` is missing.")
    for name in found:
        if name not in fields and name not in _FORMAT:
            raise ValueError(f"`{name}` is not a field; they are {', '.join(fields)}.")
    return {name: value for name, value in found.items() if name in fields}
