"""Predictions for Arrow record batches, one after another: the function that every engine calls.

A batch may have any number of rows. Long ones are predicted in parts, so the size of a part, not of
a batch, limits the memory. A batch of rows gives at least one batch of predictions.
"""

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchored.errors import TableError, shown
from anchored.model import runtime
from anchored.model.record import FittedModel
from anchored.model.runtime import Columns, Predictor
from anchored.prediction.predictive import checked_coverage
from anchored.serving.threads import one_thread
from anchored.tables import arrow
from anchored.tables.encoder import Encoder
from anchored.tables.frames import as_table
from anchored.tables.table import listed

PART_ROWS = 16_384  # predicted at a time


def predict_batches(
    model: Any,
    batches: Iterable[Any],
    *,
    coverage: float | None = None,
    keep: Sequence[str] = (),
) -> Iterator[Any]:
    """Predictions for Arrow record batches as Arrow record batches, with the rows in the same
    order.

    Parameters
    ----------
    model : path of a model file, a fitted estimator, or what `anchored.runtime.load` returns.
    batches : Arrow record batches or tables with the columns that the model was fitted on, in any
        order. Other columns are ignored.
    coverage : share of targets that intervals should contain; by default that of the model.
    keep : columns of the batches to copy into the result, before the predictions.

    Yields
    ------
    record batches with the columns that `anchored predict` writes. If a row is wrong, an
    `anchored.errors.TableError` names the column and the row, counted over all batches.
    """
    predictor = as_predictor(model)
    coverage = checked_coverage(predictor.coverage if coverage is None else coverage)
    return _predicted(predictor, batches, coverage, tuple(keep))


def predict_reader(
    model: Any, source: Any, *, coverage: float | None = None, keep: Sequence[str] = ()
) -> Any:
    """`predict_batches` as an Arrow ``RecordBatchReader``, which engines read as a table.

    Parameters
    ----------
    source : anything that can stream Arrow batches: a ``RecordBatchReader``, a table, a DuckDB
        relation, a Polars or pandas data frame.
    """
    pa = arrow.pyarrow()
    reader = pa.RecordBatchReader.from_stream(source)
    schema = output_schema(model, reader.schema, keep)
    batches = predict_batches(model, reader, coverage=coverage, keep=keep)
    return pa.RecordBatchReader.from_batches(schema, batches)


def output_schema(model: Any, given: Any = None, keep: Sequence[str] = ()) -> Any:
    """The Arrow schema of what `predict_batches` yields for batches of the schema ``given``."""
    pa = arrow.pyarrow()
    predictor = as_predictor(model)
    n_features = predictor.fitted.n_features
    made = arrays_of(predictor.predict(np.zeros((0, n_features))))
    kept = [_kept_field(given, name, made) for name in keep]
    return pa.schema([*kept, *(pa.field(name, array.type) for name, array in made.items())])


def as_predictor(model: Any) -> Predictor:
    """The predictor of a path, an estimator or a predictor; it must read tables."""
    if isinstance(model, (str, Path)):
        status = os.stat(model)  # a file that was replaced is read again
        predictor = _load(str(model), status.st_mtime_ns, status.st_size)
    elif isinstance(getattr(model, "model_", None), FittedModel):
        predictor = runtime.of(model.model_)
    elif isinstance(model, Predictor):
        predictor = model
    else:
        raise TypeError(
            "`model` must be the path of a model file, a fitted estimator or what "
            "`anchored.runtime.load` returns; got {type(model).__name__}."
        )
    encoder_of(predictor)
    return predictor


def encoder_of(predictor: Predictor) -> Encoder:
    """How the model reads tables."""
    if predictor.encoder is None:
        raise ValueError(
            "this model was fitted on an array, so it has no column names. Fit it on a data frame "
            "or with `anchored fit` to predict tables."
        )
    return predictor.encoder


@functools.lru_cache(maxsize=4)
def _load(path: str, modified: int, size: int) -> Predictor:
    return runtime.load(path)


def _predicted(predictor: Predictor, batches, coverage: float, keep) -> Iterator[Any]:
    pa = arrow.pyarrow()
    encoder = encoder_of(predictor)
    names, text = frozenset(encoder.names), frozenset(encoder.text_names)
    n_before = 0
    for part in _parts(batches):
        encoder.check(part.schema.names)
        table = as_table(part, names, text, n_before)
        with one_thread():
            made = arrays_of(predictor.predict_table(table, coverage))
        fields = [_kept_field(part.schema, name, made) for name in keep]
        kept = [part.column(field.name) for field in fields]
        fields += [pa.field(name, array.type) for name, array in made.items()]
        yield pa.record_batch([*kept, *made.values()], schema=pa.schema(fields))
        n_before += part.num_rows


def _parts(batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches of at most `PART_ROWS` rows."""
    pa = arrow.pyarrow()
    for given in batches:
        if not isinstance(given, (pa.RecordBatch, pa.Table)):
            raise TypeError(
                "`batches` must be an iterable of Arrow record batches; it has a "
                f"{type(given).__name__}. For other frames use `predict_reader`."
            )
        for batch in given.to_batches() if isinstance(given, pa.Table) else [given]:
            for start in range(0, max(batch.num_rows, 1), PART_ROWS):
                yield batch.slice(start, PART_ROWS)


def _kept_field(given: Any, name: str, made: dict[str, Any]) -> Any:
    """The field of a column that is handed on."""
    if name in made:
        raise TableError(
            f"`keep` has {shown(name)}, which is also a column of predictions; rename it."
        )
    if given is None or name not in given.names:
        there = listed(map(shown, [] if given is None else given.names)) or "none"
        raise TableError(
            f"`keep` names {shown(name)}, which is not a column; the columns are {there}."
        )
    return given.field(name)


def arrays_of(columns: Columns) -> dict[str, Any]:
    """Columns of predictions as Arrow arrays."""
    pa = arrow.pyarrow()
    return {name: pa.array(_plain(cells)) for name, cells in columns.items()}


def _plain(cells: np.ndarray) -> Any:
    """Labels of classes may be text."""
    return cells.astype(str) if cells.dtype.kind in "OU" else cells
