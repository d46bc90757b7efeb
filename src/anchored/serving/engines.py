"""Predictions inside engines for tables: pandas, Polars, DuckDB, Ray Data and Spark.

Each function is a few lines around `anchored.serving.predict_batches`; copy one where an engine is
missing. Models may be given as paths: each process of a cluster then reads the file once. All take
``coverage`` and ``keep`` as `predict_batches` does.
"""

import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from anchored.errors import bad_value
from anchored.serving.batches import (
    PART_ROWS,
    as_predictor,
    encoder_of,
    output_schema,
    predict_batches,
)
from anchored.serving.threads import one_thread
from anchored.tables import arrow
from anchored.tables.columns import Numeric
from anchored.tables.frames import as_table


def with_pandas(
    model: Any, frame: Any, *, coverage: float | None = None, keep: Sequence[str] = ()
) -> Any:
    """Predictions for a data frame of pandas, with its index."""
    import pandas as pd

    predictor = as_predictor(model)
    encoder = encoder_of(predictor)
    encoder.check([str(name) for name in frame.columns])
    names, text = frozenset(encoder.names), frozenset(encoder.text_names)
    parts = []
    for start in range(0, max(len(frame), 1), PART_ROWS):
        table = as_table(frame.iloc[start : start + PART_ROWS], names, text, start)
        with one_thread():
            parts.append(pd.DataFrame(predictor.predict_table(table, coverage)))
    made = pd.concat(parts).set_axis(frame.index)
    return pd.concat([frame[list(keep)], made], axis=1)


def with_polars(
    model: Any, frame: Any, *, coverage: float | None = None, keep: Sequence[str] = ()
) -> Any:
    """Predictions for a data frame of Polars, or lazy predictions for a lazy frame."""
    import polars as pl

    def predicted(part: Any) -> Any:
        schema = output_schema(model, part.to_arrow().schema, keep)
        made = predict_batches(model, [part.to_arrow()], coverage=coverage, keep=keep)
        found: Any = pl.from_arrow(arrow.pyarrow().Table.from_batches(made, schema))
        # Without rows Arrow has no levels of a category, so Polars has no type for it.
        return found.cast({name: part.schema[name] for name in keep})

    if not isinstance(frame, pl.LazyFrame):
        return predicted(frame)
    like = pl.DataFrame(schema=frame.collect_schema())
    # Rows do not depend on each other, so they may come in parts, and the first ones alone; but
    # with all their columns, and before they are filtered by predictions.
    return frame.map_batches(
        predicted,
        schema=predicted(like).schema,
        streamable=True,
        slice_pushdown=True,
        predicate_pushdown=False,
        projection_pushdown=False,
    )


def add_to_duckdb(
    connection: Any, model: Any, name: str = "predict", *, coverage: float | None = None
) -> str:
    """Add a function to a connection of DuckDB, and give the SQL that calls it.

    The SQL names the columns in their order, for example ``predict("size", "town")``. Its value is
    a row of predictions: ``select id, unnest(...) from flats``.
    """
    import duckdb

    if not name.isidentifier():
        raise bad_value("name", name, "a name such as predict")
    predictor = as_predictor(model)
    pa = arrow.pyarrow()
    columns = encoder_of(predictor).columns
    number, text = duckdb.sqltype("DOUBLE"), duckdb.sqltype("VARCHAR")
    plain = {c.name: number if isinstance(c, Numeric) and not c.written else text for c in columns}
    schema = output_schema(predictor)
    made = connection.from_arrow(pa.Table.from_batches([], schema))
    result = duckdb.struct_type(dict(zip(made.columns, made.types, strict=True)))

    def predicted(*cells: Any) -> Any:
        batches = pa.table(list(cells), names=list(plain)).to_batches()
        made = predict_batches(predictor, batches, coverage=coverage)
        return pa.Table.from_batches(made, schema).to_struct_array()

    # DuckDB counts the parameters of the function.
    kind = inspect.Parameter.POSITIONAL_ONLY
    parameters = [inspect.Parameter(f"cell_{i}", kind) for i in range(len(plain))]
    vars(predicted)["__signature__"] = inspect.Signature(parameters)
    connection.create_function(
        name, predicted, list(plain.values()), result, type="arrow", null_handling="special"
    )
    quoted = (f'"{column.replace(chr(34), chr(34) * 2)}"' for column in plain)
    return f"{name}({', '.join(quoted)})"


def with_ray(
    model: Any, dataset: Any, *, coverage: float | None = None, keep: Sequence[str] = (), **options
) -> Any:
    """Predictions for a dataset of Ray Data; ``options`` go to its ``map_batches``."""
    predict = functools.partial(_table, model, coverage=coverage, keep=tuple(keep))
    options = {"batch_size": PART_ROWS, "zero_copy_batch": True} | options
    return dataset.map_batches(predict, batch_format="pyarrow", **options)


def with_spark(
    model: Any, frame: Any, *, coverage: float | None = None, keep: Sequence[str] = ()
) -> Any:
    """Predictions for a data frame of Spark."""
    from pyspark.sql.pandas.types import (  # pyright: ignore[reportMissingImports]
        from_arrow_schema,
        to_arrow_schema,
    )

    schema = output_schema(model, to_arrow_schema(frame.schema), keep)
    predict = functools.partial(_batches, model, coverage=coverage, keep=tuple(keep))
    return frame.mapInArrow(predict, from_arrow_schema(schema))


def _batches(model: Any, batches: Iterable[Any], **options) -> Iterator[Any]:
    return predict_batches(model, batches, **options)


def _table(model: Any, table: Any, **options) -> Any:
    """Predictions of a whole table of Arrow."""
    schema = output_schema(model, table.schema, options["keep"])
    made = predict_batches(model, [table], **options)
    return arrow.pyarrow().Table.from_batches(made, schema)
