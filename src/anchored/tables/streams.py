"""Tables larger than memory: Parquet files that are read block by block and encoded once.

The type of each column is decided from a random sample of the rows. Then every row is read once,
encoded, and written as single-precision numbers to a file that training maps into memory: a row
takes four bytes there for each feature, and only the rows that are read take memory. Levels that
are not in the sample count as rare levels in training.
"""

import dataclasses
import glob
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from anchored.errors import TableError, bad_value, shown
from anchored.tables import arrow, memory
from anchored.tables.columns import empty_cells
from anchored.tables.encoder import Encoder, missing_columns
from anchored.tables.plan import targets_of
from anchored.tables.reading import files_of, read_blocks
from anchored.tables.table import Table, check_names

SAMPLE_ROWS = 100_000  # that say what the columns are
_SHARE = 3  # of the free memory that a table may take to be read as a whole: a third


@dataclasses.dataclass(frozen=True)
class Stream:
    """Parquet files with the same columns, one after another.

    Attributes
    ----------
    files : their paths, in order.
    n_rows : of each.
    names : of the columns.
    """

    files: tuple[str, ...]
    n_rows: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, source: Any) -> "Stream":
        """The files of a path, a folder, a pattern, several paths, or a dataset of Arrow."""
        files = _files_of(source)
        parquet = arrow.pyarrow().parquet
        found = []
        for path in files:
            try:
                found.append(parquet.ParquetFile(path))
            except (OSError, ValueError) as error:
                raise TableError(f"{shown(path, 200)}: {_first_line(error)}.") from None
        names = tuple(found[0].schema_arrow.names)
        check_names(names)
        for path, other in zip(files, found, strict=True):
            if set(other.schema_arrow.names) != set(names):
                raise TableError(
                    f"{shown(path, 200)} has different columns from {shown(files[0])}."
                )
        rows = tuple(file.metadata.num_rows for file in found)
        if not sum(rows):
            raise TableError(f"{shown(files[0], 200)}: there are no rows.")
        return cls(files, rows, names)

    @property
    def total(self) -> int:
        return sum(self.n_rows)

    @property
    def is_large(self) -> bool:
        """Whether the table would take more than a third of the free memory."""
        n_columns = max(len(self.names), memory.RAMPED_COLUMNS)
        return _SHARE * memory.RAMPED_BYTES * self.total * n_columns > memory.available()

    def blocks(
        self, names: Collection[str] | None = None, text: Collection[str] = ()
    ) -> Iterator[tuple[int, Table]]:
        """Blocks of rows with the numbers of their first rows; the next block is read meanwhile."""
        return _ahead(self._blocks(names, text))

    def _blocks(self, names, text) -> Iterator[tuple[int, Table]]:
        first = 0
        for path in self.files:
            for block in read_blocks(path, names, text=text):
                yield first, block
                first += block.n_rows

    def sample(self, most: int = SAMPLE_ROWS, seed: int = 0) -> Table:
        """Random rows as a table, at most ``most``; their numbers are those of the stream."""
        rng, most = np.random.default_rng(seed), min(most, self.total)
        rows = np.sort(rng.choice(self.total, most, replace=False))
        table, mixed = self._taken(rows, ())
        return table if not mixed else self._taken(rows, mixed)[0]

    def _taken(self, rows: np.ndarray, text: Collection[str]) -> tuple[Table, set[str]]:
        """Rows by number, and columns that were numbers in some blocks and text in others."""
        parts: list[Table] = []
        for first, block in self.blocks(text=text):
            here = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + block.n_rows)]
            parts.append(block.take(here - first))
        columns = {name: [part.columns[name] for part in parts] for name in parts[0].columns}
        mixed = {name for name, cells in columns.items() if len({c.dtype for c in cells}) > 1}
        joined = {name: np.concatenate(cells) for name, cells in columns.items()}
        notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
        return Table(joined, len(rows), notes, row_numbers=rows + 1), mixed

    def whole(self) -> Table:
        """All rows."""
        return self.sample(self.total)


