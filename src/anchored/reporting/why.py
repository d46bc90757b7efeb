"""Why the model is least sure of some rows: an explanation of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored.prediction.predictive import Predictive
from anchored.reporting.inputs import Inputs, take_rows
from anchored.reporting.words import number

_ROWS = 3  # rows that are explained
_COLUMNS = 5  # columns named of each
_BACKGROUND = 500  # rows of the page to compare with, where training rows are not known
_N_PATHS = 64


def least_sure(
    estimator, dist: Predictive, inputs: Inputs | None, rows: Sequence[str]
) -> list[dict[str, Any]]:
    """Values for the template; nothing where inputs have no columns.

    Rows are compared with the training rows, if the model has them in memory. Otherwise they are
    compared with other rows of the page, which cannot show what is unusual.
    """
    if inputs is None or len(rows) <= _ROWS or estimator.model_.x_mean is None:
        return []
    sure_last = np.argsort(-_doubt(dist), kind="stable")
    order, others = sure_last[:_ROWS], sure_last[_ROWS:]
    trained = estimator.knows_rows_
    background = None if trained else take_rows(inputs.X, np.sort(others)[:_BACKGROUND])
    found = estimator.explain(take_rows(inputs.X, order), background, _N_PATHS)
    values = []
    for place, row in enumerate(order):
        out = found.main_output(place)
        parts = found.mean, found.epistemic, found.aleatoric
        columns = [i for i, _ in found.epistemic.largest(place, most=_COLUMNS)]
        outs = [min(out, part.value.shape[1] - 1) for part in parts]
        added = [
            [number(part.by_column[place, i, o], 3) for i in columns]
            for part, o in zip(parts, outs, strict=True)
        ]
        values.append(
            {
                "row": rows[row],
                "unusual": found.unusual[place] if trained else (),
                "prediction": number(parts[0].value[place, outs[0]], 3),
                "of": found.outputs[out] if found.classes else None,
                "usual": [number(part.usual[o], 3) for part, o in zip(parts, outs, strict=True)],
                "values": [
                    number(part.value[place, o], 3) for part, o in zip(parts, outs, strict=True)
                ],
                "table": [
                    ("column", [found.columns[i] for i in columns]),
                    ("cell", [found.cells[place][i] for i in columns]),
                    ("added to the prediction", added[0]),
                    ("to the epistemic part", added[1]),
                    ("to the aleatoric part", added[2]),
                ],
            }
        )
    return values


def _doubt(dist: Predictive) -> np.ndarray:
    """How far members disagree on each row [row]."""
    if dist.family == "categorical":
        return dist.mutual_information
    return dist.epistemic_var.reshape(len(dist.mean), -1)[:, 0]
