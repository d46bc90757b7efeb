"""Memory for a table: how much is free, an early error if it is too little, and its release."""

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from anchored.errors import TableError
from anchored.tables import arrow

# Of a cell that is read as text, held as a number, split off, encoded and standardised.
_CELL_BYTES = 40

# At the peak of a fit, as `benchmarks.memory` measured it; the last by `benchmarks.large_fits`.
RAMPED_BYTES = 219  # of a number in a column that has eight ramps, all of them standardised
RAMPED_COLUMNS = 20  # fewer columns of many rows have as many ramps as so many
PLAIN_BYTES = 21  # of one without: merged, standardised, and on the device
UNREAD_ROW_BYTES = 72  # of a row that stays in a file, at most: its target, place and fold


def available() -> float:
    """Bytes that this process may still take, according to the system."""
    found = [_of_machine(), _of_container(), _of_process()]
    return min((free for free in found if free is not None), default=float("inf"))


def of_row(n_inputs: int, n_ramps: int) -> float:
    """Bytes of a row with this many numbers that is fitted in memory, and of its ramps."""
    return PLAIN_BYTES * n_inputs + (RAMPED_BYTES - PLAIN_BYTES) / 8 * n_ramps


def give_back() -> None:
    """Return memory that this process has freed to the system.

    Allocators keep freed memory for later, and this adds up over the steps of a large fit. If the C
    library cannot return memory, nothing happens.
    """
    arrow.release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not the C library of GNU
        return None


def that_fit(parts: Iterator, share_read: Callable[[int], float]) -> Iterator:
    """The same Arrow tables; an error as soon as all of them seem to need too much memory.

    ``share_read`` gives the share of the table that the rows so far make up.
    """
    free = available()
    n_rows = n_bytes = 0
    for part in parts:
        n_rows += part.num_rows
        n_bytes += part.nbytes + _CELL_BYTES * part.num_rows * part.num_columns
        needed = n_bytes / share_read(n_rows)
        if needed > free:
            most = int(free / (2 * n_bytes / n_rows))
            rows = 10 ** (len(str(most)) - 1) if most else 0
            raise TableError(
                f"the table needs about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB "
                f"are free. Use a random sample of its rows; {rows:,} of them would fit."
            )
        yield part


def _of_machine() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024.0 * int(w.split()[1]) for w in lines if w.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


def _of_container() -> float | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most = float((folder / "memory.max").read_text())  # "max" if there is no limit
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - float(stat["anon"])
    except (OSError, ValueError, KeyError):
        return None


def _of_process() -> float | None:
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return None if most == resource.RLIM_INFINITY else float(most - taken)
    except (ImportError, OSError, ValueError):
        return None
