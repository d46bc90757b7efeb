"""Tables from CSV and Parquet files, whole or block by block, as NumPy columns.

What a file is (gzip, Parquet, separator, encoding) is told from its content, never its name.
Everything wrong with a file is a ``TableError`` of one line.
"""

import contextlib
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from anchored.errors import TableError, bad_value, shown
from anchored.tables import arrow
from anchored.tables.csv_rows import read_rows, wrong_row
from anchored.tables.frames import as_table as as_table
from anchored.tables.frames import is_frame as is_frame
from anchored.tables.table import Table, check_finite, check_names

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


def read_table(source: str | Path | BinaryIO) -> Table:
    """The whole table of a CSV or Parquet file; "-" is standard input."""
    [table] = _read(source, None, frozenset(), None)
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
    except (OSError, EOFError, zlib.error, ValueError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or f"the file is damaged: {_one_line(error)}"
        raise TableError(f"{title}: {reason}.") from None


def _tables(stream: BinaryIO, names, text, block_rows) -> Iterator[Table]:
    head = stream.read(4) or b""
    gzipped = head.startswith(_GZIP)
    if gzipped:
        stream = gzip.GzipFile(fileobj=_after(head, stream))  # pyright: ignore
        head = stream.read(4)
    notes: list[str] = []  # grows while parts are read
    if head != _PARQUET:
        all_names, kept, comma, parts = _csv_parts(_after(head, stream), names, notes)
    elif gzipped:
        raise TableError("this is a gzipped Parquet file; unpack it first.")
    else:
        all_names, kept, comma, parts = _parquet_parts(head, stream, names, notes)
    used = set(kept)
    others = tuple(name for name in all_names if name not in used)
    n_before = 0
    for part in _of_rows(parts, block_rows):
        columns = {}
        for name, column in zip(kept, part.columns, strict=False):  # one even if none is kept
            found = arrow.cells(column, name in text, comma)
            columns[name] = check_finite(name, found, n_before)
        numbers = np.arange(n_before + 1, n_before + part.num_rows + 1)
        yield Table(columns, part.num_rows, tuple(notes), others, numbers)
        notes.clear()
        n_before += part.num_rows
    if not n_before:
        raise TableError("there is a header but there are no rows.")


def _csv_parts(stream: BinaryIO, names, notes: list[str]):
    """Arrow tables of text, one for each block of bytes."""
    pa = arrow.pyarrow()
    csv = pa.csv
    layout, blocks = read_rows(stream)
    kept = [name for name in layout.names if names is None or name in names]
    if all(re.fullmatch(r"[-+.\d]+", name) for name in layout.names):
        notes.append("All names of columns are numbers: does the file lack a header?")
    parse = csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(layout.names, pa.string()),
        include_columns=kept or layout.names[:1],
        null_values=[""],
        strings_can_be_null=True,
    )

    def parts():
        latin = False
        for block in blocks:
            if block.not_utf8 and not latin:
                latin = True
                line = block.not_utf8
                notes.append(f"Line {line} is not UTF-8: bytes that are not are read as Latin-1.")
            if not block.content or block.content.isspace():
                continue
            read = csv.ReadOptions(
                column_names=layout.names, block_size=len(block.content) + 1, use_threads=False
            )
            try:
                part = csv.read_csv(pa.BufferReader(block.content), read, parse, convert)
            except pa.ArrowInvalid:
                raise TableError(wrong_row(block, layout)) from None
            yield part

    return layout.names, kept, layout.separator == ";", parts()


def _parquet_parts(head: bytes, stream: BinaryIO, names, notes: list[str]):
    """Arrow tables of numbers and text, one for each batch of rows."""
    pa = arrow.pyarrow()
    whole = stream if stream.seekable() else io.BytesIO(head + stream.read())
    file = pa.parquet.ParquetFile(whole)
    schema = file.schema_arrow
    check_names(tuple(schema.names))
    kept = []
    for field in schema:
        if names is not None and field.name not in names:
            continue
        if arrow.plain_type(field.type) is None:
            notes.append(f"Column {shown(field.name)} holds {field.type} cells and is left out.")
        else:
            kept.append(field.name)

    def parts():
        for batch in file.iter_batches(columns=kept or schema.names[:1]):
            part = pa.Table.from_batches([batch])
            by_name = dict(zip(part.column_names, part.columns, strict=True))
            columns = [arrow.plain(by_name[name]) for name in kept]
            yield pa.table(columns, names=kept) if kept else part

    return schema.names, kept, False, parts()


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


class _Joined(io.RawIOBase):
    """Bytes that were read already, then the rest of their stream."""

    def __init__(self, head: bytes, rest: BinaryIO):
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        found = self.head or self.rest.read(len(buffer)) or b""
        found, self.head = found[: len(buffer)], found[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)


def _after(head: bytes, stream: BinaryIO) -> BinaryIO:
    return io.BufferedReader(_Joined(head, stream))


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
