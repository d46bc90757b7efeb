"""The demo's server over real sockets: pages, origins, frames, fair shares, limits, the end."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import psutil
import pytest
from benchmarks.demo import COMMAND, Client, crowd, demo_process, harass, pictures_per_second
from typer.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from anchored.cli import app
from anchored.demo import engine, sessions
from anchored.demo import server as web
from anchored.demo.sessions import Limits
from anchored.serving.hosts import host_check

TINY = {"n_members": 2, "width": 4}


@contextlib.contextmanager
def serving(monkeypatch, limits=None):
    """A server without its warm-up in a thread; its address."""
    monkeypatch.setattr(sessions, "_warm_ups", lambda programs: [])
    listener = socket.create_server(("127.0.0.1", 0))
    server = web._Server("127.0.0.1", limits or Limits(), None)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def url():
    with pytest.MonkeyPatch.context() as patch, serving(patch) as address:
        yield address


def get(url, path="", **headers):
    request = urllib.request.Request(url + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def run(coroutine, seconds=120):
    async def limited():
        async with asyncio.timeout(seconds):
            return await coroutine

    return asyncio.run(limited())


# Pages


def test_the_page_and_what_it_may_load(url):
    status, headers, body = get(url)
    assert status == 200
    assert body.lower().startswith(b"<!doctype html>")
    assert headers["content-type"] == "text/html; charset=utf-8"
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert url.removeprefix("http://").rstrip("/") in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["set-cookie"] is None
    assert headers["server"] is None


@pytest.mark.parametrize(
    "path",
    ["nothing", "static/", "static/nothing.js", "static/..%2fengine.py", "static/%2e%2e/engine.py"],
)
def test_other_paths_are_not_there(url, path):
    status, headers, _ = get(url, path)
    assert status == 404
    assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_foreign_host_names_are_refused(url, host):
    status, headers, body = get(url, host=host)
    assert status == 400
    assert b"host name" in body
    assert "evil" not in str(headers)


@pytest.mark.parametrize(
    ("bound", "header", "known"),
    [
        ("127.0.0.1", "localhost:8765", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:8765", True),
        ("127.0.0.1", "192.168.1.4:8765", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "localhost; script-src *", False),
        ("0.0.0.0", "192.168.1.4:8765", True),
        ("0.0.0.0", "evil.example", False),
        ("::", "[fe80::1]:80", True),
        ("box.example", "box.example:80", True),
        ("box.example", "other.example:80", False),
    ],
    ids=str,
)
def test_host_names(bound, header, known):
    assert host_check(bound)(header) is known


@pytest.mark.parametrize(
    ("origin", "accepted"),
    [
        (None, True),
        ("http://HOST", True),
        ("https://evil.example", False),
        ("http://localhost:1", False),
        ("null", False),
    ],
)
def test_only_its_own_page_may_use_the_websocket(url, origin, accepted):
    host = url.removeprefix("http://").rstrip("/")
    origin = origin and origin.replace("HOST", host)

    async def attempt():
        async with connect(f"ws://{host}/ws", origin=origin) as ws:
            return json.loads(await ws.recv())["type"]

    if accepted:
        assert run(attempt()) == "hello"
    else:
        with pytest.raises(InvalidStatus, match="403"):
            run(attempt())


def test_without_an_origin_only_this_machine_is_let_in():
    assert web._origin_fits(None, "h", ("127.0.0.1", 1))
    assert web._origin_fits(None, "h", ("::1", 1))
    assert not web._origin_fits(None, "h", ("192.168.1.7", 1))
    assert not web._origin_fits(None, "h", None)


# Frames


def test_a_client_opens_trains_changes_and_pauses(url):
    async def talk():
        async with Client.at(url) as client:
            first = await client.open(settings=TINY)
            assert (first["status"], first["step"], first["running"]) == ("ok", 0, False)
            assert (first["id"], first["n_points"], len(first["members"])) == (1, 6, 2)
            await client.send(type="step", steps=7)
            assert (await client.until(lambda r: r["step"] == 7))["running"] is False
            await client.send(type="run", id=2)
            running = await client.until(lambda r: r["step"] > 60)
            assert running["running"]
            await client.send(type="points", points=[[0, 0]], id=3)
            shown = await client.until(lambda r: r.get("id") == 3)
            assert shown["n_points"] == 1
            await client.send(type="settings", settings={"noise_var": 0.5}, id=4)
            shown = await client.until(lambda r: r.get("id") == 4)
            assert shown["settings"]["noise_var"] == 0.5
            await client.send(type="pause", id=5)
            last = await client.until(lambda r: r.get("id") == 5)
            assert last["running"] is False
            assert await client.count(0.3) == 0  # a paused session sends nothing
            await client.send(type="reset", id=6)
            assert (await client.until(lambda r: r.get("id") == 6))["step"] == 0

    run(talk())


def test_classes_and_rms_over_the_wire(url):
    async def talk():
        async with Client.at(url) as client:
            fields = {"mean": [0, 0], "variances": [1, 1], "correlation": 0.5}
            await client.send(type="rms", id=9, prior_variances=[1, 1], **fields)
            answer = await client.next()
            assert (answer["type"], answer["id"]) == ("rms", 9)
            assert answer["posterior"]["variances"][0] < answer["prior"]["variances"][0]
            return await client.open("classification", settings=TINY)

    assert len(run(talk())["probability"]) == 41 * 41


def test_frames_are_not_sent_ahead_of_a_client_that_draws_slowly(url):
    async def talk():
        async with Client.at(url) as client:
            await client.open(settings=TINY)
            await client.send(type="run")
            frames = [json.loads(await client.socket.recv()) for _ in range(2)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await client.socket.recv()
            assert [f["type"] for f in frames] == ["frame"] * 2
            await client.send(type="ack", frame=frames[-1]["frame"])
            following = json.loads(await client.socket.recv())
            assert following["frame"] == frames[-1]["frame"] + 1
            assert following["step"] > frames[-1]["step"]
            await client.send(type="ack", frame=10**6, id=3)
            error = await client.until(lambda r: r["type"] == "error")
            assert (error["field"], error["id"]) == ("frame", 3)

    run(talk())


def test_the_last_of_some_steps_is_seen_however_late_a_client_draws(url):
    async def talk():
        async with Client.at(url) as client:
            await client.open(settings=TINY)
            await client.send(type="step", steps=100)
            frames = [json.loads(await client.socket.recv())]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while True:  # the steps end while nothing is acknowledged
                        frames.append(json.loads(await client.socket.recv()))
            while frames[-1]["step"] < 100:
                await client.send(type="ack", frame=frames[-1]["frame"])
                frames.append(json.loads(await client.socket.recv()))
            assert frames[-1]["step"] == 100

    run(talk(), seconds=30)


def test_a_bad_message_is_answered_and_changes_nothing(url):
    async def talk():
        async with Client.at(url) as client:
            before = await client.open(settings=TINY)
            await client.send(type="settings", settings={"noise_var": 0.3, "width": 9999}, id=8)
            error = await client.next()
            assert (error["type"], error["field"], error["id"]) == ("error", "settings.width", 8)
            await client.socket.send(b"\x00\x01")
            assert (await client.next())["field"] == "message"
            await client.socket.send("x" * 100_000)
            assert (await client.next())["field"] == "message"
            await client.send(type="step", steps=1)
            assert (await client.next())["settings"] == before["settings"]

            async def flood():
                await client.socket.send("x" * 1_000_000)  # may end before all is sent
                await client.next()

            with pytest.raises(ConnectionClosed) as closed:
                await flood()
            assert closed.value.rcvd is None or closed.value.rcvd.code == 1009

    run(talk())
    assert get(url)[0] == 200


def test_a_compilation_stops_nobody_else(url, monkeypatch):
    """Another client gets a dozen pictures while a program that it does not need is compiled."""
    find, may_end = engine.Programs.get, threading.Event()

    def slow(programs, shape):
        if shape.width == 37:
            assert may_end.wait(60)
        return find(programs, shape)

    monkeypatch.setattr(engine.Programs, "get", slow)

    async def talk():
        async with Client.at(url) as one, Client.at(url) as other:
            await one.open(settings=TINY)
            await one.send(type="run")
            settings = one.hello["defaults"]["regression"] | {"n_members": 2, "width": 37}
            opening = {"type": "open", "problem": "regression", "settings": settings}
            await other.send(**opening, points=[])
            waiting = await other.next()
            assert waiting["status"] == "compiling"
            assert waiting["settings"]["width"] == 37
            ready = asyncio.create_task(other.until(lambda r: r["status"] == "ok"))
            steps = [(await one.next())["step"] for _ in range(12)]
            assert steps == sorted(set(steps))
            assert not ready.done()
            may_end.set()
            assert (await ready)["settings"]["width"] == 37

    try:
        run(talk())
    finally:
        may_end.set()


def test_ten_clients_are_served_alike(url):
    counts = run(crowd(url, 10, 3.0, TINY))
    assert min(counts) >= 3
    assert min(counts) > max(counts) / 4


def test_the_server_outlives_a_thousand_hostile_messages(url, caplog):
    assert run(harass(url, 1_000, n_clients=5)) > 500  # others are lawful, or were lost on the way
    assert len(caplog.records) <= 5  # and the log does not fill
    assert get(url)[0] == 200
    assert run(crowd(url, 2, 0.5, TINY))


# Limits


def test_limits_of_sessions_messages_and_idle_time(monkeypatch):
    limits = Limits(sessions=1, messages_per_second=50, burst=5, idle_seconds=1.0)

    async def talk(url):
        async with Client.at(url) as client:
            assert client.hello["limits"]["sessions"] == 1
            async with connect(url.replace("http", "ws") + "ws") as second:
                error = json.loads(await second.recv())
                assert (error["type"], error["field"]) == ("error", "session")
                with pytest.raises(ConnectionClosed) as closed:
                    await second.recv()
                assert closed.value.rcvd.code == 1013
            started = time.perf_counter()
            for _ in range(30):
                await client.send(type="run")
            errors = [await client.next() for _ in range(31)]
            # Five at once, 25 more at 50 a second; one notice, and every message was answered.
            assert time.perf_counter() - started > 0.4
            assert [e["field"] for e in errors].count("rate") == 1
            with pytest.raises(ConnectionClosed) as closed:
                await client.next()
            assert closed.value.rcvd.code == 1000

    with serving(monkeypatch, limits) as url:
        run(talk(url))


def test_an_error_of_ours_is_told_and_others_go_on(url, monkeypatch, caplog):
    work, broken = sessions._work, []

    def fails(picture, scene, *rest):
        if scene.seed == 13:
            broken.append(scene)
            raise ArithmeticError("made up")
        return work(picture, scene, *rest)

    monkeypatch.setattr(sessions, "_work", fails)

    async def talk():
        async with Client.at(url) as client, Client.at(url) as other:
            error = await client.open(settings=TINY, seed=13)
            assert error["type"] == "error"
            assert "made up" not in error["message"]
            assert (await other.open(settings=TINY))["status"] == "ok"
            assert (await client.open(settings=TINY))["status"] == "ok"

    run(talk())
    assert broken
    assert "made up" in caplog.text


# The command


def stopped_by_ctrl_c():
    """Seconds that the command takes to end cleanly, with a client."""
    command = [*COMMAND, "demo", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        url = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))

        async def talk():
            async with Client.at(url) as client:
                process.send_signal(signal.SIGINT)
                started = time.perf_counter()
                with pytest.raises(ConnectionClosed) as closed:
                    await client.next()
                assert closed.value.rcvd.code == 1001
                return started

        started = run(talk())
        assert process.wait(60) == 0
        seconds = time.perf_counter() - started
        assert "stopped" in process.stdout.read()
        return seconds


def test_ctrl_c_closes_cleanly():
    stopped_by_ctrl_c()


@pytest.mark.slow
def test_ctrl_c_closes_in_two_seconds():
    assert stopped_by_ctrl_c() < 2.0


def test_a_taken_port_is_told_in_one_line(url):
    port = url.rstrip("/").rsplit(":", 1)[1]
    result = CliRunner().invoke(app, ["demo", "--no-browser", "--port", port])
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_its_packages_the_command_says_what_to_install():
    code = "import sys; sys.modules['uvicorn'] = None; from anchored.cli import app; app()"
    command = [COMMAND[0], "-c", code, "demo", "--port", "0", "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pip install 'anchored[demo]'" in done.stderr


# At length


@pytest.mark.slow
def test_fifty_clients_for_a_minute():
    with demo_process() as (url, process):
        run(crowd(url, 50, 3.0))
        before = process.memory_info().rss
        counts = run(crowd(url, 50, 60.0), 180)
        assert min(counts) >= 30  # one picture every two seconds at the very least
        assert min(counts) > max(counts) / 3
        assert process.memory_info().rss - before < 100e6


@pytest.mark.slow
def test_the_server_outlives_ten_thousand_hostile_messages():
    with demo_process() as (url, process):
        assert run(harass(url, 10_000, seed=1), 300) > 5_000
        assert process.status() != psutil.STATUS_ZOMBIE
        assert run(pictures_per_second(url, 3.0)) > 5
