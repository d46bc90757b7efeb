"""What can be reproduced: names, presets, what each shows, what it takes, from `catalogue.toml`.

Each entry's module under `anchored.paper` has the experiment itself, as ``EXPERIMENT``, with its
settings for each preset that has seconds here.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anchored._files import package_data

# What the presets mean. Every experiment has the first two; `about` says which it has.
PRESETS = {
    "smoke": "seconds, to see that it works",
    "paper": "the paper's settings",
    "cpu": "what two cores can do in an hour",
    "paper-splits": "the paper's settings on the splits its authors drew",
    "defaults": "nothing set, beside rivals with nothing set",
    "tuned": "the files of `anchored tune` that --settings names",
}
UNKNOWN = float("nan")  # seconds that nobody has measured


class About(NamedTuple):
    """One artefact of the paper.

    Attributes
    ----------
    name : what one types.
    figure, title, claim : where it is in the paper, what it shows, and what the paper says of it.
    seconds : measured on two cores, for each preset; `UNKNOWN` where there was no such run.
    needs : data or extras beyond a plain install, at the ``paper`` preset.
    """

    name: str
    figure: str
    title: str
    claim: str
    seconds: Mapping[str, float]
    needs: Sequence[str] = ()

    @property
    def module(self) -> str:
        """Below `anchored.paper`: ``fig-rms-2d`` is in ``figures.rms_2d``."""
        kind, _, rest = self.name.partition("-")
        plain = (rest if kind in ("fig", "table") else self.name).replace("-", "_")
        return f"tables.{plain}" if kind == "table" else f"figures.{plain}"


_ENTRIES = package_data("anchored.paper", "catalogue.toml")["entry"]
CATALOGUE = {entry["name"]: About(**entry) for entry in _ENTRIES}
FIGURES = tuple(name for name in CATALOGUE if not name.startswith("table-"))
