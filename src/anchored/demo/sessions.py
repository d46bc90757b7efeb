"""Clients of the demo and fair shares of the processor.

Each client has a `Session`: the scene it asked for and the picture that follows it. Sessions with
work to do stand in one queue, and there is one worker for each core. A worker does one short piece
of work for the first session and sends it to the end of the queue. Programs compile in a separate
thread, so no client waits for the networks of another.

Only `protocol` reads what clients send; none of it is executed or stored.
"""

import asyncio
import dataclasses
import gc
import json
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import anchored
from anchored.core.members import n_cores
from anchored.demo import engine, protocol
from anchored.demo.engine import Picture, Programs, Shape
from anchored.demo.presets import DEFAULTS, MAX_STEPS, presets
from anchored.demo.protocol import Message, Refused, Scene

_WINDOW = 2  # frames on their way to a client that it has not drawn yet
_PIECE = (0.008, 0.025)  # least and most seconds of training in one piece of work
_PACE = 0.025  # least seconds between two pieces of one session
_UNSEEN = 1.0  # seconds for which training goes on though the client draws nothing
_FIRST_STEPS = 5  # in a piece just after a change, so that learning can be watched
_GROWTH = 10  # a piece is at most this part of all steps since the change
_ERROR_EVERY = 1.0  # seconds between two notices of too many messages
_log = logging.getLogger("anchored.demo")


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of one server."""

    sessions: int = 64
    messages_per_second: float = 200.0
    burst: float = 400.0  # messages that may come at once
    idle_seconds: float = 1800.0

    def as_dict(self) -> dict:
        return {"sessions": self.sessions, "messages_per_second": self.messages_per_second}


class Connection(Protocol):
    """The connection to one client."""

    async def receive(self) -> str | bytes | None:
        """The next message; None once the client is gone."""
        ...

    async def send(self, text: str) -> None:
        """Send, or do nothing if the client is gone."""
        ...

    async def close(self, code: int, reason: str) -> None: ...


class Session:
    """One client. Only the event loop touches it."""

    def __init__(self, connection: Connection):
        self.connection = connection
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

    async def send(self, record: dict) -> None:
        async with self._sending:
            if not self.closed:
                await self.connection.send(json.dumps(record))

    async def close(self, code: int, reason: str) -> None:
        self.closed = True
        await self.connection.close(code, reason)


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

    def __init__(self, limits: Limits):
        self.limits, self.n_workers = limits, n_cores()
        self.programs = Programs()
        self.sessions: set[Session] = set()
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
        """Tell every client that the server is stopping, and stop."""
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
        # What is there now stays: the garbage collector need not look at it again and again,
        # which would stop the event loop for as long as half a second.
        gc.freeze()
        if on_warm is not None:
            on_warm(time.perf_counter() - started)

    # One client

    async def talk(self, connection: Connection) -> None:
        """Serve one client until it disconnects."""
        session = Session(connection)
        if len(self.sessions) >= self.limits.sessions:
            words = f"All {self.limits.sessions} places of this demo are taken; try again later."
            await session.send(protocol.error("session", words))
            await session.close(1013, "No place is free.")
            return
        self.sessions.add(session)
        try:
            await session.send(protocol.hello(anchored.__version__, self.limits.as_dict()))
            await self._listen(session)
        finally:
            session.closed = True
            self.sessions.discard(session)

    async def _listen(self, session: Session) -> None:
        bucket = _Bucket(self.limits.messages_per_second, self.limits.burst)
        while not session.closed:
            try:
                async with asyncio.timeout(self.limits.idle_seconds):
                    text = await session.connection.receive()
            except TimeoutError:
                await session.close(1000, "Nothing was sent for a long time.")
                return
            if text is None:
                return
            wait, notice = bucket.take()
            if notice:
                words = f"More than {self.limits.messages_per_second:g} messages a second."
                await session.send(protocol.error("rate", words))
            if wait:
                await asyncio.sleep(wait)
            try:
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
        if piece.n_steps:
            session.pace = _next_pace(piece, self._budget())
        if piece.frame is None:
            # The last piece of some steps must be seen, too: with the next acknowledgement.
            session.dirty = session.dirty or shows or not session.training
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
        words = "The server could not do this. Open the problem again."
        self._spawn(session.send(protocol.error("message", words)))


def _asked(session: Session) -> Scene:
    assert session.scene is not None  # only sessions with a scene stand in the queue
    return session.scene


def _next_pace(piece: _Piece, budget: float) -> int:
    """Steps that would have filled the budget, approached by factors of two."""
    factor = min(2.0, max(0.5, budget / max(piece.seconds, 1e-6)))
    return max(1, min(MAX_STEPS, int(piece.n_steps * factor + 0.5)))


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
