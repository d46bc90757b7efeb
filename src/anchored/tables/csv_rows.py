"""Cuts a stream of bytes into blocks of whole CSV rows; errors name the line.

Separator, line ends and encoding are detected. A block ends where a row ends, even if quoted cells
contain line ends. So each block can be parsed alone, and memory stays bounded.
"""

import csv
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from anchored.errors import TableError
from anchored.tables.table import check_names

_CHUNK = 1 << 20  # bytes read at once
_LONGEST_ROW = 16 << 20  # bytes
_SAMPLE = 64 << 10  # bytes that the separator is told from
_SEPARATORS = ",;\t"
_LEAST_BYTE = 9  # a tabulator; bytes below it are in no text
_BOM = b"\xef\xbb\xbf"
_LATIN = {0xDC00 + byte: byte for byte in range(128, 256)}  # what surrogateescape puts for bytes
_FOREIGN = {
    b"PK\x03\x04": "a ZIP archive or a workbook; save the sheet as CSV",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"\xfd7zXZ": "compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard; unpack it first",
    b"BZh9": "compressed with bzip2; unpack it first",
    b"%PDF": "a PDF document; the table must be CSV or Parquet",
    b"SQLite format": "a database; export the table as CSV",
    b"<!DOCTYPE": "a web page; the table must be CSV or Parquet",
    b"<html": "a web page; the table must be CSV or Parquet",
}


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the first rows show: the separator and the names of the columns."""

    separator: str
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """Whole rows without the header.

    Attributes
    ----------
    content : UTF-8.
    line : number in the file, from 1, of the line that the block starts at.
    not_utf8 : number of the first line with bytes that are not UTF-8, read as Latin-1.
    """

    content: bytes
    line: int
    not_utf8: int | None = None


def read_rows(stream: BinaryIO) -> tuple[Layout, Iterator[Block]]:
    """The layout and the blocks of a CSV file."""
    first = (stream.read(_CHUNK) or b"").removeprefix(_BOM)
    for magic, what in _FOREIGN.items():
        if first.startswith(magic):
            raise TableError(f"this is {what}.")
    if not first.strip():
        raise TableError("the file is empty.")
    old_mac = b"\r" in first and b"\n" not in first
    separator = _separator(first)
    chunks = itertools.chain([first], iter(lambda: stream.read(_CHUNK) or b"", b""))
    if old_mac:
        chunks = (chunk.replace(b"\r", b"\n") for chunk in chunks)
    blocks = _blocks(chunks, separator)
    names, block = _without_header(next(blocks), separator)
    return Layout(separator, names), itertools.chain([block], blocks)


def wrong_row(block: Block, layout: Layout) -> str:
    """Which line of a block that did not parse has too few or too many cells."""
    n_columns = len(layout.names)
    rows = csv.reader(_lines(block.content), delimiter=layout.separator)
    line = block.line
    try:
        for row in rows:
            if row and len(row) != n_columns:
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                return f"line {line} has {cells} but the header has {n_columns}."
            line = block.line + rows.line_num
    except csv.Error as error:
        return f"line {block.line + rows.line_num} cannot be parsed: {error}."
    return f"a row after line {block.line} cannot be parsed; check its quotes."


def _blocks(chunks: Iterator[bytes], separator: str) -> Iterator[Block]:
    # A quote opens a cell only where a cell starts; the group is empty if it is not closed.
    quoted = re.compile(rb'(?<![^%s\r\n])"[^"]*(?:""[^"]*)*+("?)' % re.escape(separator).encode())
    rest, line = b"", 1
    for chunk in chunks:
        _check_text(chunk, line + _count_lines(rest))
        rest += chunk
        end, opened, spans = _last_row_end(rest, quoted)
        if end:
            content, rest = rest[:end], rest[end:]
            _check_closed(content, spans, line, separator)
            yield _decoded(content, line)
            line += _count_lines(content)
        elif len(rest) > _LONGEST_ROW:
            raise TableError(
                f"line {line} is longer than {_LONGEST_ROW >> 20} MB"
                + (", or a quote in it is never closed." if opened is not None else ".")
            )
    _, opened, spans = _last_row_end(rest, quoted)
    if opened is not None:
        line += _count_lines(rest[:opened])
        raise TableError(f"the quote opened in line {line} is never closed.")
    _check_closed(rest, spans, line, separator)
    if rest or line == 1:
        yield _decoded(rest, line)


def _last_row_end(
    content: bytes, quoted: re.Pattern[bytes]
) -> tuple[int, int | None, list[tuple[int, int]]]:
    """Where the last whole row ends, where a quote starts that is still open, and where quoted
    cells with line ends in them start and end."""
    if b'"' not in content:
        return content.rfind(b"\n") + 1, None, []
    spans, opened = [], None
    for match in quoted.finditer(content):
        start, end = match.span()
        if not match[1]:
            opened = start
        if content.find(b"\n", start, end) >= 0:
            spans.append((start, end))
    before = len(content) if opened is None else opened
    for start, end in reversed(spans):
        found = content.rfind(b"\n", end, before)
        if found >= 0:
            return found + 1, opened, spans
        before = min(before, start)
    return content.rfind(b"\n", 0, before) + 1, opened, spans


def _check_closed(content: bytes, spans: list[tuple[int, int]], line: int, separator: str) -> None:
    """A cell of several lines must end with its quote, or another cell's quote closed it."""
    for start, end in spans:
        if end < len(content) and content[end : end + 1] not in (separator.encode(), b"\r", b"\n"):
            first = line + _count_lines(content[:start])
            last = line + _count_lines(content[:end])
            raise TableError(
                f"the quote opened in line {first} is not closed: the next quote, in line {last}, "
                "does not end a cell."
            )


