"""Records of the UCI benchmark, summed up over their splits."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchored.paper.runner import Record, load, standard_error

NAME = "table-uci"
SCORES = ("rmse", "nll", "nll_student_t", "crps", "coverage_90", "calibration_error", "seconds")


class Score(NamedTuple):
    """A mean, infinite if a split was not finite, with its standard error."""

    mean: float
    error: float | None = None  # unknown for one split
    n_splits: int | None = None  # unknown for what others published

    @classmethod
    def over(cls, splits: Iterable[Mapping[str, Any]], name: str) -> "Score":
        """The score over some splits, from the value that each of them has."""
        values = [split[name] for split in splits]
        if None in values:
            return cls(math.inf, None, len(values))
        return cls(float(np.mean(values)), standard_error(values), len(values))


class Results:
    """Scores by preset, method and data set, of one record for each preset."""

    def __init__(self, records: Iterable[Record]):
        self._splits: dict[tuple[str, str, str], dict[str, Mapping]] = {}
        self.cores: dict[str, int] = {}
        for record in records:
            if record["preset"] in self.cores:
                raise ValueError(f"There are two records of the preset {record['preset']}.")
            self.cores[record["preset"]] = record["cores"]
            for label, split in record["numbers"].items():
                lacking = [name for name in SCORES if name not in split]
                if lacking:
                    raise ValueError(
                        f"{label} of the record of {record['preset']} has no {', '.join(lacking)}."
                    )
                dataset, method, number = label.split("/")
                key = record["preset"], method, dataset
                self._splits.setdefault(key, {})[number] = split

    def runs(self, preset: str) -> list[tuple[str, str]]:
        """Methods and data sets with splits, in the order of the record."""
        return [(method, dataset) for p, method, dataset in self._splits if p == preset]

    def methods(self, preset: str) -> list[str]:
        return list(dict.fromkeys(method for method, _ in self.runs(preset)))

    def splits(self, preset: str, method: str, dataset: str) -> Mapping[str, Mapping]:
        """Scores by the number of the split."""
        return self._splits.get((preset, method, dataset), {})

    def failures(self) -> list[tuple[str, str, str, dict[str, str]]]:
        """Preset, method, data set, and the reason for each split that failed."""
        found = []
        for key, splits in self._splits.items():
            reasons = {n: split["failed"] for n, split in splits.items() if "failed" in split}
            if reasons:
                found.append((*key, reasons))
        return found

    def score(self, preset: str, method: str, dataset: str, name: str) -> Score | None:
        """Mean and standard error over the splits; None if there are none or no such score."""
        splits = self.splits(preset, method, dataset).values()
        absent = name == "nll_student_t" and all(split[name] is None for split in splits)
        return None if absent or not splits else Score.over(splits, name)

    def own_nll(self, preset: str, method: str, dataset: str) -> Score | None:
        """NLL as the method is meant: the paper's is Gaussian, our default a Student-t."""
        student = self.score(preset, method, dataset, "nll_student_t")
        if preset == "defaults" and student is not None:
            return student
        return self.score(preset, method, dataset, "nll")


def load_records(folder: str | Path) -> list[Record]:
    """The records of all presets in ``folder``."""
    paths = sorted(Path(folder).glob(f"*/{NAME}.json"))
    if not paths:
        raise FileNotFoundError(f"There is no <preset>/{NAME}.json in {folder}.")
    return [_load(path) for path in paths]


def _load(path: Path) -> Record:
    try:
        record = load(path.parent, NAME)
    except ValueError as error:
        raise ValueError(f"The record {path} cannot be used: {error}") from None
    if record["preset"] != path.parent.name:
        raise ValueError(f"The record {path} says it is of the preset {record['preset']}.")
    return record
