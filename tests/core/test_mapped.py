"""Rows of mapped files: the same numbers, and pages that are given back."""

from pathlib import Path

import numpy as np
import pytest

from anchored.core import mapped

N_ROWS, N_COLUMNS = 300_000, 16


@pytest.fixture(params=["r", "r+", "c", "offset", "part", "memory"])
def source(request, tmp_path):
    """Rows in a file, opened in several ways, or in memory."""
    x = np.random.default_rng(0).normal(size=(2_000, N_COLUMNS)).astype(np.float32)
    if request.param == "memory":
        return x
    head = 100 if request.param == "offset" else 0
    (tmp_path / "rows").write_bytes(b"x" * head + x.tobytes())
    mode = request.param if request.param in ("r", "r+", "c") else "r"
    file = np.memmap(tmp_path / "rows", np.float32, mode, head, x.shape)
    return file[500:] if request.param == "part" else file


def test_rows_in_any_order_are_those_of_the_source(source, monkeypatch):
    monkeypatch.setattr(mapped, "_SPAN_BYTES", 5_000)
    rows = np.random.default_rng(1).integers(0, len(source), 3_000)
    for some in (rows, rows[:1], rows[:0], rows.astype(np.int32)):
        found = mapped.taken(source, some)
        np.testing.assert_array_equal(found, np.asarray(source)[some])
    joined = np.concatenate(list(mapped.spans(source)))
    np.testing.assert_array_equal(joined, source)


def test_changes_that_only_this_process_sees_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_SPAN_BYTES", 5_000)
    np.zeros((5_000, 4), np.float32).tofile(tmp_path / "rows")
    file = np.memmap(tmp_path / "rows", np.float32, "c", shape=(5_000, 4))
    file[:] = 1.0
    mapped.taken(file, np.arange(5_000))
    assert (mapped.taken(file, np.arange(5_000)) == 1.0).all()


def held_of_file() -> int:
    """Bytes of mapped files that this process holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssFile")))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_pages_that_were_read_are_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_SPAN_BYTES", 2**20)
    np.ones((N_ROWS, N_COLUMNS), np.float32).tofile(tmp_path / "rows")  # 19 MB
    file = np.memmap(tmp_path / "rows", np.float32, "r", shape=(N_ROWS, N_COLUMNS))
    rows = np.random.default_rng(0).permutation(N_ROWS)
    before = held_of_file()
    mapped.taken(file, rows)
    for _ in mapped.spans(file):
        pass
    assert held_of_file() - before < 4 * 2**20
    file[rows].sum()  # the usual way holds all of it
    assert held_of_file() - before > 15 * 2**20
