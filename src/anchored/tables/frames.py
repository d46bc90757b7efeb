"""Data frames as tables: pandas, polars and Arrow, each cell as a file would give it.

Nothing is imported to recognise a frame, and pyarrow is needed only for its own tables.
"""

import datetime
import decimal
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from anchored.errors import TableError, shown
from anchored.tables.table import Table, cells_of_words, check_finite, check_names, text_of_words

_FRAMES = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "pyarrow",
    ("pyarrow", "RecordBatch"): "pyarrow",
}
_FOREIGN = object()  # in place of a cell that no table can hold


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a table of named columns rather than an array."""
    return isinstance(X, Table) or _home(X) is not None


def as_table(
    X: Any,
    names: Collection[str] | None = None,
    text: Collection[str] = (),
    n_before: int = 0,
) -> Table:
    """A data frame of pandas or polars, or a table or batch of Arrow, as a `Table`.

    Names of columns become text. Columns of lists, durations and the like are left out, and a
    note says so.

    Parameters
    ----------
    names, text : as in `anchored.tables.reading.read_blocks`; of ``names``, columns of lists and
        the like are an error.
    n_before : rows that came before these, for the numbers of rows in messages.
    """
    if isinstance(X, Table):
        return X
    home = _home(X)
    if home is None:
        raise TableError(
            f"`X` must be a data frame of pandas or polars or a table of Arrow; "
            f"got {type(X).__name__}."
        )
    every = list(X.schema.names) if home == "pyarrow" else [str(name) for name in X.columns]
    check_names(every)
    places = [i for i, name in enumerate(every) if names is None or name in names]
    columns, notes = {}, []
    for place in places:
        name = every[place]
        cells = _READERS[home](X, place, name in text)
        if not isinstance(cells, str):
            columns[name] = check_finite(name, cells, n_before)
        elif names is None:
            notes.append(f"Column {shown(name)} has {cells} cells and is left out.")
        else:
            raise TableError(
                f"column {shown(name)} has {cells} cells; give numbers, text, true and false, "
                "or dates."
            )
    others = tuple(name for name in every if names is not None and name not in names)
    numbers = np.arange(n_before + 1, n_before + len(X) + 1) if n_before else None
    return Table(columns, len(X), tuple(notes), others, numbers)


def array_table(X: np.ndarray, names: Iterable[str]) -> Table:
    """An array [row, column] of numbers or objects as a `Table` with these names."""
    plain = X.dtype.kind in "iuf"
    found = [c.astype(np.float64) if plain else object_cells(c.tolist(), str(X.dtype)) for c in X.T]
    columns = {}
    for name, cells in zip(names, found, strict=True):
        if isinstance(cells, str):
            raise TableError(
                f"column {shown(name)} has {cells} cells; a cell must be a number, "
                "text, true or false, or a date."
            )
        columns[name] = check_finite(name, cells)
    return Table(columns, len(X))


def _home(X: Any) -> str | None:
    """The package that a frame is of; its subclasses count."""
    for kind in type(X).__mro__:
        found = _FRAMES.get((kind.__module__.split(".")[0], kind.__name__))
        if found:
            return found
    return None


# Each of these gives cells, or what kind of cells they are that no table can hold.


def _arrow_cells(X: Any, place: int, as_text: bool) -> np.ndarray | str:
    from anchored.tables import arrow

    column = arrow.chunked(X.column(place))
    known = arrow.plain_type(column.type) is not None
    return arrow.cells(arrow.plain(column), as_text) if known else str(column.type)


def _pandas_cells(X: Any, place: int, as_text: bool) -> np.ndarray | str:
    series = X.iloc[:, place]
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if hasattr(series.dtype, "tz"):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "M":
        return _moments(series.to_numpy(dtype="datetime64[us]"))
    return object_cells(series.astype(object).tolist(), str(series.dtype), as_text)


def _polars_cells(X: Any, place: int, as_text: bool) -> np.ndarray | str:
    series = X[:, place]
    kind = series.dtype
    if kind.is_numeric():
        values = series.to_list() if str(kind).startswith("Decimal") else series.to_numpy()
        return np.array(values, np.float64)
    if str(kind).startswith("Datetime"):
        return _moments(series.to_numpy().astype("datetime64[us]"))  # in UTC
    return object_cells(series.to_list(), str(kind), as_text)


_READERS = {"pyarrow": _arrow_cells, "pandas": _pandas_cells, "polars": _polars_cells}


def _moments(values: np.ndarray) -> np.ndarray:
    """Text of moments in UTC; those at midnight are dates."""
    different, codes = np.unique(values, return_inverse=True)
    whole = different.astype("datetime64[D]") == different
    days = np.datetime_as_string(different, unit="D")
    moments = np.datetime_as_string(different, unit="us")
    words = np.where(whole, days, moments).tolist()
    return text_of_words(["" if word == "NaT" else word for word in words], codes)


def object_cells(
    values: Sequence[Any], kind: str = "object", as_text: bool = False
) -> np.ndarray | str:
    """A column of Python's objects, or the kind of cells that no table can hold."""
    places: dict[str, int] = {}
    codes = np.empty(len(values), np.intp)
    for row, value in enumerate(values):
        word = value if isinstance(value, str) else _word(value)
        if word is _FOREIGN:
            return kind if kind != "object" else type(value).__name__
        codes[row] = -1 if word is None else places.setdefault(word, len(places))
    words = list(places)
    return text_of_words(words, codes) if as_text else cells_of_words(words, codes)


def _word(value: Any) -> Any:
    """What a file would hold for a cell; None for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, float, np.integer, np.floating, decimal.Decimal)):
        return None if value != value else str(value)
    if isinstance(value, datetime.datetime):
        utc = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        return utc.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return _FOREIGN
