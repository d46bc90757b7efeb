"""What a service accepts, and how it refuses."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits for one request and for all requests.

    Attributes
    ----------
    max_bytes, max_rows : of one request.
    max_requests : that are answered at the same time; their bodies together may be 8 times
        ``max_bytes``.
    max_connections : that are open at the same time.
    body_seconds : in which a body must arrive.
    answer_seconds : in which rows must be predicted.
    """

    max_bytes: int = 8 << 20
    max_rows: int = 50_000
    max_requests: int = 256
    max_connections: int = 1_024
    body_seconds: float = 10.0
    answer_seconds: float = 30.0

    @property
    def held_bytes(self) -> int:
        return 8 * self.max_bytes

    @property
    def stalled_seconds(self) -> float:
        """Seconds after which a connection that completes no request is dropped."""
        return 2 * (self.body_seconds + self.answer_seconds)


class Refusal(Exception):
    """A request that is not answered: the status of HTTP, and a sentence for the client."""

    def __init__(self, status: int, sentence: str, *headers: tuple[bytes, bytes]):
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


def too_many_rows(n_rows: int, most: int) -> Refusal:
    return Refusal(
        413,
        f"the request has {n_rows:,} rows, and at most {most:,} are allowed; send them in "
        "several requests.",
    )
