"""From the columns of a table to the features of a network, the same for every later table.

Each column of the training table is of one kind, and later cells must be of that kind:

- numeric: its value; missing cells get the training median
- boolean: 0 or 1, from pairs of words such as no and yes; missing cells get the training mean
- category: one feature of 0 and 1 for each frequent level, and one for all others
- date: days since 1970, and where they vary the time of year, week and day on a circle

Missing cells have a feature of their own where training cells were missing. A category always
has the feature for other levels, even if no training row is there: its weights are then as the
prior has them, members disagree, and rows with a new level are predicted with doubt.
"""

import collections
import dataclasses
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anchored.errors import TableError, shown
from anchored.tables.columns import (
    CYCLES,
    KINDS,
    TRUTHS,
    Boolean,
    Category,
    Column,
    Date,
    Numeric,
    missing_cells,
    number,
    phase,
)
from anchored.tables.dates import ORDERS, date_orders, parse_date
from anchored.tables.reading import Table

MOST_LEVELS = 30
_LEAST_SHARE, _LEAST_ROWS = 0.01, 5  # of a level with a feature of its own
_LEAST_COVERED = 0.5  # share of rows in such levels, or the column is left out
_MOSTLY = 0.9  # share of numbers in a column that seems to be meant as numbers
_MOST_CLASSES = 10  # of a target of whole numbers
_MOST_DISTINCT = 0.05  # share of rows, for such a target
_ID_WORDS = {"id", "ids", "index", "idx", "uuid", "guid", "identifier", "rowid", "unnamed"}
_TEXT_LIMIT = 100_000  # characters of a name or level in a saved encoder
_COLUMN_LIMIT = 100_000
_SURROGATES = re.compile("[\ud800-\udfff]")  # JSON can spell them, files cannot hold them


