"""What the page says about classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored import metrics
from anchored.prediction.predictive import Predictive
from anchored.reporting import figures, verdicts
from anchored.reporting.importance import Importance, importances
from anchored.reporting.inputs import Inputs
from anchored.reporting.words import percent, plain

_MOST_CLASSES = 12  # of a table of counts; of more the commonest mistakes are listed
_WORST_ROWS = 10
_N_BINS = 10


def numbers(classes: np.ndarray, y, n_rows: int) -> np.ndarray:
    """Labels as numbers of the estimator's classes."""
    y = np.asarray(y)
    if y.shape != (n_rows,):
        raise ValueError(f"`y` must have {n_rows} labels, one for each row; got shape {y.shape}.")
    known = np.isin(y, classes)
    if not known.all():
        strange = y[~known].tolist()[0]
        raise ValueError(
            f"`y` has labels that the classifier was not trained on, such as {strange!r}; leave "
            "these rows out or train with rows of that class."
        )
    return np.searchsorted(classes, y)


def chapter(
    estimator, dist: Predictive, inputs: Inputs | None, y, rows: Sequence[str], coverage: float
) -> dict[str, Any]:
    """Values for ``classes.html``."""
    labels = [plain(label) for label in estimator.classes_]
    y, p = numbers(estimator.classes_, y, len(rows)), dist.probabilities
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    found = None if inputs is None or len(y) < 2 else _importance(estimator, dist, inputs, y)
    share, risk = metrics.risk_coverage(dist, y)
    answered = min(int(np.ceil(coverage * len(y))), len(y))
    # A temperature below one may leave less entropy than the members' own disagreement.
    entropy = np.maximum(dist.entropy, dist.mutual_information)
    reliability = metrics.reliability(dist, y, _N_BINS)
    few = len(labels) <= _MOST_CLASSES
    return {
        "template": "classes.html",
        "coverage": coverage,
        "n_rows": len(y),
        "verdict": verdicts.of_confidence(p, y),
        "labels": labels,
        "accuracy": right.mean(),
        "commonest": np.bincount(y).max() / len(y),
        "confidence": confidence.mean(),
        "log_loss": metrics.nll(dist, y),
        "guess": np.log(len(labels)),
        "brier": metrics.brier(dist, y),
        "ece": metrics.expected_calibration_error(dist, y),
        "epistemic": dist.mutual_information.sum() / max(entropy.sum(), np.finfo(float).tiny),
        "risk": risk[-1],
        "mean_risk": risk.mean(),
        "kept_risk": risk[answered - 1],
        "n_wrong": int(np.sum(~right)),
        "wrong_confidence": None if right.all() else confidence[~right].mean(),
        "counts": _counts(dist, y) if few else None,
        "mistakes": None if few else _mistakes(dist, y, labels),
        "confidences": figures.confidences(confidence, right, len(labels)),
        "reliability": figures.reliability(*reliability, len(labels)),
        "accuracy_above": figures.accuracy_above(confidence, right),
        "risks": figures.risk_coverage(share, risk),
        "sources": figures.variance_shares(
            entropy, dist.mutual_information, "rows by their entropy"
        ),
        "importance": found
        and found.shown("rise of the log loss (nats)", "change of mutual information"),
        "worst": _worst(p, y, found, rows, labels),
    }


def _importance(estimator, dist: Predictive, inputs: Inputs, y: np.ndarray) -> Importance:
    def measure(dist: Predictive, rows: np.ndarray):
        return -dist.log_density(y[rows])[:, None], dist.mutual_information[:, None]

    return importances(estimator.predict_dist, inputs, dist, measure)[0]


def _counts(dist: Predictive, y: np.ndarray) -> list[list[tuple[int, float]]]:
    """Rows by observed and predicted class, each with its share of the observed class."""
    counts = metrics.confusion(dist, y)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return [list(zip(*row, strict=True)) for row in zip(counts, shares, strict=True)]


def _mistakes(dist: Predictive, y: np.ndarray, labels: Sequence[str]):
    """Columns of a table of the commonest mistakes."""
    counts = metrics.confusion(dist, y)
    wrong = counts - np.diag(np.diag(counts))
    worst = np.argsort(-wrong.ravel(), kind="stable")[:_MOST_CLASSES]
    pairs = [divmod(int(k), len(labels)) for k in worst if wrong.ravel()[k]]
    return [
        ("observed", [labels[i] for i, _ in pairs]),
        ("predicted", [labels[j] for _, j in pairs]),
        ("rows", [f"{wrong[pair]:,}" for pair in pairs]),
        ("of the observed", [percent(wrong[i, j] / counts[i].sum()) for i, j in pairs]),
    ]


def _worst(p: np.ndarray, y: np.ndarray, found: Importance | None, rows, labels: Sequence[str]):
    """Columns of a table of the rows whose class the model thought least likely."""
    of_label = p[np.arange(len(y)), y]
    order = np.argsort(of_label, kind="stable")[:_WORST_ROWS]
    return [
        ("row", [rows[i] for i in order]),
        ("observed", [labels[int(y[i])] for i in order]),
        ("predicted", [labels[int(p[i].argmax())] for i in order]),
        ("sure", [percent(p[i].max()) for i in order]),
        ("chance of observed", [percent(of_label[i]) for i in order]),
        *([] if found is None else found.telling_columns(order)),
    ]
