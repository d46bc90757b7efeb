"""What is going to be done with a table, decided before any training.

The plan has the task, the rows to train on and to test on, and notes for a careful reader.
Rows to test on are set aside before anything is learned from the table.
"""

import collections
import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from anchored.errors import TableError, shown, unknown_name
from anchored.tables.columns import Numeric, empty_cells, missing_cells
from anchored.tables.dates import date_orders, parse_date
from anchored.tables.encoder import Encoder, missing_columns, target_kind
from anchored.tables.levels import Signals
from anchored.tables.numbers import number_form, parse_number
from anchored.tables.table import Table, listed

TASKS = ("regression", "classification")
LEAST_ROWS = 20
_TEST_SHARE, _MOST_TEST = 0.2, 10_000
# Times as far from the median as any other. If the tails of a target are so heavy that its variance
# is only just finite, the largest is as far off in one table of a hundred.
_FAR = 10.0
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit is lost


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """What is going to be done with a table.

    Attributes
    ----------
    task, reason : regression or classification, and why.
    target : name of the target column.
    inputs, y : the rows to train on, without the columns of target, groups and times.
    test_inputs, y_test : the rows to test on.
    test_rows : numbers of the test rows, as the table has them or from 1 below its header.
    groups : of the training rows, if a column names them.
    encoder : what an estimator will learn about the columns of the training rows.
    n_dropped : rows left out because their target is missing.
    notes : what a careful reader should know, in words.
    """

    task: str
    reason: str
    target: str
    inputs: Any  # `Table`, or `Streamed` rows of a table larger than memory
    y: np.ndarray
    test_inputs: Table
    y_test: np.ndarray
    test_rows: np.ndarray
    groups: np.ndarray | None
    encoder: Encoder
    n_dropped: int
    notes: tuple[str, ...]


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
    """Decide what to do; if the table cannot be used, a `TableError` says why.

    ``group`` names a column whose equal values stay on one side of the split, ``order`` one
    (dates or numbers) whose last rows are the test; neither is then an input.
    """
    _check_columns(table, target, group, order)
    if task is not None and task not in TASKS:
        raise unknown_name("task", task, TASKS)
    cells, notes = _read_target(table.columns[target], task)
    known = np.flatnonzero(~empty_cells(cells))
    numbers = known + 1 if table.row_numbers is None else table.row_numbers[known]
    cells, n_dropped, table = cells[known], len(cells) - len(known), table.take(known)
    if len(known) < LEAST_ROWS:
        rows = "1 row" if len(known) == 1 else f"{len(known)} rows"
        raise TableError(f"the table has {rows} with a target; at least {LEAST_ROWS} are needed.")
    if len(set(cells.tolist())) < 2:
        raise TableError(
            f"the target {shown(target)} has only one value: there is nothing to predict."
        )
    task, reason = (task, "as asked") if task is not None else target_kind(cells)
    y = targets_of(cells, task, target)
    train, test = _split(table, y, task, group, order, seed)
    inputs = table.without([name for name in (target, group, order) if name is not None])
    if not inputs.columns:
        raise TableError(f"the table has no column besides {shown(target)} to predict it from.")
    inputs = dataclasses.replace(inputs, keep=tuple(keep))
    if task == "classification":
        test = _of_known_classes(y, train, test, target, notes)
    signals = (Signals.of_classes if task == "classification" else Signals.of_numbers)(y[train])
    encoder = Encoder.fit(inputs.take(train), signals=signals)
    test = _readable(encoder, inputs, test, notes)
    notes += [*_missing_words(encoder, inputs), *_doubts(encoder, inputs, y, train, test)]
    if task == "regression":
        notes += _far_target(y[train], numbers[train])
    return Plan(
        task=task,
        reason=reason,
        target=target,
        inputs=inputs.take(train),
        y=y[train],
        test_inputs=inputs.take(test),
        y_test=y[test],
        test_rows=numbers[test],
        groups=None if group is None else _names(table.columns[group])[train],
        encoder=encoder,
        n_dropped=n_dropped,
        notes=(*table.notes, *notes),
    )