@dataclasses.dataclass(frozen=True)
class Encoder:
    """How each column of a table becomes features.

    Attributes
    ----------
    columns : those that are used, in the order of the training table.
    left_out : the name of each other column and why it is not used.
    """

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...]

    @classmethod
    def fit(cls, table: Table, keep: Collection[str] = ()) -> "Encoder":
        """Find the kind of each column; those in ``keep`` are used whatever they hold."""
        unknown = [name for name in keep if name not in table.columns]
        if unknown:
            raise _missing_columns(unknown, table.columns)
        columns, left_out = [], []
        for name, cells in table.columns.items():
            reason = _why_not(name, cells)
            if reason is None or name in keep:
                columns.append(_fit_column(name, cells, forced=reason is not None))
            else:
                left_out.append((name, reason))
        if not columns:
            reasons = ", ".join(f"{shown(name)} ({reason})" for name, reason in left_out[:5])
            more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
            raise TableError(f"no column is left to predict from: {reasons or 'none given'}{more}.")
        return cls(tuple(columns), tuple(left_out))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def text_names(self) -> tuple[str, ...]:
        """Of the columns that must be read as text."""
        return tuple(column.name for column in self.columns if column.kind != "numeric")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A different name for each feature."""
        seen: collections.Counter[str] = collections.Counter()
        names = []
        for name in (name for column in self.columns for name in column.feature_names):
            while seen[name]:
                name += "'"
            seen[name] += 1
            names.append(name)
        return tuple(names)

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """The column that each feature comes from."""
        return tuple(column.name for column in self.columns for _ in column.feature_names)

    def transform(self, table: Table) -> np.ndarray:
        """Features [row, feature] of a table with the same columns, in any order."""
        self.check(table.columns)
        widths = [len(column.feature_names) for column in self.columns]
        out = np.zeros((table.n_rows, sum(widths)))
        for column, end, width in zip(self.columns, np.cumsum(widths), widths, strict=True):
            column.write(table, out[:, end - width : end])
        return out

    def check(self, names: Collection[str]) -> tuple[str, ...]:
        """Raise if columns are missing from ``names``; otherwise the names that are not used."""
        there = set(names)
        missing = [name for name in self.names if name not in there]
        if missing:
            raise _missing_columns(missing, names)
        used = set(self.names)
        return tuple(name for name in names if name not in used)

    def to_json(self) -> dict[str, Any]:
        """Lists, dicts, text and numbers only."""
        columns = []
        for column in self.columns:
            fields = dataclasses.asdict(column)
            columns.append({"kind": column.kind, **{k: _listed(v) for k, v in fields.items()}})
        return {"columns": columns, "left_out": [list(pair) for pair in self.left_out]}

    @classmethod
    def from_json(cls, content: Any) -> "Encoder":
        """The inverse of ``to_json``; a ValueError of one line if ``content`` is anything else."""
        found = _fields(content, {"columns", "left_out"}, "encoder")
        columns = tuple(_column_from_json(c) for c in _list(found["columns"], "columns"))
        left_out = []
        for pair in _list(found["left_out"], "left_out"):
            name, reason = _list(pair, "left_out", length=2)
            left_out.append((_text(name, "left_out"), _text(reason, "left_out")))
        names = [column.name for column in columns]
        if not columns or len(set(names)) != len(names):
            raise _malformed("columns", "at least one column and no name twice")
        return cls(columns, tuple(left_out))


def target_kind(cells: np.ndarray) -> tuple[str, str]:
    """Whether a target is for "regression" or "classification", and the reason in words.

    Text is classes. So are two whole numbers, and up to ten if each of them comes twice and they
    are fewer than 5 % of the rows.
    """
    n_rows = len(cells) - int(missing_cells(cells).sum())
    if not n_rows:
        raise TableError("the target has no cell that is not missing.")
    if cells.dtype == object:
        counts = collections.Counter(cell for cell in cells if cell is not None)
        if len(counts) > max(_MOST_CLASSES, n_rows / 2):
            raise TableError(
                f"the target holds {len(counts)} different texts in {n_rows} rows, such as "
                f"{shown(_not_number(counts))}: these are neither numbers nor classes."
            )
        return "classification", f"the target is text with {len(counts)} different values"
    values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
    n_values = len(values)
    if not np.all(values == np.floor(values)):
        return "regression", "the target is numbers that are not all whole"
    few = n_values <= _MOST_CLASSES and n_values < _MOST_DISTINCT * n_rows
    if counts.min() >= 2 and (n_values == 2 or (few and n_values > 2)):
        return "classification", f"the target is {n_values} different whole numbers"
    return "regression", f"the target is numbers of {n_values} different values"


# --- which columns are used, and as what ---


def _why_not(name: str, cells: np.ndarray) -> str | None:
    """Why a column is of no use, if so."""
    missing = missing_cells(cells)
    n_cells = len(cells) - int(missing.sum())
    if not n_cells:
        return "empty"
    if cells.dtype != object:
        values = np.unique(cells[~missing])
        if len(values) == 1 and n_cells == len(cells):
            return "constant"
        whole = np.all(values == np.floor(values))
        is_id = whole and len(values) == n_cells and n_cells > 1 and _ID_WORDS & _words_of(name)
        return "identifier: every row has another number" if is_id else None
    counts = collections.Counter(cells[~missing].tolist())
    if len(counts) == 1 and n_cells == len(cells):
        return "constant"
    if _truth(counts) or len(date_orders(counts)) in (1, len(ORDERS)):
        return None
    frequent = _frequent(counts, len(cells))
    if sum(counts[level] for level in frequent) >= _LEAST_COVERED * n_cells:
        return None
    return _why_not_text(counts, n_cells)


def _why_not_text(counts: Mapping[str, int], n_cells: int) -> str:
    """What text of many levels seems to be."""
    if date_orders(counts):
        return "dates whose day and month cannot be told apart; write them as YYYY-MM-DD"
    n_numbers = sum(count for cell, count in counts.items() if number(cell) is not None)
    if n_numbers >= _MOSTLY * n_cells:
        n_other = n_cells - n_numbers
        return f"numbers but for {n_other} of {n_cells} cells, such as {shown(_not_number(counts))}"
    if sum(len(cell.split()) > 2 for cell in counts) > len(counts) / 2:
        return f"free text: {len(counts)} different texts in {n_cells} cells"
    if len(counts) == n_cells:
        return "identifier: every row has another text"
    return f"too many levels: {len(counts)} in {n_cells} cells, most of them rare"


def _fit_column(name: str, cells: np.ndarray, forced: bool) -> Column:
    missing = missing_cells(cells)
    has_missing = bool(missing.any())
    if cells.dtype != object:
        return Numeric(name, _median(cells[~missing]), has_missing)
    counts = collections.Counter(cells[~missing].tolist())
    if not counts:
        return Numeric(name, 0.0, has_missing)
    truth = _truth(counts)
    if truth:
        n_true = sum(count for cell, count in counts.items() if cell.lower() == truth)
        return Boolean(name, truth, n_true / sum(counts.values()), has_missing)
    orders = date_orders(counts)
    if len(orders) in (1, len(ORDERS)):
        different = np.array([parse_date(cell, orders[0]) for cell in counts], float)
        days = np.repeat(different, list(counts.values()))
        cycles = tuple(cycle for cycle in CYCLES if _varies(days, cycle))
        return Date(name, orders[0], _median(days), cycles, has_missing)
    levels = _most_frequent(counts) if forced else _frequent(counts, len(cells))
    return Category(name, levels, has_missing)


def _frequent(counts: Mapping[str, int], n_rows: int) -> tuple[str, ...]:
    least = max(_LEAST_SHARE * n_rows, _LEAST_ROWS)
    return tuple(level for level in _most_frequent(counts) if counts[level] >= least)


def _most_frequent(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Levels in an order that does not depend on that of the rows."""
    return tuple(sorted(counts, key=lambda level: (-counts[level], level))[:MOST_LEVELS])


