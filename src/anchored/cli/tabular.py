"""From a table and the name of its target to a model with error bars, checked on held-out rows.

The steps of ``anchored fit``, without its printing: plan (which rows, which columns, which
task), fit, score. Rows to test on are set aside before anything is learned from the table.
"""

import dataclasses
import difflib
import itertools
import time
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from sklearn import model_selection

from anchored import metrics
from anchored.core.members import n_cores
from anchored.errors import TableError, shown, unknown_name
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.reporting import GP_TRAINING_ROWS, headline
from anchored.tables.columns import missing_cells, number
from anchored.tables.dates import ORDERS, date_orders, parse_date
from anchored.tables.encoder import Encoder, target_kind
from anchored.tables.reading import Table
from anchored.tuning import FEW_ROWS, MANY_ROWS, N_STEPS, default_schedule

TASKS = ("regression", "classification")
LEAST_ROWS = 20
_TEST_SHARE, _MOST_TEST = 0.2, 10_000
_OPERATIONS = 2e10  # a second and core, about what docs/own_tables.md was made with
_COMPILING = 6.0  # seconds
_MOST_NAMED = 20  # columns in a message


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is going to be done with a table, known before any training.

    Attributes
    ----------
    task, reason : regression or classification, and why.
    target : name of the target column.
    encoder : turns the other columns into numbers; made from the training rows alone, unless a
        cell of a test row could then not be read (a note says so).
    x, y, x_test, y_test : the rows to train and to test on.
    test_rows : numbers of the test rows in the table, from 1 below its header.
    groups : of the training rows, if a column names them.
    n_dropped : rows left out because their target is missing.
    notes : what a careful reader should know, in words.
    """

    task: str
    reason: str
    target: str
    encoder: Encoder
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    test_rows: np.ndarray
    groups: np.ndarray | None
    n_dropped: int
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A model, its scores on the test rows, and what went wrong on the way."""

    model: Any
    verdict: str  # whether its error bars hold, in words
    scores: dict[str, float | None]
    gp: metrics.GPComparison | None
    seconds: float
    warnings: tuple[str, ...]


def make_plan(
    table: Table,
    target: str,
    *,
    task: str | None = None,
    group: str | None = None,
    order: str | None = None,
    keep: Collection[str] = (),
    seed: int = 0,
) -> Plan:
    """Decide what to do; a `TableError` says what stands in the way.

    ``group`` names a column whose equal values stay on one side of the split, ``order`` one
    (dates or numbers) whose last rows are the test; neither is then an input.
    """
    for role, name in (("--target", target), ("--group", group), ("--time", order)):
        if name is not None and name not in table.columns:
            raise TableError(f"{role}: {_no_column(name, table)}")
    if task is not None and task not in TASKS:
        raise unknown_name("task", task, TASKS)
    known = ~missing_cells(table.columns[target])
    n_dropped = int((~known).sum())
    table = table.take(np.flatnonzero(known))
    if table.n_rows < LEAST_ROWS:
        raise TableError(
            f"the table has {table.n_rows} rows with a target; at least {LEAST_ROWS} are needed."
        )
    cells = table.columns[target]
    if len(set(cells.tolist())) < 2:
        raise TableError(f"the target {shown(target)} has one value only: nothing to predict.")
    found, reason = (task, "as asked") if task is not None else target_kind(cells)
    y = _targets(cells, found, target)
    train, test = _split(table, y, found, group, order, seed)
    inputs = table.without([name for name in (target, group, order) if name is not None])
    if not inputs.columns:
        raise TableError(f"the table has no column besides {shown(target)} to predict it from.")
    if found == "classification" and len(np.unique(y[train])) < 2:
        raise TableError(f"{shown(target)} has one class only among the rows to train on.")
    notes = list(table.notes)
    if found == "classification":
        new = ~np.isin(y[test], y[train])
        if new.any():
            notes.append(f"{new.sum()} test rows have a class of their own and are left out.")
        test = test[~new]
    if not len(test):
        raise TableError("no row is left to test on: the held-out rows have classes of their own.")
    encoder, x = _encoded(inputs, train, keep, notes)
    notes += _doubts(x, y, train, test)
    rows = np.flatnonzero(known)
    return Plan(
        task=found,
        reason=reason,
        target=target,
        encoder=encoder,
        x=x[train],
        y=y[train],
        x_test=x[test],
        y_test=y[test],
        test_rows=rows[test] + 1,
        groups=None if group is None else _names(table.columns[group])[train],
        n_dropped=n_dropped,
        notes=tuple(notes),
    )


