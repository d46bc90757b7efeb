"""Predictions of Arrow batches are those of the model, however the rows are cut."""

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from benchmarks.serving_engines import apart, fitted, flats, of_estimator

import anchored
from anchored import runtime, serving
from anchored.errors import TableError
from anchored.serving import batches

FRAME = flats(500, 1, new_levels=True)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def predicted(model, parts, **options):
    return pa.Table.from_batches(serving.predict_batches(model, parts, **options)).to_pandas()


@pytest.mark.parametrize("size", [1, 7, 500])
def test_batches_of_any_size_are_the_estimator_s(path, size):
    rows = TABLE.slice(0, 40) if size == 1 else TABLE
    found = predicted(path, rows.to_batches(max_chunksize=size), keep=["id"])
    truth = of_estimator(anchored.load(path), FRAME[: len(rows)])
    assert list(found) == list(truth)
    assert apart(found, truth) < 1e-5


def test_long_batches_are_predicted_in_parts(path, monkeypatch):
    whole = predicted(path, TABLE.to_batches())
    monkeypatch.setattr(batches, "PART_ROWS", 64)
    parts = list(serving.predict_batches(path, TABLE.to_batches()))
    assert [part.num_rows for part in parts] == [64] * 7 + [52]
    found = pa.Table.from_batches(parts).to_pandas()
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)


def test_rows_are_read_when_predictions_are_asked_for(path):
    """So that no more than a batch is in memory."""
    taken = []

    def rows():
        for batch in TABLE.to_batches(max_chunksize=100):
            taken.append(batch.num_rows)
            yield batch

    made = serving.predict_batches(path, rows())
    assert taken == []
    next(made)
    next(made)
    assert taken == [100, 100]


def test_dictionaries_and_dates_are_as_their_text(path):
    plain = predicted(path, TABLE.to_batches())
    frame = FRAME.drop(columns="lift").astype({"town": "category", "street": "category"})
    coded = pa.Table.from_pandas(frame, preserve_index=False)
    assert pa.types.is_dictionary(coded.schema.field("town").type)
    with pytest.raises(TableError, match="the table lacks the column 'lift'"):
        predicted(path, coded.to_batches())
    words = pa.array(FRAME["lift"], pa.string())
    dates = pa.array(pd.to_datetime(FRAME["built"]).dt.date)
    place = coded.column_names.index("built")
    typed = coded.append_column("lift", words.dictionary_encode()).set_column(place, "built", dates)
    found = predicted(path, typed.to_batches())
    pd.testing.assert_frame_equal(found, plain)


def test_new_levels_and_missing_cells_are_predicted_with_doubt(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(path, 400)  # whole trainings: ten epochs of three members do not tell
    frame = flats(200, 2)
    known = predicted(path, [pa.RecordBatch.from_pandas(frame)])
    frame["town"], frame["street"] = "moon", "crater"
    new = predicted(path, [pa.RecordBatch.from_pandas(frame)])
    assert np.median(new["epistemic_std"]) > np.median(known["epistemic_std"])


def test_no_rows_and_no_batches(path):
    assert list(serving.predict_batches(path, [])) == []
    (empty,) = serving.predict_batches(path, [TABLE.to_batches()[0].slice(0, 0)], keep=["id"])
    assert empty.num_rows == 0
    assert empty.schema == serving.output_schema(path, TABLE.schema, ["id"])


def test_classes(classes_path):
    found = predicted(classes_path, TABLE.to_batches())
    assert list(found) == [
        "prediction", "p(cheap)", "p(dear)", "entropy", "mutual_information", "novelty"
    ]  # fmt: skip
    assert set(found["prediction"]) == {"cheap", "dear"}
    np.testing.assert_allclose(found["p(cheap)"] + found["p(dear)"], 1)
    sure = np.where(found["p(cheap)"] > 0.5, "cheap", "dear")
    assert (found["prediction"] == sure).all()


def test_models_are_paths_estimators_or_predictors(path):
    by_path = predicted(path, TABLE.to_batches())
    for model in (str(path), runtime.load(path), anchored.load(path)):
        pd.testing.assert_frame_equal(predicted(model, TABLE.to_batches()), by_path)
    with pytest.raises(TypeError, match="`model` must be the path of a model file"):
        serving.predict_batches(3, [])
    model = runtime.load(path)
    on_arrays = runtime.of(dataclasses.replace(model.fitted, encoder=None))
    with pytest.raises(
        ValueError, match=r"fitted on an array, so it has no column names\. Fit it on"
    ):
        serving.predict_batches(on_arrays, [])


def test_a_file_that_was_replaced_is_read_again(path, classes_path, tmp_path):
    copy = tmp_path / "model.safetensors"
    copy.write_bytes(path.read_bytes())
    assert "mean" in predicted(copy, TABLE.to_batches())
    copy.write_bytes(classes_path.read_bytes())
    assert "prediction" in predicted(copy, TABLE.to_batches())


def test_coverage(path):
    narrow, wide = (predicted(path, TABLE.to_batches(), coverage=c) for c in (0.5, 0.99))
    assert (wide["upper"] - wide["lower"] > narrow["upper"] - narrow["lower"]).all()
    with pytest.raises(ValueError, match="`coverage` must be a number between 0 and 1"):
        serving.predict_batches(path, [], coverage=90)


def test_errors_name_the_column_and_the_row_of_all_batches(path):
    bad = FRAME.astype({"size": object})
    bad.loc[250, "size"] = "large"
    parts = pa.Table.from_pandas(bad.astype({"size": str})).to_batches(max_chunksize=100)
    with pytest.raises(TableError, match=r"column 'size', row 251 must contain a number.*'large'"):
        predicted(path, parts)
    lists = TABLE.drop_columns("size").append_column("size", pa.array([[1.0]] * 500))
    with pytest.raises(TableError, match=r"column 'size' has list<.*give numbers, text"):
        predicted(path, lists.to_batches())
    with pytest.raises(TableError, match="`keep` has 'mean', which is also a column of pred"):
        predicted(path, TABLE.rename_columns({"id": "mean"}).to_batches(), keep=["mean"])
    with pytest.raises(
        TableError, match=r"`keep` names 'no', which is not a column; the columns are 'id', 'size'"
    ):
        predicted(path, TABLE.to_batches(), keep=["no"])
    with pytest.raises(TypeError, match=r"it has a DataFrame\. For other frames use"):
        predicted(path, [FRAME])


@pytest.mark.parametrize("of", ["pandas", "polars", "table", "reader"])
def test_readers_take_any_stream(path, of):
    pl = pytest.importorskip("polars")
    source = {
        "pandas": lambda: FRAME,
        "polars": lambda: pl.from_pandas(FRAME),
        "table": lambda: TABLE,
        "reader": TABLE.to_reader,
    }[of]()
    reader = serving.predict_reader(path, source, keep=["id"])
    assert isinstance(reader, pa.RecordBatchReader)
    found = reader.read_all().to_pandas()
    truth = predicted(path, TABLE.to_batches(), keep=["id"])
    assert apart(found, truth) < 1e-6


def test_serving_loads_neither_jax_nor_scikit_learn(path):
    code = (
        "import sys, pyarrow as pa; from anchored import serving; import anchored.serving.engines\n"
        "import anchored.serving.server\n"
        f"list(serving.predict_batches({str(path)!r}, []))\n"
        "print(sorted({'jax', 'sklearn', 'pandas', 'polars', 'ray'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
