"""Predictions in every engine and over HTTP: ``python -m benchmarks.serving``.

Predicts the same 100,000 rows, with categories, missing cells and new levels, by the estimator, by
NumPy, ONNX, pandas, Polars, DuckDB, Ray Data, Spark and `anchored serve`, and prints how far they
are apart. Then it measures the service: single-row requests a second and their delay, and 10,000
hostile requests. Writes ``benchmarks/results/serving.json``. A missed target makes the command
fail.
"""

import argparse
import asyncio
import contextlib
import functools
import gc
import importlib.util
import json
import os
import platform
import random
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import anchored
from benchmarks import large_predictions
from benchmarks.busy import busy_cores
from benchmarks.hostile import hostile_request
from benchmarks.http_client import Client, post, service_process, stream
from benchmarks.run import Line
from benchmarks.sections import write_section
from benchmarks.serving_engines import ENGINES, apart, fitted, flats, of_estimator

RECORD = Path(__file__).parent / "results" / "serving.json"
PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
N_ROWS, N_HOSTILE = 100_000, 10_000
APART = 1e-5  # in deviations of the target, which are about one
RATE, CONNECTIONS = 1_000, 32  # requests a second


def single_rows(n: int = 500) -> list[bytes]:
    """Requests of one row each."""
    frame = flats(n, 5, new_levels=True).drop(columns=["id", "price"])
    rows = frame.to_json(orient="records", lines=True).splitlines()
    return [post(b'{"rows": [%s]}' % row.encode()) for row in rows]


async def delays(
    url: str, seconds: float, n_connections: int, rate: float | None = None
) -> tuple[float, np.ndarray]:
    """Answers a second, and the seconds to each answer.

    With a ``rate`` requests come at random moments, so many a second in all, and their delay counts
    from the moment they should have been sent. Without, each connection asks as soon as it can.
    """
    requests, taken = single_rows(), []
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        rng, now = random.Random(number), time.perf_counter()
        wait = functools.partial(rng.expovariate, (rate or 1.0) / n_connections)
        due = now + wait()
        async with Client.at(url) as client:
            while now < end:
                if rate is not None:
                    await asyncio.sleep(max(due - time.perf_counter(), 0))
                started = due if rate is not None else time.perf_counter()
                status, body = await client.ask(rng.choice(requests))
                assert status == 200, body
                now = time.perf_counter()
                taken.append(now - started)
                due += wait()

    before = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(n_connections)))
    return len(taken) / (time.perf_counter() - before), np.array(taken)


