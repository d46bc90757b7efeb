"""The web server of the service: uvicorn, by default for this machine only."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import uvicorn

from anchored.serving.app import Service
from anchored.serving.hosts import host_check, url_of
from anchored.serving.limits import Limits
from anchored.serving.threads import one_thread

try:
    from uvicorn.protocols.http import httptools_impl

    _Protocol: Any = httptools_impl.HttpToolsProtocol
except ImportError:  # slower, and always there
    from uvicorn.protocols.http import h11_impl

    _Protocol = h11_impl.H11Protocol

_HEADER_BYTES = 1 << 16
_MOST_LOGGED = 3
_GRACE_SECONDS = 10  # for requests that are being answered when the server is stopped
_log = logging.getLogger("anchored.serving")


def _guarded(stalled_seconds: float) -> type[asyncio.Protocol]:
    """Connections that drop clients who are slow on purpose, or send headers without end."""

    class Guarded(_Protocol):
        _n_done = _n_before = _n_head = 0
        _watch: asyncio.TimerHandle | None = None

        def connection_made(self, transport) -> None:
            super().connection_made(transport)
            self._look_again()

        def connection_lost(self, exc) -> None:
            if self._watch is not None:
                self._watch.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            idle = self.cycle is None or self.cycle.response_complete
            self._n_head = self._n_head + len(data) if idle and self.cycle is before else 0
            if self._n_head > _HEADER_BYTES:
                self.transport.abort()

        def on_response_complete(self) -> None:
            self._n_done += 1
            self._n_head = 0
            super().on_response_complete()

        def _look_again(self) -> None:
            self._n_before = self._n_done
            self._watch = self.loop.call_later(stalled_seconds, self._look)

        def _look(self) -> None:
            if self._n_done == self._n_before:
                self.transport.abort()
            else:
                self._look_again()

    return Guarded


class Server(uvicorn.Server):
    """Serves until it is stopped; open requests are answered first."""

    def __init__(self, service: Service):
        self._service, self._n_broken = service, 0
        limits = service.limits
        super().__init__(
            uvicorn.Config(
                service,  # pyright: ignore[reportArgumentType]
                interface="asgi3",
                http=_guarded(limits.stalled_seconds),
                ws="none",
                proxy_headers=False,
                lifespan="off",
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
                limit_concurrency=limits.max_connections,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._broken)
        await super().startup(sockets)

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict) -> None:
        """A connection broke below us: clients can cause it, so only the first ones are logged."""
        self._n_broken += 1
        if self._n_broken <= _MOST_LOGGED:
            _log.warning("A connection broke: %r", context.get("exception"))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self._service.close()


def serve(
    model: Any,
    host: str = "127.0.0.1",
    port: int = 8766,
    *,
    limits: Limits | None = None,
    window: float = 0.0,
    allow_hosts: Collection[str] = (),
    on_listen: Callable[[str], None] | None = None,
) -> None:
    """Serve a model until interrupted; ``on_listen`` receives the address.

    Raises OSError if the address is not available.
    """
    name = Path(model).name if isinstance(model, (str, Path)) else "model"
    known_host = host_check(host, allow_hosts)
    service = Service(model, name, limits=limits, known_host=known_host, window=window)
    gc.collect()
    gc.freeze()  # the model stays, so nobody need look through it again
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1_024) as listener:
        if on_listen is not None:
            on_listen(url_of(host, listener.getsockname()[1]))
        with one_thread(), contextlib.suppress(KeyboardInterrupt):
            Server(service).run([listener])
