"""What the page says of one continuous target."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored import metrics
from anchored.prediction.predictive import Predictive
from anchored.reporting import figures, verdicts
from anchored.reporting.figures import Drawn
from anchored.reporting.importance import Importance, importances
from anchored.reporting.inputs import Inputs
from anchored.reporting.verdicts import FEW_ROWS, TOO_FEW
from anchored.reporting.words import column, level, number

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
    ends = dist.interval(coverage)
    inside = (ends[0] <= y) & (y <= ends[1])
    return {
        "template": "regression.html",
        "output": None,
        "coverage": coverage,
        "verdict": verdicts.of_intervals(dist, y, coverage),
        "remarks": [verdicts.of_error(dist, y), verdicts.of_variance(dist)],
        "scores": _scores(dist, y, coverage, ends, inside),
        "n_rows": len(y),
        "n_drawn": len(figures.drawn_rows(len(y))),
        "n_inside": int(inside.sum()),
        "predicted": figures.predicted_against_observed(y, dist.mean, *ends, rows),
        "errors": _errors(dist, y),
        "calibration": _calibration(dist, y, coverage, inside.mean()),
        "pit": _pit(dist, y),
        "sharpness": _sharpness(ends[1] - ends[0], y, coverage),
        "sources": figures.variance_shares(
            dist.variance, dist.epistemic_var, "rows by their variance"
        ),
        "importance": found and found.shown("rise of the RMSE", "epistemic variance"),
        "worst": _worst(dist, y, ends, found, rows, coverage),
    }


def _scores(dist: Predictive, y: np.ndarray, coverage: float, ends, inside) -> dict[str, float]:
    return {
        "coverage": float(inside.mean()),
        "rmse": metrics.rmse(dist, y),
        "deviation": float(np.std(y)),
        "crps": metrics.crps(dist, y),
        "nll": metrics.nll(dist, y),
        "interval_score": metrics.interval_score(dist, y, coverage),
        "width": float(np.mean(ends[1] - ends[0])),
        "calibration_error": metrics.calibration_error(dist, y),
        "chance": 0.33 / float(np.sqrt(len(y))),
        "epistemic": float(dist.epistemic_var.sum() / dist.variance.sum()),
    }


def _errors(dist: Predictive, y: np.ndarray) -> Drawn:
    error = dist.mean - y
    rank = _rank_correlation(dist.std, np.abs(error))
    if len(error) < FEW_ROWS:
        finding = TOO_FEW
    elif rank > 2 / np.sqrt(len(error)):
        finding = "Larger errors come where they were expected."
    elif np.ptp(dist.std) < 0.2 * dist.std.mean():
        finding = "The model thinks all rows about equally uncertain."
    else:
        finding = "Predicted deviations do not separate large errors from small ones."
    return Drawn(figures.error_against_deviation(dist.std, error), finding)


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) < 3 or not np.ptp(a) > 0 or not np.ptp(b) > 0:
        return 0.0
    first, second = (np.argsort(np.argsort(values)) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def _calibration(dist: Predictive, y: np.ndarray, coverage: float, covered: float) -> Drawn:
    levels, shares, band = metrics.calibration_curve(dist, y)
    outside = int(np.sum((shares < band[0]) | (shares > band[1])))
    finding = (
        f"{outside} of {len(levels)} levels {'is' if outside == 1 else 'are'} outside the band."
    )
    if len(y) < FEW_ROWS:
        finding = TOO_FEW
    elif not outside:
        finding = "Every level is within chance."
    return Drawn(figures.calibration(levels, shares, band, coverage, covered), finding)


def _pit(dist: Predictive, y: np.ndarray) -> Drawn:
    values = metrics.pit(dist, y)
    lean = (values.mean() - 0.5) * np.sqrt(12 * len(values))  # standard normal if all is well
    finding = "Predictions are neither too high nor too low on the whole."
    if len(values) < FEW_ROWS:
        finding = TOO_FEW
    elif abs(lean) > 3:
        finding = f"Predictions are too {'low' if lean > 0 else 'high'} on the whole."
    return Drawn(figures.pit_histogram(values), finding)


def _sharpness(width: np.ndarray, y: np.ndarray, coverage: float) -> Drawn:
    """Widths beside that of one interval for all rows, which needs no columns."""
    if len(y) < FEW_ROWS or np.ptp(y) == 0:
        return Drawn(figures.sharpness(width, None), "")
    tail = (1 - coverage) / 2
    reference = float(np.diff(np.quantile(y, [tail, 1 - tail]))[0])
    finding = (
        f"The median interval is {number(np.median(width) / reference, 2)} times as wide as "
        "one that knows no columns."
    )
    return Drawn(figures.sharpness(width, reference), finding)


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
