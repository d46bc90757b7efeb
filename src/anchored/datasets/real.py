"""Real tables with categories, dates and missing cells, as somebody has them.

Each is a file ``tables/<name>.csv.gz`` in a folder of data files (``data_dir`` or the environment
variable ``ANCHORED_DATA``). The files are made from public sources, so they are not downloaded:
the error of a missing one says where its source is and what was done to it. The tables of numbers
are UCI tables.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchored.datasets.folder import find_in_folder
from anchored.datasets.registry import REAL
from anchored.datasets.uci import load_uci
from anchored.errors import MissingDataError, bad_value, unknown_name
from anchored.tables.dates import date_orders, parse_date
from anchored.tables.reading import read_table
from anchored.tables.table import Table

TEST_SHARE = 0.2


class Rows(NamedTuple):
    """Inputs and targets: numbers, or for classes text or whole numbers."""

    inputs: Table
    y: np.ndarray


class RealSplit(NamedTuple):
    """Rows to train on and to test with."""

    train: Rows
    test: Rows


def load_real(name: str, data_dir: str | Path | None = None) -> Rows:
    """The inputs and the target of one of `REAL`; a file of another content is refused."""
    if name not in REAL:
        raise unknown_name("name", name, REAL)
    record = REAL[name]
    if not record.sha256:
        x, y = load_uci(name, data_dir)
        columns = {f"x{place}": column for place, column in enumerate(x.T)}
        return Rows(Table(columns, len(y)), y)
    path = find_in_folder(record.file, data_dir)
    if path is None:
        raise MissingDataError(
            f"No folder has {record.file}. It is {record.origin}. Save it as {record.file} in a "
            "folder, and set the environment variable ANCHORED_DATA to it or pass `data_dir`."
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != record.sha256:
        raise ValueError(
            f"{path} is not the table {name}: its sha256 is not {record.sha256}. It must be "
            f"{record.origin}."
        )
    table = read_table(path)
    cells = table.columns[record.target]
    if record.task == "classification" and cells.dtype == object:
        cells = cells.astype(str)
    elif record.task == "classification":
        cells = cells.astype(np.int64)
    return Rows(table.without([record.target]), cells)


def split_real(name: str, rows: Rows, seed: int, max_train: int | None = None) -> RealSplit:
    """Four fifths of the rows to train on, at most ``max_train`` of them, and a fifth to test with.

    A random split has its own rows for each seed. A split by time has the last fifth as its test
    whatever the seed. Test rows of a class that no training row has are left out.
    """
    if not (isinstance(seed, (int, np.integer)) and seed >= 0):
        raise bad_value("seed", seed, "a whole number that is not negative")
    n_rows = len(rows.y)
    n_test = int(np.ceil(TEST_SHARE * n_rows))
    kind, _, column = REAL[name].split.partition(":")
    rng = np.random.default_rng(0 if kind == "time" else seed)
    order = rng.permutation(n_rows)
    train, test = order[n_test:], order[:n_test]
    if kind == "time":
        order = np.argsort(_days(rows.inputs.columns[column]), kind="stable")
        train, test = rng.permutation(order[:-n_test]), order[-n_test:]
    train = train[:max_train]
    if REAL[name].task == "classification":
        test = test[np.isin(rows.y[test], rows.y[train])]
    return RealSplit(*(Rows(rows.inputs.take(part), rows.y[part]) for part in (train, test)))


def _days(cells: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as days."""
    if cells.dtype != object:
        return cells
    different = {cell: cell for cell in cells}
    (order,) = date_orders(different)
    days = {cell: parse_date(cell, order) for cell in different}
    return np.array([days[cell] for cell in cells], float)
