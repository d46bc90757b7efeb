"""Trains chunks of members one after another in this process, without workers."""

import dataclasses
from functools import partial
from typing import Any

from anchored.typing import OnProgress, Work


@dataclasses.dataclass(frozen=True)
class LocalExecutor:
    """Trains chunks one after another in this process, with less memory than all members at once.

    Parameters
    ----------
    chunk : members in a chunk; None for as many as one program trains.
    """

    chunk: int | None = None

    def map(self, work: Work, on_progress: OnProgress | None) -> list:
        """Call the function for every piece, one after another."""

        def report(i: int, progress: Any) -> None:
            if on_progress is not None:
                on_progress(i, progress)

        function, shared, pieces = work
        return [function(shared, piece, partial(report, i)) for i, piece in enumerate(pieces)]
