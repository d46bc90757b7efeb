"""``fit`` of files: small ones as a frame, large ones encoded once and read batch by batch."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from anchored.tables.columns import empty_cells
from anchored.tables.encoder import Encoder
from anchored.tables.levels import Signals
from anchored.tables.plan import targets_of
from anchored.tables.streams import Stream, check_target, encoded, is_stream

_FILE = "features.float32"


@contextmanager
def opened_rows(estimator: Any, X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Inputs and targets; if ``X`` names files, ``y`` is the name of the target column."""
    if not is_stream(X):
        yield X, y
        return
    stream = Stream.of(X)
    target = check_target(stream, y)
    task = "classification" if is_classifier(estimator) else "regression"
    table = stream.sample() if stream.is_large else stream.whole()
    cells = table.columns[target]
    known = np.flatnonzero(~empty_cells(cells))
    labels = targets_of(cells[known], task, target)
    inputs = table.take(known).without([target])
    if not stream.is_large:
        yield inputs, labels
        return
    made = Signals.of_classes if task == "classification" else Signals.of_numbers
    encoder = Encoder.fit(inputs, signals=made(labels))
    with tempfile.TemporaryDirectory(prefix="anchored-") as folder:
        path = Path(folder) / _FILE
        rows = encoded(stream, target, encoder, task, path)
        yield rows, rows.y
