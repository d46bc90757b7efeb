"""What the page says about one continuous target."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored import metrics
from anchored.prediction.predictive import Predictive
from anchored.reporting import figures, verdicts
from anchored.reporting.importance import Importance, importances, rank_correlation
from anchored.reporting.inputs import Inputs
from anchored.reporting.verdicts import FEW_ROWS
from anchored.reporting.words import column, level

_WORST_ROWS = 10


def chapters(
    estimator, dist: Predictive, inputs: Inputs | None, y, rows: Sequence[str], coverage: float
) -> list[dict[str, Any]]:
    """Values for ``regression.html``, for each output."""
    target = dist.observed(y)
    bad = np.flatnonzero(~np.isfinite(target.reshape(len(target), -1)).all(axis=1))
    if len(bad):
        raise ValueError(f"`y` must be finite; row {bad[0]} is not. Leave such rows out.")
    flat = target.reshape(len(target), -1)
    n_outputs = flat.shape[1]
    found: Sequence[Importance | None] = [None] * n_outputs
    if inputs is not None and len(flat) > 1:

        def measure(dist: Predictive, chosen: np.ndarray):
            error, spread = np.square(dist.mean - target[chosen]), dist.epistemic_var
            return error.reshape(len(error), -1), spread.reshape(len(spread), -1)

        found = importances(estimator.predict_dist, inputs, dist, measure, _root_mean)
    if target.ndim == 1:
        return [_chapter(dist, target, found[0], rows, coverage)]
    names = [str(name) for name in getattr(y, "columns", range(n_outputs))]
    return [
        _chapter(dist.output(i), target[:, i], found[i], rows, coverage) | {"output": name}
        for i, name in enumerate(names)
    ]


def _root_mean(squares: np.ndarray) -> np.ndarray:
    return np.sqrt(squares.mean(axis=0))


def _chapter(
    dist: Predictive, y: np.ndarray, found: Importance | None, rows: Sequence[str], coverage: float
) -> dict[str, Any]:
    lower, upper = dist.interval(coverage)
    inside, width = (lower <= y) & (y <= upper), upper - lower
    error, pit, usual = dist.mean - y, metrics.pit(dist, y), _usual_width(y, coverage)
    curve = metrics.calibration_curve(dist, y)
    outside = (curve.shares < curve.band[0]) | (curve.shares > curve.band[1])
    return {
        "template": "regression.html",
        "output": None,
        "coverage": coverage,
        "n_rows": len(y),
        "n_drawn": len(figures.drawn_rows(len(y))),
        "verdict": verdicts.of_intervals(dist, y, coverage),
        "n_inside": int(inside.sum()),
        "rmse": metrics.rmse(dist, y),
        "deviation": float(np.std(y)),
        "crps": metrics.crps(dist, y),
        "nll": metrics.nll(dist, y),
        "interval_score": metrics.interval_score(dist, y, coverage),
        "width": width.mean(),
        "relative_width": None if usual is None else np.median(width) / usual,
        "calibration_error": metrics.calibration_error(dist, y),
        "n_levels": len(outside),
        "n_outside": int(outside.sum()),
        "lean": (pit.mean() - 0.5) * np.sqrt(12 * len(y)),  # standard normal if all is well
        "epistemic": dist.epistemic_var.sum() / dist.variance.sum(),
        "rank": rank_correlation(dist.std, np.abs(error)),
        "even": np.ptp(dist.std) < 0.2 * dist.std.mean(),
        "predicted": figures.predicted_against_observed(y, dist.mean, lower, upper, rows),
        "errors": figures.error_against_deviation(dist.std, error),
        "calibration": figures.calibration(*curve, coverage, inside.mean()),
        "pit": figures.pit_histogram(pit),
        "sharpness": figures.sharpness(width, usual),
        "sources": figures.variance_shares(
            dist.variance, dist.epistemic_var, "rows by their variance"
        ),
        "importance": found and found.shown("rise of the RMSE", "change of epistemic variance"),
        "worst": _worst(dist, y, (lower, upper), found, rows, coverage),
    }


def _usual_width(y: np.ndarray, coverage: float) -> float | None:
    """Width of one interval for all rows, which needs no columns."""
    if len(y) < FEW_ROWS or np.ptp(y) == 0:
        return None
    tail = (1 - coverage) / 2
    return float(np.diff(np.quantile(y, [tail, 1 - tail]))[0])


def _worst(dist: Predictive, y: np.ndarray, ends, found: Importance | None, rows, coverage: float):
    """Columns of a table of the rows that surprised the model most."""
    off = np.divide(y - dist.mean, dist.std, out=np.zeros(len(y)), where=dist.std > 0)
    order = np.argsort(-np.abs(off), kind="stable")[:_WORST_ROWS]
    low, high = (column(end[order]) for end in ends)
    return [
        ("row", [rows[i] for i in order]),
        ("observed", column(y[order])),
        ("predicted", column(dist.mean[order])),
        (f"{level(coverage)} interval", [" to ".join(e) for e in zip(low, high, strict=True)]),
        ("deviations off", [f"{abs(v):.1f} {'above' if v > 0 else 'below'}" for v in off[order]]),
        *([] if found is None else found.telling_columns(order)),
    ]
