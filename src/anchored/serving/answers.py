"""The bodies of answers: predictions, descriptions of the model, and errors."""

import datetime
import json
import math
from typing import Any

from anchored.model.runtime import Columns, Predictor
from anchored.serving import ipc
from anchored.serving.batches import arrays_of, encoder_of, output_schema
from anchored.serving.limits import Limits
from anchored.serving.questions import ARROW, JSON, Question
from anchored.tables.columns import Boolean, Category, Column, Date, Levels

SCHEMA = 1  # of the JSON answers, docs/schemas/serve.json
_EPOCH = datetime.date(1970, 1, 1)


def predictions(made: Columns, question: Question) -> bytes:
    """The JSON of predictions, in the shape that the rows came in."""
    columns = {name: cells.tolist() for name, cells in made.items()}
    content: dict[str, Any] = {"schema": SCHEMA, "coverage": question.coverage}
    if question.ignored:
        content["ignored"] = question.ignored
    if question.shape == "rows":
        content["rows"] = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
    else:
        content["columns"] = columns
    try:
        return json.dumps(content, allow_nan=False).encode()
    except ValueError:  # JSON has no infinity
        return json.dumps(_without_infinities(content)).encode()


def arrow_predictions(made: Columns) -> bytes:
    """Predictions as an Arrow stream."""
    return ipc.write(arrays_of(made))


def error(sentence: str) -> bytes:
    return json.dumps({"schema": SCHEMA, "error": sentence}).encode()


def description(predictor: Predictor, name: str, limits: Limits) -> bytes:
    """A description of the model's inputs and predictions, and an example request."""
    encoder = encoder_of(predictor)
    columns = [{"name": c.name, "kind": c.kind, **_details(c)} for c in encoder.columns]
    example = {"rows": [{column.name: _usual(column) for column in encoder.columns}]}
    target = predictor.provenance.get("target")
    content = {
        "schema": SCHEMA,
        "model": name,
        "anchored": predictor.fitted.package,
        "task": predictor.task,
        "target": target if isinstance(target, str) else None,
        "coverage": predictor.coverage,
        "columns": columns,
        "answers": output_schema(predictor).names,
        "limits": {"bytes": limits.max_bytes, "rows": limits.max_rows},
        "request": {"method": "POST", "path": "/predict", "types": [JSON, ARROW], "body": example},
    }
    return json.dumps(content, indent=2).encode() + b"\n"


def _details(column: Column) -> dict[str, Any]:
    """What a cell may be."""
    if isinstance(column, Category | Levels):
        return {"levels": list(column.levels)}
    return {"cells": column.need} if column.written or isinstance(column, Boolean) else {}


def _usual(column: Column) -> Any:
    """A cell that the model knows."""
    if isinstance(column, Category | Levels):
        return next(iter(column.levels or getattr(column, "known", ())), None)
    if isinstance(column, Boolean):
        return column.truth
    if isinstance(column, Date):
        return (_EPOCH + datetime.timedelta(days=math.floor(column.fill))).isoformat()
    return column.fill


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
