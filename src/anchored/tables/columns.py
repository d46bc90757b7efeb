"""The kinds a column of a table can be, and the features each kind writes for its cells.

A column may come as numbers or as text, since a block of a table may hold nothing but numbers
where another one has words.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anchored.errors import TableError, shown
from anchored.tables.dates import parse_date
from anchored.tables.reading import Table

TRUTHS = {"yes": "no", "y": "n", "true": "false", "t": "f", "on": "off"}  # and their opposites
CYCLES = {"year": 365.25, "week": 7.0, "day": 1.0}  # days
_MONDAY = 4.0  # 1970-01-05, in days since 1970
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Numeric:
    """Numbers; ``fill`` stands for missing ones."""

    kind: ClassVar[str] = "numeric"
    name: str
    fill: float
    has_missing: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.name, *([_is_missing(self.name)] if self.has_missing else ())

    def write(self, table: Table, out: np.ndarray) -> None:
        """Fill ``out`` [row, feature] for the cells of a table."""
        _write_values(_parsed(table, self.name, number, "a number"), self, out)


@dataclasses.dataclass(frozen=True)
class Boolean:
    """Two words in any case, ``truth`` being 1; ``fill`` stands for missing ones."""

    kind: ClassVar[str] = "boolean"
    name: str
    truth: str
    fill: float
    has_missing: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        return f"{self.name}={self.truth}", *([_is_missing(self.name)] if self.has_missing else ())

    def write(self, table: Table, out: np.ndarray) -> None:
        """Fill ``out`` [row, feature] for the cells of a table."""
        words = {TRUTHS[self.truth]: 0.0, self.truth: 1.0}
        need = " or ".join(map(repr, words))
        values = _parsed(table, self.name, lambda cell: words.get(cell.lower()), need)
        _write_values(values, self, out)


@dataclasses.dataclass(frozen=True)
class Category:
    """Text of few levels; those that are not in ``levels`` share one feature."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    has_missing: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        own = tuple(f"{self.name}={level}" for level in self.levels)
        missing = (_is_missing(self.name),) if self.has_missing else ()
        return *own, f"{self.name} is other", *missing

    def write(self, table: Table, out: np.ndarray) -> None:
        """Fill ``out`` [row, feature] for the cells of a table."""
        other = len(self.levels)
        places: dict[Any, int] = {level: place for place, level in enumerate(self.levels)}
        places[None] = other + 1 if self.has_missing else other
        cells = table.columns[self.name]
        if cells.dtype != object:
            cells = _as_text(cells, self.levels)
        codes = np.fromiter((places.get(cell, other) for cell in cells), np.intp, len(cells))
        out[np.arange(len(cells)), codes] = 1.0


@dataclasses.dataclass(frozen=True)
class Date:
    """Dates written in one ``order``; ``cycles`` of the year, week and day where they vary.

    Missing ones get the day ``fill``, and the centre of each circle.
    """

    kind: ClassVar[str] = "date"
    name: str
    order: str
    fill: float
    cycles: tuple[str, ...]
    has_missing: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        circle = [f"{self.name}: {part} of {c}" for c in self.cycles for part in ("sine", "cosine")]
        missing = (_is_missing(self.name),) if self.has_missing else ()
        return f"{self.name}: days", *circle, *missing

    def write(self, table: Table, out: np.ndarray) -> None:
        """Fill ``out`` [row, feature] for the cells of a table."""
        days = _parsed(
            table, self.name, lambda cell: parse_date(cell, self.order), f"a date ({self.order})"
        )
        _write_values(days, self, out)
        for place, cycle in enumerate(self.cycles):
            angle = 2 * np.pi * phase(days, cycle)
            out[:, 1 + 2 * place] = np.nan_to_num(np.sin(angle))
            out[:, 2 + 2 * place] = np.nan_to_num(np.cos(angle))


Column = Numeric | Boolean | Category | Date
KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Numeric, Boolean, Category, Date)}


def phase(days: np.ndarray, cycle: str) -> np.ndarray:
    """Where in its cycle each day is, from 0 to 1."""
    if cycle == "year":
        filled = np.where(np.isnan(days), 0.0, days)
        dates = np.floor(filled).astype("datetime64[D]")
        first = dates.astype("datetime64[Y]").astype("datetime64[D]")
        return (days - first.astype(float)) / CYCLES[cycle]
    return np.mod(days - _MONDAY, CYCLES[cycle]) / CYCLES[cycle]


def missing_cells(cells: np.ndarray) -> np.ndarray:
    """Where a column has nothing, [row]."""
    if cells.dtype != object:
        return np.isnan(cells)
    return np.fromiter((cell is None for cell in cells), bool, len(cells))


def number(cell: str) -> float | None:
    """The finite number that a cell spells, if it does."""
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    return value if math.isfinite(value) else None


def _parsed(table: Table, name: str, parse, need: str) -> np.ndarray:
    """Float64 [row], NaN where missing; each different cell is parsed once."""
    cells = table.columns[name]
    if cells.dtype != object:
        if parse is number:
            if np.isinf(cells).any():
                raise _bad_cell(table, name, int(np.argmax(np.isinf(cells))), need)
            return cells
        if np.isnan(cells).all():
            return cells
        raise _bad_cell(table, name, int(np.argmin(np.isnan(cells))), need)
    values: dict[Any, Any] = {cell: parse(cell) for cell in set(cells.tolist()) - {None}}
    if None in values.values():
        bad = (values.get(cell, 0.0) is None for cell in cells)
        raise _bad_cell(table, name, next(row for row, is_bad in enumerate(bad) if is_bad), need)
    values[None] = np.nan
    return np.fromiter((values[cell] for cell in cells), np.float64, len(cells))


def _bad_cell(table: Table, name: str, row: int, need: str) -> TableError:
    cell = table.columns[name][row]
    got = shown(cell if isinstance(cell, str) else f"{cell:g}")
    return TableError(
        f"column {shown(name)}, row {table.row_number(row)} must hold {need}, as in training; "
        f"got {got}."
    )


def _as_text(numbers: np.ndarray, levels: Sequence[str]) -> np.ndarray:
    """The level that stands for each number, or text that is no level."""
    known = {number(level): level for level in reversed(levels)}
    words = [None if np.isnan(value) else known.get(value, "") for value in numbers.tolist()]
    return np.array(words, dtype=object)


def _write_values(values: np.ndarray, column: "Numeric | Boolean | Date", out: np.ndarray) -> None:
    missing = np.isnan(values)
    out[:, 0] = np.where(missing, column.fill, values)
    if column.has_missing:
        out[:, -1] = missing


def _is_missing(name: str) -> str:
    return f"{name} is missing"
