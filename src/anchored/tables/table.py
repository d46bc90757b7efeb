"""A table in memory: NumPy columns of numbers or text, and the rules that turn words into cells.

A column is numbers if every cell that is there is a number, otherwise text. Words such as NA
and None stay as they are in text: in an input they count as missing, in a target as a class.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from anchored.errors import TableError, shown

MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")  # in any case
_MOST_COLUMNS = 50_000
# What Arrow reads as a number, so that files and data frames agree.
_NUMBER = re.compile(
    r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE
)


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Attributes
    ----------
    columns : for each name float64 [row] with NaN for missing cells, or object [row] of str
        with None for empty ones.
    notes : what a reader of the file should know, one sentence each.
    others : columns of the file that were not asked for.
    row_numbers : [row], of the file's rows below its header, from 1; None if there is no file.
    keep : columns that an encoder must use whatever they contain.
    """

    columns: dict[str, np.ndarray]
    n_rows: int
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    row_numbers: np.ndarray | None = None
    keep: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.columns)

    def take(self, rows: np.ndarray) -> "Table":
        """The rows of these indices, in this order."""
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        index = np.arange(self.n_rows)[rows]
        numbers = None if self.row_numbers is None else self.row_numbers[index]
        return dataclasses.replace(self, columns=columns, n_rows=len(index), row_numbers=numbers)

    def without(self, names: Collection[str]) -> "Table":
        """All columns but these."""
        columns = {name: cells for name, cells in self.columns.items() if name not in names}
        return dataclasses.replace(self, columns=columns)

    def row_number(self, index: int) -> int:
        """The number of a row as messages name it."""
        return index + 1 if self.row_numbers is None else int(self.row_numbers[index])


def listed(items: Iterable[str], most: int = 20) -> str:
    """Names and the like for a message: on one line, and not too many."""
    items = list(items)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def is_missing(cell: str | None) -> bool:
    """Whether a cell of text is empty, or has a word for a missing value."""
    return cell is None or cell.lower() in MISSING


def cells_of_words(words: Sequence[str], codes: np.ndarray, comma: bool = False) -> np.ndarray:
    """A column from its different words; ``codes`` [row] are their places, -1 of empty cells.

    ``comma`` says that a comma may be the decimal mark.
    """
    words = [word.strip() for word in words]
    numbers = _numbers(words)
    if numbers is None and comma and not any("." in word for word in words):
        numbers = _numbers([word.replace(",", ".") for word in words])
    if numbers is not None:
        return np.append(numbers, np.nan)[codes]
    return text_of_words(words, codes)


def text_of_words(words: Sequence[str], codes: np.ndarray) -> np.ndarray:
    """A column of text from its different words, as in `cells_of_words`."""
    return np.array([*(word.strip() or None for word in words), None], dtype=object)[codes]


def _numbers(words: Sequence[str]) -> np.ndarray | None:
    """What the words spell, NaN for those that stand for nothing; None if one is no number."""
    values = np.full(len(words), np.nan)
    for place, word in enumerate(words):
        if _NUMBER.fullmatch(word):
            values[place] = float(word)
        elif word.lower() not in MISSING:
            return None
    return values


def check_finite(name: str, cells: np.ndarray, n_before: int = 0) -> np.ndarray:
    """The cells; ``n_before`` rows came before them."""
    if cells.dtype == np.float64 and np.isinf(cells).any():
        row = n_before + int(np.argmax(np.isinf(cells))) + 1
        raise TableError(
            f"column {shown(name)}, row {row} contains an infinite number; leave the cell empty "
            "if its value is not known."
        )
    return cells


def check_names(names: Sequence[str]) -> None:
    """Refuse two columns of one name, and so many that rows and columns seem to be swapped."""
    if len(names) > _MOST_COLUMNS:
        raise TableError(
            f"there are {len(names)} columns, more than {_MOST_COLUMNS}: each line must be one row."
        )
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        before = places.setdefault(name, place)
        if before != place:
            raise TableError(
                f"columns {before} and {place} are both named {shown(name)}; rename one of them."
            )
