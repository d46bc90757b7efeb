"""A plan carried out: train the estimator, and score it on the rows set aside.

The network sees the test rows once; scores, verdict and report share its predictive.
"""

import dataclasses
import itertools
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored import metrics
from anchored.core.members import n_cores
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.prediction.predictive import Predictive
from anchored.reporting import comparison, headline
from anchored.tables.plan import Plan
from anchored.tuning import FEW_ROWS, MANY_ROWS, WITH_ALL_ROWS, default_schedule

_OPERATIONS = 2e10  # a second and core, about what docs/own_tables.md was made with
_COMPILING = 6.0  # seconds


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """A model, its predictive and scores on the test rows, and what went wrong on the way."""

    model: Any
    dist: Predictive
    verdict: str  # whether its error bars hold, in words
    scores: dict[str, float | None]
    gp: metrics.GPComparison | str | None  # of regression, or why there is none
    seconds: float
    warnings: tuple[str, ...]


def estimator_of(plan: Plan, parameters: dict[str, Any]) -> Any:
    """The estimator of the plan's task."""
    kind = AnchoredRegressor if plan.task == "regression" else AnchoredClassifier
    return kind(**parameters)


def fit_plan(plan: Plan, parameters: dict[str, Any], coverage: float) -> Fitted:
    """Train an estimator of ``parameters`` on the plan's training rows, test it on the others."""
    model = estimator_of(plan, parameters)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(plan.inputs, plan.y, groups=plan.groups)
    seconds = time.perf_counter() - started
    said = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    dist = model.predict_dist(plan.test_inputs)
    return Fitted(
        model=model,
        dist=dist,
        verdict=headline(model, plan.test_inputs, plan.y_test, coverage, dist=dist),
        scores=scores(dist, plan.y_test, getattr(model, "classes_", None), coverage),
        gp=comparison(model, plan.test_inputs, dist),
        seconds=seconds,
        warnings=tuple(dict.fromkeys(said)),
    )


def scores(
    dist: Predictive, y: np.ndarray, classes: np.ndarray | None, coverage: float
) -> dict[str, float | None]:
    """Scores on rows that a model has not seen; docs/metrics.md says what each means.

    ``classes`` are the labels in the order of the probabilities, None for regression.
    """
    if classes is None:
        return {
            "rmse": metrics.rmse(dist, y),
            "r2": float(1 - np.mean((dist.mean - y) ** 2) / np.var(y)) if np.ptp(y) else None,
            "nll": metrics.nll(dist, y),
            "crps": metrics.crps(dist, y),
            "coverage": metrics.coverage(dist, y, coverage),
            "interval_score": metrics.interval_score(dist, y, coverage),
            "calibration_error": metrics.calibration_error(dist, y),
        }
    labels = np.searchsorted(classes, y)
    return {
        "accuracy": metrics.accuracy(dist, labels),
        "nll": metrics.nll(dist, labels),
        "brier": metrics.brier(dist, labels),
        "ece": metrics.expected_calibration_error(dist, labels),
        "aurc": metrics.aurc(dist, labels),
    }


def expected_seconds(plan: Plan, n_members: int, hidden: Sequence[int] | None) -> float:
    """About how long the training will take on this machine."""
    n_rows, n_features = len(plan.y), len(plan.encoder.feature_names)
    many, classes = n_rows >= MANY_ROWS, plan.task == "classification"
    widths = list(hidden) if hidden is not None else [50] * (1 + (many and not classes))
    sizes = [n_features, *widths, 1]
    n_weights = sum(a * b for a, b in itertools.pairwise(sizes))
    others = (5, 15, 15) if classes else (n_members / WITH_ALL_ROWS, 20, 30)  # by number of rows
    n_trained = n_members + others[0 if many else 1 if n_rows >= FEW_ROWS else 2]
    matrix_rows = math.inf if classes else MANY_ROWS
    schedule = default_schedule(n_rows, len(widths), matrix_rows=matrix_rows)
    work = 6.0 * schedule.n_steps(n_rows) * n_trained * schedule.batch_size * n_weights
    return _COMPILING + work / (_OPERATIONS * n_cores())
