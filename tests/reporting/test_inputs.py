"""Rows and columns of every kind of table are the same rows and columns."""

import types

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from anchored.reporting.inputs import Inputs, names_of_rows, take_rows
from anchored.tables.reading import Table

CELLS = {"size": [1.5, 2.5, 4.0, 8.0], "<colour>": ["red", "blue", "red", "green"]}
MODEL = types.SimpleNamespace(network=None)


def as_dict(X):
    if isinstance(X, Table):
        return {name: list(cells) for name, cells in X.columns.items()}
    if isinstance(X, pa.Table):
        return X.to_pydict()
    return X.to_dict(as_series=False) if isinstance(X, pl.DataFrame) else X.to_dict("list")


KINDS = {
    "pandas": lambda: pd.DataFrame(CELLS, index=["a", "b", "c", "d"]),
    "categories": lambda: pd.DataFrame(CELLS).astype({"<colour>": "category"}),
    "polars": lambda: pl.DataFrame(CELLS),
    "arrow": lambda: pa.table(CELLS),
    "table": lambda: Table(
        {"size": np.array(CELLS["size"]), "<colour>": np.array(CELLS["<colour>"], object)},
        4,
        row_numbers=np.array([2, 3, 5, 9]),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_shuffled_one_at_a_time(kind):
    X = KINDS[kind]()
    inputs = Inputs.of(MODEL, X, None)
    assert inputs.names == ("size", "<colour>")
    shuffled = inputs.shuffled(1, np.array([3, 0, 1, 2]))
    assert type(shuffled) is type(X)
    colours = ["green", "red", "blue", "red"]
    assert as_dict(shuffled) == {"size": CELLS["size"], "<colour>": colours}
    assert as_dict(X) == CELLS
    some = inputs.take(np.array([2, 0]))
    assert some.cells(0) == ["4.000", "1.500"]
    assert some.cells(1) == ["red", "red"]
    assert as_dict(take_rows(X, np.array([1]))) == {"size": [2.5], "<colour>": ["blue"]}


def test_rows_have_the_names_that_their_table_gives_them():
    names = {"pandas": list("abcd"), "table": ["2", "3", "5", "9"]}
    for kind, make in KINDS.items():
        assert names_of_rows(make(), 4) == names.get(kind, ["0", "1", "2", "3"])
    assert names_of_rows(np.zeros((2, 2)), 2) == ["0", "1"]


def test_features_that_an_encoder_made_of_one_column_go_together():
    encoder = types.SimpleNamespace(feature_columns=("colour", "size", "colour"))
    model = types.SimpleNamespace(network=None, encoder_=encoder)
    x = np.arange(12.0).reshape(4, 3)
    inputs = Inputs.of(model, x, None)
    assert inputs.names == ("colour", "size")
    expected = x.copy()
    expected[:, [0, 2]] = x[::-1][:, [0, 2]]
    np.testing.assert_array_equal(inputs.shuffled(0, np.arange(4)[::-1]), expected)
    frame = pd.DataFrame({"colour": ["red"] * 4, "size": x[:, 1]})
    assert Inputs.of(model, frame, None).features == ((0,), (1,))


def test_images_and_words_have_no_columns():
    assert Inputs.of(MODEL, np.zeros((2, 8, 8, 1)), None) is None
    words = types.SimpleNamespace(network=types.SimpleNamespace(takes_tokens=True))
    assert Inputs.of(words, np.zeros((2, 8), int), None) is None
