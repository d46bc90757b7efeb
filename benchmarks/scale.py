"""Rows beyond memory, and members over workers: what they cost. ``python -m benchmarks.scale``

    python -m benchmarks.scale rows --rows 20000000   # Parquet, made here, about 160 bytes a row
    python -m benchmarks.scale workers --members 20   # needs ray

``rows`` fits a regression to all rows from Parquet and to a tenth of them in memory, each in a
process of its own, and takes the peaks of their memory: anonymous memory is what the process
holds; the whole peak has the pages of the mapped file too, which the system takes back when it
needs them. ``workers`` trains an ensemble on one worker of Ray with one core, and on two.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from anchored._files import write_whole

RECORD = Path(__file__).parent / "results" / "scale.json"
N_COLUMNS, _FILE_ROWS = 20, 1_000_000


def write_rows(folder: Path, n_rows: int) -> int:
    """Parquet files of numbers, two categories and a date; their bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    return sum(path.stat().st_size for path in folder.iterdir())


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))


def measured_fit(folder: str, streamed: bool, members: int, most: float) -> dict:
    """In this process: seconds and peaks of a fit, and its error on some rows.

    Each training is cut to ``most`` seconds; what it costs to bring rows to it does not change.
    """
    from anchored import AnchoredRegressor
    from anchored.estimators.streams import opened_rows
    from anchored.tables import memory
    from anchored.tables.streams import Stream

    stream, peak, ended = Stream.of(folder), [0], threading.Event()
    available = memory.available

    def watch() -> None:
        while not ended.wait(0.02):
            peak[0] = max(peak[0], _memory("RssAnon"))

    thread = threading.Thread(target=watch)
    thread.start()
    started = time.perf_counter()
    memory.available = (lambda: 1e8) if streamed else available  # a machine with little of it
    model = AnchoredRegressor(n_members=members, random_state=0, max_seconds=most)
    with opened_rows(model, stream, "y") as (x, y):
        reading = time.perf_counter() - started
        memory.available = available
        started = time.perf_counter()
        model.fit(x, y)
    seconds = time.perf_counter() - started
    steps = int(model.ensemble_.info.steps[-1])
    test = stream.sample(20_000, seed=1)
    started = time.perf_counter()
    mean = model.predict(test.without(["y"]))
    predicting = time.perf_counter() - started
    ended.set()
    thread.join()
    return {
        "rows": stream.total,
        "streamed": streamed,
        "reading_seconds": reading,
        "read_rows_a_second": stream.total / reading,
        "fit_seconds": seconds,
        "most_seconds_of_a_training": most,
        "steps": steps,
        "members": members,
        "peak_anonymous_bytes": peak[0],
        "peak_bytes": _memory("VmHWM"),
        "rmse": float(np.sqrt(np.mean((mean - test.columns["y"]) ** 2))),
        "predicted_rows_a_second": test.n_rows / predicting,
    }


def _in_process(*arguments: str) -> dict:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def rows(n_rows: int, members: int, most: float) -> dict:
    folder = Path(tempfile.mkdtemp(prefix="anchored-scale-"))
    try:
        whole, tenth = folder / "whole", folder / "tenth"
        whole.mkdir()
        tenth.mkdir()
        size = write_rows(whole, n_rows)
        write_rows(tenth, n_rows // 10)
        given = ("--members", str(members), "--seconds", str(most))
        streamed = _in_process("fit", str(whole), "--streamed", *given)
        # The same rows both ways: what reading costs.
        in_memory = _in_process("fit", str(tenth), *given)
        again = _in_process("fit", str(tenth), "--streamed", *given)
        return {"parquet_bytes": size, "fits": [streamed, in_memory, again]}
    finally:
        shutil.rmtree(folder)


def workers(members: int, n_rows: int = 20_000) -> dict:
    """Seconds of one ensemble on one worker of Ray and on two, after a first one that compiles."""
    import jax
    import ray

    from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
    from anchored.cluster import RayExecutor

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 20)).astype(np.float32)
    data, network = Data.make(x, np.sin(2 * x[:, 0])), MLP((50, 50))
    prior, found = Prior.for_network(network, data.x[:1]), {}
    schedule = Schedule.of_steps(6_000, n_rows, 200, 0.01)
    for n_workers in (1, 2):
        ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False)
        for turn in ("first", "second"):
            started = time.perf_counter()
            fit_ensemble(
                jax.random.key(0),
                network,
                prior,
                Gaussian(0.1),
                data,
                n_members=members,
                schedule=schedule,
                executor=RayExecutor(),
            )
            found[f"{n_workers} workers, {turn}"] = time.perf_counter() - started
        ray.shutdown()
    found["speed_up"] = found["1 workers, second"] / found["2 workers, second"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("rows", "workers", "fit"))
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1e9, help="most of a training")
    parser.add_argument("--streamed", action="store_true")
    given = parser.parse_args()
    if given.part == "fit":
        print(json.dumps(measured_fit(given.folder, given.streamed, given.members, given.seconds)))
        return
    if given.part == "rows":
        found = rows(given.rows, given.members, given.seconds)
    else:
        found = workers(given.members)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    text = json.dumps(record | {given.part: found}, indent=2) + "\n"
    write_whole(RECORD, text.encode())
    print(text, end="")


if __name__ == "__main__":
    main()
