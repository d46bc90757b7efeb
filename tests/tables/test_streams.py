"""Parquet files larger than memory: encoded block by block as one frame would be."""

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest

from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.core.rows import HostRows
from anchored.errors import TableError
from anchored.estimators import streams as estimator_streams
from anchored.tables import memory
from anchored.tables.encoder import Encoder
from anchored.tables.frames import as_table
from anchored.tables.streams import Stream, encoded, is_stream

# With a hidden layer: two epochs are too few for a straight line.
QUICK = {"hidden": (50,), "n_members": 4, "epochs": 2, "batch_size": 64, "random_state": 0}


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "area": rng.uniform(20, 150, n),
            "town": rng.choice(["north", "south", None], n),
            "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9_999, n), "D"),
            "rooms": rng.integers(1, 6, n).astype(float),
        }
    )
    found.loc[rng.random(n) < 0.1, "rooms"] = np.nan
    found["price"] = 2 * found["area"] + 20 * (found["town"] == "north") + rng.normal(size=n)
    found.loc[:4, "price"] = np.nan
    return found


@pytest.fixture
def folder(tmp_path):
    whole = frame()
    for i, rows in enumerate(np.array_split(np.arange(len(whole)), 3)):
        whole.iloc[rows].to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=50)
    return tmp_path


@pytest.fixture
def little_memory(monkeypatch):
    """A table of 400 rows is then large; training is not stopped by it."""
    monkeypatch.setattr(memory, "available", lambda: 1e6)


def test_files_of_every_source_are_the_same_rows(folder):
    paths = sorted(map(str, folder.glob("*.parquet")))
    dataset = pyarrow.dataset.dataset(paths)
    for source in (folder, str(folder), f"{folder}/part-*.parquet", paths, dataset):
        stream = Stream.of(source)
        assert list(stream.files) == paths
        assert stream.total == 400
    assert is_stream(dataset)
    assert is_stream("a.parquet")
    assert not is_stream(frame())


def test_features_are_those_of_the_frame(folder, tmp_path):
    table = as_table(frame()).without(["price"])
    encoder = Encoder.fit(table)
    rows = encoded(
        Stream.of(folder),
        "price",
        encoder,
        "regression",
        tmp_path / "x",
        leave_out=np.array([9, 200]),
    )
    kept = np.delete(np.arange(400), [0, 1, 2, 3, 4, 9, 200])
    np.testing.assert_array_equal(rows.x, encoder.transform(table)[kept].astype(np.float32))
    np.testing.assert_array_equal(rows.y, frame()["price"].to_numpy()[kept])
    assert isinstance(rows.y, np.memmap)  # which takes no memory
    assert rows.n_dropped == 5


def test_levels_outside_of_the_sample_count_as_rare_ones_in_training(tmp_path):
    """No training row has the feature of new levels."""
    towns = ["north", "south"] * 20 + ["hamlet", "mill", None]
    rows = pd.DataFrame({"town": towns, "price": np.arange(43.0)})
    rows.to_parquet(tmp_path / "rows.parquet")
    sample = as_table(rows[:41]).without(["price"])
    encoder = Encoder.fit(sample)
    found = encoded(Stream.of(tmp_path), "price", encoder, "regression", tmp_path / "x").x
    assert encoder.feature_names[encoder.new.argmax()] == "town is new"
    assert not np.any(found[:, encoder.new])
    np.testing.assert_array_equal(found[:41], encoder.transform(sample))
    np.testing.assert_array_equal(found[41:], found[[40, 40]])
    later = encoder.transform(as_table(rows[41:]))
    np.testing.assert_array_equal(later[:, encoder.new], 1)


def test_a_number_beyond_single_precision_is_refused(tmp_path):
    rows = pd.DataFrame({"size": [1.0, 2.0, 1e60], "price": [1.0, 2.0, 3.0]})
    rows.to_parquet(tmp_path / "rows.parquet")
    encoder = Encoder.fit(as_table(rows).without(["price"]))
    with pytest.raises(TableError, match=r"1e\+60, which single precision cannot hold"):
        encoded(Stream.of(tmp_path), "price", encoder, "regression", tmp_path / "x")


def test_a_sample_has_rows_of_all_files(folder):
    table = Stream.of(folder).sample(100)
    numbers = table.row_numbers - 1
    assert len(np.unique(numbers)) == 100
    np.testing.assert_array_equal(table.columns["area"], frame()["area"].to_numpy()[numbers])


def test_a_column_that_is_text_in_one_block_alone_is_text(tmp_path):
    for i, cells in enumerate((["01", "2"] * 10, ["a", "b"] * 10)):
        pd.DataFrame({"code": cells, "y": np.arange(20.0)}).to_parquet(tmp_path / f"{i}.parquet")
    table = Stream.of(tmp_path).whole()
    assert set(table.columns["code"]) == {"01", "2", "a", "b"}


@pytest.mark.slow
def test_small_files_are_fitted_as_their_frame(folder):
    known = frame().dropna(subset=["price"])
    there = AnchoredRegressor(**QUICK).fit(folder, "price")
    here = AnchoredRegressor(**QUICK).fit(known.drop(columns="price"), known["price"])
    new = frame(50, 1).drop(columns="price")
    np.testing.assert_array_equal(there.predict(new), here.predict(new))


@pytest.mark.parametrize("kind", [AnchoredRegressor, AnchoredClassifier])
def test_large_files_are_read_batch_by_batch(folder, little_memory, kind, monkeypatch):
    target = "price" if kind is AnchoredRegressor else "town"
    seen = []
    monkeypatch.setattr(kind, "_rows_that_stay", _watched(kind._rows_that_stay, seen))
    model = kind(**QUICK).fit(folder, target)
    [rows] = seen
    assert isinstance(rows.x, HostRows)
    assert isinstance(rows.x.source, np.memmap)
    assert not list(folder.glob("*float32*"))
    new = frame(60, 1)
    if kind is AnchoredRegressor:
        assert len(rows.y) == 395
        wrong = model.predict(new.drop(columns=target)) - new["price"]
        assert np.nanstd(wrong) < 0.8 * np.nanstd(new["price"])
    else:
        assert list(model.classes_) == ["north", "south"]
        assert model.predict_proba(new.drop(columns=target)).shape == (60, 2)


def _watched(function, seen):
    def called(*args):
        seen.append(function(*args))
        return seen[-1]

    return called


def test_what_is_wrong_is_said_in_one_line(folder, tmp_path):
    with pytest.raises(TableError, match="there is no such Parquet file"):
        AnchoredRegressor().fit(tmp_path / "none.parquet", "price")
    with pytest.raises(ValueError, match="`y` must be the name of the target column"):
        AnchoredRegressor().fit(folder, np.zeros(400))
    with pytest.raises(TableError, match="prize"):
        AnchoredRegressor().fit(folder, "prize")
    (folder / "part-9.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(TableError, match="part-9"):
        AnchoredRegressor().fit(folder, "price")
    (folder / "part-9.parquet").unlink()
    pd.DataFrame({"other": [1.0]}).to_parquet(folder / "part-9.parquet")
    with pytest.raises(TableError, match="has different columns"):
        AnchoredRegressor().fit(folder, "price")


def test_the_encoded_file_is_removed_after_a_failure(folder, little_memory, monkeypatch, tmp_path):
    monkeypatch.setattr(estimator_streams.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="n_members"):
        AnchoredRegressor(n_members=0).fit(folder, "price")
    assert not list(tmp_path.glob("anchored-*"))
