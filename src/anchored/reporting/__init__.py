"""One HTML file that says how far a fitted model can be trusted.

`_case` holds what a report is about; `_regression`, `_classes` and `_making` write its sections
in words and numbers; `_figures` draws on `_svg`; `_page` lays everything out.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from anchored import __version__
from anchored._files import write_whole
from anchored.errors import bad_value
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.metrics import GPComparison
from anchored.prediction.predictive import checked_coverage
from anchored.reporting import _classes, _making, _page, _regression
from anchored.reporting._case import Case, Chapter, names_of_rows, table_columns
from anchored.reporting._headline import headline as headline
from anchored.reporting._importance import Columns
from anchored.reporting._making import GP_TRAINING_ROWS as GP_TRAINING_ROWS
from anchored.reporting._markup import plain, tag
from anchored.reporting._page import Section
from anchored.reporting._words import counted, level

_GLOSSARY = {
    "held-out rows": "rows that the model was not trained on. If it was, nothing here holds.",
    "coverage": "the share of targets inside their intervals.",
    "epistemic": "uncertainty from having seen too few rows like this one; more data remove it.",
    "aleatoric": "uncertainty from noise in the target or overlap of classes; more data do not.",
    "RMSE": "root mean square error of the mean, in the target's units.",
    "CRPS": "error and honesty in one number, in the target's units; for a sure prediction it is "
    "the absolute error.",
    "NLL, log loss": "how surprising the targets were, in nats.",
    "interval score": "mean width of intervals plus a fine for each target outside.",
    "PIT": "the probability that was given to targets below the observed one.",
    "calibration error": "mean gap between promised and observed shares.",
    "Brier score": "squared distance of the probabilities from what happened.",
}


def report(
    estimator,
    X,
    y,
    *,
    path=None,
    coverage: float = 0.9,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    about: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    gp: GPComparison | None = None,
    row_names: Sequence[str] | None = None,
) -> str:
    """A self-contained HTML page on how far a fitted estimator can be trusted.

    Parameters
    ----------
    estimator : fitted `AnchoredRegressor` or `AnchoredClassifier`.
    X, y : rows that it was not trained on.
    path : file to write the page to, whole or not at all.
    coverage : level of the intervals judged; for classes the share of rows answered.
    feature_names : names of the columns of X, if it has none.
    title : heading of the page.
    about : more lines for "what was fitted", such as the file and the date.
    notes : remarks to show, such as warnings of the fit.
    gp : comparison with the infinite-width GP; made here if that is quick.
    row_names : what to call the rows; else a frame's index, or numbers from 0.
    """
    if not isinstance(estimator, (AnchoredRegressor, AnchoredClassifier)):
        raise TypeError(
            "`estimator` must be a fitted AnchoredRegressor or AnchoredClassifier; got "
            f"{type(estimator).__name__}. Of a pipeline, give the last step and X as it sees it."
        )
    coverage = checked_coverage(coverage)
    dist = estimator.predict_dist(X)
    n_rows = len(dist.mean)
    rows = names_of_rows(X, n_rows) if row_names is None else [str(name) for name in row_names]
    if len(rows) != n_rows:
        raise bad_value("row_names", f"{len(rows)} of them", f"{n_rows} names, one for each row")
    chapters = _chapters(estimator, dist, X, y, coverage, feature_names, rows)
    heading = title if title is not None else f"How far to trust {_target(y)}"
    subtitle = f"{type(estimator).__name__} on {counted(n_rows, 'held-out row')}"
    top = [part for chapter in chapters for part in chapter.top]
    sections = [
        _making.fitted(estimator, about or {}),
        *(section for chapter in chapters for section in chapter.sections),
        _making.comparison(estimator, X, gp),
        _making.members(estimator),
    ]
    if notes:
        sections.insert(0, Section("Notes", "", (_page.notes(notes),)))
    shown = [section for section in sections if section is not None]
    page = _page.document(heading, subtitle, top, shown, _foot(coverage))
    if path is not None:
        write_whole(Path(path), page.encode())
    return page


def _chapters(
    estimator, dist, X, y, coverage: float, feature_names, rows: list[str]
) -> list[Chapter]:
    """One chapter, or one for each output."""
    x, columns = _table(estimator, X, feature_names)
    if isinstance(estimator, AnchoredClassifier):
        numbers, labels = _class_numbers(estimator.classes_, y, len(rows))
        case = Case(dist, numbers, x, columns, estimator.predict_dist, rows, float(coverage))
        return [_classes.chapter(case, labels)]
    target = dist.observed(y)
    bad = np.flatnonzero(~np.isfinite(target.reshape(len(target), -1)).all(axis=1))
    if len(bad):
        raise ValueError(f"`y` must be finite; row {bad[0]} is not. Leave such rows out.")
    if dist.mean.ndim == 1:
        case = Case(dist, target, x, columns, estimator.predict_dist, rows, float(coverage))
        return [_regression.chapter(case)]
    names = [str(name) for name in getattr(y, "columns", range(target.shape[1]))]
    chapters = []
    for i, name in enumerate(names):

        def predict(array, i=i):
            return estimator.predict_dist(array).output(i)

        case = Case(dist.output(i), target[:, i], x, columns, predict, rows, float(coverage))
        chapter = _regression.chapter(case, f"Output {plain(name, 40)}: ")
        heading = tag("h3", f"Output {plain(name, 60)}")
        chapters.append(dataclasses.replace(chapter, top=(heading, *chapter.top)))
    return chapters


def _table(estimator, X, feature_names) -> tuple[np.ndarray | None, Columns]:
    """Inputs as a table of numbers; None for images and words."""
    x = np.asarray(X)
    if x.ndim != 2 or getattr(estimator.network, "takes_tokens", False):
        return None, Columns.single(())
    x = x.astype(np.float64) if x.dtype.kind not in "f" else x
    return x, table_columns(estimator, X, x.shape[1], feature_names)


def _class_numbers(classes: np.ndarray, y, n_rows: int) -> tuple[np.ndarray, list[str]]:
    """Labels as numbers of the estimator's classes, and what these are called."""
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
    return np.searchsorted(classes, y), [plain(label) for label in classes]


def _target(y) -> str:
    name = getattr(y, "name", None)
    return f"predictions of {plain(name, 60)}" if name is not None else "these predictions"


def _foot(coverage: float) -> list:
    words = [tag("li", tag("b", name), ": ", meaning) for name, meaning in _GLOSSARY.items()]
    return [
        _page.folded("What the words mean", tag("ul", *words)),
        tag(
            "p",
            f"Written by anchored {__version__}. Everything is measured on the held-out rows; "
            f"intervals are central {level(coverage)} intervals. Bands and ranges of chance take "
            "rows to be independent.",
        ),
    ]
