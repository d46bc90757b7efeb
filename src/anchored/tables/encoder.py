"""From the columns of a table to the features of a network, the same for every later table.

Each column of the training table is of one kind, and later cells must be of that kind:

- numeric: its value; missing cells get the training median
- boolean: 0 or 1, from pairs of words such as no and yes; missing cells get the training mean
- category: one feature of 0 and 1 for each frequent level, and one for all others; levels that no
  training row has get one of their own
- large category: of more levels than that; also what the targets of training rows say about each
- date: days since 1970, and where they vary the time of year, week and day on a circle

Missing cells have a feature of their own where training cells were missing. No training row has the
feature of new levels (or, if there were no other levels in training, the feature of other levels).
So its weights stay as in the prior, members disagree about it, and rows with a new level get wide
error bars. The encoder may be fitted on a sample of the training rows, or before some of them
arrive. These rows may then have levels that it does not know. Such levels count as other levels
while networks are trained.
"""

import collections
import dataclasses
import difflib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anchored._json import Fields
from anchored.errors import TableError, shown
from anchored.tables.columns import (
    CYCLES,
    KINDS,
    TRUTHS,
    Boolean,
    Category,
    Column,
    Date,
    Levels,
    Numeric,
    empty_cells,
    mark,
    missing_cells,
    phase,
    write_features,
)
from anchored.tables.dates import ORDERS, date_orders, parse_date
from anchored.tables.levels import Means, Signals, by_other_parts, parts_of
from anchored.tables.numbers import FORMS, PLAIN, number_form, parse_number
from anchored.tables.table import Table, listed

