"""Predictions for more rows than memory holds: ``python -m benchmarks.large_predictions``.

Writes a folder of Parquet files (20 million rows of 20 columns by default, about 3 GB, in a folder
that is removed), predicts it by `anchored predict` into a Parquet file, and prints the rows a
second and the largest memory of the command, beside those of a tenth of the rows. The record is
``benchmarks/results/large_predictions.json``.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq

from anchored import AnchoredRegressor
from benchmarks.http_client import COMMAND
from benchmarks.run import Line

RECORD = Path(__file__).parent / "results" / "large_predictions.json"
N_ROWS, N_COLUMNS, FILE_ROWS = 20_000_000, 20, 1_000_000


def rows(n_rows: int, seed: int) -> pd.DataFrame:
    """Numbers, one of them with missing cells, and two categories."""
    rng = np.random.default_rng(seed)
    columns: dict = {f"x{i}": rng.normal(size=n_rows) for i in range(N_COLUMNS - 2)}
    columns["x1"][rng.uniform(size=n_rows) < 0.05] = np.nan
    for name, n_levels in (("town", 5), ("street", 60)):
        levels = [f"{name} {i}" for i in range(n_levels)]
        columns[name] = pd.Categorical.from_codes(rng.integers(n_levels, size=n_rows), levels)
    return pd.DataFrame(columns)


def write_folder(folder: Path, n_rows: int) -> None:
    for start in range(0, n_rows, FILE_ROWS):
        part = rows(min(FILE_ROWS, n_rows - start), 1 + start)
        part.to_parquet(folder / f"{start:012d}.parquet", row_group_size=100_000)


def predict(model: Path, folder: Path, out: Path) -> tuple[float, float, float]:
    """Seconds, seconds of a core, and the largest memory in GB."""
    command = [*COMMAND, "predict", str(model), str(folder), "--out", str(out)]
    started, largest, used = time.perf_counter(), 0, 0.0
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                largest = max(largest, watched.memory_info().rss)
                times = watched.cpu_times()
                used = times.user + times.system
            except psutil.NoSuchProcess:
                break
            time.sleep(0.1)
    assert process.returncode == 0
    return time.perf_counter() - started, used, largest / 1e9


def measure(n_rows: int) -> tuple[list[Line], float]:
    """What was measured, and the rows that a second of a core predicts."""
    lines, by_core = [], 0.0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        known = rows(5_000, 0)
        target = known["x0"] + 0.3 * known["town"].cat.codes
        target += np.random.default_rng(0).normal(0, 0.1, 5_000)
        AnchoredRegressor(epochs=10, random_state=0).fit(known, target).save(home / "model")
        for n in (n_rows // 10, n_rows):
            folder, out = home / str(n), home / f"{n}.parquet"
            folder.mkdir()
            write_folder(folder, n)
            size = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
            seconds, used, memory = predict(home / "model", folder, out)
            by_core = n / used
            assert pq.read_metadata(out).num_rows == n
            lines += [
                Line(f"{n:,} rows of {N_COLUMNS} columns, Parquet of", size, "GB", 0.0, True),
                Line("  predicted, rows a second", n / seconds, "/s", 0.0, True),
                Line("  largest memory", memory, "GB", 2.0, False),
            ]
    return lines, by_core


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    load = os.getloadavg()[0]
    n_rows = parser.parse_args().rows
    lines, by_core = measure(n_rows)
    for line in lines:
        print(f"{line.name}: {line.value:.3g} {line.unit}".rstrip() + " MISSED" * (not line.ok))
    record = {"cores": os.cpu_count(), "load before": load, "rows": n_rows}
    record["rows a core second"] = by_core
    record["lines"] = [line._asdict() | {"ok": bool(line.ok)} for line in lines]
    RECORD.write_text(json.dumps(record, indent=2, default=float) + "\n")
    return 0 if all(line.ok for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
