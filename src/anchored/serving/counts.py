"""What a service has done, as text that Prometheus reads."""

import bisect
import collections

import numpy as np

from anchored.model.runtime import Columns
from anchored.serving.questions import Question

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Counts:
    """Numbers that only grow, except for the requests that are being answered."""

    def __init__(self, n_members: int, task: str, package: str):
        self._info = f'task="{task}",members="{n_members}",version="{_escaped(package)}"'
        self._answers: collections.Counter[tuple[str, int]] = collections.Counter()
        self._seconds = [0] * (len(_SECONDS) + 1)
        self._total_seconds = 0.0
        self._rows = self._novel = self._batches = self._together = 0
        self.open = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered; those for predictions are timed."""
        self._answers[path, status] += 1
        if path == "/predict" and status == 200:
            self._seconds[bisect.bisect_left(_SECONDS, seconds)] += 1
            self._total_seconds += seconds

    def predicted(self, made: Columns) -> None:
        """Rows were predicted."""
        self._rows += len(next(iter(made.values())))
        if "novelty" in made:
            self._novel += int(np.count_nonzero(made["novelty"] > 1))

    def batched(self, questions: list[Question]) -> None:
        """Questions were answered together."""
        self._batches += 1
        self._together += len(questions)

    def text(self) -> bytes:
        lines = [
            *_head("anchored_model", "gauge", "The model that is served."),
            f"anchored_model{{{self._info}}} 1",
            *_head("anchored_requests_total", "counter", "Requests answered, by path and status."),
        ]
        for (path, status), n in sorted(self._answers.items()):
            lines.append(f'anchored_requests_total{{path="{path}",status="{status}"}} {n}')
        name = "anchored_request_seconds"
        lines += _head(name, "histogram", "Time from a request to its predictions.")
        reached = 0
        for limit, n in zip((*_SECONDS, "+Inf"), self._seconds, strict=True):
            reached += n
            lines.append(f'{name}_bucket{{le="{limit}"}} {reached}')
        lines += [f"{name}_sum {self._total_seconds!r}", f"{name}_count {reached}"]
        for name, kind, words, value in (
            ("anchored_open_requests", "gauge", "Requests that are being answered.", self.open),
            ("anchored_rows_total", "counter", "Rows predicted.", self._rows),
            ("anchored_novel_rows_total", "counter", "Rows with a novelty above 1.", self._novel),
            ("anchored_batches_total", "counter", "Calls of the model.", self._batches),
            ("anchored_batched_total", "counter", "Requests in those calls.", self._together),
        ):
            lines += [*_head(name, kind, words), f"{name} {value}"]
        return ("\n".join(lines) + "\n").encode()


def _head(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
