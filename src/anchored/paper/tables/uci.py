"""The UCI regression benchmark: data sets x methods x standard splits.

A cell is one split, ``"<data set>/<method>/<split>"``, and its result the scores. A score that was
not finite is null in the record; ``nll_student_t`` is null too for a method that has no such
predictive. If the fit of a split failed, there are no scores, only the time and a word for the
reason: ``"failed": "diverged"``.
"""

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np

from anchored import metrics
from anchored.datasets import load_paper_split, load_uci_split
from anchored.datasets.registry import TABLES
from anchored.errors import EnsembleError
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.prose import number
from anchored.paper.runner import Cell, Context, Experiment, Record, Table, chosen
from anchored.paper.tables.uci_methods import METHODS, OUTSIDERS, Method, Task
from anchored.paper.tables.uci_scores import SCORES, Results, Score
from anchored.paper.tables.uci_settings import PAPER_SETTINGS
from anchored.prediction.predictive import Predictive
from anchored.tuning import Settings as Hyperparameters

_TITLES = ("RMSE", "NLL, Gaussian", "NLL, Student-t", "CRPS", "90 % covers", "calib. error")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The methods and data sets; hyperparameters are those of each data set."""

    methods: str  # a key of METHODS
    datasets: tuple[str, ...] = tuple(TABLES)
    n_splits: int = 20
    epochs_share: float = 1.0
    own_splits: bool = False  # those that the paper's authors drew


PRESETS = CATALOGUE["table-uci"].presets_of(Settings("paper"))


def plan(s: Settings, context: Context) -> list[Cell]:
    known = METHODS[s.methods]
    # Outsiders need packages of their own: they run when asked for.
    methods = chosen("methods", context.methods, known, [m for m in known if m not in OUTSIDERS])
    cells = []
    for dataset in chosen("datasets", context.datasets, TABLES, s.datasets):
        settings = hyperparameters(s, dataset, context.settings)
        if "single-50" in methods and settings.single_var is None:
            raise ValueError(
                "--settings: single-50 needs `single_var`; finish `anchored tune`, or leave "
                "single-50 out."
            )
        for name in methods:
            method = known[name]
            program = f"{dataset}/{name}" if method.side_by_side else None
            for split in range(min(context.splits or s.n_splits, TABLES[dataset].n_splits)):
                compute = partial(_score, s, method, dataset, split, settings, context)
                own = None if s.methods == "defaults" else settings
                cells.append(Cell(f"{dataset}/{name}/{split}", 1.0, compute, program, own))
    return cells


def hyperparameters(s: Settings, dataset: str, files: Path | None) -> Hyperparameters:
    """The paper's row for the data set, cut short in the smoke preset, or what was tuned."""
    if files is None and s.methods == "tuned":
        raise ValueError("--preset tuned needs --settings: a file of `anchored tune`, or a folder.")
    if files is not None and s.methods != "tuned":
        raise ValueError("--settings takes the place of the paper's: use --preset tuned.")
    if files is None:
        row = PAPER_SETTINGS[dataset]
        return dataclasses.replace(row, epochs=max(1, int(row.epochs * s.epochs_share)))
    file = files / f"{dataset}.json" if files.is_dir() else files
    try:
        return Hyperparameters.load(file)
    except OSError as error:
        raise ValueError(
            f"--settings: cannot read {file}: {error.strerror}. Make it with `anchored tune`."
        ) from None
    except ValueError as error:
        raise ValueError(f"--settings: {error}") from None


def _score(
    s: Settings,
    method: Method,
    dataset: str,
    split: int,
    settings: Hyperparameters,
    context: Context,
) -> dict:
    load = load_paper_split if s.own_splits else load_uci_split
    rows = load(dataset, split, context.data_dir)
    task = Task(dataset, split, rows.x_train, rows.y_train, rows.x_test, context.seed)
    try:
        dist = method.fit(task, settings)
    except EnsembleError:
        return dict.fromkeys(SCORES) | {"failed": "diverged"}
    except np.linalg.LinAlgError:
        return dict.fromkeys(SCORES) | {"failed": "singular"}
    return scores(dist, rows.y_test)


def scores(dist: Predictive, y: np.ndarray) -> dict[str, float | None]:
    """Every score of one split, by the predictive's own family where there is a choice."""
    gaussian = dist.of_family("gaussian")
    student = dist.of_family("student-t")
    has_spread = dist.n_members is not None and dist.n_members > 1
    return {
        "rmse": metrics.rmse(dist, y),
        "nll": metrics.nll(gaussian, y),
        "nll_student_t": metrics.nll(student, y) if has_spread else None,
        "crps": metrics.crps(dist, y),
        "coverage_90": metrics.coverage(dist, y, 0.9),
        "calibration_error": metrics.calibration_error(dist, y),
    }


def tables(record: Record) -> list[Table]:
    results, preset, rows = Results([record]), record["preset"], []
    for method, dataset in results.runs(preset):
        cells = [_cell(results.score(preset, method, dataset, score)) for score in SCORES]
        splits = results.splits(preset, method, dataset)
        n_failed = sum("failed" in split for split in splits.values())
        n_splits = f"{len(splits)}" + (f", {n_failed} failed" if n_failed else "")
        rows.append((dataset, method, *cells, n_splits))
    title = "Mean ± standard error over the splits"
    return [Table(title, ("data", "method", *_TITLES, "s a split", "splits"), rows)]


def _cell(score: Score | None) -> str:
    if score is None:
        return "-"
    text = number(score.mean, ".3g" if abs(score.mean) < 0.01 else ".3f")
    return text if score.error is None else f"{text} ± {score.error:.2g}"


EXPERIMENT = Experiment(
    CATALOGUE["table-uci"],
    PRESETS,
    plan,
    combine=None,
    findings=lambda record: [],
    tables=tables,
    options=("datasets", "methods", "splits", "again", "jobs", "settings"),
)
