"""Tables from CSV and Parquet files, whole or block by block, as NumPy columns.

What a file is (gzip, Parquet, separator, encoding) is told from its content, never its name.
A column is numbers if every cell that is there is a number, otherwise text. Everything wrong
with a file is a ``TableError`` of one line.
"""

import contextlib
import csv
import dataclasses
import gzip
import io
import itertools
import re
import sys
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from anchored.errors import TableError, bad_value, shown
from anchored.tables.csv_rows import check_names, read_rows, wrong_row

_MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")  # in any case
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Attributes
    ----------
    columns : for each name float64 [row] with NaN for missing cells, or object [row] of str
        with None for missing ones.
    notes : what a reader of the file should know, one sentence each.
    others : columns of the file that were not asked for.
    row_numbers : [row], of the file's rows below its header, from 1; None if there is no file.
    """

    columns: dict[str, np.ndarray]
    n_rows: int
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    row_numbers: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Table":
        """The rows of these indices, in this order."""
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        index = np.arange(self.n_rows)[rows]
        numbers = None if self.row_numbers is None else self.row_numbers[index]
        return dataclasses.replace(self, columns=columns, n_rows=len(index), row_numbers=numbers)

    def without(self, names: Collection[str]) -> "Table":
        """All columns but these."""
        columns = {name: cells for name, cells in self.columns.items() if name not in names}
        return dataclasses.replace(self, columns=columns)

    def row_number(self, index: int) -> int:
        """The number of a row as messages name it."""
        return index + 1 if self.row_numbers is None else int(self.row_numbers[index])


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
    pa = _pyarrow()
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
            columns[name] = _cells(column, name in text, comma)
            _check_finite(name, columns[name], n_before)
        numbers = np.arange(n_before + 1, n_before + part.num_rows + 1)
        yield Table(columns, part.num_rows, tuple(notes), others, numbers)
        notes.clear()
        n_before += part.num_rows
    if not n_before:
        raise TableError("there is a header but there are no rows.")


def _csv_parts(stream: BinaryIO, names, notes: list[str]):
    """Arrow tables of text, one for each block of bytes."""
    pa = _pyarrow()
    csv = pa.csv
    layout, blocks = read_rows(stream)
    kept = [name for name in layout.names if names is None or name in names]
    if all(re.fullmatch(r"[-+.\d]+", name) for name in layout.names):
        notes.append("All names of columns are numbers: does the file lack a header?")
    parse = csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(layout.names, pa.string()),
        include_columns=kept or layout.names[:1],
        null_values=_spellings(),
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
    pa = _pyarrow()
    whole = stream if stream.seekable() else io.BytesIO(head + stream.read())
    file = pa.parquet.ParquetFile(whole)
    schema = file.schema_arrow
    check_names(tuple(schema.names))
    kept = []
    for field in schema:
        if names is not None and field.name not in names:
            continue
        if _plain_type(field.type) is None:
            notes.append(f"Column {shown(field.name)} holds {field.type} cells and is left out.")
        else:
            kept.append(field.name)

    def parts():
        for batch in file.iter_batches(columns=kept or schema.names[:1]):
            part = pa.Table.from_batches([batch])
            by_name = dict(zip(part.column_names, part.columns, strict=True))
            columns = [_plain(by_name[name]) for name in kept]
            yield pa.table(columns, names=kept) if kept else part

    return schema.names, kept, False, parts()


def _of_rows(parts, block_rows: int | None):
    """The same rows in tables of ``block_rows`` rows, the last one shorter; None: in one."""
    pa = _pyarrow()
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


def _plain_type(kind):
    """Of the two types a column may be turned into, the one for an Arrow type, if any."""
    pa = _pyarrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_a = pa.types
    numbers = (is_a.is_integer, is_a.is_floating, is_a.is_decimal, is_a.is_null)
    words = (is_a.is_string, is_a.is_large_string, is_a.is_boolean, is_a.is_date)
    if any(fits(kind) for fits in numbers):
        return pa.float64()
    if any(fits(kind) for fits in (*words, is_a.is_timestamp)):
        return pa.string()
    return None


def _plain(column):
    pa = _pyarrow()
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s"), safe=False)  # in UTC if it has a time zone
    return column.cast(_plain_type(kind), safe=False)


def _cells(column, as_text: bool, comma: bool) -> np.ndarray:
    """A column of numbers or text: text is stripped, and numbers are found in it."""
    pa = _pyarrow()
    pc = pa.compute
    if not as_text or column.type == pa.float64():
        with contextlib.suppress(pa.ArrowInvalid):
            return _numbers(column)
    # Each different cell is looked at once.
    coded = column.dictionary_encode().unify_dictionaries()
    words = pc.utf8_trim_whitespace(coded.chunk(0).dictionary)
    missing = pc.is_in(pc.utf8_lower(words), value_set=pa.array(_MISSING))
    words = pc.if_else(missing, pa.scalar(None, words.type), words)
    codes = np.concatenate([np.asarray(c.indices.fill_null(len(words))) for c in coded.chunks])
    if not as_text:
        for form in _number_forms(words, comma):
            with contextlib.suppress(pa.ArrowInvalid):
                return np.append(_numbers(form), np.nan)[codes]
    return np.array([*words.to_pylist(), None], dtype=object)[codes]


def _number_forms(words, comma: bool):
    pc = _pyarrow().compute
    yield words
    if comma and not pc.any(pc.match_substring(words, ".")).as_py():
        yield pc.replace_substring(words, ",", ".")


def _numbers(column) -> np.ndarray:
    values = column.cast(_pyarrow().float64())
    return np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _check_finite(name: str, cells: np.ndarray, n_before: int) -> None:
    if cells.dtype == np.float64 and np.isinf(cells).any():
        row = n_before + int(np.argmax(np.isinf(cells))) + 1
        raise TableError(
            f"column {shown(name)}, row {row} holds an infinite number; "
            "leave the cell empty if its value is not known."
        )


def _spellings() -> list[str]:
    """Every case of the words for a missing cell."""
    cases = (itertools.product(*zip(word.lower(), word.upper(), strict=True)) for word in _MISSING)
    return sorted({"".join(letters) for word in cases for letters in word})


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


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading tables needs pyarrow: pip install 'anchored[table]'"
        ) from error
    return pyarrow


class CSVWriter:
    """Writes blocks of columns to a binary file as CSV, the header first."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._started = False

    def write(self, columns: dict[str, np.ndarray]) -> None:
        """Append rows; every block has the same columns."""
        pa = _pyarrow()
        if not self._started:
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(columns)
            self._file.write(header.getvalue().encode())
            self._started = True
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        pa.csv.write_csv(pa.table(dict(columns)), self._file, options)
