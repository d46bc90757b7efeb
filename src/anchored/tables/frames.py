"""Data frames as tables: pandas, polars and Arrow, each cell as a file would give it.

Nothing is imported to know a frame, and pyarrow is needed for its own tables alone.
"""

import datetime
import decimal
from collections.abc import Iterable, Sequence
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


def as_table(X: Any) -> Table:
    """A data frame of pandas or polars, or a table of Arrow, as a `Table`.

    Names of columns become text. Columns of lists, durations and the like are left out, and a
    note says so.
    """
    if isinstance(X, Table):
        return X
    home = _home(X)
    if home is None:
        raise TableError(
            f"`X` must be a data frame of pandas or polars or a table of Arrow; "
            f"got {type(X).__name__}."
        )
    if home == "pyarrow":
        names, found = list(X.schema.names), _arrow_columns(X)
    else:
        names = [str(name) for name in X.columns]
        read = _pandas_cells if home == "pandas" else _polars_cells
        found = (read(X.iloc[:, i] if home == "pandas" else X[:, i]) for i in range(X.shape[1]))
    check_names(names)
    columns, notes = {}, []
    for name, cells in zip(names, found, strict=True):
        if isinstance(cells, str):
            notes.append(f"Column {shown(name)} holds {cells} cells and is left out.")
        else:
            columns[name] = check_finite(name, cells)
    return Table(columns, len(X), tuple(notes))


def array_table(X: np.ndarray, names: Iterable[str]) -> Table:
    """An array [row, column] of numbers or objects as a `Table` with these names."""
    plain = X.dtype.kind in "iuf"
    found = [c.astype(np.float64) if plain else _objects(c.tolist(), str(X.dtype)) for c in X.T]
    columns = {}
    for name, cells in zip(names, found, strict=True):
        if isinstance(cells, str):
            raise TableError(f"column {shown(name)} holds {cells} cells, which are no table's.")
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


def _arrow_columns(X: Any) -> "Iterable[np.ndarray | str]":
    from anchored.tables import arrow

    pa = arrow.pyarrow()
    whole = X if isinstance(X, pa.Table) else pa.Table.from_batches([X])
    for column in whole.columns:
        known = arrow.plain_type(column.type) is not None
        yield arrow.cells(arrow.plain(column)) if known else str(column.type)


def _pandas_cells(series: Any) -> np.ndarray | str:
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if hasattr(series.dtype, "tz"):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "M":
        return _moments(series.to_numpy(dtype="datetime64[us]"))
    return _objects(series.astype(object).tolist(), str(series.dtype))


def _polars_cells(series: Any) -> np.ndarray | str:
    kind = series.dtype
    if kind.is_numeric():
        values = series.to_list() if str(kind).startswith("Decimal") else series.to_numpy()
        return np.array(values, np.float64)
    if str(kind).startswith("Datetime"):
        return _moments(series.to_numpy().astype("datetime64[us]"))  # in UTC
    return _objects(series.to_list(), str(kind))


def _moments(values: np.ndarray) -> np.ndarray:
    """Text of moments in UTC; those at midnight are dates."""
    different, codes = np.unique(values, return_inverse=True)
    whole = different.astype("datetime64[D]") == different
    days = np.datetime_as_string(different, unit="D")
    moments = np.datetime_as_string(different, unit="us")
    words = np.where(whole, days, moments).tolist()
    return text_of_words(["" if word == "NaT" else word for word in words], codes)


def _objects(values: Sequence[Any], kind: str) -> np.ndarray | str:
    places: dict[str, int] = {}
    codes = np.empty(len(values), np.intp)
    for row, value in enumerate(values):
        word = value if isinstance(value, str) else _word(value)
        if word is _FOREIGN:
            return kind if kind != "object" else type(value).__name__
        codes[row] = -1 if word is None else places.setdefault(word, len(places))
    return cells_of_words(list(places), codes)


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
