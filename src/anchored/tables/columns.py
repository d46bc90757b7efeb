"""The kinds a column of a table can be, and the features each kind writes for its cells.

A column may come as numbers or as text, because one block of a table may contain only numbers where
another one has words.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from anchored.errors import TableError, shown
from anchored.tables.dates import parse_date
from anchored.tables.numbers import PLAIN, parse_number
from anchored.tables.table import Table, is_missing

TRUTHS = {"yes": "no", "y": "n", "true": "false", "t": "f", "on": "off"}  # and their opposites
CYCLES = {"year": 365.25, "week": 7.0, "day": 1.0}  # days
_MONDAY = 4.0  # 1970-01-05, in days since 1970


@dataclasses.dataclass(frozen=True)
class Numeric:
    """Numbers; in text, all have the same ``form``. ``fill`` stands for missing cells."""

    kind: ClassVar[str] = "numeric"  # besides: how cells are written, and what they must hold
    name: str
    fill: float
    has_missing: bool
    form: str = PLAIN

    @functools.cached_property
    def feature_names(self) -> tuple[str, ...]:
        return self.name, *([_is_missing(self.name)] if self.has_missing else ())

    @property
    def indicators(self) -> tuple[bool, ...]:
        """Which features are 1 for some cells and 0 for all others."""
        return False, *([True] if self.has_missing else ())

    @property
    def written(self) -> str:
        return "" if self.form == PLAIN else f"numbers like {self.form}"

    @property
    def need(self) -> str:
        return "a number" if self.form == PLAIN else f"a number like {self.form}"

    def read(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Value [row] of each cell, NaN for missing ones, and whether it cannot be read [row]."""
        if cells.dtype != object:
            return cells, np.isinf(cells)
        return _parsed(cells, lambda cell: parse_number(cell, self.form))


