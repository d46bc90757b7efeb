"""Rows of a memory-mapped file, read in the file's order; pages are released after reading.

A page of a mapped file counts as memory of the process until it is released, and random rows touch
nearly all pages. So rows are read from one end of the file to the other, a span at a time, and the
pages of each span are released at once. The system drops its own cache of the file when it needs
the room.
"""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

_SPAN_BYTES = 2**24  # of the file, whose pages are held at a time
_SHARED = ("r", "r+", "w+")  # modes in which a page that is given back is read again unchanged


def taken(source: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``source[rows]`` for numbers [row] of rows."""
    if _mapping(source) is None:
        return source[rows]
    found = np.empty((len(rows), *source.shape[1:]), source.dtype)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    for first, end in _spans(source):
        here = slice(*np.searchsorted(rows, (first, end)))
        if here.start < here.stop:
            found[order[here]] = source[rows[here]]
            give_back(source, first, end)
    return found


def spans(source: np.ndarray) -> Iterator[np.ndarray]:
    """All rows in the order of the file, a span at a time; an array in memory is one span."""
    if _mapping(source) is None:
        yield source
        return
    for first, end in _spans(source):
        yield source[first:end]
        give_back(source, first, end)


def give_back(source: np.ndarray, first: int, end: int) -> None:
    """Release the pages of rows ``first`` to ``end``, if they belong to a file."""
    file = _mapping(source)
    if file is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = _address(source) - _address(np.frombuffer(file, np.uint8))
    size = _row_bytes(source)
    low = (start + first * size) // mmap.PAGESIZE * mmap.PAGESIZE
    file.madvise(mmap.MADV_DONTNEED, low, min(start + end * size, len(file)) - low)


def _spans(source: np.ndarray) -> Iterator[tuple[int, int]]:
    size = max(1, _SPAN_BYTES // max(1, _row_bytes(source)))
    for first in range(0, len(source), size):
        yield first, min(first + size, len(source))


def _mapping(source: np.ndarray) -> mmap.mmap | None:
    """The file that holds all rows one after another, unless changes to it are this process's."""
    plain = isinstance(source, np.memmap) and source.flags.c_contiguous and len(source)
    if not plain or getattr(source, "mode", None) not in _SHARED:
        return None
    base: Any = source
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _row_bytes(source: np.ndarray) -> int:
    return source.strides[0]
