"""Answers requests together that arrive at the same time.

A prediction costs about the same for one row as for sixteen, so a service that predicts each
request alone is slow. An answer does not depend on which rows it is predicted with: NumPy's sums
over members differ in the last digits between one row and several. So rows are always predicted in
multiples of `_ROWS`, and the last rows are repeated. (`anchored.model.forward` does the same for
the networks.) A test compares answers bit by bit.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence

import numpy as np

from anchored.model.runtime import Columns, Predictor
from anchored.serving.batches import encoder_of
from anchored.serving.questions import Question, json_table

SMALL = 256  # rows that the thread of the server predicts itself; more go to another thread
_ROWS = 16

Outcome = Columns | Exception


def predicted_together(predictor: Predictor, questions: Sequence[Question]) -> list[Outcome]:
    """The answer to each question, or its error; all questions have the same coverage."""
    try:
        made = _padded(predictor, _features(predictor, questions), questions[0].coverage)
    except ValueError as error:
        if len(questions) == 1:
            return [error]
        return [predicted_together(predictor, [question])[0] for question in questions]
    ends = np.cumsum([question.n_rows for question in questions])
    return [
        {name: cells[end - question.n_rows : end] for name, cells in made.items()}
        for question, end in zip(questions, ends, strict=True)
    ]


def _features(predictor: Predictor, questions: Sequence[Question]) -> np.ndarray:
    """[row, feature] of all questions, in order."""
    encoder = encoder_of(predictor)
    asked = [question.cells for question in questions if question.cells is not None]
    parts = [question.features for question in questions]
    if asked:
        cells = {name: [c for part in asked for c in part[name]] for name in encoder.names}
        encoded = encoder.transform(json_table(cells, encoder, frozenset(encoder.text_names)))
        if len(asked) == len(questions):
            return encoded
        start = 0
        for place, question in enumerate(questions):
            if question.features is None:
                parts[place] = encoded[start : start + question.n_rows]
                start += question.n_rows
    return np.concatenate(parts)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _padded(predictor: Predictor, x: np.ndarray, coverage: float) -> Columns:
    n_rows = len(x)
    more = np.repeat(x[-1:], -n_rows % _ROWS, axis=0)
    made = predictor.predict(np.concatenate([x, more]), coverage)
    return {name: cells[:n_rows] for name, cells in made.items()}


class Batcher:
    """Gathers questions for ``window`` seconds, or for one turn of the event loop if it is 0."""

    def __init__(
        self, predictor: Predictor, window: float, on_batch: Callable[[list[Question]], None]
    ):
        self._predictor, self._window, self._on_batch = predictor, window, on_batch
        self._waiting: list[tuple[Question, asyncio.Future[Columns]]] = []
        self._n_rows = 0
        self._timer: asyncio.Handle | None = None
        self.thread = concurrent.futures.ThreadPoolExecutor(1, "anchored-large")

    async def ask(self, question: Question) -> Columns:
        """The predictions; an error in the rows is raised."""
        loop = asyncio.get_running_loop()
        if question.n_rows > SMALL:
            self._on_batch([question])
            [made] = await loop.run_in_executor(
                self.thread, predicted_together, self._predictor, [question]
            )
            if isinstance(made, Exception):
                raise made
            return made
        future: asyncio.Future[Columns] = loop.create_future()
        if self._n_rows + question.n_rows > SMALL:
            self._flush()
        self._waiting.append((question, future))
        self._n_rows += question.n_rows
        if self._timer is None:
            later = loop.call_later if self._window else lambda _, call: loop.call_soon(call)
            self._timer = later(self._window, self._flush)
        return await future

    def close(self) -> None:
        """Answer the waiting questions, and stop."""
        self._flush()
        self.thread.shutdown(wait=False, cancel_futures=True)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting, self._n_rows, self._timer = self._waiting, [], 0, None
        by_coverage: dict[float, list[tuple[Question, asyncio.Future[Columns]]]] = {}
        for question, future in waiting:
            if not future.done():  # its client may be gone
                by_coverage.setdefault(question.coverage, []).append((question, future))
        for together in by_coverage.values():
            self._answer([q for q, _ in together], [future for _, future in together])

    def _answer(self, questions: list[Question], futures: list["asyncio.Future[Columns]"]) -> None:
        self._on_batch(questions)
        try:
            outcomes = predicted_together(self._predictor, questions)
        except Exception as error:  # a bug of ours: the app says so to each client and logs it
            outcomes = [error] * len(questions)
        for future, outcome in zip(futures, outcomes, strict=True):
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
