"""Where error bars are known to be weak: coverage of new targets, calibration of classes.

Each case is a handful of small made-up data sets. The default estimator and ``method="anchored"``
are fitted to each, and 90 % intervals (or class probabilities) are checked on fresh rows. Cells
that are in ``benchmarks/results/weak_spots.json`` are not run again.

    python -m benchmarks.weak_spots            # runs what is missing of the run "after"
    python -m benchmarks.weak_spots before     # the same under another name

"before" are the numbers of the estimators as they were before their small-sample corrections.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor, metrics
from anchored._files import write_whole

RECORD = Path(__file__).parent / "results" / "weak_spots.json"
METHODS = ("rms", "anchored")
LEVEL = 0.9
N_FRESH = 2_000
_NOISE = 0.3


class Rows(NamedTuple):
    x: np.ndarray
    y: np.ndarray


class Problem(NamedTuple):
    """Rows to train on, and fresh ones by the name of what they are."""

    train: Rows
    tests: dict[str, Rows]


class Case(NamedTuple):
    """Data sets ``make(seed)`` for as many seeds, of numbers or of classes.

    Seeds below ``first`` were looked at while the corrections were chosen.
    """

    make: Callable[[int], Problem]
    n_sets: int
    classes: bool = False
    first: int = 0


def few_rows(n: int, seed: int) -> Problem:
    """A smooth function of two or three inputs, and noise."""
    rng = np.random.default_rng([n, seed])
    d = 2 + seed % 2
    slopes, phases = rng.normal(size=(d, 4)), rng.uniform(0, 2 * np.pi, 4)

    def draw(n_rows: int) -> Rows:
        x = rng.normal(size=(n_rows, d))
        signal = np.sin(x @ slopes + phases).sum(axis=1) / np.sqrt(2)
        return Rows(x, signal + _NOISE * rng.normal(size=n_rows))

    return Problem(draw(n), {"new": draw(N_FRESH)})


def beyond_the_range(noise: float, seed: int) -> Problem:
    """A strong straight line, a small wave, noise; test rows up to twice as far out."""
    rng = np.random.default_rng([1, seed])

    def draw(n_rows: int, least: float, most: float) -> Rows:
        x = rng.uniform(-1, 1, (n_rows, 3))
        x[:, 0] = rng.choice([-1, 1], n_rows) * rng.uniform(least, most, n_rows)
        signal = 3 * x[:, 0] + 0.3 * np.sin(3 * x[:, 1])
        return Rows(x, signal + noise * rng.normal(size=n_rows))

    tests = {"inside": (0, 1), "up to 1.5": (1, 1.5), "up to 2": (1.5, 2)}
    return Problem(draw(400, 0, 1), {name: draw(N_FRESH, *ends) for name, ends in tests.items()})


def many_columns(seed: int) -> Problem:
    """60 rows of 200 columns, five of which matter."""
    rng = np.random.default_rng([2, seed])
    slopes = rng.normal(size=5)

    def draw(n_rows: int) -> Rows:
        x = rng.normal(size=(n_rows, 200))
        return Rows(x, x[:, :5] @ slopes + _NOISE * rng.normal(size=n_rows))

    return Problem(draw(60), {"new": draw(N_FRESH)})


def copied_rows(seed: int) -> Problem:
    """Each of 60 rows two to four times; test rows are new, or the training rows once more."""
    problem = few_rows(60, seed)
    copies = np.random.default_rng([3, seed]).integers(2, 5, 60)
    train = Rows(*(np.repeat(part, copies, axis=0) for part in problem.train))
    return Problem(train, problem.tests | {"copies": problem.train})


def few_rows_a_class(n_classes: int, n_each: int, seed: int) -> Problem:
    """Normal clouds that overlap, with few rows of each."""
    rng = np.random.default_rng([n_classes, n_each, seed])
    centres = rng.normal(size=(n_classes, 2 + seed % 2))

    def draw(labels: np.ndarray) -> Rows:
        return Rows(centres[labels] + rng.normal(size=(len(labels), centres.shape[1])), labels)

    fresh = rng.integers(n_classes, size=N_FRESH)
    return Problem(draw(np.repeat(np.arange(n_classes), n_each)), {"new": draw(fresh)})


CASES = {
    "20 rows": Case(partial(few_rows, 20), 24, first=100),
    "30 rows": Case(partial(few_rows, 30), 24, first=100),
    "beyond the range": Case(partial(beyond_the_range, _NOISE), 6),
    "beyond the range, little noise": Case(partial(beyond_the_range, 0.03), 6),
    "60 rows of 200 columns": Case(many_columns, 8),
    "copied rows": Case(copied_rows, 8),
    "2 classes of 10 rows": Case(partial(few_rows_a_class, 2, 10), 12, classes=True),
    "3 classes of 7 rows": Case(partial(few_rows_a_class, 3, 7), 12, classes=True),
    "4 classes of 10 rows": Case(partial(few_rows_a_class, 4, 10), 12, classes=True),
}


def cell(case: Case, method: str, seed: int) -> dict:
    """One fit, and what its fresh rows say."""
    problem = case.make(seed)
    kind = AnchoredClassifier if case.classes else AnchoredRegressor
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(method=method, random_state=seed).fit(*problem.train)
    seconds = time.perf_counter() - started
    score = _class_scores if case.classes else _scores
    tests = {name: score(model.predict_dist(x), y) for name, (x, y) in problem.tests.items()}
    return {"seconds": round(seconds, 2)} | tests


def _scores(dist, y: np.ndarray) -> dict:
    lower, upper = dist.interval(LEVEL)
    return {
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower)),
        "nll": metrics.nll(dist, y),
        "rmse": metrics.rmse(dist, y),
    }


def _class_scores(dist, labels: np.ndarray) -> dict:
    sure = dist.probabilities.max(axis=1).mean()
    return {
        "calibration_error": metrics.expected_calibration_error(dist, labels),
        "log_loss": metrics.log_loss(dist, labels),
        "too_sure": float(sure - metrics.accuracy(dist, labels)),
    }


def averages(cells: dict, name: str, method: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard error over the data sets, by test rows and score; {} if not all are in."""
    found = [cell for key, cell in cells.items() if key.startswith(f"{name}/{method}/")]
    if len(found) < CASES[name].n_sets:
        return {}
    found = [{test: cell[test] for test in cell if test != "seconds"} for cell in found]

    def over_sets(test: str, score: str) -> tuple[float, float]:
        values = [cell[test][score] for cell in found]
        return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))

    return {test: {score: over_sets(test, score) for score in found[0][test]} for test in found[0]}