async def harass(url: str, n_requests: int, seed: int = 0, n_clients: int = 20) -> dict[str, int]:
    """Send hostile requests; how many were refused (4xx), left without an answer, or else."""
    good = stream(pa.Table.from_pandas(flats(3), preserve_index=False))
    counts = {"refused": 0, "silent": 0, "else": 0}

    async def one(number: int) -> None:
        rng = random.Random(f"{seed}/{number}")
        for _ in range(n_requests // n_clients):
            request, hold = hostile_request(rng, good)
            status = None
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                async with Client.at(url) as client, asyncio.timeout(30):
                    if hold:  # cut off, perhaps after a while
                        client.writer.write(request)
                        await client.writer.drain()
                        await asyncio.sleep(rng.random() * 0.05)
                    else:
                        status, _ = await client.ask(request)
            kind = "silent" if status is None else "refused" if 400 <= status < 500 else "else"
            counts[kind] += 1

    await asyncio.gather(*(one(number) for number in range(n_clients)))
    return counts


def measure_service(path: str) -> list[Line]:
    question = single_rows(1)[0]
    gc.collect()
    gc.freeze()  # or collections of garbage here would count as delays of the service
    with service_process(path) as (url, process):
        asyncio.run(delays(url, 2.0, CONNECTIONS))
        most, _ = asyncio.run(delays(url, 10.0, CONNECTIONS))
        used = _cpu_seconds(process)
        reached, taken = asyncio.run(delays(url, 20.0, CONNECTIONS, 1.05 * RATE))
        used = (_cpu_seconds(process) - used) / len(taken)
        before = asyncio.run(_once(url, question))
        asyncio.run(harass(url, N_HOSTILE // 5, seed=1))
        memory = process.memory_info().rss
        counts = asyncio.run(harass(url, N_HOSTILE))
        gained = (process.memory_info().rss - memory) / 1e6
        same = asyncio.run(_once(url, question)) == before
    p50, p99 = np.quantile(taken, [0.5, 0.99]) * 1e3
    return [
        Line("single-row requests, as many as go", most, "/s", RATE, True),
        Line(
            f"at random moments, {1.05 * RATE:,.0f} a second: answered", reached, "/s", RATE, True
        ),
        Line("  delay, median", float(p50), "ms", 20.0, False),
        Line("  delay, 99 of 100", float(p99), "ms", 20.0, False),
        Line("  core time for each", used * 1e3, "ms", 0.0, True),
        Line(f"{N_HOSTILE:,} hostile requests: refused", counts["refused"], "", 1, True),
        Line("  cut off, so without an answer", counts["silent"], "", 0, True),
        Line("  answered otherwise", counts["else"], "", 0, False),
        Line("  memory gained", gained, "MB", 50.0, False),
        Line("  the same answer after them", float(same), "", 1.0, True),
    ]


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def _once(url: str, request: bytes) -> bytes:
    async with Client.at(url) as client:
        status, body = await client.ask(request)
        assert status == 200, body
        return body


def measure_engines(path: str, model, n_rows: int) -> list[Line]:
    frame = flats(n_rows, 1, new_levels=True)
    truth = of_estimator(model, frame)
    lines = []
    for name, (package, predict) in ENGINES.items():
        if importlib.util.find_spec(package) is None:
            print(f"{name}: not installed, left out")
            continue
        started = time.perf_counter()
        found = apart(predict(path, frame), truth)
        lines.append(Line(f"{name}: largest difference", found, "", APART, False))
        print(f"{name}: {found:.1e} in {time.perf_counter() - started:.1f} s", flush=True)
    return lines


def section(record: dict, large: dict) -> str:
    """The end of `docs/serving.md`, from the records of this module and `large_predictions`."""
    engines, service = record["engines"], record["service"]
    worst = max(line["value"] for line in engines["lines"])
    most, reached, median, slow, core, *_, gained, _ = (line["value"] for line in service["lines"])
    load = service["load before"]
    delay = (
        f"At {reached:,.0f} a second, half of them took at most {median:.1f} ms and 99 of 100 at "
        f"most {slow:.1f} ms."
    )
    if load > record["cores"]:
        delay = "On a machine as busy as that, delays do not describe the service."
    size, rate, memory = (line["value"] for line in large["lines"][-3:])
    words = [
        f"{len(engines['lines'])} ways to predict the same {engines['rows']:,} rows differ from "
        f"the estimator by at most {worst:.0e} deviations of the target.",
        f"On {record['cores']} cores, with a load of {load:.1f} by other programs, the service "
        f"answered {most:,.0f} single-row requests a second. {delay} Each cost {core:.2f} ms of a "
        f"core. After {N_HOSTILE:,} hostile requests it answered as before, with "
        f"{max(gained, 0):.0f} MB more memory.",
        f"`anchored predict` of {large['rows']:,} rows in {size:.1f} GB of Parquet took "
        f"{memory:.2f} GB of memory. It predicted {rate:,.0f} rows a second, while other programs "
        f"caused a load of {large['load before']:.0f}. That is "
        f"{large['rows a core second']:,.0f} rows for each second of processor time.",
        "`benchmarks/serving.py` and `benchmarks/large_predictions.py` measure this.",
    ]
    return "## Measured\n\n" + "\n\n".join(textwrap.fill(part, 100) for part in words) + "\n"


def write_page() -> None:
    """Put what was recorded on the page."""
    records = (json.loads(path.read_text()) for path in (RECORD, large_predictions.RECORD))
    write_section(PAGE, section(*records))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parts = ["engines", "service"]
    parser.add_argument("--parts", nargs="*", default=parts, choices=parts, help="measure these")
    given = parser.parse_args()
    record = json.loads(RECORD.read_text())  # of the parts that are not measured now
    record |= {"version": anchored.__version__, "python": platform.python_version()}
    record |= {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.safetensors")
        model = fitted(Path(path), epochs=40)
        for part in given.parts:
            of_part: dict = {"load before": busy_cores()}
            if part == "engines":
                of_part["rows"] = given.rows
                lines = measure_engines(path, model, given.rows)
            else:
                lines = measure_service(path)
            of_part["lines"] = [line._asdict() | {"ok": bool(line.ok)} for line in lines]
            record[part] = of_part
            for line in lines:
                missed = "" if line.ok else " MISSED"
                print(f"{line.name}: {line.value:.3g} {line.unit}".rstrip() + missed)
    RECORD.write_text(json.dumps(record, indent=2, default=float) + "\n")
    if large_predictions.RECORD.exists():
        write_page()
    return 0 if all(line["ok"] for part in parts for line in record[part]["lines"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
