"""Tables of many files: `anchored predict` reads folders of Parquet and writes Parquet."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from benchmarks import large_predictions
from benchmarks.serving_engines import flats
from typer.testing import CliRunner

from anchored import serving
from anchored.cli import app

FRAME = flats(1_000, 4, new_levels=True)


@pytest.fixture
def folder(tmp_path):
    """Five files in two folders."""
    for part in range(5):
        inner = tmp_path / "rows" / f"year={2020 + part // 3}"
        inner.mkdir(parents=True, exist_ok=True)
        rows = FRAME[200 * part : 200 * (part + 1)]
        rows.to_parquet(inner / f"{part}.parquet", row_group_size=50)
    return tmp_path / "rows"


def predict(*arguments):
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def test_a_folder_of_parquet_files_is_one_table(path, folder, tmp_path):
    out = tmp_path / "out" / "predictions.parquet"
    result = predict(path, folder, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 1_000
    found = pd.read_parquet(out)
    batches = ds.dataset(folder, format="parquet").to_batches()
    truth = pa.Table.from_batches(serving.predict_batches(path, batches)).to_pandas()
    assert list(found) == list(truth)
    np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)
    assert [file.name for file in out.parent.iterdir()] == ["predictions.parquet"]


def test_classes_are_written_as_parquet(classes_path, folder, tmp_path):
    result = predict(classes_path, folder, "--out", tmp_path / "classes.parquet")
    assert result.exit_code == 0, result.output
    assert set(pd.read_parquet(tmp_path / "classes.parquet")["prediction"]) == {"cheap", "dear"}


def test_what_is_wrong_names_the_file(path, folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "there is no file named *.parquet in this folder" in predict(path, empty).output
    FRAME.drop(columns="size").to_parquet(folder / "year=2021" / "9.parquet")
    out = tmp_path / "predictions.parquet"
    result = predict(path, folder, "--out", out)
    assert result.exit_code == 2
    assert "lacks the column 'size'" in result.output
    assert not out.exists()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows():
    """Half a million rows take hardly more than a tenth of them."""
    few, many = (line.value for line in large_predictions.measure(500_000)[0][2::3])
    assert many < few + 0.4