MOST_LEVELS = 30
MOST_KNOWN = 20_000  # levels that are described by their targets, or known to be rare
_LEAST_SHARE, _LEAST_ROWS = 0.01, 5  # of a level with a feature of its own
_LEAST_COVERED = 0.5  # share of rows in such levels, or the column is left out
_MOSTLY = 0.9  # share of numbers in a column that seems to be meant as numbers
_MOST_CLASSES = 10  # of a target of whole numbers
_MOST_DISTINCT = 0.05  # share of rows, for such a target
_ID_WORDS = {"id", "ids", "index", "idx", "uuid", "guid", "identifier", "rowid", "unnamed"}
_TEXT_LIMIT = 100_000  # characters of a name or level in a saved encoder
_MARK = re.compile("[0-9a-f]{16}")
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
    def fit(
        cls, table: Table, keep: Collection[str] = (), signals: Signals | None = None
    ) -> "Encoder":
        """Find the kind of each column; those in ``keep`` are used whatever they hold.

        The columns that the table itself says to keep are, too. With ``signals`` of the targets,
        columns of many levels are described by them; encode the training rows by `fit_transform`.
        """
        keep = {*keep, *table.keep}
        unknown = [name for name in keep if name not in table.columns]
        if unknown:
            raise missing_columns(unknown, table.columns)
        columns, left_out = [], []
        for name, cells in table.columns.items():
            found = _fit_column(name, cells, name in keep, signals)
            if isinstance(found, str):
                left_out.append((name, found))
            else:
                columns.append(found)
        if not columns:
            reasons = listed((f"{shown(name)} ({reason})" for name, reason in left_out), 5)
            raise TableError(f"no column is left to predict from: {reasons or 'none given'}.")
        return cls(tuple(columns), tuple(left_out))

    @classmethod
    def fit_transform(
        cls, table: Table, signals: Signals, keep: Collection[str] = ()
    ) -> "tuple[Encoder, np.ndarray]":
        """The encoder of rows of positive weight, and the features of all training rows.

        The mean target of a row's level leaves out the row's own target.
        """
        counted = np.flatnonzero(signals.weight > 0)
        every = len(counted) == table.n_rows
        encoder = cls.fit(table if every else table.take(counted), keep, signals.take(counted))
        features = encoder.transform(table)
        ends = np.cumsum([len(column.feature_names) for column in encoder.columns])
        parts = None
        for column, end in zip(encoder.columns, ends, strict=True):
            if isinstance(column, Levels):
                parts = parts_of(table, signals) if parts is None else parts
                cells = _levels_of(table.columns[column.name])
                features[:, end - len(column.titles) : end] = by_other_parts(cells, signals, parts)
        return encoder, features

    def without_new_levels(self) -> "Encoder":
        """The same, but levels that no training row has share the feature of rare ones."""
        columns = (c.without_new() if isinstance(c, Category | Levels) else c for c in self.columns)
        return dataclasses.replace(self, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def text_names(self) -> tuple[str, ...]:
        """Names of the columns that must be read as text."""
        plain = (isinstance(column, Numeric) and not column.written for column in self.columns)
        return tuple(c.name for c, numbers in zip(self.columns, plain, strict=True) if not numbers)

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

    @property
    def indicators(self) -> np.ndarray:
        """Whether each feature [feature] is 1 for a level or a missing cell, and 0 elsewhere."""
        return np.array([flag for column in self.columns for flag in column.indicators])

    @property
    def days(self) -> np.ndarray:
        """Whether each feature [feature] counts the days of a date, which grow without end."""
        return np.array(
            [i == 0 and isinstance(c, Date) for c in self.columns for i in range(len(c.indicators))]
        )

    @property
    def dated(self) -> np.ndarray:
        """Whether each feature [feature] comes from a date."""
        return np.array([isinstance(c, Date) for c in self.columns for _ in c.indicators])

    @property
    def new(self) -> np.ndarray:
        """Whether each feature [feature] stands for levels that no training row has."""
        of_levels = (c.new if isinstance(c, Category | Levels) else -1 for c in self.columns)
        sizes = (len(column.feature_names) for column in self.columns)
        return np.concatenate(
            [np.arange(size) == new for size, new in zip(sizes, of_levels, strict=True)]
        )

    def transform(self, table: Table, training: bool = False) -> np.ndarray:
        """Features [row, feature] of a table with the same columns, in any order.

        If the features are for training networks, unknown levels count as rare levels.
        """
        self.check(table.columns)
        widths = [len(column.feature_names) for column in self.columns]
        out = np.zeros((table.n_rows, sum(widths)))
        for column, end, width in zip(self.columns, np.cumsum(widths), widths, strict=True):
            write_features(column, table, out[:, end - width : end], training)
        return out

    def readable(self, table: Table) -> np.ndarray:
        """Whether all cells of each row [row] can be read as in training."""
        bad = np.zeros(table.n_rows, bool)
        for column in self.columns:
            bad |= column.read(table.columns[column.name])[1]
        return ~bad

    def check(self, names: Collection[str]) -> tuple[str, ...]:
        """Raise if columns are missing from ``names``; otherwise the names that are not used."""
        there = set(names)
        missing = [name for name in self.names if name not in there]
        if missing:
            raise missing_columns(missing, names)
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
        found = Fields(content, wrong=_damaged)
        columns = tuple(_column_from_json(c) for c in found.objects("columns"))
        left_out = []
        for pair in found.items("left_out"):
            if not (isinstance(pair, list) and len(pair) == 2 and all(map(_is_text, pair))):
                raise found.wrong("left_out", pair, "a list of pairs of texts")
            left_out.append((pair[0], pair[1]))
        found.close()
        names = [column.name for column in columns]
        if not columns or len(set(names)) != len(names):
            raise found.wrong("columns", names, "at least one column and no name twice")
        return cls(columns, tuple(left_out))


def missing_columns(missing: Sequence[str], names: Collection[str]) -> TableError:
    """The error for columns that a table of ``names`` does not have."""
    many = "columns" if len(missing) > 1 else "column"
    near = difflib.get_close_matches(missing[0], names, n=1)
    hint = f" Did you mean {shown(near[0])}?" if near else ""
    return TableError(
        f"the table lacks the {many} {listed(map(shown, missing))}; the columns it has are "
        f"{listed(map(shown, names)) or 'none'}.{hint}"
    )


def target_kind(cells: np.ndarray) -> tuple[str, str]:
    """Whether a target is for "regression" or "classification", and the reason in words.

    Text means classes, even a word such as None. Two different whole numbers also mean classes. So
    do up to ten, if each occurs at least twice and their number is below 5 % of the number of rows.
    """
    cells = cells[~empty_cells(cells)]
    if not len(cells):
        raise TableError("every cell of the target is missing.")
    if cells.dtype == object:
        counts = collections.Counter(cells.tolist())
        n_other = sum(count for cell, count in counts.items() if parse_number(cell) is None)
        if len(counts) > max(_MOST_CLASSES, len(cells) / 2):
            if 2 * n_other < len(cells):
                raise TableError(
                    f"{n_other} of {len(cells)} cells of the target are not numbers, such as "
                    f"{shown(_not_number(counts))}: correct them, or leave a cell empty if its "
                    "target is missing."
                )
            raise TableError(
                f"the target has {len(counts)} different texts in {len(cells)} rows, such as "
                f"{shown(_not_number(counts))}: these are neither numbers nor classes."
            )
        return "classification", f"the target is text with {len(counts)} different values"
    values, counts = np.unique(cells, return_counts=True)
    n_values = len(values)
    if not np.all(values == np.floor(values)):
        return "regression", "the target has numbers that are not all whole"
    few = n_values <= _MOST_CLASSES and n_values < _MOST_DISTINCT * len(cells)
    if counts.min() >= 2 and (n_values == 2 or (few and n_values > 2)):
        return "classification", f"the target is {n_values} different whole numbers"
    return "regression", f"the target has numbers with {n_values} different values"


# --- which columns are used, and as what ---


def _fit_column(name: str, cells: np.ndarray, kept: bool, signals: Signals | None) -> Column | str:
    """A column, or why it is of no use."""
    missing = missing_cells(cells)
    there, has_missing = cells[~missing], bool(missing.any())
    if cells.dtype != object:
        return _fit_numbers(name, there, has_missing, PLAIN, kept)
    counts = collections.Counter(there.tolist())
    form = number_form(counts)
    if form is not None or not counts:
        values = _repeated(counts, functools.partial(parse_number, form=form or PLAIN))
        return _fit_numbers(name, values, has_missing, form or PLAIN, kept)
    constant = len(counts) == 1 and not has_missing
    if constant and not kept:
        return "constant"
    truth = _truth(counts)
    if truth:
        n_true = sum(count for cell, count in counts.items() if cell.lower() == truth)
        return Boolean(name, truth, n_true / len(there), has_missing)
    orders = date_orders(counts)
    if len(orders) == 1:
        days = _repeated(counts, functools.partial(parse_date, order=orders[0]))
        cycles = tuple(cycle for cycle in CYCLES if _varies(days, cycle))
        return Date(name, orders[0], _median(days), cycles, has_missing)
    levels = _frequent(counts, len(cells))
    if signals is not None and len(counts) > MOST_LEVELS and _repeats(counts):
        return _fit_levels(name, levels, cells, has_missing, signals)
    if constant or sum(counts[level] for level in levels) < _LEAST_COVERED * len(there):
        if not kept:
            return _why_not_text(counts, len(there), ambiguous=bool(orders))
        levels = _most_frequent(counts)
    return Category(name, levels, has_missing, _rare(counts, levels))


def _fit_levels(name: str, levels, cells: np.ndarray, has_missing: bool, signals) -> Levels:
    means = Means.fit(_levels_of(cells), signals)
    values = tuple(map(tuple, means.values.tolist()))
    titles = (*signals.titles, "how well known")
    usual = tuple(means.usual.tolist())
    return Levels(name, levels, has_missing, titles, tuple(means.levels), values, usual, True)


def _levels_of(cells: np.ndarray) -> np.ndarray:
    """The levels [row] of text, None where it is missing."""
    levels = cells.astype(object)
    levels[missing_cells(cells)] = None
    return levels


def _repeats(counts: Mapping[str, int]) -> bool:
    """Whether most rows are of levels that come often enough to have a mean."""
    often = sum(count for count in counts.values() if count >= _LEAST_ROWS)
    return often >= _LEAST_COVERED * sum(counts.values()) and len(counts) <= MOST_KNOWN


def _fit_numbers(
    name: str, values: np.ndarray, has_missing: bool, form: str, kept: bool
) -> Numeric | str:
    """``values`` are those that are there."""
    if not kept:
        different = np.unique(values)
        if not len(values):
            return "empty"
        if len(different) == 1 and not has_missing:
            return "constant"
        whole = np.all(different == np.floor(different))
        if whole and 1 < len(different) == len(values) and _ID_WORDS & _words_of(name):
            return "identifier: every row has a different number"
    return Numeric(name, _median(values), has_missing, form)


def _repeated(counts: Mapping[str, int], parse: Callable) -> np.ndarray:
    return np.repeat(np.array([parse(cell) for cell in counts], float), list(counts.values()))


def _why_not_text(counts: Mapping[str, int], n_cells: int, ambiguous: bool) -> str:
    """What text of many levels seems to be."""
    if ambiguous:
        return "dates whose day and month cannot be told apart; write them as YYYY-MM-DD"
    n_numbers = sum(count for cell, count in counts.items() if parse_number(cell) is not None)
    if n_numbers >= _MOSTLY * n_cells:
        n_other = n_cells - n_numbers
        return (
            f"numbers except for {n_other} of {n_cells} cells, such as {shown(_not_number(counts))}"
        )
    if sum(len(cell.split()) > 2 for cell in counts) > len(counts) / 2:
        return f"free text: {len(counts)} different texts in {n_cells} cells"
    if len(counts) == n_cells:
        return "identifier: every row has a different text"
    return f"too many levels: {len(counts)} in {n_cells} cells, most of them rare"


def _frequent(counts: Mapping[str, int], n_rows: int) -> tuple[str, ...]:
    least = max(_LEAST_SHARE * n_rows, _LEAST_ROWS)
    return tuple(level for level in _most_frequent(counts) if counts[level] >= least)


def _rare(counts: Collection[str], levels: Collection[str]) -> tuple[str, ...]:
    """Marks of levels of training rows that are not frequent; none if they are too many to keep."""
    rare = set(counts).difference(levels)
    return tuple(sorted(set(map(mark, rare)))) if len(rare) <= MOST_KNOWN else ()


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
    return next((cell for cell in counts if parse_number(cell) is None), "")


# --- JSON, which may come from anywhere ---


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _damaged(path: str, sentence: str) -> ValueError:
    return ValueError(f"{sentence} The saved encoder is damaged.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT_LIMIT and not _SURROGATES.search(value)


def _different(found: Fields, name: str, most: int, allowed: Collection[str] | None = None):
    texts = found.texts(name)
    known = allowed is None or set(texts) <= set(allowed)
    if (
        len(texts) > most
        or len(set(texts)) != len(texts)
        or not (known and all(map(_is_text, texts)))
    ):
        raise found.wrong(name, texts, f"at most {most} texts, none twice")
    return texts


def _marks(found: Fields) -> tuple[str, ...]:
    marks = _different(found, "rare", MOST_KNOWN)
    if not all(map(_MARK.fullmatch, marks)):
        raise found.wrong("rare", marks, "marks of 16 hexadecimal digits")
    return marks


def _name(found: Fields) -> str:
    name = found.text("name")
    if not _is_text(name):
        raise found.wrong("name", name, "text that a file can store")
    return name


_TAKE: dict[str, Callable[[Fields], Any]] = {
    "name": _name,
    "fill": lambda found: found.number("fill"),
    "has_missing": lambda found: found.flag("has_missing"),
    "form": lambda found: found.text("form", FORMS),
    "truth": lambda found: found.text("truth", TRUTHS),
    "order": lambda found: found.text("order", ORDERS),
    "levels": lambda found: _different(found, "levels", MOST_LEVELS),
    "titles": lambda found: found.texts("titles"),
    "rare": _marks,
    "known": lambda found: _different(found, "known", MOST_KNOWN),
    "has_new": lambda found: found.flag("has_new"),
    "values": lambda found: tuple(map(_numbers(found, "values"), found.items("values"))),
    "usual": lambda found: _numbers(found, "usual")(found.items("usual")),
    "cycles": lambda found: _different(found, "cycles", len(CYCLES), CYCLES),
}


def _numbers(found: Fields, name: str) -> Callable[[Any], tuple[float, ...]]:
    def checked(values: Any) -> tuple[float, ...]:
        plain = isinstance(values, list) and all(isinstance(v, float | int) for v in values)
        if not plain or not np.isfinite(values).all():
            raise found.wrong(name, values, "lists of finite numbers")
        return tuple(map(float, values))

    return checked


def _column_from_json(found: Fields) -> Column:
    record = KINDS[found.text("kind", KINDS)]
    fields = {}
    for field in dataclasses.fields(record):
        if field.default is dataclasses.MISSING or not found.absent(field.name):
            fields[field.name] = _TAKE[field.name](found)
    column = record(**fields)
    if isinstance(column, Levels):
        lengths = {len(column.titles), len(column.usual), *map(len, column.values)}
        if len(lengths) > 1 or len(column.values) != len(column.known) or not column.titles:
            raise found.wrong("values", len(column.values), "one for each title and known level")
    found.close()
    return column