def expected_seconds(plan: Plan, members: int, hidden: Sequence[int] | None) -> float:
    """About how long the training will take on this machine."""
    n_rows, n_features = plan.x.shape
    many, classes = n_rows >= MANY_ROWS, plan.task == "classification"
    widths = list(hidden) if hidden is not None else [50] * (1 + (many and not classes))
    sizes = [n_features, *widths, 1]
    n_weights = sum(a * b for a, b in itertools.pairwise(sizes))
    others = (5, 15, 15) if classes else (8, 20, 30)  # of many, some and few rows
    n_trained = members + others[0 if many else 1 if n_rows >= FEW_ROWS else 2]
    batch = default_schedule(n_rows, len(widths)).batch_size
    work = 6.0 * N_STEPS * n_trained * batch * n_weights
    return _COMPILING + work / (_OPERATIONS * n_cores())


def fit(
    plan: Plan,
    *,
    members: int = 10,
    hidden: Sequence[int] | None = None,
    method: str = "anchored",
    max_seconds: float | None = None,
    coverage: float = 0.9,
    seed: int = 0,
    verbose: int = 0,
) -> Fitted:
    """Train on the plan's training rows and score on its test rows."""
    kind: Any = AnchoredRegressor if plan.task == "regression" else AnchoredClassifier
    options = {} if hidden is None else {"hidden": tuple(hidden)}
    model = kind(
        n_members=members,
        method=method,
        max_seconds=max_seconds,
        random_state=seed,
        verbose=verbose,
        **options,
    )
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(plan.x, plan.y, groups=plan.groups)
    seconds = time.perf_counter() - started
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    model.encoder_ = plan.encoder
    gap = None
    if (
        plan.task == "regression"
        and len(plan.x) <= GP_TRAINING_ROWS
        and model.noise_var_ is not None
    ):
        gap = model.compare_to_gp(plan.x_test)
    rows = model, plan.x_test, plan.y_test, coverage
    return Fitted(model, headline(*rows), scores(*rows), gap, seconds, tuple(dict.fromkeys(told)))


