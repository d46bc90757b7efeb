"""Rows in the body of a request, JSON or Arrow; what is wrong with them is said in one line."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchored.errors import TableError, shown
from anchored.serving import ipc
from anchored.serving.limits import Limits, Refusal, too_many_rows
from anchored.tables.columns import Category, Column, Levels
from anchored.tables.encoder import Encoder, missing_columns
from anchored.tables.frames import as_table, object_cells
from anchored.tables.table import Table, check_finite, listed

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
_NUMBERS = {float, int, type(None)}
_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
_SHAPE = 'such as {"rows": [{"column": 1.5}]} or {"columns": {"column": [1.5]}}'


@dataclass(frozen=True, eq=False)
class Question:
    """Rows to predict.

    Attributes
    ----------
    shape : of the answer: rows, columns or arrow.
    coverage : of intervals.
    cells : by column, as JSON has them; None if features are there.
    features : [row, feature] of rows that came as Arrow.
    ignored : columns that the model does not use.
    """

    shape: str
    n_rows: int
    coverage: float
    cells: dict[str, list] | None
    features: np.ndarray | None
    ignored: tuple[str, ...]


# JSON


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number; give null for a missing cell")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def from_json(body: bytes, encoder: Encoder, limits: Limits, coverage: float) -> Question:
    """The question of a JSON body; cells are read later, for several questions at once."""
    content = _parsed(body)
    if not isinstance(content, dict):
        raise Refusal(400, f"the body must be an object {_SHAPE}; got {_kind(content)}.")
    unknown = content.keys() - {"rows", "columns", "coverage"}
    if unknown or ("rows" in content) == ("columns" in content):
        got = listed(map(shown, content)) or "nothing"
        raise Refusal(
            400, f"the body must have `rows` or `columns`, {_SHAPE}, and may have `coverage`; "
            f"it has {got}."
        )  # fmt: skip
    coverage = checked_share(content.get("coverage", coverage))
    names = encoder.names
    if "rows" in content:
        cells, ignored = _by_rows(content["rows"], names, limits.max_rows)
    else:
        cells, ignored = _by_columns(content["columns"], names, limits.max_rows)
    shape = "rows" if "rows" in content else "columns"
    return Question(shape, len(cells[names[0]]), coverage, cells, None, tuple(sorted(ignored)))


def checked_share(coverage: Any) -> float:
    """The share of targets that intervals should hold."""
    if type(coverage) is not float or not 0 < coverage < 1:
        raise Refusal(400, f"`coverage` must be a number between 0 and 1; got {_kind(coverage)}.")
    return coverage


def _parsed(body: bytes) -> Any:
    try:
        return _DECODER.decode(body.decode())
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise Refusal(400, f"the body is not JSON: {reason}.")


def _by_rows(rows: Any, names: tuple[str, ...], most: int) -> tuple[dict[str, list], set[str]]:
    _check_list("rows", rows, most)
    for number, row in enumerate(rows, 1):
        if type(row) is not dict:
            raise Refusal(
                400, f"`rows`, row {number} must be an object of cells by column; got {_kind(row)}."
            )
    try:
        cells = {name: [row[name] for row in rows] for name in names}
    except KeyError:
        _raise_missing(rows, names)
    more = {name for row in rows if len(row) > len(names) for name in row}
    return cells, more.difference(names)


def _raise_missing(rows: list[dict], names: tuple[str, ...]) -> None:
    number = next(i for i, row in enumerate(rows, 1) if not all(name in row for name in names))
    row = rows[number - 1]
    error = missing_columns([name for name in names if name not in row], row)
    raise TableError(f"row {number}: {error} Give null for a missing cell.")


def _by_columns(columns: Any, names, most: int) -> tuple[dict[str, list], set[str]]:
    if type(columns) is not dict:
        raise Refusal(400, f"`columns` must be an object of lists; got {_kind(columns)}.")
    missing = [name for name in names if name not in columns]
    if missing:
        raise missing_columns(missing, columns)
    for name, cells in columns.items():
        _check_list(f"columns/{name}" if name in names else "columns", cells, most)
        if len(cells) != len(columns[names[0]]):
            raise Refusal(
                400, f"column {shown(name)} has {len(cells)} cells and {shown(names[0])} has "
                f"{len(columns[names[0]])}; give every column one cell for each row."
            )  # fmt: skip
    return {name: columns[name] for name in names}, columns.keys() - set(names)


def _check_list(what: str, given: Any, most: int) -> None:
    if type(given) is not list or not given:
        raise Refusal(400, f"`{what}` must be a list that is not empty; got {_kind(given)}.")
    if len(given) > most:
        raise too_many_rows(len(given), most)


def _kind(value: Any) -> str:
    if value == [] and type(value) is list:
        return "an empty list"
    return _NAMES.get(type(value)) or f"{value!s:.40}"


# Cells


def json_table(cells: dict[str, list], encoder: Encoder, text: Collection[str]) -> Table:
    """Cells of JSON as a table; in a column of text, a number is read as that text."""
    columns = {c.name: _cells(c, cells[c.name], c.name in text) for c in encoder.columns}
    return Table(columns, len(cells[encoder.columns[0].name]))


def _cells(column: Column, values: list, as_text: bool) -> np.ndarray:
    kinds = set(map(type, values))
    if kinds <= _NUMBERS:
        try:
            return check_finite(column.name, np.array(values, np.float64))
        except OverflowError:  # whole numbers may be larger
            return check_finite(column.name, np.array([_limited(v) for v in values], np.float64))
    if isinstance(column, Category | Levels) and kinds & {int, float}:
        values = [_level(column, value) for value in values]
    found = object_cells(values, as_text=as_text)
    if isinstance(found, str):
        row = next(i for i, value in enumerate(values) if isinstance(value, (list, dict)))
        raise TableError(
            f"column {shown(column.name)}, row {row + 1} contains {_kind(values[row])}; a cell "
            "must be text, a number, true, false or null."
        )
    return check_finite(column.name, found)


def _limited(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def _level(column: Category | Levels, value: Any) -> Any:
    if type(value) not in (int, float):
        return value
    return column.texts(np.array([_limited(value)]))[0]


# Arrow


def from_arrow(body: bytes, encoder: Encoder, limits: Limits, coverage: float) -> Question:
    """The question of a stream of Arrow batches."""
    table = ipc.read(body, limits)
    ignored = encoder.check(table.schema.names)
    names, text = frozenset(encoder.names), frozenset(encoder.text_names)
    ipc.check_size(table.select(list(encoder.names)), limits)
    features = encoder.transform(as_table(table, names, text))
    return Question("arrow", table.num_rows, coverage, None, features, tuple(sorted(ignored)))
