"""The inputs of held-out rows by row and column, whatever holds them.

An array, a pandas or polars frame, an Arrow table, or a `Table` of this package.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored.errors import bad_value
from anchored.reporting.words import column, plain
from anchored.tables.reading import Table


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Inputs that have columns.

    Attributes
    ----------
    names : of the columns.
    features : for each column its places in ``X``; several if an encoder made them of one.
    """

    X: Any
    names: tuple[str, ...]
    features: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, estimator, X, feature_names: Sequence[str] | None) -> "Inputs | None":
        """What ``estimator`` predicts from; None for images and words."""
        framed = hasattr(X, "columns")
        X = X if framed else np.asarray(X)
        if not framed and (X.ndim != 2 or getattr(estimator.network, "takes_tokens", False)):
            return None
        n_features = len(_names(X)) if framed else X.shape[1]
        owners = getattr(getattr(estimator, "encoder_", None), "feature_columns", ())
        if feature_names is None and not framed and len(owners) == n_features:
            names = tuple(dict.fromkeys(owners))
            places = [np.flatnonzero([owner == name for owner in owners]) for name in names]
            return cls(X, names, tuple(tuple(place.tolist()) for place in places))
        unnamed = [f"column {i}" for i in range(n_features)]
        own = _names(X) if framed else getattr(estimator, "feature_names_in_", unnamed)
        names = tuple(str(name) for name in (own if feature_names is None else feature_names))
        if len(names) != n_features:
            need = f"{n_features} names, one for each feature"
            raise bad_value("feature_names", f"{len(names)} of them", need)
        return cls(X, names, tuple((i,) for i in range(n_features)))

    def take(self, rows: np.ndarray) -> "Inputs":
        """Some rows alone."""
        return dataclasses.replace(self, X=take_rows(self.X, rows))

    def shuffled(self, index: int, order: np.ndarray) -> Any:
        """``X`` with the cells of one column in another order."""
        X = self.X
        if isinstance(X, np.ndarray):
            made, places = X.copy(), list(self.features[index])
            made[:, places] = X[order][:, places]
            return made
        (i,) = self.features[index]
        if isinstance(X, Table):
            name = _names(X)[i]
            return dataclasses.replace(X, columns=X.columns | {name: X.columns[name][order]})
        if hasattr(X, "isetitem"):  # pandas
            made = X.copy()
            made.isetitem(i, X.iloc[order, i].array)
            return made
        if hasattr(X, "with_columns"):  # polars
            return X.with_columns(X.to_series(i).gather(order))
        return X.set_column(i, X.field(i), X.column(i).take(order))  # Arrow

    def cells(self, index: int) -> list[str]:
        """A column that is one feature, as a reader sees it."""
        (i,), X = self.features[index], self.X
        if isinstance(X, Table):
            values = X.columns[_names(X)[i]]
        elif hasattr(X, "iloc"):  # pandas
            values = X.iloc[:, i]
        else:
            values = X.column(i) if hasattr(X, "column") else X[:, i]
        values = np.asarray(values)
        return column(values) if values.dtype.kind in "iuf" else [plain(v, 40) for v in values]


def _names(X) -> list[str]:
    return [str(name) for name in getattr(X, "column_names", X.columns)]


def take_rows(X, rows: np.ndarray):
    """Some rows of whatever holds them."""
    # Pandas, Arrow and `Table` have `take`; arrays have another one, polars has none.
    return X.take(rows) if hasattr(X, "columns") and hasattr(X, "take") else X[rows]


def names_of_rows(X, n_rows: int) -> list[str]:
    """Labels of a frame's index, numbers of the rows of a file, or numbers from 0."""
    numbers = getattr(X, "row_numbers", None)
    labels = getattr(X, "index", None) if numbers is None else numbers
    if hasattr(X, "columns") and labels is not None and len(labels) == n_rows:
        return [plain(label, 60) for label in labels]
    return [str(i) for i in range(n_rows)]
