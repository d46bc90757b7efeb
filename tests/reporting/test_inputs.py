"""Rows and columns of every kind of table are the same rows and columns."""

import types

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from anchored.estimators.inputs import Encoded
from anchored.reporting.inputs import Inputs, names_of_rows, take_rows
from anchored.tables.encoder import Encoder
from anchored.tables.frames import as_table
from anchored.tables.table import Table

CELLS = {"size": [1.5, 2.5, 4.0, 8.0], "<colour>": ["red", "blue", "red", None]}
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


def model(table=None):
    encoder = None if table is None else Encoder.fit(table, ["<colour>"])
    untold = types.SimpleNamespace(prior_scale={})  # no relevance of any column
    return types.SimpleNamespace(network=None, encoder_=encoder, model_=untold)


def as_dict(X):
    return {name: cells.tolist() for name, cells in as_table(X).columns.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_shuffled_one_at_a_time(kind):
    X = KINDS[kind]()
    estimator = model(as_table(X))
    inputs = Inputs.of(estimator, X, None)
    assert inputs.names == ("size", "<colour>")
    shuffled = inputs.shuffled(1, np.array([3, 0, 1, 2]))
    colours = [None, "red", "blue", "red"]
    assert as_dict(shuffled) == {"size": CELLS["size"], "<colour>": colours}
    assert as_dict(X) == CELLS
    some = inputs.take(np.array([2, 3]))
    assert some.cells(0) == ["4", "8"]
    assert some.cells(1) == ["red", ""]
    assert as_dict(take_rows(X, np.array([1]))) == {"size": [2.5], "<colour>": ["blue"]}
    assert Inputs.of(estimator, X, ["a", "b"]).names == ("a", "b")
    with pytest.raises(ValueError, match="`feature_names` must be 2 names"):
        Inputs.of(estimator, X, ["a"])


def test_only_columns_that_the_model_uses_are_shuffled():
    X = pd.DataFrame(CELLS | {"constant": [1.0] * 4})
    assert Inputs.of(model(as_table(X)), X, None).names == ("size", "<colour>")


def test_rows_have_the_names_that_their_table_gives_them():
    names = {"pandas": list("abcd"), "table": ["2", "3", "5", "9"]}
    for kind, make in KINDS.items():
        assert names_of_rows(make(), 4) == names.get(kind, ["0", "1", "2", "3"])
    assert names_of_rows(np.zeros((2, 2)), 2) == ["0", "1"]


def test_features_that_an_encoder_made_of_one_column_go_together():
    table = as_table(KINDS["pandas"]())
    estimator = model(table)
    x = estimator.encoder_.transform(table)
    inputs = Inputs.of(estimator, Encoded.of(x, estimator.encoder_), None)
    assert inputs.names == ("size", "<colour>")
    order = np.array([3, 0, 1, 2])
    for i in range(2):
        shuffled = inputs.shuffled(i, order)
        assert isinstance(shuffled, Encoded)
        expected = Inputs.of(estimator, table, None).shuffled(i, order)
        np.testing.assert_array_equal(shuffled, estimator.encoder_.transform(expected))
    assert inputs.cells(1) is None


def test_an_array_has_a_column_for_each_feature():
    x = np.arange(8.0).reshape(4, 2)
    inputs = Inputs.of(model(), x, None)
    assert inputs.names == ("column 0", "column 1")
    np.testing.assert_array_equal(
        inputs.shuffled(1, np.arange(4)[::-1]), np.column_stack([x[:, 0], x[::-1, 1]])
    )
    assert Inputs.of(model(), pd.DataFrame(x, columns=["a", "b"]), None).names == ("a", "b")


def test_images_and_words_have_no_columns():
    assert Inputs.of(model(), np.zeros((2, 8, 8, 1)), None) is None
    words = types.SimpleNamespace(network=types.SimpleNamespace(takes_tokens=True), encoder_=None)
    assert Inputs.of(words, np.zeros((2, 8), int), None) is None