def _decoded(content: bytes, line: int) -> Block:
    """Bytes that are not UTF-8 are taken for Latin-1, one by one."""
    if content.isascii():
        return Block(content, line)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        text = content.decode(errors="surrogateescape").translate(_LATIN)
        return Block(text.encode(), line, line + _count_lines(content[: error.start]))
    return Block(content, line)


def _check_text(content: bytes, line: int) -> None:
    codes = np.frombuffer(content, np.uint8)
    if codes.min(initial=_LEAST_BYTE) < _LEAST_BYTE:
        at = int(np.argmax(codes < _LEAST_BYTE))
        what = "a NUL byte" if codes[at] == 0 else f"the control byte 0x{codes[at]:02x}"
        line += _count_lines(content[:at])
        raise TableError(f"line {line} contains {what}: this is not a text file, or it is damaged.")


def _count_lines(content: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(content, np.uint8) == ord("\n")))


def _lines(content: bytes) -> Iterator[str]:
    return (line.decode(errors="replace") for line in content.splitlines(keepends=True))


def _separator(first: bytes) -> str:
    """The separator that splits most of the first rows as it splits the header."""
    sample = first[:_SAMPLE]
    if len(first) > _SAMPLE and b"\n" in sample:
        sample = sample[: sample.rfind(b"\n")]

    def score(separator: str) -> tuple[int, int]:
        rows = csv.reader(_lines(sample), delimiter=separator)
        try:
            counts = [len(row) for row in rows if row]
        except csv.Error:
            return 0, 0
        if not counts or counts[0] == 1:
            return 0, 0
        return sum(count == counts[0] for count in counts), counts[0]

    return max(_SEPARATORS, key=score)  # the first of equals


def _without_header(block: Block, separator: str) -> tuple[tuple[str, ...], Block]:
    lines = block.content.splitlines(keepends=True)
    rows = csv.reader(_lines(block.content), delimiter=separator)
    try:
        cells = next((row for row in rows if any(map(str.strip, row))), None)
    except csv.Error as error:
        raise TableError(f"the header in line 1 cannot be parsed: {error}.") from None
    if cells is None:
        raise TableError("the file has no column names, only blank lines.")
    names = tuple(cell.strip() or f"unnamed_{place}" for place, cell in enumerate(cells, 1))
    check_names(names)
    content = b"".join(lines[rows.line_num :])
    return names, Block(content, block.line + rows.line_num, block.not_utf8)
