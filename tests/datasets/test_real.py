"""Real tables are the recorded files, split by seed or by time; a missing one says where it is."""

import dataclasses
import gzip
import hashlib
import re
import zipfile

import numpy as np
import pytest

from anchored.datasets import describe, load_real, split_real
from anchored.datasets import real as module
from anchored.datasets.real import Rows
from anchored.datasets.registry import REAL, TABLES, File, RealTable
from anchored.errors import MissingDataError
from anchored.tables.table import Table

FILES = [name for name, record in REAL.items() if record.sha256]


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Registers a table of these lines and writes it to a folder."""

    def make(lines, task="regression", split="random"):
        content = gzip.compress("\n".join(lines).encode(), mtime=0)
        (tmp_path / "tables").mkdir(exist_ok=True)
        (tmp_path / "tables" / "mine.csv.gz").write_bytes(content)
        sha = hashlib.sha256(content).hexdigest()
        record = RealTable("mine", "rows", task, "y", split, (len(lines) - 1, 2), sha, "url", "0")
        monkeypatch.setitem(REAL, "mine", record)
        return tmp_path

    return make


def test_there_are_twenty_one_tables_and_every_record_is_complete():
    assert len(REAL) == 21
    assert len(FILES) == 16
    assert sum(record.task == "regression" for record in REAL.values()) == 15
    for name, record in REAL.items():
        assert record.name == name
        assert record.split == "random" or record.split.startswith("time:")
        assert re.fullmatch("[0-9a-f]{64}", record.source_sha256)
        assert record.url.startswith("https://raw.githubusercontent.com/")
        assert describe(name) is TABLES.get(name, record)
        for words in (record.about, record.target, record.url, record.source_sha256, record.note):
            assert words in str(record)


@pytest.mark.parametrize("name", REAL)
def test_tables_are_the_recorded_ones(uci_folder, name):
    record = REAL[name]
    if record.sha256 and not (uci_folder / record.file).is_file():
        pytest.skip(f"no {record.file} in the folder of data files")
    inputs, y = load_real(name, uci_folder)
    assert inputs.shape == record.shape
    assert len(y) == record.shape[0]
    assert record.target not in inputs.columns
    if record.task == "regression":
        assert np.all(np.isfinite(y))
    else:
        assert y.dtype.kind in "Ui"
        assert 2 <= len(np.unique(y)) < 20


def test_inputs_and_classes_are_as_the_file_has_them(made_up):
    folder = made_up(["a,b,y", "1,x,no", ",NA,yes", "3,z,no"], "classification")
    inputs, y = load_real("mine", folder)
    np.testing.assert_array_equal(inputs.columns["a"], [1, np.nan, 3])
    assert inputs.columns["b"].tolist() == ["x", "NA", "z"]
    assert y.tolist() == ["no", "yes", "no"]


@pytest.mark.parametrize("kind", ["csv", "zip"])
def test_a_table_is_made_from_its_source(tmp_path, monkeypatch, kind):
    """Without what is dropped, without rows that have no target; words for nothing are empty."""
    content = b",a,b,a,leak,y\n1,1.5,NA,p,7,3\n2,,x,q,8,\n3,2.5,?,r,9,NA\n4,,z,s,9,5\n"
    path = tmp_path / f"source.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("some/notes.json", "{}")
            archive.writestr("some/table.csv", content)
    else:
        path.write_bytes(content)
    seen = []
    monkeypatch.setattr(module, "fetch", lambda file: seen.append(file) or path)
    url = f"https://example.org/x.{kind}"
    dropped = ("unnamed_1", "leak")
    record = RealTable("mine", "", "regression", "y", "random", (2, 3), "0", url, "1", dropped)
    monkeypatch.setitem(REAL, "mine", record)
    inputs, y = load_real("mine", tmp_path)
    assert seen == [File(f"mine-source.{kind}", url, "1")]
    assert y.tolist() == [3, 5]
    assert list(inputs.columns) == ["a", "b", "a.1"]
    np.testing.assert_array_equal(inputs.columns["a"], [1.5, np.nan])
    assert inputs.columns["b"].tolist() == [None, "z"]
    assert inputs.columns["a.1"].tolist() == ["p", "s"]
    monkeypatch.setitem(REAL, "mine", dataclasses.replace(record, dropped=("leak",)))
    with pytest.raises(ValueError, match=r"has \(2, 5\) rows and columns; it must have \(2, 3\)"):
        load_real("mine", tmp_path)


def test_a_missing_file_says_what_it_was_made_from(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        load_real("ikea", tmp_path)
    for words in (
        REAL["ikea"].url,
        REAL["ikea"].source_sha256,
        "without the columns unnamed_1",
    ):
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="`name` must be one of"):
        load_real("ikeas", tmp_path)


def test_a_file_of_another_content_is_refused(made_up):
    folder = made_up(["a,b,y", "1,2,3"])
    (folder / "tables" / "mine.csv.gz").write_bytes(gzip.compress(b"a,b,y\n1,2,4"))
    with pytest.raises(ValueError, match=r"is not the table mine: its sha256 is not"):
        load_real("mine", folder)


# Splits


def rows_of(n, y=None):
    dates = [str(np.datetime64("2020-01-01") + (7 * i) % n) for i in range(n)]
    table = Table({"row": np.arange(n, dtype=float), "when": np.array(dates, object)}, n)
    return Rows(table, np.arange(n, dtype=float) if y is None else y)


def numbers(part):
    return part.inputs.columns["row"].astype(int)


@pytest.mark.parametrize("max_train", [None, 30])
def test_a_random_split_is_the_seed_s_own(max_train):
    whole = rows_of(101)
    train, test = split_real("ames", whole, 3, max_train)
    assert (len(train.y), len(test.y)) == (max_train or 80, 21)
    assert not set(numbers(train)) & set(numbers(test))
    np.testing.assert_array_equal(numbers(test), test.y)
    again, other = (split_real("ames", whole, seed, max_train) for seed in (3, 4))
    np.testing.assert_array_equal(again.train.y, train.y)
    assert set(other.test.y) != set(test.y)
    # Fewer rows are the first of more, so methods that see all or some test alike.
    np.testing.assert_array_equal(split_real("ames", whole, 3).train.y[: len(train.y)], train.y)


def test_a_split_by_time_has_the_last_fifth_whatever_the_seed(monkeypatch):
    record = REAL["vic_elec"]
    monkeypatch.setitem(REAL, "vic_elec", RealTable(**vars(record) | {"split": "time:when"}))
    whole = rows_of(100)
    first, second = (split_real("vic_elec", whole, seed, 40) for seed in (0, 1))
    train, test = (part.inputs.columns["when"] for part in first)
    assert max(train) < min(test)  # as text, the year first
    assert len(first.test.y) == 20
    np.testing.assert_array_equal(first.train.y, second.train.y)
    np.testing.assert_array_equal(first.test.y, second.test.y)


def test_test_rows_of_a_class_that_was_never_seen_are_left_out():
    labels = np.array(["a", "b"] * 50)
    seed = 5
    rare = int(split_real("hmeq", rows_of(100, labels), seed).test.inputs.columns["row"][0])
    labels[rare] = "z"
    train, test = split_real("hmeq", rows_of(100, labels), seed)
    assert (len(train.y), len(test.y)) == (80, 19)
    assert "z" not in test.y


def test_a_seed_is_a_whole_number():
    with pytest.raises(ValueError, match="`seed` must be a whole number"):
        split_real("ames", rows_of(20), 0.5)
