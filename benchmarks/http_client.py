"""A small client of `anchored serve`, and the service as a process of its own."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa

from anchored.serving.questions import JSON

COMMAND = [sys.executable, "-c", "from anchored.cli import app; app()"]


def stream(table: pa.Table, **options) -> bytes:
    """A table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


class Client:
    """One connection that asks again and again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, url: str):
        host, port = url.removeprefix("http://").rstrip("/").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 26)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and body of an answer."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(size)


def post(body: bytes, kind: str = JSON, more: str = "") -> bytes:
    """A request for predictions."""
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def asked(path: str, bodies: list[bytes], kind: str) -> list[bytes]:
    answers = []
    with service_process(path) as (url, _):
        async with Client.at(url) as client:
            for body in bodies:
                status, answer = await client.ask(post(body, kind))
                assert status == 200, answer
                answers.append(answer)
    return answers


@contextlib.contextmanager
def service_process(path: str | Path, *options: str) -> Iterator[tuple[str, psutil.Process]]:
    """`anchored serve` on a free port: its address and process."""
    command = [*COMMAND, "serve", str(path), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = next(word for word in process.stdout.readline().split() if "http" in word)
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()
