"""Bytes that a fit takes for each number in its table: ``python -m benchmarks.memory``.

Fits tables of normal numbers with few and with many rows, each in a process of its own, with and
without ramps. What the peak of the memory grows by, over the numbers that the larger table has
more, is the cost of a number; `anchored.tables.memory` has the larger of those for narrow and
wide tables. The table itself, which is in memory before, is not counted. Rows that stay in files
are measured by `benchmarks.large_fits`. The record is ``benchmarks/results/memory.json``.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from anchored._files import write_whole
from benchmarks import large_fits

RECORD = Path(__file__).parent / "results" / "memory.json"
ROWS = (250_000, 1_000_000)  # so far apart that what all fits take hardly counts
COLUMNS = (10, 30)
_NO_RAMPS = {"prior": 1.0}  # a prior that is given leaves nothing for the evidence to weigh


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))


def fit_here(n_rows: int, n_columns: int, ramped: bool) -> int:
    """Bytes by which a fit in this process raises its memory at the peak."""
    from anchored import AnchoredRegressor

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, n_columns))
    y = x[:, 0] + 0.1 * rng.normal(size=n_rows)
    how = {"n_members": 2, "max_seconds": 1.0, "random_state": 0}
    model = AnchoredRegressor(**how, **({} if ramped else _NO_RAMPS))
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _memory("VmRSS")
    model.fit(x, y)
    return _memory("VmHWM") - before


def _in_process(*given: int) -> int:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", "--fit", *map(str, given)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return int(done.stdout.splitlines()[-1])


def bytes_of_a_number(n_columns: int, ramped: bool) -> float:
    few, many = (_in_process(n, n_columns, int(ramped)) for n in ROWS)
    return (many - few) / ((ROWS[1] - ROWS[0]) * n_columns)


def bytes_of_a_row(record: dict) -> int:
    """Of a row that stays in a file, at most: the peak of the largest fit over its rows.

    What does not grow with the rows is in it. The peaks of few and of many rows are at different
    moments of a fit, so their difference would say too little.
    """
    most = max((fit for fit in record["fits"] if fit["streamed"]), key=lambda fit: fit["rows"])
    return math.ceil(large_fits.peak(most) / most["rows"])


def constants(record: dict, fits: dict) -> tuple[int, int, int]:
    """Bytes of a number with ramps, of one without, and of a row in a file, as `plan` counts."""
    return math.ceil(max(record["ramped"])), math.ceil(max(record["plain"])), bytes_of_a_row(fits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", type=int, nargs=3, help="rows, columns, 1 for ramps")
    given = parser.parse_args()
    if given.fit:
        print(fit_here(given.fit[0], given.fit[1], bool(given.fit[2])))
        return
    found = {"rows": ROWS, "columns": COLUMNS}
    for name, ramped in (("ramped", True), ("plain", False)):
        found[name] = [bytes_of_a_number(n_columns, ramped) for n_columns in COLUMNS]
    text = json.dumps(found, indent=2) + "\n"
    write_whole(RECORD, text.encode())
    print(text, end="")
    if large_fits.RECORD.exists():
        print("constants:", *constants(found, json.loads(large_fits.RECORD.read_text())))


if __name__ == "__main__":
    main()
