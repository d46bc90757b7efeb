"""The UCI regression tables of the paper's benchmark, read from a folder of text files.

The folder is ``data_dir`` or the environment variable ``ANCHORED_DATA``; nothing is
downloaded. Splits are those of Hernandez-Lobato and Adams (2015).
"""

from pathlib import Path
from typing import Any

import numpy as np

from anchored._errors import unknown_name
from anchored.datasets._folder import find_file

# name: columns that are features; the target is the column after them.
_N_FEATURES = {
    "boston": 13,
    "concrete": 8,
    "energy": 8,
    "kin8nm": 8,
    "naval": 16,
    "power": 4,
    "protein": 9,
    "wine": 11,
    "yacht": 6,
}


def load_uci(name: str, data_dir: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features [batch, feature] and target [batch] of one table."""
    if name not in _N_FEATURES:
        raise unknown_name("name", name, _N_FEATURES)
    table = np.loadtxt(find_file(f"{name}.txt", data_dir))
    n_features = _N_FEATURES[name]
    return table[:, :n_features], table[:, n_features]


def load_table(name: str, data_dir: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A UCI table, or ``diabetes`` or ``digits``, which scikit-learn brings along."""
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
