"""What a report is about: held-out rows, what is predicted for them, and by which columns."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from anchored.errors import bad_value
from anchored.prediction.predictive import Predictive
from anchored.reporting import _figures, _page
from anchored.reporting._importance import Columns, Importance
from anchored.reporting._markup import Markup, plain
from anchored.reporting._page import Column, Section
from anchored.reporting._verdict import FEW_ROWS
from anchored.reporting._words import column, counted

WORST_ROWS = 10
_WORST_COLUMNS = 4


@dataclasses.dataclass(frozen=True)
class Case:
    """One target on held-out rows.

    Attributes
    ----------
    y : [row], targets, or for classes the numbers of their labels.
    x : [row, feature], or None if inputs are not a table.
    predict : arrays like ``x`` -> `Predictive` of this target.
    rows : names of the rows.
    """

    dist: Predictive
    y: np.ndarray
    x: np.ndarray | None
    columns: Columns
    predict: Callable[[np.ndarray], Predictive]
    rows: Sequence[str]
    coverage: float


@dataclasses.dataclass(frozen=True)
class Chapter:
    """What a report says of one target: what comes first, and the rest."""

    top: tuple[Markup, ...]
    sections: tuple[Section, ...]


def names_of_rows(X, n_rows: int) -> list[str]:
    """Labels of a frame's index, or numbers from 0."""
    index = getattr(X, "index", None)
    if hasattr(X, "columns") and index is not None and len(index) == n_rows:
        return [str(label) for label in index]
    return [str(i) for i in range(n_rows)]


def table_columns(estimator, X, n_features: int, feature_names) -> Columns:
    """The columns that an encoder made features of, or else one column for each feature."""
    encoder = getattr(estimator, "encoder_", None)
    if feature_names is None and encoder is not None:
        return Columns.owning(encoder.feature_columns)
    unnamed = [f"column {i}" for i in range(n_features)]
    of_frame = getattr(X, "columns", getattr(estimator, "feature_names_in_", unnamed))
    names = of_frame if feature_names is None else feature_names
    if len(names) != n_features:
        need = f"{n_features} names, one for each feature"
        raise bad_value("feature_names", f"{len(names)} of them", need)
    return Columns.single([str(name) for name in names])


def telling_columns(case: Case, found: Importance | None, rows) -> list[Column]:
    """Values of ``rows`` in the columns that matter most, of those that are one number a row."""
    if case.x is None or found is None:
        return []
    order = np.argsort(-found.score.mean(axis=1), kind="stable")
    single = [i for i in order if len(case.columns.features[i]) == 1][:_WORST_COLUMNS]
    return [(found.names[i], column(case.x[rows, case.columns.features[i][0]])) for i in single]


def columns_section(
    found: Importance | None, score: str, unit: str, epistemic: str, prefix: str = ""
) -> tuple[Section, ...]:
    """Which columns predictions and their spread depend on; nothing if that is not known."""
    if found is None:
        return ()
    more = len(found.names) - _figures.MOST_BARS
    rest = f" The {more:,} columns that matter least are not shown." if more > 0 else ""
    lead = (
        f"Each column of {counted(found.n_rows, 'row')} is shuffled, one at a time. Columns that "
        f"tell the same story share their importance.{rest}"
    )
    pictures = _page.figures(
        _page.figure(
            "Columns that predictions need",
            _figures.importances(found.names, found.score, f"rise of the {score}{unit}", False),
            _most_important(found),
            f"How much larger the {score} gets without what the column says.",
        ),
        _page.figure(
            "Columns that confidence depends on",
            _figures.importances(found.names, found.epistemic, f"change of {epistemic}", True),
            "",
            f"How much the {epistemic} of a row changes, up or down.",
        ),
    )
    return (Section(f"{prefix}Which columns matter", lead, (pictures,)),)


def _most_important(found: Importance) -> str:
    mean, spread = found.score.mean(axis=1), found.score.std(axis=1)
    first = int(np.argmax(mean))
    if found.n_rows < FEW_ROWS:
        return "Too few rows to tell."
    if mean[first] <= 2 * spread[first]:
        return "No column stands out."
    return f"“{plain(found.names[first], 60)}” matters most."
