"""Processor seconds of `anchored fit` in this checkout and in another one, table by table.

    git worktree add --detach OTHER COMMIT
    python -m benchmarks.beside_commit OTHER/src [TABLE ...]

Each table is written as one CSV file. Both versions fit it with defaults, in turns, each in a new
process and with a store of compiled programs that was filled by a fit before.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from anchored._files import write_whole
from anchored.datasets.real import load_real
from anchored.datasets.registry import REAL

RECORD = Path(__file__).parent / "results" / "beside_commit.json"
TABLES = ("boston", "ames", "protein", "diamonds")
ROUNDS = 2  # the first fills the store
_COMMAND = "from anchored.cli import app; app()"
_HERE = Path(__file__).parent.parent / "src"


def write_csv(table: str, path: Path) -> str:
    """The name of the target."""
    rows, target = load_real(table), "the_target"
    columns = {**rows.inputs.columns, target: rows.y}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return target


def processor_seconds(source: Path, path: Path, target: str, home: Path) -> tuple[float, dict]:
    """Of one fit with its imports, and the scores that it printed."""
    own = {"PYTHONPATH": str(source), "ANCHORED_COMPILE_CACHE": str(home / "programs")}
    given = ["fit", str(path), "--target", target, "--out", str(home / "out"), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", "-c", _COMMAND, *given]
    ran = subprocess.run(command, env=os.environ | own, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(seconds, 1), json.loads(ran.stdout)


def main() -> None:
    other, tables = Path(sys.argv[1]).resolve(), sys.argv[2:] or TABLES
    unknown = set(tables) - set(REAL)
    if unknown:
        sys.exit(f"Tables {sorted(unknown)} are not known; there are {', '.join(REAL)}.")
    commit = ["git", "-C", str(other), "rev-parse", "--short", "HEAD"]
    named = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
    record: dict = {"other": named, "processor_seconds": {}, "scores": {}}
    for table in tables:
        with tempfile.TemporaryDirectory() as name:
            home = Path(name)
            target = write_csv(table, home / "table.csv")
            for _ in range(ROUNDS):
                for version, source in (("other", other), ("this", _HERE)):
                    own = home / version
                    own.mkdir(exist_ok=True)
                    seconds, scores = processor_seconds(source, home / "table.csv", target, own)
                    record["processor_seconds"].setdefault(table, {})[version] = seconds
                    record["scores"].setdefault(table, {})[version] = scores["scores"]
        times = record["processor_seconds"][table]
        print(table, times, f"ratio {times['this'] / times['other']:.2f}", flush=True)
        write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