def rows_with_targets(
    model, table: Table, target: str, task: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and numbers of other rows, for a model that is fitted already.

    Rows whose target is missing, or a class the model does not know, are left out.
    """
    if target not in table.columns:
        raise TableError(f"the target is missing: {_no_column(target, table)}")
    rows = np.flatnonzero(~missing_cells(table.columns[target]))
    y = _targets(table.columns[target][rows], task, target)
    if task == "classification":
        known = model.classes_
        if known.dtype.kind in "UO" and y.dtype.kind not in "UO":
            y = np.array([f"{value:g}" for value in y])  # labels that happen to be all numbers
        rows, y = rows[np.isin(y, known)], y[np.isin(y, known)]
    if not len(rows):
        raise TableError(f"no row has a target {shown(target)} that the model knows.")
    return model.encoder_.transform(table.take(rows)), y, rows + 1


def scores(model, x, y, coverage: float = 0.9) -> dict[str, float | None]:
    """Scores of a fitted model on rows it has not seen; docs/metrics.md says what each means."""
    dist = model.predict_dist(x)
    if not hasattr(model, "classes_"):
        return {
            "rmse": metrics.rmse(dist, y),
            "r2": float(1 - np.mean((dist.mean - y) ** 2) / np.var(y)) if np.ptp(y) else None,
            "nll": metrics.nll(dist, y),
            "crps": metrics.crps(dist, y),
            "coverage": metrics.coverage(dist, y, coverage),
            "interval_score": metrics.interval_score(dist, y, coverage),
            "calibration_error": metrics.calibration_error(dist, y),
        }
    labels = np.searchsorted(model.classes_, y)
    return {
        "accuracy": metrics.accuracy(dist, labels),
        "nll": metrics.nll(dist, labels),
        "brier": metrics.brier(dist, labels),
        "ece": metrics.expected_calibration_error(dist, labels),
        "aurc": metrics.aurc(dist, labels),
    }


def _encoded(inputs: Table, train, keep, notes: list[str]) -> tuple[Encoder, np.ndarray]:
    """The encoder of the training rows, and all rows by it."""
    encoder = Encoder.fit(inputs.take(train), keep)
    try:
        return encoder, encoder.transform(inputs)
    except TableError as error:
        notes.append(f"kinds of columns were found on all rows, as training rows differ: {error}")
    encoder = Encoder.fit(inputs, keep)
    return encoder, encoder.transform(inputs)


def _targets(column: np.ndarray, task: str, name: str) -> np.ndarray:
    if task == "regression":
        if column.dtype == object:
            bad = next((cell for cell in column if number(cell) is None), column[0])
            raise TableError(
                f"the target {shown(name)} holds {shown(bad)}, which is not a number. Mend it, "
                "or use --task classification."
            )
        return np.asarray(column, np.float64)
    if column.dtype == object:
        return column.astype(str)
    whole = np.all(column == np.round(column)) and np.all(np.abs(column) < 2**53)
    return column.astype(np.int64) if whole else column


def _split(table: Table, y, task, group, order, seed) -> tuple[np.ndarray, np.ndarray]:
    n_rows = table.n_rows
    n_test = min(max(int(np.ceil(_TEST_SHARE * n_rows)), 2), _MOST_TEST)
    if order is not None:
        rank = _sortable(table.columns[order], order)
        sequence = np.argsort(rank, kind="stable")
        return np.sort(sequence[:-n_test]), np.sort(sequence[-n_test:])
    rows = np.arange(n_rows)
    if group is not None:
        names = _names(table.columns[group])
        if len(np.unique(names)) < 2:
            raise TableError(f"--group: {shown(group)} has one value only.")
        splitter = model_selection.GroupShuffleSplit(1, test_size=_TEST_SHARE, random_state=seed)
        train, test = next(splitter.split(rows, groups=names))
        return train, test
    stratify = None
    if task == "classification":
        _, counts = np.unique(y, return_counts=True)
        if counts.min() >= 2 and len(counts) <= n_test:
            stratify = y
    train, test = model_selection.train_test_split(
        rows, test_size=n_test, random_state=seed, stratify=stratify
    )
    return np.sort(train), np.sort(test)


def _names(column: np.ndarray) -> np.ndarray:
    return np.array([str(value) for value in column])


def _sortable(column: np.ndarray, name: str) -> np.ndarray:
    """Numbers as they are, dates as days."""
    if missing_cells(column).any():
        raise TableError(f"--time: {shown(name)} has missing cells; fill them or drop those rows.")
    if column.dtype != object:
        return column
    orders = date_orders(column)
    if len(orders) not in (1, len(ORDERS)):  # all of them: the year comes first
        need = "which of day and month comes first" if orders else "numbers or dates"
        raise TableError(
            f"--time: {shown(name)} does not tell {need}, e.g. {shown(column[0])}; write dates as "
            "YYYY-MM-DD."
        )
    return np.array([parse_date(cell, orders[0]) for cell in column], float)


def _doubts(x, y, train, test) -> list[str]:
    """Test rows that also stand among the training rows make scores too good."""
    codes = [hash(row.tobytes()) for row in np.ascontiguousarray(x)]
    seen = {(codes[i], str(y[i])) for i in train}
    n_double = sum((codes[i], str(y[i])) in seen for i in test)
    if not n_double:
        return []
    return [
        f"{n_double} of {len(test)} test rows also stand among the training rows, so scores may "
        "be too good. Remove duplicates, or keep them together with --group."
    ]


def _no_column(name: str, table: Table) -> str:
    near = difflib.get_close_matches(name, table.columns, n=1)
    hint = f" Did you mean {shown(near[0])}?" if near else ""
    some = ", ".join(shown(column) for column in list(table.columns)[:_MOST_NAMED])
    more = f" and {len(table.columns) - _MOST_NAMED} more" * (len(table.columns) > _MOST_NAMED)
    return f"there is no column {shown(name)}; the columns are {some}{more}.{hint}"
