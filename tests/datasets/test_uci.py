"""Tables and their splits are the published ones; a wrong name, number or file is named."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from anchored.datasets import (
    describe,
    load_paper_split,
    load_table,
    load_uci,
    load_uci_split,
    standard_split,
)
from anchored.datasets.registry import FILES, IMAGES, TABLES, TEXTS

RANDOM = [name for name in TABLES if name != "song"]


@pytest.fixture(scope="session")
def song_arrays(uci_folder):
    if not (uci_folder / "song.npz").is_file():
        pytest.skip("no song.npz in the folder of UCI tables")
    with np.load(uci_folder / "song.npz") as arrays:
        return dict(arrays)


def made_up_song():
    """Arrays of the right shapes and types, no two values of a column alike."""
    parts = {"train": 5000, "test": 2000}
    x = {f"x_{part}": np.arange(n * 90.0).reshape(n, 90) for part, n in parts.items()}
    y = {f"y_{part}": np.arange(n, dtype=np.uint16) for part, n in parts.items()}
    return x | y


def write_mat(folder, arrays):
    """The files as published: a matrix and a column in each."""
    for part in ("train", "test"):
        columns = {f"{part}x": arrays[f"x_{part}"], f"{part}y": arrays[f"y_{part}"][:, None]}
        savemat(folder / f"song-{part}.mat", columns)


@pytest.mark.parametrize("name", RANDOM)
def test_tables_and_splits_are_the_published_ones(uci_folder, name):
    record = describe(name)
    x, y = load_uci(name, uci_folder)
    whole = np.loadtxt(uci_folder / f"{name}.txt")
    with np.load(uci_folder / f"{name}.splits.npz") as stored:
        assert record.target_column == stored["target"]
        np.testing.assert_array_equal(x, whole[:, stored["features"]])
        np.testing.assert_array_equal(y, whole[:, stored["target"]])
        assert len(stored["train"]) == len(stored["test"]) == record.n_splits
        for split, rows in enumerate(zip(stored["train"], stored["test"], strict=True)):
            for got, want in zip(standard_split(len(y), split), rows, strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "split"), [("yacht", 0), ("yacht", 19), ("protein", 4)])
def test_a_split_is_loaded(uci_folder, name, split):
    x, y = load_uci(name, uci_folder)
    train, test = standard_split(len(y), split)
    wanted = (x[train], y[train], x[test], y[test])
    for got, want in zip(load_uci_split(name, split, uci_folder), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_paper_s_splits_part_the_same_rows_otherwise(uci_folder):
    x, y = load_uci("yacht", uci_folder)
    whole = np.column_stack([x, y])
    sets = [load_paper_split("yacht", i, uci_folder) for i in (0, 19)]
    sets.append(load_uci_split("yacht", 0, uci_folder))
    for split in sets:
        assert (split.x_train.shape, split.x_test.shape) == ((277, 6), (31, 6))
        rows = np.column_stack([np.vstack(split[::2]), np.concatenate(split[1::2])])
        np.testing.assert_array_equal(rows[np.lexsort(rows.T)], whole[np.lexsort(whole.T)])
    tests = {split.y_test.tobytes() for split in sets}
    assert len(tests) == len(sets)


def test_naval_leaves_the_second_target_out(tmp_path):
    rows = np.arange(11_934 * 18.0).reshape(-1, 18)
    np.savetxt(tmp_path / "naval.txt", rows, fmt="%d")
    x, y = load_uci("naval", tmp_path)
    np.testing.assert_array_equal(x, rows[:, :16])
    np.testing.assert_array_equal(y, rows[:, 16])


def test_song_is_the_same_from_both_sources(tmp_path):
    arrays = made_up_song()
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "song.npz", **arrays)
    write_mat(tmp_path, arrays)
    for folder in (tmp_path / "npz", tmp_path):
        split = load_uci_split("song", 0, folder)
        for got, want in zip(split, ("x_train", "y_train", "x_test", "y_test"), strict=True):
            assert got.dtype == np.float64
            np.testing.assert_array_equal(got, arrays[want])
        x, y = load_uci("song", folder)
        np.testing.assert_array_equal(x, np.concatenate([split.x_train, split.x_test]))
        np.testing.assert_array_equal(y, np.concatenate([split.y_train, split.y_test]))


def test_stored_song_fits_the_published_files(uci_folder, song_arrays, tmp_path):
    """Written as the published files are, the stored rows give files of their very sizes."""
    write_mat(tmp_path, song_arrays)
    sizes = [(tmp_path / f"song-{part}.mat").stat().st_size for part in ("train", "test")]
    assert sizes == [3_610_256, 1_444_256]
    for got, want in zip(load_uci("song", uci_folder), load_uci("song", tmp_path), strict=True):
        np.testing.assert_array_equal(got, want)


def test_files_in_the_folder_have_the_recorded_hash(uci_folder):
    there = {file.name: file for file, _ in FILES.values() if (uci_folder / file.name).is_file()}
    assert "boston.txt" in there
    for name, file in there.items():
        content = (uci_folder / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file.sha256, name


def test_every_record_is_complete():
    fewer = {name: r.n_splits for name, r in TABLES.items() if r.n_splits != 20}
    assert len(TABLES) == 10
    assert fewer == {"protein": 5, "song": 1}
    for name, record in (TABLES | IMAGES | TEXTS).items():
        assert describe(name) is record
        for words in (record.about, record.target, record.licence, record.citation, record.note):
            assert words in str(record)
        assert record.files
    assert all(file.url.startswith("https://") for file, _ in FILES.values())
    hashes = {file.sha256 for file, _ in FILES.values()}
    assert len(hashes) == len(FILES)
    assert {len(bytes.fromhex(digest)) for digest in hashes} == {32}


def test_boston_says_why_it_was_withdrawn():
    assert "scikit-learn withdrew" in str(describe("boston"))
    assert "subset of YearPredictionMSD" in str(describe("song"))


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("boston", 20, r"`split` must be an integer from 0 to 19 for boston; got 20\."),
        ("boston", -1, r"from 0 to 19 for boston; got -1\."),
        ("boston", 0.5, r"from 0 to 19 for boston; got 0\.5\."),
        ("protein", 5, r"from 0 to 4 for protein; got 5\."),
        ("song", 1, r"`split` must be 0, the only one, for song; got 1\."),
    ],
)
def test_a_split_that_is_not_there_is_refused(name, split, message):
    with pytest.raises(ValueError, match=message):
        load_uci_split(name, split)


def test_unknown_names_are_explained():
    for load in (load_uci, load_table, lambda name: load_uci_split(name, 0)):
        with pytest.raises(ValueError, match=r"`name` must be one of boston.*mean 'boston'\?"):
            load("bostn")
    with pytest.raises(ValueError, match=r"one of boston, .*, birdstrikes; got 'mnits'"):
        describe("mnits")


@pytest.mark.parametrize("shape", [(307, 7), (308, 6), (1, 3)])
def test_a_file_of_another_table_is_refused(tmp_path, shape):
    np.savetxt(tmp_path / "yacht.txt", np.zeros(shape))
    with pytest.raises(ValueError, match=r"yacht\.txt.* must be \(308, 6\) and \(308,\)"):
        load_uci("yacht", tmp_path)


def test_the_page_s_table_is_the_registry():
    page = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text()
    rows = re.findall(r"^\| `.*", page, re.MULTILINE)
    assert rows == [
        f"| `{name}` | {r.shape[0]:,} | {' x '.join(map(str, r.shape[1:])) or 'a text'} "
        f"| {r.target} | {r.n_splits} |"
        for name, r in (TABLES | IMAGES | TEXTS).items()
    ]
