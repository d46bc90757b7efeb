"""Fits of more rows than memory holds: ``python -m benchmarks.large_fits``.

    python -m benchmarks.large_fits make FOLDER --rows 20000000       # Parquet, 180 bytes a row
    python -m benchmarks.large_fits fit FOLDER --streamed
    python -m benchmarks.large_fits make TENTH --rows 2000000
    python -m benchmarks.large_fits fit TENTH                          # in memory

``fit`` trains a regression in a process of its own, each training cut to some seconds, and watches
the memory of that process from outside: RSS, all pages that it holds, those of mapped files
included; USS, those that no other process shares; and its anonymous pages, which alone cannot be
dropped. The counts of its control group are taken too: they have all processes of the group, and
what the system caches of their files. ``benchmarks/results/large_fits.json`` keeps one fit for each
number of rows and way.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from anchored._files import write_whole

RECORD = Path(__file__).parent / "results" / "large_fits.json"
N_COLUMNS, _FILE_ROWS, _EVERY = 20, 1_000_000, 0.1


def write_rows(folder: Path, n_rows: int) -> None:
    """Parquet files of numbers, two categories and a date."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    towns = pa.array(["north", "south", "east", "west"])
    for i, first in enumerate(range(0, n_rows, _FILE_ROWS)):
        rng, n = np.random.default_rng(i), min(_FILE_ROWS, n_rows - first)
        x = rng.normal(size=(n, N_COLUMNS - 3))
        town, lift = rng.integers(4, size=n), rng.integers(2, size=n)
        day = rng.integers(0, 4_000, n).astype("datetime64[D]")
        y = np.sin(2 * x[:, 0]) + x[:, 1] * (town == 0) + lift + 0.3 * rng.normal(size=n)
        columns = {f"x{j}": x[:, j] for j in range(x.shape[1])} | {
            "town": pa.DictionaryArray.from_arrays(town.astype(np.int32), towns),
            "lift": pa.array(np.where(lift, "yes", "no")),
            "day": pa.array(day),
            "y": y,
        }
        pq.write_table(pa.table(columns), folder / f"part-{i:03}.parquet", row_group_size=100_000)


def _own_peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


class _Looks:
    """When each look of the first training was, and at which step: its pace without compiling."""

    def __init__(self, fit_ensemble):
        self.fit_ensemble, self.seen = fit_ensemble, []

    def __call__(self, *args, on_check=None, **how):
        ensemble = self.fit_ensemble(*args, on_check=self._look, **how)
        self.batch_size = how["schedule"].batch_size
        return ensemble

    def _look(self, progress) -> None:
        self.seen.append((time.perf_counter(), progress.step))

    @property
    def steps_a_second(self) -> float:
        (began, first), (ended, last) = self.seen[0], self.seen[-1]
        return (last - first) / (ended - began)


def fit_here(folder: str, streamed: bool, members: int, most: float) -> dict:
    """In this process: seconds of a fit, and its error on some rows."""
    from anchored import AnchoredRegressor
    from anchored.estimators import base
    from anchored.estimators.streams import opened_rows
    from anchored.tables import memory
    from anchored.tables.streams import Stream

    stream, available = Stream.of(folder), memory.available
    looks = base.fit_ensemble = _Looks(base.fit_ensemble)
    memory.available = lambda: 1e8 if streamed else math.inf  # a machine with little, or enough
    model = AnchoredRegressor(n_members=members, random_state=0, max_seconds=most)
    started = time.perf_counter()
    with opened_rows(model, stream, "y") as (x, y):
        reading, began = time.perf_counter() - started, time.time()
        memory.available = available
        model.fit(x, y)
    fitting = time.time() - began
    test = Stream.of(stream.files[0]).sample(20_000, seed=1)
    mean = model.predict(test.without(["y"]))
    return {
        "rows": stream.total,
        "streamed": streamed,
        "members": members,
        "most_seconds_of_a_training": most,
        "parquet_bytes": sum(Path(path).stat().st_size for path in stream.files),
        "reading_seconds": reading,
        "read_rows_a_second": stream.total / reading,
        "fit_seconds": fitting,
        "steps": int(model.ensemble_.info.steps[-1]),
        "batch_size": looks.batch_size,
        "trained_rows_a_second": looks.steps_a_second * looks.batch_size,
        "rmse": float(np.sqrt(np.mean((mean - test.columns["y"]) ** 2))),
        "peak_rss": _own_peak(),
        "fit_began": began,
    }


def _group_stat() -> Path | None:
    """Counts of the control group of this process, version 1 or 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds in ("memory", ""):
            home = Path("/sys/fs/cgroup") / ("memory" if kinds else "") / path.lstrip("/")
            if (home / "memory.stat").is_file():
                return home / "memory.stat"
    return None


def _of_group(stat: Path) -> dict[str, int]:
    found = dict(line.split() for line in stat.read_text().splitlines())
    held, cached = found.get("rss", found.get("anon")), found.get("cache", found.get("file"))
    return {"group_anonymous": int(held or 0), "group_cached": int(cached or 0)}


def _now(process: psutil.Process, stat: Path | None) -> dict[str, int]:
    memory = process.memory_full_info()
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    anonymous = 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))
    found = {"rss": memory.rss, "uss": memory.uss, "anonymous": anonymous}
    return found if stat is None else found | _of_group(stat)


def watched(arguments: list[str]) -> dict:
    """What `fit_here` says in a process of its own, and the peaks of that process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.large_fits", "here", *arguments]
    stat, seen = _group_stat(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        watch = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                seen.append((time.time(), _now(watch, stat)))
            except (psutil.Error, OSError, StopIteration):
                break  # it is about to end
            time.sleep(_EVERY)
        assert process.stdout is not None
        out = process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"The fit failed with {process.returncode}.")
    found = json.loads(out.splitlines()[-1])
    began = found.pop("fit_began")
    for part, some in (
        ("reading", [look for at, look in seen if at < began]),
        ("fitting", [look for at, look in seen if at >= began]),
    ):
        found[f"peaks_{part}"] = {name: max(look[name] for look in some) for name in some[0]}
    return found


def peak(fit: dict, kind: str = "anonymous") -> int:
    """The most that the process held of a kind, when it read or when it trained."""
    return max(fit[f"peaks_{part}"][kind] for part in ("reading", "fitting"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("make", "fit", "here"))
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="most of a training")
    parser.add_argument("--streamed", action="store_true")
    given = parser.parse_args()
    if given.part == "make":
        write_rows(Path(given.folder), given.rows)
    elif given.part == "here":
        found = fit_here(given.folder, given.streamed, given.members, given.seconds)
        print(json.dumps(found))
    else:
        how = ["--streamed"] * given.streamed + ["--members", str(given.members)]
        found = watched([given.folder, *how, "--seconds", str(given.seconds)])
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {"fits": []}
        same = (found["rows"], found["streamed"])
        others = [fit for fit in record["fits"] if (fit["rows"], fit["streamed"]) != same]
        record["fits"] = [*others, found]
        write_whole(RECORD, (json.dumps(record, indent=2) + "\n").encode())
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
