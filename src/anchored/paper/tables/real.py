"""Real tables: twenty-one tables, all methods and seeds, with nothing set by hand.

A cell is one seed, ``"<table>/<method>/<seed>"``. Its result has the scores of the test rows, and
the wall-clock and processor seconds of fitting and predicting. A score that a method does not
define is null, such as the NLL of a method without a density. A failed fit has no scores; a word
gives the reason.
"""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anchored import metrics
from anchored.datasets.real import RealSplit, Rows, load_real, split_real
from anchored.datasets.registry import REAL
from anchored.errors import EnsembleError, TableError
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.prose import number
from anchored.paper.runner import Cell, Context, Experiment, Record, Table, chosen
from anchored.paper.tables import real_networks as networks
from anchored.paper.tables import real_rivals as rivals
from anchored.paper.tables.real_record import SCORES, RealResults
from anchored.paper.tables.real_rivals import Fit, Forecast, Predict, Task
from anchored.paper.tables.uci_scores import Score

LEVEL = 0.9
TASKS = ("regression", "classification")


@dataclasses.dataclass(frozen=True)
class Method:
    """How a method fits, which tasks it knows, and whether it runs without being asked for."""

    fit: Fit
    tasks: tuple[str, ...] = TASKS
    is_slow: bool = False


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which tables, how many seeds, and at most how many training rows."""

    datasets: tuple[str, ...] = tuple(REAL)
    methods: tuple[str, ...] = ()  # none: all but the slow ones
    n_seeds: int = 5
    max_train: int | None = 10_000


def anchored(task: Task) -> Predict:
    """Our estimators with nothing set."""
    if task.n_classes:
        classifier = AnchoredClassifier(random_state=task.seed).fit(task.inputs, task.y)
        return lambda inputs: Forecast(classifier.predict_proba(inputs))
    model = AnchoredRegressor(random_state=task.seed).fit(task.inputs, task.y)
    assert model.model_.regression is not None
    noise = model.model_.regression.noise
    factor = None if noise is None else noise[0].factor
    return lambda inputs: Forecast(model.predict_dist(inputs), factor=factor)


METHODS = {"anchored": Method(anchored)} | {
    name: dataclasses.replace(method, fit=rivals.on_one_thread(method.fit))
    for name, method in {
        "catboost": Method(rivals.catboost),
        "catboost-conformal": Method(rivals.catboost_conformal, ("regression",)),
        "hgb": Method(rivals.hgb),
        "ridge": Method(rivals.linear, ("regression",)),
        "logistic": Method(rivals.linear, ("classification",)),
        "ngboost": Method(rivals.ngboost, is_slow=True),
        "realmlp": Method(networks.realmlp, is_slow=True),
        "tabm": Method(networks.tabm, is_slow=True),
    }.items()
}
PRESETS = CATALOGUE["table-real"].presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    quick = s.methods or tuple(name for name, method in METHODS.items() if not method.is_slow)
    methods = chosen("methods", context.methods, METHODS, quick)
    cells = []
    for dataset in chosen("datasets", context.datasets, REAL, s.datasets):
        record = REAL[dataset]
        own = {"max_train": s.max_train, "sha256": record.sha256 or record.source_sha256}
        for name in methods:
            if record.task not in METHODS[name].tasks:
                continue
            for split in range(context.splits or s.n_seeds):
                seed = 1000 * context.seed + split
                compute = partial(_score, METHODS[name], dataset, seed, s.max_train, context)
                cells.append(Cell(f"{dataset}/{name}/{split}", 1.0, compute, settings=own))
    return cells


def _score(
    method: Method, dataset: str, seed: int, max_train: int | None, context: Context
) -> dict[str, Any]:
    rows = load_real(dataset, context.data_dir)
    split = split_real(dataset, rows, seed, max_train)
    return score_split(method.fit, split, REAL[dataset].task, seed)


def score_split(fit: Fit, split: RealSplit, task: str, seed: int) -> dict[str, Any]:
    """Fit to the training rows, and return every score of the test rows."""
    train, test = split
    n_classes = 0
    if task == "classification":
        classes, codes = np.unique(train.y, return_inverse=True)
        n_classes = len(classes)
        train, test = Rows(train.inputs, codes), Rows(test.inputs, np.searchsorted(classes, test.y))
    sizes = {"n_train": len(train.y), "n_test": len(test.y)}
    try:
        given = Task(train.inputs, train.y, n_classes, seed)
        predict, fit_times = _clocked("fit", lambda: fit(given))
        forecast, times = _clocked("predict", lambda: predict(test.inputs))
    except (EnsembleError, TableError, np.linalg.LinAlgError) as error:
        return dict.fromkeys(SCORES[task]) | sizes | {"failed": type(error).__name__}
    found = class_scores if n_classes else regression_scores
    return found(forecast, test.y) | sizes | fit_times | times


def regression_scores(forecast: Forecast, y: np.ndarray) -> dict[str, float | None]:
    dist, point = forecast.dist, forecast.point
    return {
        "rmse": metrics.rmse(dist, y) if point is None else _rmse(point, y),
        "crps": metrics.crps(dist, y),
        "nll": metrics.nll(dist, y) if forecast.has_density else None,
        "interval_score": metrics.interval_score(dist, y, LEVEL),
        "coverage": metrics.coverage(dist, y, LEVEL),
        "width": metrics.sharpness(dist, LEVEL),
        "factor": forecast.factor,
    }


def class_scores(forecast: Forecast, labels: np.ndarray) -> dict[str, float | None]:
    return {
        "log_loss": metrics.log_loss(forecast.dist, labels),
        "brier": metrics.brier(forecast.dist, labels),
        "accuracy": metrics.accuracy(forecast.dist, labels),
    }


def _rmse(point: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(point - y))))


def _clocked(name: str, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What ``work`` gives, and its seconds by the clock and of all the process's threads."""
    clock, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, {
        f"{name}_seconds": time.perf_counter() - clock,
        f"{name}_processor_seconds": time.process_time() - processor,
    }


def tables(record: Record) -> list[Table]:
    results, shown = RealResults(record), []
    for task in TASKS:
        names = (*SCORES[task], "fit_seconds", "fit_processor_seconds")
        rows = [
            (dataset, method, *(_cell(results.score(dataset, method, name)) for name in names))
            for dataset in results.datasets(task)
            for method in results.methods(dataset)
        ]
        header = ("table", "method", *(name.replace("_", " ") for name in names))
        shown.append(Table(f"Mean ± standard error over the seeds: {task}", header, rows))
    return [table for table in shown if table.rows]


def _cell(score: Score | None) -> str:
    if score is None:
        return "-"
    text = number(score.mean, ".4g")
    return text if score.error is None else f"{text} ± {score.error:.2g}"


EXPERIMENT = Experiment(
    CATALOGUE["table-real"],
    PRESETS,
    plan,
    combine=None,
    findings=lambda record: [],
    tables=tables,
    options=("datasets", "methods", "splits", "again"),
)