def _truth(counts: Iterable[str]) -> str | None:
    """The word for 1 if all cells are of one pair of words."""
    words = {cell.lower() for cell in counts}
    return next((yes for yes, no in TRUTHS.items() if words <= {yes, no}), None)


def _words_of(name: str) -> set[str]:
    parts = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return set(re.findall(r"[a-z]+", parts.lower()))


def _median(values: np.ndarray) -> float:
    """Halved first, which is exact: two huge numbers have no sum."""
    return 2.0 * float(np.median(values / 2.0)) if len(values) else 0.0


def _varies(days: np.ndarray, cycle: str) -> bool:
    """Year and week go on from day to day, the day within itself."""
    return bool(np.ptp(phase(days if cycle == "day" else np.floor(days), cycle)) > 1e-9)


def _not_number(counts: Iterable[str]) -> str:
    return next((cell for cell in counts if number(cell) is None), "")


def _missing_columns(missing: Sequence[str], names: Collection[str]) -> TableError:
    many = "columns" if len(missing) > 1 else "column"
    listed = ", ".join(shown(name) for name in missing[:10])
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    there = ", ".join(shown(name) for name in list(names)[:10]) or "none"
    dots = ", ..." if len(names) > 10 else ""
    return TableError(
        f"the table lacks the {many} {listed}{more}; the columns it has are {there}{dots}."
    )


# --- JSON, which may come from anywhere ---


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _malformed(field: str, need: str) -> ValueError:
    return ValueError(f"`{field}` of the saved encoder must be {need}; the file is damaged.")


def _fields(content: Any, need: set[str], what: str) -> dict[str, Any]:
    if not isinstance(content, dict) or set(content) != need:
        raise _malformed(what, f"an object of {', '.join(sorted(need))}")
    return content


def _list(content: Any, field: str, length: int | None = None) -> list[Any]:
    if not isinstance(content, list) or len(content) > _COLUMN_LIMIT:
        raise _malformed(field, "a list")
    if length is not None and len(content) != length:
        raise _malformed(field, f"lists of {length}")
    return content


def _text(content: Any, field: str) -> str:
    if not isinstance(content, str) or len(content) > _TEXT_LIMIT or _SURROGATES.search(content):
        raise _malformed(field, "text")
    return content


def _finite(content: Any, field: str) -> float:
    is_number = isinstance(content, (int, float)) and not isinstance(content, bool)
    if not is_number or not abs(content) <= sys.float_info.max:
        raise _malformed(field, "a finite number")
    return float(content)


def _flag(content: Any, field: str) -> bool:
    if not isinstance(content, bool):
        raise _malformed(field, "true or false")
    return content


def _one_of(content: Any, field: str, allowed: Collection[str]) -> str:
    if not isinstance(content, str) or content not in allowed:
        raise _malformed(field, f"one of {', '.join(allowed)}")
    return content


def _different(content: Any, field: str, most: int) -> tuple[str, ...]:
    texts = tuple(_text(item, field) for item in _list(content, field))
    if len(texts) > most or len(set(texts)) != len(texts):
        raise _malformed(field, f"at most {most} texts, none twice")
    return texts


def _column_from_json(content: Any) -> Column:
    kind = _one_of(content.get("kind") if isinstance(content, dict) else None, "kind", KINDS)
    checks = {
        "name": lambda v: _text(v, "name"),
        "fill": lambda v: _finite(v, "fill"),
        "has_missing": lambda v: _flag(v, "has_missing"),
        "truth": lambda v: _one_of(v, "truth", TRUTHS),
        "order": lambda v: _one_of(v, "order", ORDERS),
        "levels": lambda v: _different(v, "levels", MOST_LEVELS),
        "cycles": lambda v: tuple(
            _one_of(cycle, "cycles", CYCLES) for cycle in _different(v, "cycles", len(CYCLES))
        ),
    }
    record = KINDS[kind]
    need = [field.name for field in dataclasses.fields(record)]
    found = _fields(content, {"kind", *need}, "columns")
    return record(**{field: checks[field](found[field]) for field in need})