def labelled_rows(
    table: Table, target: str, classes: np.ndarray | None
) -> tuple[Table, np.ndarray, np.ndarray]:
    """Rows with targets that a fitted model knows, the targets, and the rows' numbers.

    ``classes`` are the labels that the model knows, None for regression.
    """
    _check_columns(table, target)
    task = "regression" if classes is None else "classification"
    cells = table.columns[target]
    if classes is None or classes.dtype.kind not in "UO":
        cells, _ = _read_target(cells, None)
    rows = np.flatnonzero(~empty_cells(cells))
    y = targets_of(cells[rows], task, target)
    if classes is not None:
        known = np.isin(y, classes)
        rows, y = rows[known], y[known]
    if not len(rows):
        raise TableError(f"no row has a target {shown(target)} that the model knows.")
    return table.take(rows), y, rows + 1


def _check_columns(table: Table, *names: str | None) -> None:
    missing = [name for name in names if name is not None and name not in table.columns]
    if missing:
        raise missing_columns(missing, table.columns)


def _read_target(cells: np.ndarray, task: str | None) -> tuple[np.ndarray, list[str]]:
    """Numbers, if all cells are numbers in one form, and a note on how the target is read."""
    if cells.dtype != object:
        return cells, []
    if task != "classification":
        form = number_form(set(cells[~missing_cells(cells)].tolist()))
        if form is not None:
            column = Numeric("", 0.0, False, form)
            note = [f"The target is read as {column.written}."] if column.written else []
            return column.read(cells)[0], note
    words = collections.Counter(cells[missing_cells(cells) & ~empty_cells(cells)].tolist())
    return cells, [
        f"{shown(word)} in {count} cells of the target is a class; leave a cell empty if its "
        "target is missing."
        for word, count in words.items()
    ]


def targets_of(cells: np.ndarray, task: str, name: str) -> np.ndarray:
    """Targets of cells that are not empty: numbers, or labels of classes."""
    if task == "regression":
        if cells.dtype == object:
            bad = next((cell for cell in cells if parse_number(cell) is None), cells[0])
            raise TableError(
                f"the target {shown(name)} contains {shown(bad)}, which is not a number. Correct "
                "it, or choose the task classification."
            )
        return np.asarray(cells, np.float64)
    if cells.dtype == object:
        return cells.astype(str)
    whole = np.all(cells == np.round(cells)) and np.all(np.abs(cells) < 2**53)
    return cells.astype(np.int64) if whole else cells


# --- which rows are set aside ---


