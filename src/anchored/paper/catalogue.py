"""What can be reproduced, from `catalogue.toml`: names, presets, what each entry shows and needs.

Each entry's module under `anchored.paper` has the experiment itself, as ``EXPERIMENT``, with the
paper's settings (or, if it is not in the paper, settings for two cores). The catalogue lists what
the other presets change.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anchored._files import package_data

# What the presets mean. Every experiment has the first one, and the second or the third.
PRESETS = {
    "smoke": "seconds, to see that it works",
    "paper": "the paper's settings",
    "cpu": "what two cores can do in an hour",
    "paper-splits": "the paper's settings on the splits its authors drew",
    "defaults": "nothing set, neither for us nor for rivals",
    "tuned": "the files of `anchored tune` that --settings names",
}
UNKNOWN = float("nan")  # seconds that nobody has measured


class About(NamedTuple):
    """One artefact of the paper.

    Attributes
    ----------
    name : the name in the command.
    figure, title, claim : where it is in the paper, what it shows, and what the paper says about
        it.
    seconds : measured on two cores, for each preset; `UNKNOWN` where there was no such run.
    needs : data or extras beyond a plain install, at the ``paper`` preset.
    changes : for each preset, the settings that are not the paper's.
    """

    name: str
    figure: str
    title: str
    claim: str
    seconds: Mapping[str, float]
    needs: Sequence[str] = ()
    changes: Mapping[str, Mapping[str, Any]] = {}

    @property
    def module(self) -> str:
        """Below `anchored.paper`: ``fig-rms-2d`` is in ``figures.rms_2d``."""
        kind, _, rest = self.name.partition("-")
        plain = (rest if kind in ("fig", "table") else self.name).replace("-", "_")
        return f"tables.{plain}" if kind == "table" else f"figures.{plain}"

    @property
    def default_preset(self) -> str:
        """The paper's settings or, for what is not in the paper, those for two cores."""
        return "paper" if "paper" in self.seconds else "cpu"

    def presets_of(self, paper: Any) -> dict[str, Any]:
        """The settings of every preset, as frozen dataclasses; ``paper`` are the paper's."""
        return {preset: _changed(paper, self.changes.get(preset, {})) for preset in self.seconds}


def _changed(paper: Any, change: Any) -> Any:
    """What a TOML file changes: a part of a record, or a value; its lists become tuples."""
    if dataclasses.is_dataclass(paper) and not isinstance(paper, type):
        new = {name: _changed(getattr(paper, name), item) for name, item in change.items()}
        return dataclasses.replace(paper, **new)
    return tuple(_changed(None, item) for item in change) if isinstance(change, list) else change


_ENTRIES = package_data("anchored.paper", "catalogue.toml")["entry"]
CATALOGUE = {entry["name"]: About(**entry) for entry in _ENTRIES}
# Those on inference, which the page of reproduction shows; agents that learn have their own.
FIGURES = tuple(name for name in CATALOGUE if not name.startswith(("table-", "fig-rl-")))
