"""The service over real sockets: answers, refusals, limits, company, the end."""

import asyncio
import contextlib
import json
import random
import signal
import socket
import threading
import time
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pytest
from benchmarks.hostile import GOOD, hostile_request, request
from benchmarks.http_client import Client, post, service_process, stream
from benchmarks.serving import delays, harass
from benchmarks.serving_engines import flats
from typer.testing import CliRunner

from anchored import serving
from anchored.cli import app
from anchored.serving import server as web
from anchored.serving.app import Service
from anchored.serving.limits import Limits
from anchored.serving.questions import ARROW, JSON

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/serve.json").read_text())
FRAME = flats(300, 3, new_levels=True)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
ROWS = json.loads(FRAME.drop(columns=["id", "price"]).to_json(orient="records"))


@contextlib.contextmanager
def serving_at(model, **options):
    """A server in a thread; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = web.Server(Service(model, **options))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def url(path):
    with serving_at(path) as address:
        yield address


def run(coroutine, seconds=60):
    async def limited():
        async with asyncio.timeout(seconds):
            return await coroutine

    return asyncio.run(limited())


def ask(url, *requests):
    """Statuses and bodies of requests, each over a connection of its own."""

    async def one(bytes_):
        async with Client.at(url) as client:
            return await client.ask(bytes_)

    async def every():
        return await asyncio.gather(*(one(bytes_) for bytes_ in requests))

    found = run(every())
    return found[0] if len(requests) == 1 else found


def get(url, path="", more=""):
    return ask(url, f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())


def asked(url, content, **fields):
    status, body = ask(url, post(json.dumps(content).encode()), **fields)
    return status, json.loads(body)


def check(part, content):
    jsonschema.validate(content, {"$ref": f"#/$defs/{part}", "$defs": SCHEMA["$defs"]})


def truth(path, **options):
    made = serving.predict_batches(path, TABLE.to_batches(), **options)
    return pa.Table.from_batches(made).to_pandas()


# Answers


def test_rows_columns_and_arrow_give_the_model_s_predictions(url, path):
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    status, by_rows = asked(url, {"rows": ROWS})
    assert status == 200
    check("predictions", by_rows)
    assert by_rows["coverage"] == 0.9
    status, by_columns = asked(url, {"columns": columns})
    assert status == 200
    check("predictions", by_columns)
    status, body = ask(url, post(stream(TABLE), ARROW))
    assert status == 200
    by_arrow = pa.ipc.open_stream(body).read_pandas()
    exact = truth(path)
    for found in (by_rows["rows"], by_columns["columns"], by_arrow):
        found = pd.DataFrame(found)
        assert list(found) == list(exact)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_coverage_and_the_type_of_the_answer_can_be_asked_for(url, path):
    wide = truth(path, coverage=0.99)
    _, found = asked(url, {"rows": ROWS, "coverage": 0.99})
    np.testing.assert_allclose(pd.DataFrame(found["rows"]), wide, rtol=1e-5, atol=1e-5)
    request_ = post(stream(TABLE), ARROW, f"Accept: {JSON}\r\n")
    _, body = ask(url, request_.replace(b"/predict", b"/predict?coverage=0.99", 1))
    found = pd.DataFrame(json.loads(body)["columns"])
    np.testing.assert_allclose(found, wide, rtol=1e-5, atol=1e-5)
    _, body = ask(url, post(json.dumps({"rows": ROWS}).encode(), JSON, f"Accept: {ARROW}\r\n"))
    assert pa.ipc.open_stream(body).read_all().num_rows == len(ROWS)


def test_classes_over_http(classes_path):
    with serving_at(classes_path) as url:
        status, found = asked(url, {"rows": ROWS[:3]})
        assert status == 200
        check("predictions", found)
        assert {row["prediction"] for row in found["rows"]} <= {"cheap", "dear"}
        assert found["ignored"] == ["built", "floor", "lift", "rooms", "street"]


def test_numbers_stand_for_the_levels_they_spell(tmp_path):
    """Also among text, and however the number is written."""
    from anchored.serving.questions import _cells
    from anchored.tables.columns import Boolean, Category, Numeric

    column = Category("code", ("1", "2.50", "x"), has_missing=True)
    for cells in ([1, 2.5, 7, None], [1.0, 2.5, 7.0, None], ["1", "2.50", "7", None], [1, "2.50"]):
        codes, bad = column.read(_cells(column, cells, as_text=True))
        assert codes.tolist() == [0, 1, 3, 4][: len(cells)]
        assert not bad.any()
    size = Numeric("size", 0.0, has_missing=False)
    np.testing.assert_array_equal(_cells(size, [1, "2", None, "NA"], False), [1, 2, np.nan, np.nan])
    lift = Boolean("lift", "true", 0.5, has_missing=False)
    assert lift.read(_cells(lift, [True, "false", None], True))[0].tolist()[:2] == [1, 0]
    assert lift.read(_cells(lift, [1], True))[1].all()


def test_the_description_s_example_is_answered(url):
    status, body = get(url)
    assert status == 200
    content = json.loads(body)
    check("description", content)
    assert [column["name"] for column in content["columns"]] == list(GOOD)
    status, found = asked(url, content["request"]["body"])
    assert status == 200
    assert list(found["rows"][0]) == content["answers"]


def test_health_and_metrics(path):
    with serving_at(path) as url:
        status, body = get(url, "health")
        assert (status, json.loads(body)) == (200, {"schema": 1, "status": "ok"})
        ask(url, post(b"{"))
        asked(url, {"rows": ROWS})
        status, body = get(url, "metrics")
        lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if line[0] != "#")
        assert lines['anchored_requests_total{path="/predict",status="200"}'] == "1"
        assert lines['anchored_requests_total{path="/predict",status="400"}'] == "1"
        assert lines["anchored_rows_total"] == "300"
        assert lines["anchored_open_requests"] == "0"
        assert lines['anchored_request_seconds_bucket{le="+Inf"}'] == "1"
        assert float(lines["anchored_request_seconds_sum"]) > 0


# Company


def test_answers_do_not_depend_on_the_company(path):
    """Bit by bit: alone, among others, among others that are wrong, in any order."""
    requests = [post(json.dumps({"rows": ROWS[i : i + 1 + i % 3]}).encode()) for i in range(120)]
    with serving_at(path, window=0.005) as url:
        alone = [ask(url, one) for one in requests]
        assert {status for status, _ in alone} == {200}
        order = list(range(120))
        for seed in range(3):
            random.Random(seed).shuffle(order)
            bad = [post(json.dumps({"rows": [GOOD | {"size": "x"}]}).encode())] * 5
            found = ask(url, *(requests[i] for i in order), *bad)
            assert [found[place] for place in range(120)] == [alone[i] for i in order]
            assert {status for status, _ in found[120:]} == {422}
        metrics = get(url, "metrics")[1].decode()
        counts = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[0] != "#")
    together = int(counts["anchored_batched_total"]) - 120  # those that came at once
    assert int(counts["anchored_batches_total"]) - 120 < together / 4


def test_arrow_and_json_of_several_coverages_in_one_batch(path):
    one = post(json.dumps({"rows": ROWS[:2]}).encode())
    other = post(json.dumps({"rows": ROWS[:2], "coverage": 0.5}).encode())
    arrow = post(stream(TABLE.slice(0, 2)), ARROW, f"Accept: {JSON}\r\n")
    with serving_at(path, window=0.02) as url:
        alone = [ask(url, request_) for request_ in (one, other, arrow)]
        assert ask(url, one, other, arrow) == alone
    by_rows, by_columns = json.loads(alone[0][1])["rows"], json.loads(alone[2][1])["columns"]
    assert [row["mean"] for row in by_rows] == by_columns["mean"]


# Refusals


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"{", 400, "the body is not JSON: Expecting property name enclosed in double quotes at"),
        (b"\xff", 400, "the body is not JSON: byte 0 is not UTF-8."),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"rows": [{"size": NaN}]}', 400, "NaN is not a JSON number; give null for a missing"),
        (b"9" * 5_000, 400, "the body is not JSON: "),
        ([], 400, "the body must be an object such as "),
        ({"rows": [GOOD], "more": 1}, 400, "may have `coverage`; it has 'rows', 'more'."),
        ({}, 400, "the body must have `rows` or `columns`"),
        ({"rows": []}, 400, "`rows` must be a list that is not empty; got an empty list."),
        ({"rows": [GOOD, 3]}, 400, "`rows`, row 2 must be an object of cells by column; got 3."),
        ({"rows": [GOOD], "coverage": 90}, 400, "`coverage` must be a number between 0 and 1"),
        ({"columns": {k: [v] * (1 + (k == "lift")) for k, v in GOOD.items()}}, 400,
         "column 'lift' has 2 cells and 'size' has 1; give every column one cell for each row."),
        ({"rows": [GOOD, {k: v for k, v in GOOD.items() if k != "size"}]}, 422,
         "row 2: the table lacks the column 'size'; the columns it has are 'rooms'"),
        ({"rows": [{**GOOD, "siz": 3, "size": 3}, GOOD | {"size": "big"}]}, 422,
         "column 'size', row 2 must contain a number, as in training; got 'big'."),
        ({"rows": [GOOD | {"built": "soon"}]}, 422, "must contain a date (YYYY-MM-DD), as in"),
        ({"rows": [GOOD | {"town": ["a"]}]}, 422,
         "column 'town', row 1 contains a list; a cell must be text, a number,"),
        (b'{"rows": [%s]}' % json.dumps(GOOD).replace("80.0", "1e999").encode(), 422,
         "column 'size', row 1 contains an infinite number; leave the cell empty"),
        ({"rows": [GOOD | {"size": 10**400}]}, 422, "column 'size', row 1 contains an infinite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_wrong_bodies_are_refused_with_a_sentence(url, content, status, words):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    found, answer = ask(url, post(body))
    answer = json.loads(answer)
    check("error", answer)
    assert words in answer["error"]
    assert "Traceback" not in answer["error"]
    assert found == status


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (request(b"{}", line="GET /predict"), 405, "/predict takes POST."),
        (request(b"{}", line="POST /health"), 405, "/health takes GET."),
        (request(b"{}", line="POST /other"), 404, "the only paths are /, /health, /metrics"),
        (request(b"{}", "text/csv"), 415, f"must be {JSON} or {ARROW}; got text/csv."),
        (request(b"{}", more="Content-Encoding: gzip\r\n"), 415, "encoded as gzip; send it"),
        (request(b"{}", line="POST /predict?a=1"), 400, "the query may only set the coverage"),
        (request(b"{}", line="POST /predict?coverage=x"), 400, "`coverage` must be a number"),
        (request(b"{}", line="POST /predict?coverage=nan"), 400, "`coverage` must be a number"),
        (request(b"{}").replace(b"localhost", b"evil.example"), 400, "that host name"),
        (
            request(b"", size=1 << 40),
            413,
            "more than the allowed 8,388,608 bytes; send the rows in",
        ),
        (request(b"abc", ARROW), 400, "not a stream of Arrow batches: "),
        (request(stream(TABLE.slice(0, 0)), ARROW), 400, "the Arrow stream has no rows"),
        (request(stream(TABLE.drop_columns("size")), ARROW), 422, "lacks the column 'size'"),
    ],
)
def test_wrong_requests_are_refused_with_a_sentence(url, request_, status, words):
    found, answer = ask(url, request_)
    answer = json.loads(answer)
    check("error", answer)
    assert words in answer["error"]
    assert found == status


def test_arrow_that_would_fill_the_memory_is_refused(url):
    options = {"options": pa.ipc.IpcWriteOptions(compression="zstd")}
    status, body = ask(url, post(stream(TABLE, **options), ARROW))
    assert status == 415
    assert b"compressed; send them uncompressed" in body
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 300), pa.array(["x" * 1_000_000]))
    place = TABLE.column_names.index("town")
    for column in (long, pa.array(["x" * 300_000] * 300, pa.string_view())):
        bomb = TABLE.set_column(place, "town", column)
        status, body = ask(url, post(stream(bomb), ARROW))
        assert status == 413, body


def test_a_failure_of_ours_is_no_traceback_for_the_client(path, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr("anchored.serving.batching.predicted_together", broken)
    with serving_at(path) as url:
        status, answer = asked(url, {"rows": ROWS[:1]})
    assert status == 500
    assert answer["error"] == "the service failed on this request; its log says why."
    assert "secret" in caplog.text


# Limits


def test_limits_of_rows_bytes_and_time(path):
    limits = Limits(max_bytes=5_000, max_rows=3, body_seconds=0.3)
    with serving_at(path, limits=limits) as url:
        status, answer = asked(url, {"rows": [GOOD] * 4})
        assert (status, answer["error"]) == (
            413, "the request has 4 rows, and at most 3 are allowed; send them in several requests."
        )  # fmt: skip
        chunked = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        chunked += b"Transfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n%s\r\n" % (b" " * 1_000) * 6
        assert ask(url, chunked)[0] == 413
        started = time.perf_counter()
        status, body = ask(url, request(b"{", size=2))
        assert (status, time.perf_counter() - started > 0.25) == (408, True)
        assert b"took more than 0.3 s to arrive" in body
        assert asked(url, {"rows": [GOOD]})[0] == 200


def test_too_many_requests_are_refused_for_a_while(path):
    limits = Limits(max_requests=2, body_seconds=20)
    with serving_at(path, limits=limits) as url:

        async def crowd():
            async with Client.at(url) as one, Client.at(url) as two, Client.at(url) as three:
                for client in (one, two):
                    client.writer.write(request(b"{", size=2))
                await asyncio.sleep(0.3)
                busy = await three.ask(post(json.dumps({"rows": [GOOD]}).encode()))
                one.writer.write(b"}")
                await one.reader.readuntil(b"\r\n\r\n")
            async with Client.at(url) as four:
                return busy, await four.ask(post(json.dumps({"rows": [GOOD]}).encode()))

        (status, body), (later, _) = run(crowd())
    assert status == 503
    assert b"2 requests are being answered. Try again in a second." in body
    assert later == 200


def test_clients_that_stall_are_dropped(path):
    """Headers that never end, in time or in bytes."""
    limits = Limits(body_seconds=0.2, answer_seconds=0.2)
    with serving_at(path, limits=limits) as url:

        async def stall(data):
            async with Client.at(url) as client:
                client.writer.write(data)
                started = time.perf_counter()
                with contextlib.suppress(ConnectionResetError):
                    assert await client.reader.read() == b""
                return time.perf_counter() - started

        assert 0.5 < run(stall(b"POST /predict HTTP/1.1\r\nHost: lo")) < 5
        assert run(stall(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)) < 5
        assert asked(url, {"rows": [GOOD]})[0] == 200


def test_hostile_requests_leave_it_up_and_small(path):
    question = post(json.dumps({"rows": ROWS[:1]}).encode())
    with service_process(path) as (url, process):
        before = ask(url, question)
        run(harass(url, 200, seed=2), 120)
        memory = process.memory_info().rss
        counts = run(harass(url, 600), 120)
        assert process.memory_info().rss - memory < 50e6
        assert ask(url, question) == before
    assert counts["else"] == 0
    assert counts["refused"] > 400


def test_every_hostile_kind_is_sent():
    rng = random.Random(0)
    sent = [hostile_request(rng, stream(TABLE))[0] for _ in range(300)]
    assert len({one[:200] for one in sent}) > 20


# The command


def test_the_command_serves_and_stops_when_asked(path):
    with service_process(path, "--window", "1") as (url, process):
        rate, taken = run(delays(url, 1.0, 4))
        assert rate > 1
        assert len(taken) > 4
        started = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert time.perf_counter() - started < 15
        assert not psutil.pid_exists(process.pid) or process.status() == "zombie"


def test_a_request_under_way_is_answered_before_the_end(path):
    async def last(url, process):
        async with Client.at(url) as client:
            body = json.dumps({"rows": ROWS}).encode()
            whole = post(body)
            client.writer.write(whole[:-10])
            await asyncio.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            return await client.ask(whole[-10:])

    with service_process(path) as (url, process):
        status, body = run(last(url, process))
    assert status == 200
    assert len(json.loads(body)["rows"]) == len(ROWS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["MISSING"], "MISSING cannot be used as a model: it cannot be read (No such file"),
        (["MODEL", "--host", "192.0.2.77"], "cannot listen on 192.0.2.77:8766: "),
    ],
)
def test_what_the_command_cannot_do_is_said_in_one_line(path, arguments, words):
    arguments = [str(path) if word == "MODEL" else word for word in arguments]
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_without_the_web_server_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "anchored.serving.server", None)
    result = CliRunner().invoke(app, ["serve", str(path)])
    assert result.exit_code == 2
    assert "pip install 'anchored[serve]'" in result.output