@dataclasses.dataclass(frozen=True)
class Boolean:
    """Two words in any case; ``truth`` becomes 1, and ``fill`` stands for missing cells."""

    kind: ClassVar[str] = "boolean"
    written: ClassVar[str] = ""
    name: str
    truth: str
    fill: float
    has_missing: bool

    @functools.cached_property
    def feature_names(self) -> tuple[str, ...]:
        return f"{self.name}={self.truth}", *([_is_missing(self.name)] if self.has_missing else ())

    @property
    def indicators(self) -> tuple[bool, ...]:
        return (True,) * len(self.feature_names)

    @property
    def need(self) -> str:
        return f"{TRUTHS[self.truth]!r} or {self.truth!r}"

    def read(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As in `Numeric`."""
        words = {TRUTHS[self.truth]: 0.0, self.truth: 1.0}
        return _parsed(cells, lambda cell: words.get(cell.lower()))


@dataclasses.dataclass(frozen=True)
class Category:
    """Text of few levels; those that are not in ``levels`` share one feature.

    If training rows have such ``rare`` levels, levels that no training row has share another. Of
    each rare level, only its `mark` is kept, because its text may be a name or an address.
    """

    kind: ClassVar[str] = "category"
    written: ClassVar[str] = ""
    need: ClassVar[str] = "text"
    name: str
    levels: tuple[str, ...]
    has_missing: bool
    rare: tuple[str, ...] = ()

    @functools.cached_property
    def feature_names(self) -> tuple[str, ...]:
        own = tuple(f"{self.name}={level}" for level in self.levels)
        new = (f"{self.name} is new",) if self.rare else ()
        missing = (_is_missing(self.name),) if self.has_missing else ()
        return *own, f"{self.name} is other", *new, *missing

    @property
    def indicators(self) -> tuple[bool, ...]:
        return (True,) * len(self.feature_names)

    @property
    def new(self) -> int:
        """Place of the feature of levels that no training row has."""
        return len(self.levels) + bool(self.rare)

    def read(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Place [row] of the one feature that is 1; any cell can be read."""
        places, _ = self._lookup
        found = cells.tolist() if cells.dtype == object else self.texts(cells)
        others = {cell: self._place_of_other(cell) for cell in set(found) - places.keys()}
        codes = (places[cell] if cell in places else others[cell] for cell in found)
        return np.fromiter(codes, np.intp, len(cells)), np.zeros(len(cells), bool)

    def without_new(self) -> "Category":
        """The same without the feature of levels that no training row has."""
        return dataclasses.replace(self, rare=())

    def _place_of_other(self, cell: str | None) -> int:
        """Place of the feature of a cell that is no frequent level."""
        if cell is None or is_missing(cell):
            return self.new + self.has_missing
        return len(self.levels) if self.rare and mark(cell) in self._marks else self.new

    @functools.cached_property
    def _marks(self) -> frozenset[str]:
        return frozenset(self.rare)

    @functools.cached_property
    def _lookup(self) -> tuple[dict[Any, int], dict[Any, str]]:
        return _places(self.levels)

    def texts(self, numbers: np.ndarray) -> "list[str | None]":
        """The level that each number spells, or a text that is not a frequent level."""
        return _texts(numbers, self._lookup[1])


@dataclasses.dataclass(frozen=True)
class Levels:
    """Text of many levels: frequent ones as in `Category`, and what targets say about each level.

    ``known`` levels have ``values``, one for each of ``titles``; any other level has the ``usual``
    values.
    """

    kind: ClassVar[str] = "large category"
    written: ClassVar[str] = ""
    need: ClassVar[str] = "text"
    name: str
    levels: tuple[str, ...]
    has_missing: bool
    titles: tuple[str, ...]
    known: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    usual: tuple[float, ...]
    has_new: bool = False  # whether levels that are not known have a feature of their own

    @functools.cached_property
    def category(self) -> Category:
        """The part that has a feature for each frequent level."""
        frequent = set(self.levels)
        rare = tuple(mark(level) for level in self.known if level not in frequent)
        return Category(self.name, self.levels, self.has_missing, rare if self.has_new else ())

    @functools.cached_property
    def feature_names(self) -> tuple[str, ...]:
        return *self.category.feature_names, *(f"{self.name}: {title}" for title in self.titles)

    @property
    def indicators(self) -> tuple[bool, ...]:
        return *self.category.indicators, *(False for _ in self.titles)

    @property
    def new(self) -> int:
        """As in `Category`."""
        return self.category.new

    def read(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As in `Category`."""
        return self.category.read(cells)

    def without_new(self) -> "Levels":
        """As in `Category`."""
        return dataclasses.replace(self, has_new=False)

    def described(self, cells: np.ndarray) -> np.ndarray:
        """What training targets say about each cell, [row, title]."""
        places, _ = self._lookup
        found = cells.tolist() if cells.dtype == object else self.texts(cells)
        return self._described[[places.get(cell, -1) for cell in found]]

    @functools.cached_property
    def _lookup(self) -> tuple[dict[Any, int], dict[Any, str]]:
        return _places(self.known)

    @functools.cached_property
    def _described(self) -> np.ndarray:
        return np.array([*self.values, self.usual])

    def texts(self, numbers: np.ndarray) -> "list[str | None]":
        """As in `Category`."""
        return _texts(numbers, self._lookup[1])


@dataclasses.dataclass(frozen=True)
class Date:
    """Dates written in one ``order``; ``cycles`` of the year, week and day where they vary.

    Missing dates get the day ``fill``, and the centre of each circle.
    """

    kind: ClassVar[str] = "date"
    name: str
    order: str
    fill: float
    cycles: tuple[str, ...]
    has_missing: bool

    @functools.cached_property
    def feature_names(self) -> tuple[str, ...]:
        circle = [f"{self.name}: {part} of {c}" for c in self.cycles for part in ("sine", "cosine")]
        missing = (_is_missing(self.name),) if self.has_missing else ()
        return f"{self.name}: days", *circle, *missing

    @property
    def indicators(self) -> tuple[bool, ...]:
        flags = [False] * len(self.feature_names)
        return *flags[1:], self.has_missing

    @property
    def written(self) -> str:
        return f"dates like {self.order}"

    @property
    def need(self) -> str:
        return f"a date ({self.order})"

    def read(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Days since 1970, as in `Numeric`."""
        return _parsed(cells, lambda cell: parse_date(cell, self.order))


Column = Numeric | Boolean | Category | Levels | Date
KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Numeric, Boolean, Category, Levels, Date)
}


