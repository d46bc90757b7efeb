"""The same cells give the same table, whatever holds them."""

import datetime
import decimal
import io
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from anchored.errors import TableError
from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table, as_table, is_frame, read_table

N = 60
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 58, 500_000)


def cells(seed=0):
    """Columns of Python's own types, with None for missing cells."""
    rng = np.random.default_rng(seed)
    columns = {
        "number": rng.normal(size=N).tolist(),
        "whole": rng.integers(0, 50, N).tolist(),
        "flag": (rng.uniform(size=N) < 0.5).tolist(),
        "town": np.array(["north", "south", "old town"])[rng.integers(3, size=N)].tolist(),
        "digits": [str(k) for k in rng.integers(0, 9, N)],
        "price": [f"${1_000 + k / 4:,.2f}" for k in rng.integers(0, 9_000, N)],
        "sold": [MOMENT.date() + datetime.timedelta(days=int(d)) for d in rng.integers(0, 900, N)],
        "seen": [MOMENT + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9_000, N)],
        "same": ["x"] * N,
    }
    for place, name in enumerate(list(columns)[:-1]):
        columns[name][5 + place] = None
    return columns


def from_csv(columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join("" if c is None else f'"{c}"' for c in row) for row in rows]
    return read_table(io.BytesIO("\n".join([",".join(columns), *lines]).encode()))


def from_parquet(columns):
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return read_table(io.BytesIO(buffer.getvalue()))


WAYS = {
    "csv": from_csv,
    "parquet": from_parquet,
    "arrow": pa.table,
    "batch": pa.RecordBatch.from_pydict,
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "pandas of objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas with its own missing": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas of arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda columns: pd.DataFrame(columns).astype({"town": "category"}),
    "polars categories": lambda columns: pl.DataFrame(columns).with_columns(
        pl.col("town").cast(pl.Categorical)
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_features(way):
    expected = Encoder.fit(from_csv(cells()))
    table = as_table(WAYS[way](cells()))
    encoder = Encoder.fit(table)
    assert encoder == expected
    np.testing.assert_array_equal(encoder.transform(table), expected.transform(from_csv(cells())))
    assert [column.kind for column in encoder.columns] == [
        "numeric", "numeric", "boolean", "category", "numeric", "numeric", "date", "date",
    ]  # fmt: skip
    later = as_table(WAYS[way](cells(1)))
    np.testing.assert_array_equal(encoder.transform(later), expected.transform(from_csv(cells(1))))


def test_zones_are_turned_into_utc():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moments = [MOMENT.replace(tzinfo=zone), None]
    frames = [
        pd.DataFrame({"at": moments}),
        pd.DataFrame({"at": moments}, dtype=object),
        pl.DataFrame({"at": moments}),
        pa.table({"at": moments}),
    ]
    for frame in frames:
        first, second = as_table(frame).columns["at"]
        assert first.replace("T", " ").rstrip("0") == "2024-02-29 21:59:58.5"
        assert second is None


def test_every_missing_cell_of_pandas():
    odd = pd.Series([None, np.nan, pd.NA, pd.NaT, "a"], dtype=object)
    assert as_table(pd.DataFrame({"x": odd})).columns["x"].tolist() == [None] * 4 + ["a"]
    whole = as_table(pd.DataFrame({"x": pd.array([1, None], "Int64")})).columns["x"]
    np.testing.assert_array_equal(whole, [1, np.nan])


def test_mixed_objects_are_as_in_a_file():
    odd = [1, 2.5, decimal.Decimal("0.25"), "7", np.float64(1e15 + 2), None]
    column = as_table(pd.DataFrame({"x": pd.Series(odd, dtype=object)})).columns["x"]
    np.testing.assert_array_equal(column, [1, 2.5, 0.25, 7, 1e15 + 2, np.nan])
    column = as_table(pd.DataFrame({"x": pd.Series([1, True, "b"], dtype=object)})).columns["x"]
    assert column.tolist() == ["1", "true", "b"]
    column = as_table(pl.DataFrame({"x": [decimal.Decimal("0.25"), None]})).columns["x"]
    np.testing.assert_array_equal(column, [0.25, np.nan])


def test_cells_that_no_table_holds_are_noted():
    for frame in (
        pd.DataFrame({"x": [[1], [2]], "y": [1, 2]}),
        pl.DataFrame({"x": [[1], [2]], "y": [1, 2]}),
        pa.table({"x": [[1], [2]], "y": [1, 2]}),
        pd.DataFrame({"x": pd.to_timedelta([1, 2]), "y": [1, 2]}),
        pd.DataFrame({"x": [1j, 2j], "y": [1, 2]}),
    ):
        table = as_table(frame)
        assert list(table.columns) == ["y"]
        assert table.notes[0].startswith("Column 'x' has ")
        assert "left out" in table.notes[0]


def test_names_are_text_and_differ():
    assert list(as_table(pd.DataFrame({0: [1.0], ("a", 1): [2.0]})).columns) == ["0", "('a', 1)"]
    with pytest.raises(TableError, match="columns 1 and 2 are both named '1'; rename one"):
        as_table(pd.DataFrame([[1.0, 2.0]], columns=[1, "1"]))


def test_infinite_numbers_are_named():
    with pytest.raises(TableError, match="column 'x', row 2 contains an infinite number"):
        as_table(pd.DataFrame({"x": [1.0, np.inf]}))


def test_what_is_a_frame():
    table = Table({"x": np.ones(2)}, 2)
    frames = [table, pd.DataFrame({"x": [1]}), pl.DataFrame({"x": [1]}), pa.table({"x": [1]})]
    assert all(map(is_frame, frames))
    assert as_table(table) is table
    others = [np.ones((2, 2)), [[1]], pd.Series([1]), {"x": [1]}, None, "x"]
    assert not any(map(is_frame, others))
    with pytest.raises(TableError, match=r"must be a data frame of pandas or polars .* got list"):
        as_table([[1]])


def test_frames_need_no_pyarrow():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pandas, polars, numpy as np\n"
        "from anchored.tables.encoder import Encoder\n"
        "from anchored.tables.reading import as_table\n"
        "cells = {'x': [1.5, None, 2], 'town': ['a', 'b', None], 'ok': [True, False, None]}\n"
        "tables = [as_table(kind(cells)) for kind in (pandas.DataFrame, polars.DataFrame)]\n"
        "for t in tables: print({n: c.tolist() for n, c in t.columns.items()})"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    first, second = run.stdout.splitlines()
    assert first == second
    assert "'town': ['a', 'b', None], 'ok': ['true', 'false', None]" in first
