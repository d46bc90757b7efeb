"""The demo's web server: one page, one websocket, and fair shares of the processor.

Each client has a `Session`: the scene it asked for and the picture that follows it. Sessions
with something to do stand in one queue before as many workers as there are cores; a worker takes
one short piece of work from the first and sends it to the end again. Programs compile in a thread
of their own, so nobody waits for the networks of somebody else.

What clients send is only ever read by `protocol`; nothing of it is run or kept on disk.
"""

import asyncio
import contextlib
import dataclasses
import ipaddress
import json
import logging
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

import anchored
from anchored.demo import engine, protocol
from anchored.demo.engine import Picture, Programs, Shape
from anchored.demo.presets import DEFAULTS, MAX_STEPS, presets
from anchored.demo.protocol import Message, Refused, Scene
from anchored.scaling import n_cores

_WINDOW = 2  # frames on their way to a client that it has not drawn yet
_PIECE = (0.008, 0.025)  # least and most seconds of training in one piece of work
_PACE = 0.025  # least seconds between two pieces of one session
_UNSEEN = 1.0  # seconds for which training goes on though the client draws nothing
_FIRST_STEPS = 5  # in a piece just after a change, so that learning can be watched
_GROWTH = 10  # a piece is at most this part of all steps since the change
_ERROR_EVERY = 1.0  # seconds between two notices of too many messages
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_log = logging.getLogger("anchored.demo")


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one server grants."""

    sessions: int = 64
    messages_per_second: float = 200.0
    burst: float = 400.0  # messages that may come at once
    idle_seconds: float = 1800.0

    def as_dict(self) -> dict:
        return {"sessions": self.sessions, "messages_per_second": self.messages_per_second}


class Session:
    """One client. Its fields are touched by the event loop alone, but for `work`."""

    def __init__(self, websocket: WebSocket):
        self.websocket = websocket
        self.scene: Scene | None = None
        self.picture: Picture | None = None
        self.running = False
        self.steps_due = 0
        self.dirty = False  # something changed that no frame has shown
        self.answered: int | None = None  # id of the newest message that the next frame answers
        self.busy = self.closed = False
        self.sent = self.acked = 0
        self.last_ack = self.next_start = 0.0
        self.pace = 1  # steps that fill a piece of work
        self._sending = asyncio.Lock()

    @property
    def has_room(self) -> bool:
        return self.sent - self.acked < _WINDOW

    @property
    def training(self) -> bool:
        diverged = self.picture is not None and self.picture.diverged
        return (self.running or self.steps_due > 0) and not diverged

    async def send(self, record: dict | str) -> None:
        text = record if isinstance(record, str) else json.dumps(record)
        async with self._sending:
            if not self.closed:
                with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                    await self.websocket.send_text(text)

    async def close(self, code: int, reason: str) -> None:
        self.closed = True
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self.websocket.close(code, reason)


@dataclasses.dataclass(frozen=True)
class _Piece:
    """What one piece of work has made."""

    picture: Picture
    n_steps: int
    seconds: float
    frame: dict | None


def _work(
    picture: Picture | None, scene: Scene, programs: Programs, n_steps: int, framed: bool
) -> _Piece:
    if picture is None or picture.scene != scene:
        picture = engine.follow(picture, scene, programs)
        n_steps = min(n_steps, _FIRST_STEPS)
    started = time.perf_counter()
    picture = picture.advanced(n_steps)
    seconds = time.perf_counter() - started
    return _Piece(picture, n_steps, seconds, picture.frame() if framed else None)


class Hub:
    """All sessions and the workers that serve them in turn."""

    def __init__(self, limits: Limits = Limits(), n_workers: int | None = None):
        self.limits, self.n_workers = limits, n_workers or n_cores()
        self.programs = Programs()
        self.sessions: set[Session] = set()
        self.warm = asyncio.Event()
        self._queue: asyncio.Queue[Session] = asyncio.Queue()
        self._pool = ThreadPoolExecutor(self.n_workers, thread_name_prefix="demo")
        self._compiler = ThreadPoolExecutor(1, thread_name_prefix="demo-compile")
        self._tasks: set[asyncio.Task] = set()
        self._n_failures = 0

    def start(self, on_warm: Callable[[float], None] | None = None) -> None:
        for _ in range(self.n_workers):
            self._spawn(self._serve_forever())
        self._spawn(self._warm_up(on_warm))

    async def stop(self) -> None:
        """Tell every client that the server goes away, and stop."""
        await asyncio.gather(*(s.close(1001, "The demo was stopped.") for s in self.sessions))
        for task in list(self._tasks):
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._compiler.shutdown(wait=False, cancel_futures=True)

    def _spawn(self, coroutine) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _warm_up(self, on_warm: Callable[[float], None] | None) -> None:
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        for warm in _warm_ups(self.programs):
            await loop.run_in_executor(self._compiler, warm)
        self.warm.set()
        if on_warm is not None:
            on_warm(time.perf_counter() - started)

    # One client

    async def talk(self, websocket: WebSocket) -> None:
        """Serve one client until it goes."""
        await websocket.accept()
        session = Session(websocket)
        if len(self.sessions) >= self.limits.sessions:
            words = f"All {self.limits.sessions} places of this demo are taken; try again later."
            await session.send(protocol.error("session", words))
            await session.close(1013, "No place is free.")
            return
        self.sessions.add(session)
        try:
            await session.send(protocol.hello(anchored.__version__, self.limits.as_dict()))
            await self._listen(session)
        except WebSocketDisconnect:
            pass
        finally:
            session.closed = True
            self.sessions.discard(session)

    async def _listen(self, session: Session) -> None:
        bucket = _Bucket(self.limits.messages_per_second, self.limits.burst)
        while not session.closed:
            try:
                async with asyncio.timeout(self.limits.idle_seconds):
                    event = await session.websocket.receive()
            except TimeoutError:
                await session.close(1000, "Nothing was sent for a long time.")
                return
            if event["type"] == "websocket.disconnect":
                return
            wait, notice = bucket.take()
            if notice:
                words = f"More than {self.limits.messages_per_second:g} messages a second."
                await session.send(protocol.error("rate", words))
            if wait:
                await asyncio.sleep(wait)
            try:
                text = event.get("text")
                if text is None:
                    raise Refused("message", "A message must be text, not bytes.")
                answer = self._handle(session, protocol.read(text, session.scene))
            except Refused as error:
                answer = error.answer()
            if answer is not None:
                await session.send(answer)

    def _handle(self, session: Session, message: Message) -> dict | None:
        """Do what a checked message asks for; the answer, if it is not a frame."""
        if message.type == "rms":
            return protocol.rms_answer(message)
        if message.type == "ack":
            self._acknowledge(session, message)
            return None
        if message.type in protocol.CHANGES:
            session.scene = protocol.applied(session.scene, message)
            if message.type == "open":
                session.running, session.steps_due = False, 0
        elif message.type == "step":
            session.steps_due = min(session.steps_due + message.fields["steps"], MAX_STEPS)
        else:
            session.running = message.type == "run"
            session.steps_due = 0
        session.dirty = True
        session.answered = message.id if message.id is not None else session.answered
        self._kick(session)
        return None

    def _acknowledge(self, session: Session, message: Message) -> None:
        frame = message.fields["frame"]
        if frame > session.sent:
            words = f"Frame {frame} was never sent; the newest is {session.sent}."
            raise Refused("frame", words, message.id)
        session.acked = max(session.acked, frame)
        session.last_ack = time.perf_counter()
        self._kick(session)

    # Work

    def _kick(self, session: Session) -> None:
        """Put a session into the queue if it has something to do and may."""
        if session.busy or session.closed or session.scene is None:
            return
        if not (session.dirty or session.training):
            return
        now = time.perf_counter()
        if not session.has_room and not (session.training and now - session.last_ack < _UNSEEN):
            return  # its next acknowledgement kicks again
        session.busy = True
        wait = session.next_start - now
        if wait > 0 and not session.dirty:
            asyncio.get_running_loop().call_later(wait, self._queue.put_nowait, session)
        else:
            self._queue.put_nowait(session)

    async def _serve_forever(self) -> None:
        while True:
            session = await self._queue.get()
            if session.closed:
                continue
            if not self.programs.ready(Shape.of(_asked(session))):
                self._spawn(self._compile(session))
                continue
            try:
                await self._serve(session)
            except Exception:
                self._fail(session)

    async def _serve(self, session: Session) -> None:
        scene, framed = _asked(session), session.has_room
        started = time.perf_counter()
        session.next_start = started + _PACE
        answered, shows = session.answered, session.dirty
        session.dirty = False
        n_steps = self._n_steps(session)
        piece = await asyncio.get_running_loop().run_in_executor(
            self._pool, _work, session.picture, scene, self.programs, n_steps, framed
        )
        session.picture, session.busy = piece.picture, False
        session.steps_due = max(0, session.steps_due - piece.n_steps)
        session.pace = _next_pace(piece, self._budget())
        if piece.frame is None:
            session.dirty = session.dirty or shows
        else:
            if session.answered == answered:
                session.answered = None
            self._deliver(session, piece.frame, answered)
        self._kick(session)

    def _n_steps(self, session: Session) -> int:
        if not session.training:
            return 0
        if session.steps_due and not session.running:
            return min(session.steps_due, session.pace)
        since = session.picture.since if session.picture else 0
        return min(session.pace, max(_FIRST_STEPS, since // _GROWTH))

    def _budget(self) -> float:
        """Seconds of one piece of work: shorter ones where many wait."""
        least, most = _PIECE
        n_waiting = sum(session.busy for session in self.sessions)
        return max(least, most * min(1.0, self.n_workers / max(1, n_waiting)))

    def _deliver(self, session: Session, frame: dict, answered: int | None) -> None:
        session.sent += 1
        frame |= {"frame": session.sent, "running": session.running}
        if answered is not None:
            frame["id"] = answered
        self._spawn(session.send(frame))

    async def _compile(self, session: Session) -> None:
        """Compile what a session needs, then let it stand in the queue again."""
        scene = _asked(session)
        if session.has_room:
            self._deliver(session, engine.frame_head(scene) | {"status": "compiling"}, None)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._compiler, self.programs.get, Shape.of(scene))
        except Exception:
            self._fail(session)
            return
        self._queue.put_nowait(session)

    def _fail(self, session: Session) -> None:
        """An error of ours: tell the client, stop its work, and log the first few."""
        self._n_failures += 1
        if self._n_failures <= 5:
            _log.exception("A piece of work failed.")
        session.busy = session.running = session.dirty = False
        session.steps_due = 0
        words = "The server could not do this. Open the problem anew."
        self._spawn(session.send(protocol.error("message", words)))


def _asked(session: Session) -> Scene:
    assert session.scene is not None  # only sessions with a scene stand in the queue
    return session.scene


def _next_pace(piece: _Piece, budget: float) -> int:
    """Steps that would have filled the budget, approached by factors of two."""
    factor = min(2.0, max(0.5, budget / max(piece.seconds, 1e-6)))
    return max(1, min(MAX_STEPS, int(max(1, piece.n_steps) * factor + 0.5)))


class _Bucket:
    """Says how long to wait before the next message is read, and when to say so."""

    def __init__(self, rate: float, burst: float):
        self._rate, self._burst, self._left = rate, burst, burst
        self._then, self._told = time.perf_counter(), -_ERROR_EVERY

    def take(self) -> tuple[float, bool]:
        now = time.perf_counter()
        self._left = min(self._burst, self._left + (now - self._then) * self._rate) - 1
        self._then = now
        if self._left >= 0:
            return 0.0, False
        notice = now - self._told >= _ERROR_EVERY
        self._told = now if notice else self._told
        return -self._left / self._rate, notice


def _opened(problem: str, points: list, **settings) -> Scene:
    fields = {"problem": problem, "settings": DEFAULTS[problem].as_dict() | settings}
    text = json.dumps({"type": "open", "points": points, **fields})
    return protocol.applied(None, protocol.read(text, None))


def _warm_ups(programs: Programs) -> Iterable[Callable[[], object]]:
    """Pieces of work that compile what clients are likely to need first."""
    points = {problem: entries[0]["points"] for problem, entries in presets().items()}
    many = [[i / 100, 0.0] for i in range(engine.ROWS[0] + 1)]

    def drawn(scene: Scene):
        return lambda: engine.follow(None, scene, programs).advanced(1).frame()

    yield drawn(_opened("regression", points["regression"]))
    yield drawn(_opened("classification", points["classification"]))
    yield drawn(_opened("regression", many))
    yield drawn(_opened("regression", points["regression"], activation="relu"))


# The web


def app(hub: Hub, host: str) -> ASGIApp:
    """The ASGI application for a server bound to ``host``."""

    async def page(request: Request) -> Response:
        return _file("index.html")

    async def static(request: Request) -> Response:
        return _file(request.path_params["name"])

    routes = [
        Route("/", page),
        Route("/static/{name}", static),
        WebSocketRoute("/ws", hub.talk),
    ]
    return _Guard(Starlette(routes=routes), _host_check(host))


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


def _host_check(bound: str) -> Callable[[str], bool]:
    """Whether a Host header names this server, so that no foreign name is pointed at it.

    A server for all interfaces answers to any address, which no foreign page can forge.
    """
    names = {"localhost", bound.lower()}
    everywhere = _is_address(bound) and ipaddress.ip_address(bound).is_unspecified
    if everywhere:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def known(header: str) -> bool:
        name = _host_name(header)
        if name in names:
            return True
        return _is_address(name) and (everywhere or ipaddress.ip_address(name).is_loopback)

    return known


def _host_name(header: str) -> str:
    """The name or address in a Host header, without the port; empty if it is malformed."""
    name, _, port = header.rpartition(":")
    if not port.isdigit() or (":" in name and not name.endswith("]")):
        name = header
    if any(c in name for c in " /@,;'\"<>\\") or not name.isascii():
        return ""
    return name.strip("[]").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _origin_fits(origin: str | None, host: str, client) -> bool:
    if origin is None:  # no browser; a program may come from this machine alone
        return client is not None and _is_loopback(client[0])
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ipaddress.ip_address(address).is_loopback


class _Server(uvicorn.Server):
    """Starts the hub with the event loop and closes its websockets before the rest."""

    def __init__(self, host: str, limits: Limits, on_warm: Callable[[float], None] | None):
        self._make, self._on_warm = (lambda: Hub(limits)), on_warm
        self._host = host
        super().__init__(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                proxy_headers=False,
                ws="websockets-sansio",
                ws_max_size=4 * protocol.MESSAGE_BYTES,  # longer ones get an answer below this
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
        self.hub = self._make()
        self._app = app(self.hub, self._host)
        self.hub.start(self._on_warm)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.hub.stop()
        await super().shutdown(sockets)


def serve(
    host: str,
    port: int,
    limits: Limits = Limits(),
    on_listen: Callable[[str], None] | None = None,
    on_warm: Callable[[float], None] | None = None,
) -> None:
    """Serve until interrupted; ``on_listen`` is told the address, ``on_warm`` the seconds.

    Raises OSError if the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=256) as listener:
        name = f"[{host}]" if ":" in host else host
        if on_listen is not None:
            on_listen(f"http://{name}:{listener.getsockname()[1]}/")
        with contextlib.suppress(KeyboardInterrupt):
            _Server(host, limits, on_warm).run([listener])
