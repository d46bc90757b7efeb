"""Tables from CSV and Parquet files, whole or block by block, as NumPy columns.

The content of a file decides what it is (gzip, Parquet, separator, encoding), never its name.
Everything wrong with a file is a ``TableError`` of one line.
"""

import contextlib
import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from anchored.errors import TableError, bad_value, shown
from anchored.tables import arrow, memory
from anchored.tables.csv_rows import read_rows, wrong_row
from anchored.tables.frames import as_table as as_table
from anchored.tables.frames import is_frame as is_frame
from anchored.tables.table import Table, check_finite, check_names

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


class _Source(NamedTuple):
    """A file that was opened: Arrow tables of plain columns, one after another."""

    names: Sequence[str]
    kept: Sequence[str]
    parts: Iterator[Any]
    comma: bool = False  # it may be the decimal mark
    n_rows: int | None = None  # if it is known beforehand


def read_table(source: str | Path | BinaryIO, text: Collection[str] = ()) -> Table:
    """The whole table of a CSV or Parquet file; "-" is standard input.

    If the table does not fit in memory, an error is raised as soon as its first blocks show this.
    ``text`` is as in `read_blocks`.
    """
    [table] = _read(source, None, frozenset(text), None)
    return table


def read_blocks(
    source: str | Path | BinaryIO,
    names: Collection[str] | None = None,
    block_rows: int = 65_536,
    text: Collection[str] = (),
) -> Iterator[Table]:
    """The table in blocks of ``block_rows`` rows, in memory one after another.

    Parameters
    ----------
    names : only these columns, those of them that there are; the rest is named in ``others``.
    text : columns to keep as text even where a block of them holds only numbers: "01" and "1"
        may be different categories.
    """
    if not isinstance(block_rows, int) or block_rows < 1:
        raise bad_value("block_rows", block_rows, "a positive whole number")
    return _read(source, None if names is None else frozenset(names), frozenset(text), block_rows)


def _read(source, names, text, block_rows) -> Iterator[Table]:
    pa = arrow.pyarrow()
    title = _title(source)
    try:
        with _opened(source) as stream:
            yield from _tables(stream, names, text, block_rows)
    except TableError as error:
        raise TableError(f"{title}: {error}") from None
    except MemoryError:
        raise TableError(f"{title}: there is not enough memory; give fewer rows.") from None
    except (OSError, EOFError, zlib.error, ValueError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or f"the file is damaged: {_one_line(error)}"
        raise TableError(f"{title}: {reason}.") from None


def _tables(raw: BinaryIO, names, text, block_rows) -> Iterator[Table]:
    gzipped = _head(raw).startswith(_GZIP)
    stream: Any = gzip.GzipFile(fileobj=raw) if gzipped else raw
    notes: list[str] = []  # grows while parts are read
    if _head(stream) != _PARQUET:
        source = _csv_source(stream, names, notes)
    elif gzipped:
        raise TableError("this is a gzipped Parquet file; unpack it first.")
    else:
        source = _parquet_source(stream, names, notes)
    used = set(source.kept)
    others = tuple(name for name in source.names if name not in used)
    parts = source.parts
    if block_rows is None:
        parts = memory.that_fit(parts, _share_read(raw, source.n_rows))
    n_before = 0
    for part in _of_rows(parts, block_rows):
        columns = {}
        for name, column in zip(source.kept, part.columns, strict=False):  # one if none is kept
            found = arrow.cells(column, name in text, source.comma)
            columns[name] = check_finite(name, found, n_before)
        numbers = np.arange(n_before + 1, n_before + part.num_rows + 1)
        yield Table(columns, part.num_rows, tuple(notes), others, numbers)
        notes.clear()
        n_before += part.num_rows
    if not n_before:
        raise TableError("the file has column names but no rows.")


def _share_read(raw: BinaryIO, n_rows: int | None) -> Callable[[int], float]:
    """Which part of a file was read, by its rows or else its bytes; 1 if neither is known."""
    if n_rows is not None:
        return lambda n_read: n_read / n_rows
    try:
        size = os.fstat(raw.fileno()).st_size if raw.seekable() else 0
    except OSError:  # no file
        size = 0
    return lambda n_read: min(1.0, raw.tell() / size) if size else 1.0


def _csv_source(stream: BinaryIO, names, notes: list[str]) -> _Source:
    """Arrow tables of text, one for each block of bytes."""
    pa = arrow.pyarrow()
    csv = pa.csv
    layout, blocks = read_rows(stream)
    kept = [name for name in layout.names if names is None or name in names]
    if all(re.fullmatch(r"[-+.\d]+", name) for name in layout.names):
        notes.append("All column names are numbers: does the file lack a header?")
    parse = csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(layout.names, pa.string()),
        include_columns=kept or layout.names[:1],
        null_values=[""],
        strings_can_be_null=True,
    )

    def parts():
        latin, n_before, n_separators = False, 0, len(layout.names) - 1
        for block in blocks:
            if block.not_utf8 and not latin:
                latin = True
                line = block.not_utf8
                notes.append(f"Line {line} is not UTF-8: its invalid bytes are read as Latin-1.")
            if not block.content or block.content.isspace():
                continue
            read = csv.ReadOptions(
                column_names=layout.names, block_size=len(block.content) + 1, use_threads=False
            )
            try:
                part = csv.read_csv(pa.BufferReader(block.content), read, parse, convert)
            except pa.ArrowInvalid:
                raise TableError(wrong_row(block, layout)) from None
            if b'"' in block.content and n_separators:
                note = _swallowed(part, layout.separator, n_separators, n_before)
                notes.extend([note] if note else [])
            n_before += part.num_rows
            yield part

    return _Source(layout.names, kept, parts(), comma=layout.separator == ";")


