"""The page of the tables on unfamiliar inputs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anchored.paper.prose import rendered

_METHOD = "5x anchored"
_WEAK = 0.7  # area under the curve below which a sign is of little use


class _Kind(NamedTuple):
    """A kind of unfamiliar input: areas under the curve by two signs, and the confident share."""

    table: str
    name: str
    entropy: float
    disagreement: float
    confident: float

    @property
    def disagreement_loses(self) -> bool:
        return self.disagreement < self.entropy

    @property
    def is_weak(self) -> bool:
        return min(self.entropy, self.disagreement) < _WEAK


def unfamiliar_page(
    records: Sequence[Mapping[str, Any]], speed: Mapping[str, Any], pictures: str
) -> str:
    """Markdown of the records of all tables, and of that of speed.

    Pictures are in the folder ``pictures``.
    """
    kinds = [kind for record in records for kind in _kinds(record)]
    shown = {"records": records, "speed": speed, "pictures": pictures, "kinds": kinds}
    return rendered("unfamiliar.md.j2", **shown, method=_METHOD, weak=_WEAK)


def _kinds(record: Mapping[str, Any]) -> list[_Kind]:
    name, shifts = record["name"], record["numbers"]["methods"][_METHOD]["shifts"]
    return [
        _Kind(
            name.removeprefix("table-"),
            kind,
            float(np.mean(shift["auroc"]["entropy"])),
            float(np.mean(shift["auroc"]["mutual information"])),
            float(np.mean(shift["share"])),
        )
        for kind, shift in shifts.items()
    ]
