"""Tables that are too large are refused before they are read; freed memory is given back."""

import gzip
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from anchored.errors import TableError
from anchored.tables import csv_rows, memory
from anchored.tables.reading import read_blocks, read_table

N_ROWS = 200_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (i % 97, i % 89) for i in range(N_ROWS))
    (folder / "plain.csv").write_bytes(content)
    (folder / "small.csv.gz").write_bytes(gzip.compress(content))
    columns = {"a": [i % 97 for i in range(N_ROWS)], "b": [i % 89 for i in range(N_ROWS)]}
    parquet.write_table(pa.table(columns), folder / "table.parquet", row_group_size=10_000)
    return folder


@pytest.mark.parametrize("name", ["plain.csv", "small.csv.gz", "table.parquet"])
def test_the_first_blocks_tell(files, monkeypatch, name):
    monkeypatch.setattr(csv_rows, "_CHUNK", 50_000)
    seen, checked = [], memory.that_fit

    def counted(parts, share):
        return checked((seen.append(part.num_rows) or part for part in parts), share)

    monkeypatch.setattr(memory, "that_fit", counted)
    monkeypatch.setattr(memory, "available", lambda: 5e6)
    with pytest.raises(TableError, match=r"needs about 0\.0 GB of memory .* 10,000 of them would"):
        read_table(files / name)
    assert sum(seen) < N_ROWS / 2
    assert sum(block.n_rows for block in read_blocks(files / name)) == N_ROWS
    monkeypatch.setattr(memory, "available", lambda: 1e9)
    assert read_table(files / name).n_rows == N_ROWS


def test_a_stream_is_refused_when_it_has_grown_too_large(files, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 5e6)
    with pytest.raises(TableError, match="the table needs about"):
        read_table(io.BytesIO((files / "plain.csv").read_bytes()))


def test_what_the_system_allows():
    code = (
        "import resource; from anchored.tables import memory\n"
        "free = memory.available()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "print(0 < memory.available() < 3 << 30, free > 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "True"]


def held() -> int:
    """Bytes of memory that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))


@pytest.mark.skipif(memory._trim() is None, reason="needs the C library of GNU")
def test_what_was_freed_is_given_back_to_the_system():
    arrays = [np.ones(2**13) for _ in range(2_000)]  # 64 kB each, of the heap
    full = held()
    last = np.ones(2**13)  # above them, so that the heap cannot shrink by itself
    arrays.clear()
    memory.give_back()
    assert held() < full - 100e6
    assert last.all()
