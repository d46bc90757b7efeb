"""The service as an ASGI application: four paths, and a sentence for whatever is wrong.

A request costs little more than its JSON. There is no routing and no middleware, and rows of
requests that come together are predicted together (`anchored.serving.batching`).
"""

import asyncio
import functools
import logging
import time
import urllib.parse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from anchored.model.runtime import Columns, Predictor
from anchored.serving import answers, questions
from anchored.serving.batches import as_predictor, encoder_of
from anchored.serving.batching import SMALL, Batcher
from anchored.serving.counts import Counts
from anchored.serving.hosts import host_check
from anchored.serving.limits import Limits, Refusal
from anchored.serving.questions import ARROW, JSON, Question

_LARGE = 1 << 16  # bytes of a body that is read in another thread
_METHODS = {"/": "GET", "/health": "GET", "/metrics": "GET", "/predict": "POST"}
_CLOSE = (b"connection", b"close")  # what is left of a body is not read
_log = logging.getLogger("anchored.serving")

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class _Gone(Exception):
    """The client has left."""


class _Answer(NamedTuple):
    status: int
    kind: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Service:
    """Answers for one model.

    Parameters
    ----------
    model : as for `anchored.serving.predict_batches`.
    name : of the model, for its description.
    known_host : whether a Host header is of this server.
    window : seconds in which requests gather to be predicted together; 0 for those that come
        while others are predicted.
    """

    def __init__(
        self,
        model: Any,
        name: str = "model",
        *,
        limits: Limits | None = None,
        known_host: Callable[[str], bool] | None = None,
        window: float = 0.0,
    ):
        self.limits = limits or Limits()
        self._known_host = known_host or host_check("127.0.0.1")
        self._predictor: Predictor = as_predictor(model)
        fitted = self._predictor.fitted
        self.counts = Counts(fitted.members.n_members, self._predictor.task, fitted.package)
        self._batcher = Batcher(self._predictor, window, self.counts.batched)
        self._description = answers.description(self._predictor, name, self.limits)
        self._held = 0  # bytes of bodies

    def close(self) -> None:
        self._batcher.close()

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"this service speaks HTTP, not {scope['type']}")
        started = time.perf_counter()
        path, headers = scope["path"], dict(scope["headers"])
        known = path if path in _METHODS else "other"
        try:
            answer = await self._answer(path, scope, headers, receive)
        except _Gone:
            return
        except Refusal as error:
            answer = _Answer(error.status, JSON, answers.error(error.sentence), error.headers)
        except ValueError as error:  # of the rows
            answer = _Answer(422, JSON, answers.error(_sentence(error)))
        except Exception:
            _log.exception("A request for %s failed.", known)
            words = "the service failed on this request; its log says why."
            answer = _Answer(500, JSON, answers.error(words), (_CLOSE,))
        await _send(answer, send, scope["method"] != "HEAD")
        self.counts.answered(known, answer.status, time.perf_counter() - started)

    async def _answer(self, path: str, scope: Event, headers: dict, receive: Receive) -> _Answer:
        if not self._known_host(headers.get(b"host", b"").decode("latin-1")):
            raise Refusal(
                400, "this service does not answer to that host name; `--allow-host` adds one."
            )
        method = _METHODS.get(path)
        if method is None:
            raise Refusal(404, f"the only paths are {', '.join(_METHODS)}.")
        if scope["method"] != method and (method, scope["method"]) != ("GET", "HEAD"):
            raise Refusal(405, f"{path} takes {method}.", (b"allow", method.encode()))
        if path == "/predict":
            return await self._predict(scope, headers, receive)
        if path == "/":
            return _Answer(200, JSON, self._description)
        if path == "/health":
            return _Answer(200, JSON, b'{"schema": 1, "status": "ok"}')
        return _Answer(200, "text/plain; version=0.0.4; charset=utf-8", self.counts.text())

    async def _predict(self, scope: Event, headers: dict, receive: Receive) -> _Answer:
        if self.counts.open >= self.limits.max_requests:
            raise _busy(f"{self.counts.open} requests are being answered")
        read = self._reader(scope, headers)
        if _content_length(headers) > self.limits.max_bytes:
            raise _too_large(self.limits.max_bytes)
        self.counts.open += 1
        try:
            body = await self._body(receive)
            try:
                question, made = await self._made(read, body)
            finally:
                self._held -= len(body)
            self.counts.predicted(made)
            accept = headers.get(b"accept", b"").decode("latin-1")
            as_arrow = ARROW in accept or (question.shape == "arrow" and JSON not in accept)
            write = functools.partial(_written, made, question, as_arrow)
            return write() if question.n_rows <= SMALL else await self._in_thread(write)
        finally:
            self.counts.open -= 1

    async def _body(self, receive: Receive) -> bytes:
        """The body of a request; its bytes count as held until the caller lets them go."""
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in _chunks(receive):
                    size += len(chunk)
                    self._held += len(chunk)
                    if size > self.limits.max_bytes:
                        raise _too_large(self.limits.max_bytes)
                    if self._held > self.limits.held_bytes:
                        raise _busy("the bodies of requests take too much memory")
                    chunks.append(chunk)
        except BaseException as error:
            self._held -= size
            if isinstance(error, TimeoutError):
                words = f"the body took more than {self.limits.body_seconds:g} s to arrive."
                raise Refusal(408, words, _CLOSE) from None
            raise
        return b"".join(chunks)

    async def _made(self, read: Callable, body: bytes) -> tuple[Question, Columns]:
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                large = len(body) > _LARGE
                question = await self._in_thread(read, body) if large else read(body)
                return question, await self._batcher.ask(question)
        except TimeoutError:
            raise _busy(f"no answer within {self.limits.answer_seconds:g} s") from None

    async def _in_thread(self, function: Callable, *given: Any) -> Any:
        """Its value, while others are answered."""
        return await asyncio.get_running_loop().run_in_executor(
            self._batcher.thread, function, *given
        )

    def _reader(self, scope: Event, headers: dict) -> Callable[[bytes], Question]:
        """What reads a body of the type that the headers name."""
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if encoding != "identity":
            raise Refusal(415, f"the body is encoded as {encoding:.40}; send it unencoded.", _CLOSE)
        given = headers.get(b"content-type", b"").decode("latin-1")
        kind = given.partition(";")[0].strip().lower()
        if kind not in (JSON, ARROW):
            got = f"{given:.80}" if given else "none"
            raise Refusal(415, f"the content type must be {JSON} or {ARROW}; got {got}.", _CLOSE)
        read = questions.from_json if kind == JSON else questions.from_arrow
        coverage = self._coverage(scope["query_string"])
        return functools.partial(
            read, encoder=encoder_of(self._predictor), limits=self.limits, coverage=coverage
        )

    def _coverage(self, query: bytes) -> float:
        """The coverage of a query ``?coverage=0.8``, or else that of the model."""
        if not query:
            return self._predictor.coverage
        pairs = urllib.parse.parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if len(pairs) != 1 or pairs[0][0] != "coverage":
            raise Refusal(400, "the query may only set the coverage, as in ?coverage=0.8.")
        try:
            return questions.checked_share(float(pairs[0][1]))
        except ValueError:
            raise Refusal(400, "`coverage` must be a number between 0 and 1.") from None


def _written(made: Columns, question: Question, as_arrow: bool) -> _Answer:
    if as_arrow:
        return _Answer(200, ARROW, answers.arrow_predictions(made))
    return _Answer(200, JSON, answers.predictions(made, question))


async def _chunks(receive: Receive):
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Gone
        yield event.get("body", b"")
        more = event.get("more_body", False)


async def _send(answer: _Answer, send: Send, with_body: bool) -> None:
    headers = [
        (b"content-type", answer.kind.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body if with_body else b""})


def _content_length(headers: dict[bytes, bytes]) -> int:
    given = headers.get(b"content-length", b"0")
    return int(given) if given.isdigit() and len(given) < 19 else 0


def _too_large(most: int) -> Refusal:
    return Refusal(
        413,
        f"the body has more than the allowed {most:,} bytes; send the rows in several requests.",
        _CLOSE,
    )


def _busy(reason: str) -> Refusal:
    words = f"the service is busy: {reason}. Try again in a second."
    return Refusal(503, words, (b"retry-after", b"1"), _CLOSE)


def _sentence(error: ValueError) -> str:
    return " ".join(str(error).split())