def words(record: dict) -> str:
    """Rows of the page's tables: the default before and after, and the paper's method."""
    columns = (("before", "rms"), ("after", "rms"), ("after", "anchored"))
    lines = {True: [], False: []}
    for name, case in CASES.items():
        shown = [averages(record["runs"][run], name, method) for run, method in columns]
        for test in shown[0]:
            label = name if len(shown[0]) == 1 else f"{name}: {test}"
            scores = [found.get(test) for found in shown]
            if case.classes:
                cells = [_number(s and s["calibration_error"], 2) for s in scores]
                cells += [_number(s and s["log_loss"][:1], 2) for s in scores]
            else:
                cells = [_number(s and s["coverage"], 0, 100) for s in scores]
                cells += [_number(s and s["nll"][:1], 2) for s in scores]
            lines[case.classes].append(" | ".join([f"| {label}", *cells]) + " |")
    first, second = _head("coverage, %", "NLL"), _head("calibration error", "log loss")
    return "\n".join([first, *lines[False], "", second, *lines[True]])


def _head(first: str, second: str) -> str:
    names = ("before", "now", "`anchored`")
    cells = [""] + [f"{score}, {name}" for score in (first, second) for name in names]
    return "| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|"


def _number(value: tuple[float, ...] | None, digits: int, unit: float = 1.0) -> str:
    """The mean, and its error if it is there."""
    return " ± ".join(f"{unit * part:.{digits}f}" for part in value) if value else "not run"


def main(run: str = "after", *names: str) -> int:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"runs": {}}
    cells = record["runs"].setdefault(run, {})
    record |= {"version": anchored.__version__, "level": LEVEL, "fresh_rows": N_FRESH}
    for name in names or CASES:
        case = CASES[name]
        for method in METHODS:
            for seed in range(case.first, case.first + case.n_sets):
                key = f"{name}/{method}/{seed}"
                if key not in cells:
                    cells[key] = cell(case, method, seed)
                    write_whole(RECORD, json.dumps(record, indent=1).encode() + b"\n")
            for test, scores in averages(cells, name, method).items():
                said = (f"{score} {m:.3f} ({e:.3f})" for score, (m, e) in scores.items())
                print(f"{run}, {name}, {method}, {test}:", ", ".join(said), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