def _split(table: Table, y, task, group, order, seed) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows to train and to test on, in the order of the table."""
    n_rows = table.n_rows
    n_test = min(max(int(np.ceil(_TEST_SHARE * n_rows)), 2), _MOST_TEST)
    random = np.random.RandomState(seed)
    is_test = np.zeros(n_rows, bool)
    if order is not None:
        is_test[np.argsort(_sortable(table.columns[order], order), kind="stable")[-n_test:]] = True
    elif group is not None:
        names, of_row = np.unique(_names(table.columns[group]), return_inverse=True)
        if len(names) < 2:
            raise TableError(f"the column {shown(group)} to group by has only one value.")
        chosen = random.permutation(len(names))[: int(np.ceil(_TEST_SHARE * len(names)))]
        is_test = np.isin(of_row, chosen)
    elif task == "classification":
        # Every fifth row or so of the rows by class: each class has its share, to within one row.
        shuffled = random.permutation(n_rows)
        by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
        is_test[by_class[((np.arange(n_test) + 0.5) * n_rows / n_test).astype(int)]] = True
    else:
        is_test[random.permutation(n_rows)[:n_test]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _of_known_classes(y, train, test, target: str, notes: list[str]) -> np.ndarray:
    if len(np.unique(y[train])) < 2:
        raise TableError(f"{shown(target)} has only one class among the training rows.")
    known = np.isin(y[test], y[train])
    if not known.all():
        notes.append(f"{(~known).sum()} test rows are left out: no training row has their class.")
    if not known.any():
        raise TableError(
            "no row is left to test on: the test rows have only classes that no training row has."
        )
    return test[known]


def _readable(encoder: Encoder, inputs: Table, test, notes: list[str]) -> np.ndarray:
    """The test rows whose cells are of the kinds that training rows have."""
    rows = inputs.take(test)
    readable = encoder.readable(rows)
    if readable.all():
        return test
    try:
        encoder.transform(rows)
    except TableError as error:
        n_bad = (~readable).sum()
        notes.append(f"{n_bad} of {len(test)} test rows cannot be read and are left out: {error}")
    if not readable.any():
        raise TableError(f"no row is left to test on: {notes[-1]}")
    return test[readable]


def _names(cells: np.ndarray) -> np.ndarray:
    return np.array([str(value) for value in cells])


def _sortable(cells: np.ndarray, name: str) -> np.ndarray:
    """Numbers as they are, dates as days."""
    if missing_cells(cells).any():
        raise TableError(
            f"the column {shown(name)} to order by has missing cells; fill them or drop those rows."
        )
    if cells.dtype != object:
        return cells
    orders = date_orders(cells)
    if len(orders) != 1:
        need = "which of day and month comes first" if orders else "numbers or dates"
        raise TableError(
            f"the column {shown(name)} to order by must show {need}; got {shown(cells[0])}. Write "
            "dates as YYYY-MM-DD."
        )
    return np.array([parse_date(cell, orders[0]) for cell in cells], float)


# --- what a careful reader should know ---


def _missing_words(encoder: Encoder, inputs: Table) -> list[str]:
    """Words such as NA in columns of text count as missing."""
    found = []
    for name in encoder.text_names:
        cells = inputs.columns[name]
        words = cells[missing_cells(cells) & ~empty_cells(cells)]
        counts = collections.Counter(words.tolist())
        found += [f"{shown(word)} in {shown(name)} ({n} cells)" for word, n in counts.items()]
    return [f"Words that count as missing: {listed(found)}."] if found else []


def _doubts(encoder: Encoder, inputs: Table, y, train, test) -> list[str]:
    """Test rows that also stand among the training rows make scores too good."""
    codes = _codes(y)
    for name in encoder.names:
        codes = (codes ^ _codes(inputs.columns[name])) * _MIX
    n_double = int(np.isin(codes[test], codes[train]).sum())
    if not n_double:
        return []
    return [
        f"{n_double} of {len(test)} test rows are also among the training rows, so scores may be "
        "too good. Remove duplicates, or keep them together as a group."
    ]


def _far_target(y: np.ndarray, numbers: np.ndarray) -> list[str]:
    """A target of training rows that stands far away from all others is often mistyped."""
    if len(y) < 2:
        return []
    off = np.abs(y - np.median(y))
    row = int(np.argmax(off))
    next_off = np.delete(off, row).max()
    if not off[row] > _FAR * next_off > 0:
        return []
    ratio = off[row] / next_off
    return [
        f"Row {numbers[row]} has the target {y[row]:g}, {ratio:,.0f} times as far from the median "
        "as any other, and will rule the fit. If it is a mistake, correct it or leave the cell "
        "empty."
    ]


def _codes(cells: np.ndarray) -> np.ndarray:
    """A number for each cell [row], the same for equal ones."""
    if cells.dtype == np.float64:
        return np.ascontiguousarray(cells).view(np.uint64) * _MIX
    return np.fromiter(map(hash, cells.tolist()), np.int64, len(cells)).view(np.uint64) * _MIX