def write_features(column: Column, table: Table, out: np.ndarray, training: bool = False) -> None:
    """Fill ``out`` [row, feature] for the cells of a table; a cell that cannot be read is an error.

    In ``training`` rows, levels that are not known count as rare levels.
    """
    values, bad = column.read(table.columns[column.name])
    if bad.any():
        raise _bad_cell(table, column, int(np.argmax(bad)))
    if isinstance(column, Category | Levels):
        if training:
            values = np.where(values == column.new, len(column.levels), values)
        out[np.arange(len(values)), values] = 1.0
        if isinstance(column, Levels):
            out[:, -len(column.titles) :] = column.described(table.columns[column.name])
        return
    missing = np.isnan(values)
    out[:, 0] = np.where(missing, column.fill, values)
    if column.has_missing:
        out[:, -1] = missing
    for place, cycle in enumerate(column.cycles if isinstance(column, Date) else ()):
        angle = 2 * np.pi * phase(values, cycle)
        out[:, 1 + 2 * place] = np.nan_to_num(np.sin(angle))
        out[:, 2 + 2 * place] = np.nan_to_num(np.cos(angle))


def phase(days: np.ndarray, cycle: str) -> np.ndarray:
    """Where in its cycle each day is, from 0 to 1."""
    if cycle == "year":
        filled = np.where(np.isnan(days), 0.0, days)
        dates = np.floor(filled).astype("datetime64[D]")
        first = dates.astype("datetime64[Y]").astype("datetime64[D]")
        return (days - first.astype(float)) / CYCLES[cycle]
    return np.mod(days - _MONDAY, CYCLES[cycle]) / CYCLES[cycle]


def empty_cells(cells: np.ndarray) -> np.ndarray:
    """Where a column has empty cells, [row]; in a target, NA may be a class."""
    if cells.dtype != object:
        return np.isnan(cells)
    return np.fromiter((cell is None for cell in cells), bool, len(cells))


def missing_cells(cells: np.ndarray) -> np.ndarray:
    """Where a column has empty cells, or words for a missing value, [row]."""
    if cells.dtype != object:
        return np.isnan(cells)
    missing = {cell: is_missing(cell) for cell in set(cells.tolist())}
    return np.fromiter((missing[cell] for cell in cells), bool, len(cells))


def mark(level: str) -> str:
    """The hash of a level whose text is not kept; it is the same in every process and on every
    machine.

    Numbers have the same mark however they are written.
    """
    number = parse_number(level)
    text = level if number is None else repr(number)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _parsed(cells: np.ndarray, parse: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Float64 [row], NaN where missing, and where cells are bad; each is parsed once."""
    if cells.dtype != object:  # numbers are of no kind but `Numeric`
        return np.full(len(cells), np.nan), ~np.isnan(cells)
    values: dict[Any, Any] = {
        cell: np.nan if is_missing(cell) else parse(cell) for cell in set(cells.tolist())
    }
    bad = {cell for cell, value in values.items() if value is None}
    values |= dict.fromkeys(bad, np.nan)
    found = np.fromiter((values[cell] for cell in cells), np.float64, len(cells))
    return found, np.fromiter((cell in bad for cell in cells), bool, len(cells))


def _bad_cell(table: Table, column: Column, row: int) -> TableError:
    cell = table.columns[column.name][row]
    got = shown(cell if isinstance(cell, str) else f"{cell:g}")
    return TableError(
        f"column {shown(column.name)}, row {table.row_number(row)} must contain {column.need}, as "
        f"in training; got {got}."
    )


def _places(levels: Sequence[str]) -> tuple[dict[Any, int], dict[Any, str]]:
    """Where each level stands, and the level that each number is spelt as."""
    places = {level: place for place, level in enumerate(levels)}
    return places, {parse_number(level): level for level in reversed(levels)}


def _texts(numbers: np.ndarray, spelt: Mapping[Any, str]) -> "list[str | None]":
    return [None if value != value else spelt.get(value, repr(value)) for value in numbers.tolist()]


def _is_missing(name: str) -> str:
    return f"{name} is missing"
