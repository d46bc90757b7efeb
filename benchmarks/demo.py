"""Speed of the demo's server, seen by its clients: ``python -m benchmarks.demo``.

Starts `anchored demo`, measures pictures a second, the delay of a new point, fifty clients at once
and ten thousand bad messages, and writes ``benchmarks/results/demo.json``. A missed target makes
the command fail.
"""

import asyncio
import contextlib
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

import anchored
from benchmarks.run import Line

RECORD = Path(__file__).parent / "results" / "demo.json"
COMMAND = [sys.executable, "-c", "from anchored.cli import app; app()"]


class Client:
    """A page without a picture: acknowledges every frame as soon as it comes."""

    def __init__(self, socket: ClientConnection, hello: dict):
        self.socket, self.hello = socket, hello

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, url: str):
        async with connect(url.replace("http", "ws") + "ws", max_size=None) as socket:
            yield cls(socket, json.loads(await socket.recv()))

    async def send(self, **record) -> None:
        await self.socket.send(json.dumps(record))

    async def open(self, problem="regression", preset=0, settings=None, **fields) -> dict:
        """Open a preset with the defaults; its first picture."""
        settings = self.hello["defaults"][problem] | (settings or {})
        points = self.hello["presets"][problem][preset]["points"]
        record = {"type": "open", "problem": problem, "settings": settings, "points": points}
        await self.send(**record, **fields, id=1)
        return await self.until(lambda r: r["type"] == "error" or "weights" in r)

    async def next(self) -> dict:
        record = json.loads(await self.socket.recv())
        if record["type"] == "frame":
            await self.send(type="ack", frame=record["frame"])
        return record

    async def until(self, found) -> dict:
        while not found(record := await self.next()):
            pass
        return record

    async def count(self, seconds: float) -> int:
        """Pictures that come in so many seconds."""
        n, end = 0, time.perf_counter() + seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while time.perf_counter() < end:
                    n += "weights" in await self.next()
        return n


async def pictures_per_second(url: str, seconds: float = 10.0) -> float:
    """Ten members of a hundred nodes with the exact answer, one client."""
    async with Client.at(url) as client:
        first = await client.open(settings={"n_members": 10, "width": 100})
        assert first["gp"] is not None
        await client.send(type="run")
        await client.count(1.0)
        return await client.count(seconds) / seconds


async def delays(url: str, n: int = 60) -> list[float]:
    """Seconds from sending a new point to the picture that shows it, while training."""
    async with Client.at(url) as client:
        await client.open()
        points = client.hello["presets"]["regression"][0]["points"]
        await client.send(type="run")
        taken = []
        for i in range(n + 5):
            await client.count(0.1)
            started = time.perf_counter()
            points = [*points[: 6 + i % 20], [1.0 + i / 200, 0.3]]
            await client.send(type="points", points=points, id=100 + i)
            await client.until(lambda r, i=i: r.get("id") == 100 + i)
            taken.append(time.perf_counter() - started)
        return taken[5:]


async def crowd(url: str, n_clients: int, seconds: float, settings=None) -> list[int]:
    """Pictures that each of so many clients gets, all of them training at once."""

    async def one(number: int) -> int:
        async with Client.at(url) as client:
            await client.open(settings=settings, seed=number)
            await client.send(type="run")
            waiting.release()
            await started.wait()
            return await client.count(seconds)

    waiting, started = asyncio.Semaphore(0), asyncio.Event()
    tasks = [asyncio.create_task(one(number)) for number in range(n_clients)]
    for _ in tasks:
        await waiting.acquire()
    started.set()
    return list(await asyncio.gather(*tasks))


def hostile_message(rng: random.Random, hello: dict) -> str | bytes:
    """Something no page would send, or something it would send with a part made wrong."""
    settings = hello["defaults"]["regression"] | {"n_members": 2, "width": 4}
    good = [
        {"type": "open", "problem": "regression", "settings": settings, "points": [[0, 0]]},
        {"type": "points", "points": [[0.5, 0.5], [1, 2]]},
        {"type": "settings", "settings": {"noise_var": 0.1}},
        {"type": "step", "steps": 3},
        {"type": "weights", "pair": [0, 1]},
        {"type": "ack", "frame": 1},
        {"type": "view", "view": [-1, 1]},
        {"type": "run"},
        {"type": "reset"},
    ]
    values = [None, True, -1, 0, 1e308, 2**70, "x", "\ud800", [], {}, [[]], [None] * 300, {"a": {}}]
    record = rng.choice(good)
    kind = rng.randrange(9)
    if kind == 0:
        return "".join(chr(rng.randrange(32, 0x2000)) for _ in range(rng.randrange(200)))
    if kind == 1:
        return rng.randbytes(rng.randrange(200))
    if kind == 2:
        return rng.choice("[{") * rng.randrange(1, 60_000)
    if kind == 3:
        return json.dumps(record | {"type": rng.choice(["eval", "__class__", "../..", "<b>"])})
    if kind == 4:
        return json.dumps(record | {rng.choice(["id", "x", "__proto__"]): rng.choice(values)})
    if kind == 5:
        return json.dumps(record)[: rng.randrange(1, 60)]
    if kind == 6:
        return json.dumps(record).replace("1", rng.choice(["NaN", "1e999", "-Infinity", "1" * 500]))
    if kind == 7:
        return json.dumps(record | {"points": [[0, 0]] * rng.randrange(201, 5_000)})
    return json.dumps({key: rng.choice([value, *values]) for key, value in record.items()})