def _swallowed(part, separator: str, n_separators: int, n_before: int) -> str | None:
    """A note about a cell of several lines that look like rows: a quote may be missing."""
    pc = arrow.pyarrow().compute
    for name, column in zip(part.column_names, part.columns, strict=True):
        rows = np.flatnonzero(pc.match_substring(column.fill_null(""), "\n"))
        for row in rows.tolist():
            inner = column[row].as_py().split("\n")[1:-1]
            if inner and all(line.count(separator) == n_separators for line in inner):
                return (
                    f"Column {shown(name)}, row {n_before + row + 1} contains {len(inner) + 2} "
                    "quoted lines that look like rows: is a quote not closed?"
                )
    return None


def _parquet_source(stream: BinaryIO, names, notes: list[str]) -> _Source:
    """Arrow tables of numbers and text, one for each batch of rows."""
    pa = arrow.pyarrow()
    whole = stream if stream.seekable() else io.BytesIO(stream.read())
    file = pa.parquet.ParquetFile(whole)
    schema = file.schema_arrow
    check_names(tuple(schema.names))
    kept = []
    for field in schema:
        if names is not None and field.name not in names:
            continue
        if arrow.plain_type(field.type) is None:
            notes.append(f"Column {shown(field.name)} has {field.type} cells and is left out.")
        else:
            kept.append(field.name)

    def parts():
        for batch in file.iter_batches(columns=kept or schema.names[:1]):
            part = pa.Table.from_batches([batch])
            by_name = dict(zip(part.column_names, part.columns, strict=True))
            columns = [arrow.plain(by_name[name]) for name in kept]
            yield pa.table(columns, names=kept) if kept else part

    return _Source(schema.names, kept, parts(), n_rows=file.metadata.num_rows)


def _of_rows(parts, block_rows: int | None):
    """The same rows in tables of ``block_rows`` rows, the last one shorter; None: in one."""
    pa = arrow.pyarrow()
    if block_rows is None:
        whole = list(parts)
        if whole:
            yield pa.concat_tables(whole)
        return
    rest, n_rest = [], 0
    for part in parts:
        rest.append(part)
        n_rest += part.num_rows
        if n_rest < block_rows:
            continue
        joined = pa.concat_tables(rest)
        whole_rows = n_rest - n_rest % block_rows
        for start in range(0, whole_rows, block_rows):
            yield joined.slice(start, block_rows)
        rest, n_rest = [joined.slice(whole_rows)], n_rest % block_rows
    if n_rest:
        yield pa.concat_tables(rest)


def _head(stream: Any) -> bytes:
    """The first bytes, which stay to be read."""
    if hasattr(stream, "peek"):
        return stream.peek(4)[:4]
    head = stream.read(4)
    stream.seek(-len(head), os.SEEK_CUR)
    return head


def _opened(source) -> contextlib.AbstractContextManager[Any]:
    if source == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    if isinstance(source, (str, Path)):
        return open(source, "rb")
    return contextlib.nullcontext(source)


def _title(source) -> str:
    if source == "-":
        return "standard input"
    if isinstance(source, (str, Path)):
        return shown(str(source), 200)
    return "the table"


def _one_line(error: Exception) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in str(error))
    return " ".join(printable.split())[:200].rstrip(".")


def files_of(source: str | Path) -> list[str | Path]:
    """The Parquet files of a folder, in the order of their names; or a single file."""
    folder = Path(source)
    if not folder.is_dir():
        return [source]
    found: list[str | Path] = sorted(folder.rglob("*.parquet"))
    if not found:
        raise TableError(f"{_title(source)}: there is no file named *.parquet in this folder.")
    return found


class CSVWriter:
    """Writes blocks of columns to a binary file as CSV, the header first."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._started = False

    def write(self, columns: dict[str, np.ndarray]) -> None:
        """Append rows; every block has the same columns."""
        pa = arrow.pyarrow()
        if not self._started:
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(columns)
            self._file.write(header.getvalue().encode())
            self._started = True
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        pa.csv.write_csv(pa.table(dict(columns)), self._file, options)

    def close(self) -> None:
        """Finish; nothing more is written."""


class ParquetWriter:
    """Writes blocks of columns to a binary file as Parquet."""

    def __init__(self, file: BinaryIO):
        self._file, self._writer = file, None

    def write(self, columns: dict[str, np.ndarray]) -> None:
        """Append rows; every block has the same columns."""
        pa = arrow.pyarrow()
        part = pa.table(dict(columns))
        if self._writer is None:
            self._writer = pa.parquet.ParquetWriter(self._file, part.schema)
        self._writer.write_table(part)

    def close(self) -> None:
        """Write what readers look for first."""
        if self._writer is not None:
            self._writer.close()
