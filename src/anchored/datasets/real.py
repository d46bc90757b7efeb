"""Real tables with categories, dates and missing cells.

Each is a file ``tables/<name>.csv.gz`` in a folder of data files (``data_dir`` or the environment
variable ``ANCHORED_DATA``). If there is no such file, the public source is downloaded and the table
is made from it: some columns, and all rows without a target, are dropped. Tables with only numbers
are UCI tables.
"""

import csv
import dataclasses
import hashlib
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchored.datasets.fetch import FetchError, fetch
from anchored.datasets.folder import find_in_folder
from anchored.datasets.registry import REAL, RealTable
from anchored.datasets.uci import load_uci
from anchored.errors import MissingDataError, bad_value, unknown_name
from anchored.tables.columns import missing_cells
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
    """The inputs and the target of one of the tables in `REAL`; the file's sha256 is checked."""
    if name not in REAL:
        raise unknown_name("name", name, REAL)
    record = REAL[name]
    if not record.sha256:
        x, y = load_uci(name, data_dir)
        columns = {f"x{place}": column for place, column in enumerate(x.T)}
        return Rows(Table(columns, len(y)), y)
    table = _from_folder(record, data_dir) or _from_source(record)
    if table.shape != (record.shape[0], record.shape[1] + 1):
        raise ValueError(
            f"The table {name} has {table.shape} rows and columns; it must have {record.shape} "
            f"and the target. It must be {record.origin}."
        )
    cells = table.columns[record.target]
    if record.task == "classification":
        cells = cells.astype(str if cells.dtype == object else np.int64)
    return Rows(table.without([record.target]), cells)


def _from_folder(record: RealTable, data_dir: str | Path | None) -> Table | None:
    path = find_in_folder(record.file, data_dir)
    if path is None:
        return None
    if hashlib.sha256(path.read_bytes()).hexdigest() != record.sha256:
        raise ValueError(
            f"{path} is not the table {record.name}: its sha256 is not {record.sha256}. It must be "
            f"{record.origin}. Remove it, and the right one will be made."
        )
    return read_table(path)


def _from_source(record: RealTable) -> Table:
    try:
        path = fetch(record.source)
    except FetchError as error:
        raise MissingDataError(
            f"No folder has {record.file}, and {error}. It is {record.origin}. Save it as "
            f"{record.file} in a folder, and set the environment variable ANCHORED_DATA to it or "
            "pass `data_dir`."
        ) from error
    table = read_table(io.BytesIO(_with_different_names(_csv(path)))).without(record.dropped)
    columns = {name: _without_words_for_nothing(cells) for name, cells in table.columns.items()}
    known = np.flatnonzero(~missing_cells(columns[record.target]))
    return dataclasses.replace(table, columns=columns).take(known)


def _without_words_for_nothing(cells: np.ndarray) -> np.ndarray:
    """Words such as NA become empty cells, as in the files of the folder."""
    if cells.dtype != object:
        return cells
    emptied = cells.copy()
    emptied[missing_cells(cells)] = None
    return emptied


def _csv(path: Path) -> bytes:
    """The file, or the one CSV file in an archive."""
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".csv"))
        return archive.read(name)


def _with_different_names(content: bytes) -> bytes:
    """A table whose header has a second column of one name as ``name.1``."""
    first, _, rows = content.partition(b"\n")
    (names,) = csv.reader([first.decode("utf-8-sig")])
    header = io.StringIO()
    different = [
        f"{n}.{i}" if (i := names[:place].count(n)) else n for place, n in enumerate(names)
    ]
    csv.writer(header, lineterminator="\n").writerow(different)
    return header.getvalue().encode() + rows


def split_real(name: str, rows: Rows, seed: int, max_train: int | None = None) -> RealSplit:
    """Four fifths of the rows for training, at most ``max_train`` of them, and a fifth for testing.

    A random split draws other rows for each seed. A split by time always tests on the last fifth.
    Test rows whose class does not occur in the training rows are left out.
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
