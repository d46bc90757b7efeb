"""Requests that no client should send, for a service of predictions."""

import json
import random

GOOD = {
    "size": 80.0,
    "rooms": 3,
    "floor": 0.5,
    "town": "north",
    "street": "street 1",
    "lift": "yes",
    "built": "2020-05-01",
}
_TYPE = "application/json"
_ARROW = "application/vnd.apache.arrow.stream"
_CELLS = ["x", [], {}, [1], True, 10**400, "1e999", {"a": []}, [[[]]]]
_SHAPES = [None, 1, "x", [], {}, [{}], {"rows": None}, {"rows": []}, {"rows": [1]}, {"rows": [[]]}]
_SHAPES += [{"columns": {}}, {"columns": {"size": 1}}, {"rows": {}, "columns": {}}, {"more": 1}]
_SHAPES += [{"rows": [GOOD], "coverage": c} for c in (0, 1, 2, "x", None, [], 0.0, -0.5, True)]


def request(
    body: bytes, kind: str = _TYPE, more: str = "", line: str = "POST /predict", size=None
) -> bytes:
    """The bytes of a request; ``size`` is what it claims of its body."""
    size = len(body) if size is None else size
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {size}\r\n\r\n".encode("latin-1") + body


def hostile_request(rng: random.Random, arrow: bytes) -> tuple[bytes, bool]:
    """The bytes to send, and whether to hang up without an answer; ``arrow`` is a good stream."""
    good = json.dumps({"rows": [GOOD]})
    kind = rng.randrange(14)
    if kind == 0:  # half of a body, though it claims to be whole
        return request(good[: rng.randrange(1, len(good) - 1)].encode()), False
    if kind == 1:
        return request(rng.randbytes(rng.randrange(1, 2_000))), False
    if kind == 2:
        return request(rng.choice(["[", '{"rows":[', '{"a":']).encode() * 50_000), False
    if kind == 3:
        number = rng.choice(["NaN", "Infinity", "-Infinity", "1e999", "9" * 5_000, "1e", "0x1"])
        return request(good.replace("80.0", number).encode()), False
    if kind == 4:  # a cell that its column cannot hold
        row = GOOD | {rng.choice(["size", "built"]): rng.choice(_CELLS)}
        return request(json.dumps({"rows": [GOOD, row]}).encode()), False
    if kind == 5:
        return request(json.dumps(rng.choice(_SHAPES)).encode()), False
    if kind == 6:
        lacking = dict(list(GOOD.items())[: rng.randrange(len(GOOD))])
        return request(json.dumps({"rows": [lacking]}).encode()), False
    if kind == 7:
        types = ["text/plain", "", "application/x-python-pickle", "application/json2", "\xff" * 9]
        return request(good.encode(), rng.choice(types)), False
    if kind == 8:
        lines = ["GET /predict", "DELETE /predict", "POST /", "GET /../../etc/passwd", "GET /%00"]
        return request(b"", line=rng.choice([*lines, "PUT /metrics", "POST /predict?x=1"])), False
    if kind == 9:
        more = rng.choice(["Content-Encoding: gzip\r\n", "Content-Encoding: \xff\r\n"])
        return request(good.encode(), more=more), False
    if kind == 10:  # a body that is too large, or claims to be
        if rng.random() < 0.02:
            return request(b" " * (9 << 20)), False
        return request(b"{", size=10 ** rng.randrange(8, 18)), False
    if kind == 11:  # cut off
        whole = request(good.encode())
        return whole[: rng.randrange(len(whole) - 1)], True
    if kind == 12:  # not HTTP, or headers without end
        return rng.choice([rng.randbytes(500), b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000]), True
    return request(_spoilt(rng, arrow), _ARROW), False


def _spoilt(rng: random.Random, arrow: bytes) -> bytes:
    """A stream of Arrow that is cut, or whose metadata is overwritten."""
    if rng.random() < 0.5:
        return arrow[: rng.randrange(len(arrow) // 2)]
    return arrow[:4] + rng.randbytes(24) + arrow[28:]
