"""Settings of a regression with an anchored ensemble, and the file they are kept in.

The file is JSON: ``format``, ``version`` and the fields of `Settings`.
"""

import dataclasses
import json
from pathlib import Path

from anchored._files import write_whole
from anchored._json import Fields, parsed
from anchored.core.networks import MLP
from anchored.core.training import Schedule

_FORMAT = {"format": "anchored settings", "version": 1}
_MAX_BYTES = 10_000  # a file of settings has about 300


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the paper tunes for a data set (appendix E); variances in standardised units.

    Parameters
    ----------
    hidden, activation : the network.
    noise_var : variance of the data noise.
    first_var : variance of the input layer's biases.
    batch_size, learning_rate, epochs : how to train.
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
        given = Fields(
            {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        )
        given.text("activation")
        object.__setattr__(self, "hidden", self.network.hidden)  # checked, and a tuple
        for name in ("batch_size", "epochs"):
            given.whole(name, least=1)
        for name in ("noise_var", "first_var", "learning_rate"):
            given.number(name, above=0)
        given.number("decay_rate", above=0, most=1)
        if not given.absent("single_var"):
            given.number("single_var", above=0)

    @property
    def network(self) -> MLP:
        """The network that these settings describe."""
        return MLP(self.hidden, 1, self.activation)

    @property
    def schedule(self) -> Schedule:
        """The training schedule that these settings describe."""
        return Schedule(self.epochs, self.batch_size, self.learning_rate, self.decay_rate)

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all."""
        content = json.dumps(_FORMAT | dataclasses.asdict(self), indent=2) + "\n"
        write_whole(Path(path), content.encode())

    @classmethod
    def load(cls, path: str | Path) -> "Settings":
        """Read a file made by `save`; if it is wrong, a ValueError names the file and the field."""
        try:
            return cls(**_fields(Path(path)))
        except ValueError as error:
            raise ValueError(f"{path} does not contain settings: {error}") from error


def _fields(path: Path) -> dict:
    """The fields of `Settings` in a file, none missing and none besides."""
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes.")
    found = Fields(parsed(content))
    found.text("format", [_FORMAT["format"]])
    found.whole("version", least=1, most=_FORMAT["version"])
    fields = {}
    for field in dataclasses.fields(Settings):
        if field.default is dataclasses.MISSING or not found.absent(field.name):
            fields[field.name] = found.take(field.name)
    found.close()
    return fields
