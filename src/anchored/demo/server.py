"""The demo's web server: one page and one websocket; by default for this machine only."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from importlib import resources

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from threadpoolctl import threadpool_limits

from anchored.demo.presets import presets
from anchored.demo.protocol import MESSAGE_BYTES
from anchored.demo.sessions import Hub, Limits
from anchored.serving.hosts import host_check, is_loopback, url_of

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_MOST_LOGGED = 3
_log = logging.getLogger("anchored.demo")


def app(hub: Hub, host: str) -> ASGIApp:
    """The ASGI application for a server bound to ``host``."""

    async def page(request: Request) -> Response:
        return _file("index.html")

    async def static(request: Request) -> Response:
        return _file(request.path_params["name"])

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        await hub.talk(_Connection(websocket))

    routes = [
        Route("/", page),
        Route("/static/{name}", static),
        WebSocketRoute("/ws", talk),
    ]
    return _Guard(Starlette(routes=routes), host_check(host))


class _Connection:
    """A websocket as the sessions want it: a client that is gone is no error."""

    def __init__(self, websocket: WebSocket):
        self._websocket = websocket

    async def receive(self) -> str | bytes | None:
        event = await self._websocket.receive()
        if event["type"] == "websocket.disconnect":
            return None
        text = event.get("text")
        return event.get("bytes", b"") if text is None else text

    async def send(self, text: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._websocket.send_text(text)

    async def close(self, code: int, reason: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._websocket.close(code, reason)


def _file(name: str) -> Response:
    folder = resources.files("anchored.demo") / "static"
    known = {entry.name: entry for entry in folder.iterdir() if entry.is_file()}
    media_type = _TYPES.get(name.rsplit(".", 1)[-1])
    if name not in known or media_type is None:
        return PlainTextResponse("There is no such page.", 404)
    headers = {"cache-control": "no-cache"}
    return Response(known[name].read_bytes(), headers=headers, media_type=media_type)


class _Guard:
    """Refuses foreign hosts and origins, and says what the page may load."""

    def __init__(self, inner: ASGIApp, known_host: Callable[[str], bool]):
        self._inner, self._known_host = inner, known_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._inner(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        allowed = self._known_host(host)
        if scope["type"] == "websocket":
            if allowed and _origin_fits(headers.get(b"origin"), host, scope.get("client")):
                await self._inner(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message) -> None:
            if message["type"] == "http.response.start":
                extra = _headers(host if allowed else "")
                message = message | {"headers": [*message.get("headers", []), *extra]}
            await send(message)

        if allowed:
            await self._inner(scope, receive, send_guarded)
        else:
            words = "This demo does not answer to that host name."
            await PlainTextResponse(words, 400)(scope, receive, send_guarded)


def _headers(host: str) -> list[tuple[bytes, bytes]]:
    sockets = f" ws://{host} wss://{host}" if host else ""
    policy = (
        f"default-src 'self'; connect-src 'self'{sockets}; img-src 'self' data: blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return [
        (b"content-security-policy", policy.encode("latin-1")),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]


def _origin_fits(origin: str | None, host: str, client) -> bool:
    if origin is None:  # no browser; a program may come from this machine alone
        return client is not None and is_loopback(client[0])
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


class _Server(uvicorn.Server):
    """Starts the hub with the event loop and closes its websockets before the rest."""

    def __init__(self, host: str, limits: Limits, on_warm: Callable[[float], None] | None):
        self._host, self._limits, self._on_warm = host, limits, on_warm
        self._n_broken = 0
        super().__init__(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                proxy_headers=False,
                ws="websockets-sansio",
                ws_max_size=4 * MESSAGE_BYTES,  # longer ones get an answer below this
                ws_per_message_deflate=False,
                lifespan="off",
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._broken)
        self.hub = Hub(self._limits)
        self._app = app(self.hub, self._host)
        self.hub.start(self._on_warm)
        await super().startup(sockets)

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict) -> None:
        """A connection broke below us: clients can cause it, so only the first ones are logged."""
        self._n_broken += 1
        if self._n_broken <= _MOST_LOGGED:
            _log.warning("A connection broke: %r", context.get("exception"))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.hub.stop()
        await super().shutdown(sockets)


def serve(
    host: str,
    port: int,
    limits: Limits | None = None,
    on_listen: Callable[[str], None] | None = None,
    on_warm: Callable[[float], None] | None = None,
) -> None:
    """Serve until interrupted; ``on_listen`` receives the address, and ``on_warm`` the seconds.

    Raises OSError if the address is not available.
    """
    # Pieces of work are small, and each core has one: threads inside them only get in the way.
    threadpool_limits(1, "blas")
    presets()  # imports much, which no client should wait for
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=256) as listener:
        if on_listen is not None:
            on_listen(url_of(host, listener.getsockname()[1]))
        with contextlib.suppress(KeyboardInterrupt):
            _Server(host, limits or Limits(), on_warm).run([listener])