async def harass(url: str, n_messages: int, seed: int = 0, n_clients: int = 20) -> int:
    """Send hostile messages from some clients; how many were answered.

    A client sends some, then a good one, and goes on when that is answered. Now and then it sends
    bytes that claim to be text, which ends the connection, and comes again.
    """
    good = {"type": "rms", "mean": [0, 0], "variances": [1, 1], "correlation": 0}
    good |= {"prior_variances": [1, 1], "id": 123}

    async def one(number: int) -> int:
        rng, left, answers = random.Random(f"{seed}/{number}"), n_messages // n_clients, 0
        while left:
            with contextlib.suppress(ConnectionClosed):
                async with Client.at(url) as client:
                    for _ in range(min(left, rng.randrange(1, 100))):
                        left -= 1
                        text = hostile_message(rng, client.hello)
                        as_text = isinstance(text, bytes) and rng.random() < 0.05
                        await client.socket.send(text, text=as_text or None)
                    await client.send(**good)
                    while (answer := await client.next()).get("id") != good["id"]:
                        answers += answer["type"] == "error"
        return answers

    return sum(await asyncio.gather(*(one(number) for number in range(n_clients))))


@contextlib.contextmanager
def demo_process() -> Iterator[tuple[str, psutil.Process]]:
    """`anchored demo` on a free port, warmed up: its address and process."""
    command = [*COMMAND, "demo", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            url = next(word for word in first.split() if word.startswith("http"))
            process.stdout.readline()
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


def within(seconds: float, coroutine):
    """Its result; a stall is an error, not an endless wait."""

    async def limited():
        async with asyncio.timeout(seconds):
            return await coroutine

    return asyncio.run(limited())


def measure() -> list[Line]:
    with demo_process() as (url, process):
        per_second = within(60, pictures_per_second(url))
        taken = np.array(within(120, delays(url))) * 1e3
        within(120, crowd(url, 50, 5.0))
        before = process.memory_info().rss / 1e6
        counts = np.array(within(180, crowd(url, 50, 60.0)))
        after = process.memory_info().rss / 1e6
        n_messages = 10_000
        answers = within(300, harass(url, n_messages))
        still = within(60, pictures_per_second(url, 5.0))
    return [
        Line("pictures, 10 members of 100 nodes and the GP", per_second, "/s", 20.0, True),
        Line("a new point is shown, median", float(np.median(taken)), "ms", 200.0, False),
        Line("a new point is shown, slowest of 60", float(taken.max()), "ms", 0.0, True),
        Line("50 clients for a minute: pictures of the least served", counts.min(), "", 30.0, True),
        Line("  median", float(np.median(counts)), "", 0.0, True),
        Line("  server's memory before", before, "MB", 0.0, True),
        Line("  memory gained in the minute", after - before, "MB", 100.0, False),
        Line(f"{n_messages:,} hostile messages: refused", answers, "", n_messages / 2, True),
        Line("  pictures after them", still, "/s", 10.0, True),
    ]


def words(record: dict) -> str:
    """The record in a sentence, as `docs/demo.md` has it."""
    numbers = [line["value"] for line in record["lines"]]
    per_second, delay, slowest, least, median, _, gained, *_ = numbers
    return (
        f"Measured on {record['cores']} cores; other programs made a load average of "
        f"{record['load before']:.1f}. One client gets {per_second:.0f} pictures a second of ten "
        f"members of 100 nodes with the GP. A new point appears after {delay:.0f} ms (median; "
        f"the slowest of 60 took {slowest:.0f} ms). If 50 clients train for a minute at once, "
        "each gets at least "
        f"{least:.0f} pictures (median {median:.0f}), and the server's memory grows by "
        f"{gained:.0f} MB."
    )


def main() -> int:
    load = os.getloadavg()[0]
    lines = measure()
    record = {
        "version": anchored.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "cores": os.cpu_count(),
        "load before": load,
        "lines": [line._asdict() | {"ok": bool(line.ok)} for line in lines],
    }
    RECORD.write_text(json.dumps(record, indent=2, default=float) + "\n")
    for line in lines:
        print(
            f"{line.name}: {line.value:.3g} {line.unit}".rstrip() + ("" if line.ok else " MISSED")
        )
    print(words(json.loads(RECORD.read_text())))
    return 0 if all(line.ok for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