@dataclasses.dataclass(frozen=True, eq=False)
class Streamed:
    """Encoded rows in a file.

    Attributes
    ----------
    x : features [row, feature], float32, mapped into memory.
    y : targets [row]; numbers to predict are mapped into memory too.
    encoder, columns : how cells became features, and the names of the columns.
    n_dropped : rows left out because they have no target.
    """

    x: np.memmap
    y: np.ndarray
    encoder: Encoder
    columns: tuple[str, ...]
    n_dropped: int

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape[0], self.x.shape[1]


def is_stream(X: Any) -> bool:
    """Whether ``X`` names files of a table rather than being one."""
    return isinstance(X, (str, Path, Stream)) or _is_dataset(X)


def encoded(
    stream: Stream,
    target: str,
    encoder: Encoder,
    task: str,
    path: Path,
    leave_out: np.ndarray | None = None,
) -> Streamed:
    """All rows to train on, in a file: those with a target, but ``leave_out`` (numbers from 0).

    Numbers to predict are in a file beside it; labels of classes stay in memory.
    """
    width, n_rows, n_dropped = len(encoder.feature_names), 0, 0
    held = np.array([], int) if leave_out is None else np.sort(leave_out)
    names = tuple(name for name in stream.names if name != target)
    labels: list[np.ndarray] = []
    beside = path.with_name(f"{path.name}.targets")
    with path.open("wb") as file, beside.open("wb") as numbers:
        blocks = stream.blocks({*encoder.names, target}, encoder.text_names)
        for first, block in blocks:
            cells = block.columns[target]
            known = ~empty_cells(cells)
            n_dropped += int(np.sum(~known))
            here = held[np.searchsorted(held, first) : np.searchsorted(held, first + len(block))]
            known[here - first] = False
            rows = np.flatnonzero(known)
            _as_float32(encoder.transform(block.take(rows), training=True)).tofile(file)
            found = targets_of(cells[rows], task, target)
            if task == "regression":
                found.tofile(numbers)
            else:
                labels.append(found)
            n_rows += len(rows)
    if not n_rows:
        raise TableError(f"no row has a target {shown(target)}.")
    memory.give_back()
    x = np.memmap(path, np.float32, "r", shape=(n_rows, width))
    y = np.concatenate(labels) if labels else np.memmap(beside, np.float64, "r", shape=(n_rows,))
    return Streamed(x, y, encoder, names, n_dropped)


def _as_float32(features: np.ndarray) -> np.ndarray:
    """Features as files hold them; one beyond single precision is refused."""
    with np.errstate(over="ignore"):
        made = features.astype(np.float32)
    if not np.isfinite(made).all():
        worst = features[~np.isfinite(made)][0]
        raise TableError(f"a column has the value {worst:g}, which single precision cannot hold.")
    return made


def check_target(stream: Stream, target: Any) -> str:
    """The name of the target column."""
    if not isinstance(target, str):
        raise bad_value("y", target, "the name of the target column, where `X` names files")
    if target not in stream.names:
        raise missing_columns([target], stream.names)
    return target


def _is_dataset(X: Any) -> bool:
    kind = type(X)
    return kind.__module__.startswith("pyarrow") and kind.__name__.endswith("Dataset")


def _files_of(source: Any) -> tuple[str, ...]:
    if isinstance(source, Stream):
        return source.files
    if _is_dataset(source):
        files = tuple(getattr(source, "files", ()))
        if not files:
            raise TableError("an Arrow dataset must consist of Parquet files on this machine.")
        return files
    if isinstance(source, (list, tuple)):
        return tuple(path for one in source for path in _files_of(one))
    exists = Path(source).exists()
    found = [str(file) for file in files_of(source)] if exists else sorted(glob.glob(str(source)))
    if not found:
        raise TableError(f"{shown(str(source), 200)}: there is no such Parquet file.")
    return tuple(found)


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """The same items; the next is made in a thread while one is used."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="anchored-ahead") as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item


def _first_line(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return reason.splitlines()[0].rstrip(".")
