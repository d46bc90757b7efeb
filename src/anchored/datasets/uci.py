"""The regression tables of the paper's benchmark, and their standard splits.

Files are read from a folder (``data_dir`` or the environment variable ``ANCHORED_DATA``) or
else downloaded. Splits are those of Hernandez-Lobato and Adams (2015).
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchored.datasets.folder import find_file, find_in_folder
from anchored.datasets.registry import TABLES, DataSet
from anchored.errors import bad_value, unknown_name


class Split(NamedTuple):
    """Features [batch, feature] and targets [batch] of the training and the test rows."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_uci(name: str, data_dir: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features [batch, feature] and target [batch] of one of the registry's ``TABLES``.

    `describe(name)` gives the origin, the licence and notes: scikit-learn withdrew ``boston``
    because of the racial assumption behind one of its features, and ``song`` is a small subset of
    YearPredictionMSD.
    """
    table = _table(name)
    read = _read_song if name == "song" else _read_text
    path, x, y = read(table, data_dir)
    if x.shape != table.shape or y.shape != table.shape[:1]:
        raise ValueError(
            f"{path} is not the table {name}: it has features {x.shape} and targets {y.shape}; "
            f"they must be {table.shape} and {table.shape[:1]}. Remove it, and the right one will "
            "be fetched."
        )
    return x, y


def load_uci_split(name: str, split: int, data_dir: str | Path | None = None) -> Split:
    """One of the standard splits of a table, numbered from 0.

    Most tables have 20; ``protein`` has 5, and ``song`` has 1 (its own training and test part).
    """
    return _load_split(name, split, data_dir, standard_split)


def load_paper_split(name: str, split: int, data_dir: str | Path | None = None) -> Split:
    """One of the splits that Pearce et al. 2020 drew; there are as many as standard splits.

    Their rows of ``power`` were in another order, so its splits are drawn the same way but differ.
    """
    return _load_split(name, split, data_dir, paper_split)


def _load_split(name: str, split: int, data_dir, rule) -> Split:
    table = _table(name)
    if split not in range(table.n_splits):
        last = table.n_splits - 1
        need = f"an integer from 0 to {last}" if last else "0, the only one,"
        raise bad_value("split", split, f"{need} for {name}")
    x, y = load_uci(name, data_dir)
    if table.n_train is None:
        train, test = rule(len(y), split)
    else:
        train, test = np.split(np.arange(len(y)), [table.n_train])
    return Split(x[train], y[train], x[test], y[test])


def load_table(name: str, data_dir: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A UCI table, or ``diabetes`` or ``digits``, which come with scikit-learn."""
    if name not in ("diabetes", "digits"):
        return load_uci(name, data_dir)
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")()
    return bunch.data, bunch.target


def standard_split(n_rows: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (train, test) of one of the standard 90/10 splits, numbered from 0."""
    rng = np.random.RandomState(1)
    order = np.arange(n_rows)
    for _ in range(split + 1):
        order = rng.choice(range(n_rows), n_rows, replace=False)
    n_train = round(0.9 * n_rows)
    return order[:n_train], order[n_train:]


def paper_split(n_rows: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (train, test) of one of the 90/10 splits of Pearce et al. 2020, from 0."""
    order = np.random.RandomState(1000 + split).permutation(n_rows)
    n_train = round(0.9 * n_rows)
    return order[:n_train], order[n_train:]


def _table(name: str) -> DataSet:
    if name not in TABLES:
        raise unknown_name("name", name, TABLES)
    return TABLES[name]


def _read_text(table: DataSet, data_dir: str | Path | None) -> tuple[Path, np.ndarray, np.ndarray]:
    path = find_file(table.files[0].name, data_dir)
    rows = np.loadtxt(path, ndmin=2)
    x, y = rows[:, : table.target_column], rows[:, table.target_column :][:, :1]
    return path, x, y.ravel()


def _read_song(table: DataSet, data_dir: str | Path | None) -> tuple[Path, np.ndarray, np.ndarray]:
    """Training rows, then test rows: from ``song.npz`` in the folder, else as published."""
    path = find_in_folder("song.npz", data_dir)
    if path is not None:
        with np.load(path) as stored:
            parts = [(stored[f"x_{part}"], stored[f"y_{part}"]) for part in ("train", "test")]
    else:
        from scipy.io import loadmat

        paths = [find_file(file.name, data_dir) for file in table.files]
        path, (train, test) = paths[0], map(loadmat, paths)
        parts = [(train["trainx"], train["trainy"]), (test["testx"], test["testy"])]
    x, y = (np.concatenate(both).astype(np.float64) for both in zip(*parts, strict=True))
    return path, x, y.ravel()
