"""Records of the benchmark: read, checked, and summed up over their splits.

One file for each preset, data set and method, ``<folder>/<preset>/<dataset>/<method>.json``,
with the scores of every split. A score that was not finite is null there; ``nll_student_t`` is
null too for a method that has no such predictive. A split whose fit failed has no scores but
its time, and a word for the reason: ``"failed": "diverged"``.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchored.errors import unknown_name

SCHEMA = 1
OWN_SPLITS = "paper-splits"  # the paper's settings on the paper's own splits
PRESETS = ("paper", "defaults", "smoke", "tuned", OWN_SPLITS)
# The protocol's number of splits, in the paper's order.
SPLITS = {
    "boston": 20,
    "concrete": 20,
    "energy": 20,
    "kin8nm": 20,
    "naval": 20,
    "power": 20,
    "protein": 5,
    "wine": 20,
    "yacht": 20,
    "song": 1,
}
SCORES = (
    "rmse",
    "nll",
    "nll_student_t",
    "crps",
    "coverage_90",
    "calibration_error",
    "seconds",
)

Record = Mapping[str, Any]


class Score(NamedTuple):
    """A mean, infinite if a split was not finite, with its standard error."""

    mean: float
    error: float | None = None  # unknown for one split
    n_splits: int | None = None  # unknown for what others published


class Results:
    """Scores by preset, method and data set."""

    def __init__(self, records: Iterable[Record]):
        self._records: dict[tuple[str, str, str], Record] = {}
        for record in records:
            key = record["preset"], record["method"], record["dataset"]
            if key in self._records:
                raise ValueError(f"There are two records of {'/'.join(key)}.")
            self._records[key] = record

    def get(self, preset: str, method: str, dataset: str) -> Record | None:
        return self._records.get((preset, method, dataset))

    def methods(self, preset: str) -> list[str]:
        """Methods with a record, in the order of the records."""
        return list(dict.fromkeys(method for p, method, _ in self._records if p == preset))

    def failures(self) -> list[tuple[str, str, str, dict[str, str]]]:
        """Preset, method, data set, and the reason for each split that failed."""
        found = []
        for key, record in self._records.items():
            reasons = {n: s["failed"] for n, s in record["splits"].items() if "failed" in s}
            if reasons:
                found.append((*key, reasons))
        return found

    def score(self, preset: str, method: str, dataset: str, name: str) -> Score | None:
        """Mean and standard error over the splits; None if there is no record or no such score."""
        record = self.get(preset, method, dataset)
        values = [split[name] for split in record["splits"].values()] if record else []
        finite = [value for value in values if value is not None]
        if not values or (not finite and name == "nll_student_t"):
            return None
        if len(finite) < len(values):
            return Score(math.inf, None, len(values))
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        return Score(float(np.mean(values)), error, len(values))

    def own_nll(self, preset: str, method: str, dataset: str) -> Score | None:
        """NLL as the method is meant: the paper's is Gaussian, our default a Student-t."""
        student = self.score(preset, method, dataset, "nll_student_t")
        if preset == "defaults" and student is not None:
            return student
        return self.score(preset, method, dataset, "nll")


def load_records(folder: str | Path) -> list[Record]:
    """All records in ``folder``, checked, in the order of their paths."""
    paths = sorted(Path(folder).glob("*/*/*.json"))
    if not paths:
        raise FileNotFoundError(f"There is no <preset>/<dataset>/<method>.json in {folder}.")
    return [_load(path) for path in paths]


def _load(path: Path) -> Record:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        _check(record)
    except ValueError as error:
        raise ValueError(f"The record {path} cannot be used: {error}") from None
    named = path.parts[-3], path.parts[-2], path.stem
    if named != (record["preset"], record["dataset"], record["method"]):
        raise ValueError(f"The record {path} says it is of another preset, data set or method.")
    return record


def _check(record: Any) -> None:
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise ValueError(f"it is not of schema {SCHEMA}; run it again.")
    missing = {"preset", "dataset", "method", "cores", "splits"} - record.keys()
    if missing:
        raise ValueError(f"it has no {', '.join(sorted(missing))}.")
    for key, allowed in (("preset", PRESETS), ("dataset", SPLITS)):
        if record[key] not in allowed:
            raise unknown_name(key, record[key], allowed)
    if not record["splits"]:
        raise ValueError("it has no splits.")
    for number, split in record["splits"].items():
        lacking = [name for name in SCORES if name not in split]
        if lacking:
            raise ValueError(f"split {number} has no {', '.join(lacking)}.")
