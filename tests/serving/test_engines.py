"""Each engine gives what `predict_batches` gives, and hands columns on."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from benchmarks.serving_engines import ENGINES, apart, flats, of_estimator

import anchored
from anchored import runtime
from anchored.serving import engines

FRAME = flats(600, 1, new_levels=True)
QUICK = [name for name in ENGINES if name not in ("Ray Data", "Spark")]


@pytest.fixture(scope="module")
def truth(path):
    return of_estimator(anchored.load(path), FRAME)


@pytest.mark.parametrize("name", QUICK)
def test_an_engine_gives_the_estimator_s_numbers(path, truth, name):
    package, predict = ENGINES[name]
    pytest.importorskip(package)
    assert apart(predict(str(path), FRAME), truth) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Ray Data", "Spark"])
def test_a_cluster_gives_the_estimator_s_numbers(path, truth, name):
    package, predict = ENGINES[name]
    pytest.importorskip(package, reason=f"{package} is in an extra of its own")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of these packages about newer ones
        assert apart(predict(str(path), FRAME), truth) < 1e-5


def test_pandas_keeps_the_index_and_odd_columns(path):
    frame = FRAME.set_index(pd.Index([f"row {i}" for i in range(len(FRAME))]))
    frame["note"] = [[1, 2]] * len(frame)  # no cell of a table, and not asked for
    found = engines.with_pandas(path, frame, keep=["note"])
    assert found.index.equals(frame.index)
    assert found["note"].iloc[3] == [1, 2]
    assert engines.with_pandas(path, frame[:0]).shape == (0, 7)


def test_polars_is_lazy_and_keeps_categories(path):
    pl = pytest.importorskip("polars")
    pytest.importorskip("polars.testing")
    frame = pl.from_pandas(FRAME).with_columns(pl.col("town").cast(pl.Categorical))
    lazy = engines.with_polars(path, frame.lazy(), keep=["town", "id"], coverage=0.5)
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema().names()[:3] == ["town", "id", "mean"]
    found = lazy.filter((pl.col("id") < 10) & (pl.col("std") > 0)).collect()
    assert found["town"].dtype == pl.Categorical
    assert lazy.select("mean").collect().shape == (len(FRAME), 1)
    eager = engines.with_polars(path, frame, keep=["town", "id"], coverage=0.5)
    pl.testing.assert_frame_equal(found, eager.head(10))  # up to the rounding of other parts
    assert engines.with_polars(path, frame.head(0), keep=["town"]).shape == (0, 8)


def test_duckdb_s_function_takes_odd_names_and_nulls(path):
    duckdb = pytest.importorskip("duckdb")
    model = runtime.load(path)
    odd = [
        dataclasses.replace(c, name='the "size"') if c.name == "size" else c
        for c in model.encoder.columns
    ]
    encoder = dataclasses.replace(model.encoder, columns=tuple(odd))
    model = dataclasses.replace(model, fitted=dataclasses.replace(model.fitted, encoder=encoder))
    frame = FRAME.rename(columns={"size": 'the "size"'})
    with duckdb.connect() as connection:
        connection.register("flats", pa.Table.from_pandas(frame))
        call = engines.add_to_duckdb(connection, model, "price_of", coverage=0.8)
        assert call.startswith('price_of("the ""size""", "rooms", ')
        found = connection.sql(f"select unnest({call}) from flats order by id").df()
        truth = engines.with_pandas(path, FRAME, coverage=0.8)
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)
        with pytest.raises(ValueError, match="`name` must be a name such as predict; got 'a b'"):
            engines.add_to_duckdb(connection, model, "a b")
