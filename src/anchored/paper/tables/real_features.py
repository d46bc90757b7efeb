"""The form in which other methods get a table: numbers with gaps, and categories as text.

Numbers stay numbers and their missing cells stay missing. Dates become days since 1970 and the
shares of the year, the week and the day that have passed. All other text is a category with every
level it has; a missing cell is a level of its own. Columns that do not vary among the training
rows are left out. Kinds and levels are those of the training rows.
"""

import collections
import dataclasses

import numpy as np

from anchored.tables.columns import CYCLES, Numeric, missing_cells, phase
from anchored.tables.dates import date_orders, parse_date
from anchored.tables.numbers import number_form
from anchored.tables.table import Table

MISSING_LEVEL = ""


@dataclasses.dataclass(frozen=True)
class Features:
    """Numbers [row, number], NaN where missing, and categories [row, category] of text."""

    numbers: np.ndarray
    categories: np.ndarray

    def take(self, rows: np.ndarray) -> "Features":
        return Features(self.numbers[rows], self.categories[rows])

    def __len__(self) -> int:
        return len(self.numbers)


@dataclasses.dataclass(frozen=True)
class Reader:
    """The kind of each column that is used: ``number``, ``category``, or the order of dates."""

    kinds: dict[str, str]

    @classmethod
    def fit(cls, table: Table) -> "Reader":
        kinds = {name: _kind(cells) for name, cells in table.columns.items() if _varies(cells)}
        return cls(kinds)

    def read(self, table: Table) -> Features:
        """The columns of a table; a cell that is not of its column's kind counts as missing."""
        numbers, categories = [], []
        for name, kind in self.kinds.items():
            cells = table.columns[name]
            if kind == "category":
                categories.append(_words(cells))
            elif kind.startswith("number"):
                numbers.append(Numeric(name, 0.0, True, kind.partition(":")[2]).read(cells)[0])
            else:
                numbers += _date_parts(cells, kind)
        return Features(
            np.array(numbers, float).reshape(len(numbers), table.n_rows).T,
            np.array(categories, object).reshape(len(categories), table.n_rows).T,
        )


@dataclasses.dataclass(frozen=True)
class Codes:
    """Levels of each category as whole numbers, the most frequent one first.

    ``most`` levels have a number of their own and all others share the next one; missing is NaN.
    """

    levels: tuple[dict[str, int], ...]

    @classmethod
    def fit(cls, categories: np.ndarray, most: int) -> "Codes":
        levels = []
        for column in categories.T:
            counts = collections.Counter(column[column != MISSING_LEVEL].tolist())
            ordered = sorted(counts, key=lambda level: (-counts[level], level))
            levels.append({level: place for place, level in enumerate(ordered[:most])})
        return cls(tuple(levels))

    def encode(self, categories: np.ndarray) -> np.ndarray:
        """Numbers [row, category]."""
        coded = np.empty(categories.shape)
        for place, levels in enumerate(self.levels):
            known = levels | {MISSING_LEVEL: np.nan}
            coded[:, place] = [known.get(cell, len(levels)) for cell in categories[:, place]]
        return coded


@dataclasses.dataclass(frozen=True)
class Filled:
    """For methods that cannot take gaps: medians, and columns of 0 and 1 that mark the gaps."""

    medians: np.ndarray
    has_gaps: np.ndarray  # [number], whether training cells were missing
    codes: Codes

    @classmethod
    def fit(cls, features: Features, most: int) -> "Filled":
        missing = np.isnan(features.numbers)
        there = [column[~gaps] for column, gaps in zip(features.numbers.T, missing.T, strict=True)]
        medians = np.array([np.median(values) for values in there])
        return cls(medians, np.asarray(missing.any(axis=0)), Codes.fit(features.categories, most))

    def numbers(self, features: Features) -> np.ndarray:
        """Numbers without gaps, [row, number]."""
        missing = np.isnan(features.numbers)
        filled = np.where(missing, self.medians, features.numbers)
        return np.hstack([filled, missing[:, self.has_gaps].astype(float)])

    def categories(self, features: Features) -> np.ndarray:
        """Codes [row, category]; a missing cell gets the code after that of all other levels."""
        last = np.array([len(levels) + 1.0 for levels in self.codes.levels])
        coded = self.codes.encode(features.categories)
        return np.where(np.isnan(coded), last, coded)


def _varies(cells: np.ndarray) -> bool:
    missing = missing_cells(cells)
    there = set(cells[~missing].tolist())
    return len(there) > 1 or bool(there and missing.any())


def _kind(cells: np.ndarray) -> str:
    if cells.dtype != object:
        return "number:" + Numeric.form
    there = set(cells[~missing_cells(cells)].tolist())
    form = number_form(there)
    if form is not None:
        return f"number:{form}"
    orders = date_orders(there)
    return orders[0] if orders else "category"


def _words(cells: np.ndarray) -> np.ndarray:
    if cells.dtype != object:
        cells = np.array([None if np.isnan(cell) else f"{cell:g}" for cell in cells], object)
    return np.where(missing_cells(cells), MISSING_LEVEL, cells)


def _date_parts(cells: np.ndarray, order: str) -> list[np.ndarray]:
    """Days, and the share of each cycle that has passed."""
    different = {cell: parse_date(cell, order) for cell in set(cells.tolist()) if cell is not None}
    days = np.array([different.get(cell) for cell in cells], float)
    return [days, *(phase(days, cycle) for cycle in CYCLES)]
