"""The inputs of held-out rows, by row and column: an array of features, or a table."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored.errors import bad_value
from anchored.estimators.inputs import Encoded
from anchored.reporting.words import column, plain
from anchored.tables.frames import as_table, is_frame
from anchored.tables.table import Table
from anchored.typing import traits


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Inputs that have columns.

    Attributes
    ----------
    X : features [row, feature], or a `Table`.
    names : of the columns, as readers see them.
    places : for each column its name in the table, or the numbers of its features.
    relevance : of each column, by the evidence of the training rows; None if it is not known.
    """

    X: np.ndarray | Table
    names: tuple[str, ...]
    places: tuple[Any, ...]
    relevance: np.ndarray | None = None

    @classmethod
    def of(cls, estimator, X, feature_names: Sequence[str] | None) -> "Inputs | None":
        """What ``estimator`` predicts from; None for images and words."""
        found = cls._of(estimator, X, feature_names)
        if found is None:
            return None
        return dataclasses.replace(found, relevance=_relevance(estimator, len(found.names)))

    @classmethod
    def _of(cls, estimator, X, feature_names: Sequence[str] | None) -> "Inputs | None":
        encoder = estimator.encoder_
        if encoder is not None and is_frame(X):
            X = as_table(X)
            shown = dict(zip(X.columns, _given(feature_names, list(X.columns)), strict=True))
            return cls(X, tuple(shown[name] for name in encoder.names), encoder.names)
        if encoder is not None and isinstance(X, Encoded):
            owners = np.array(encoder.feature_columns, object)
            places = [np.flatnonzero(owners == name) for name in encoder.names]
            return cls(X, encoder.names, tuple(places))
        own = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
        X = np.asarray(X)
        if X.ndim != 2 or traits(estimator.network).takes_tokens:
            return None
        own = [f"column {i}" for i in range(X.shape[1])] if own is None else own
        return cls(X, _given(feature_names, own), tuple(np.arange(X.shape[1])[:, None]))

    def take(self, rows: np.ndarray) -> "Inputs":
        """Some rows alone."""
        return dataclasses.replace(self, X=take_rows(self.X, rows))

    def shuffled(self, index: int, order: np.ndarray) -> np.ndarray | Table:
        """``X`` with the cells of one column in another order."""
        X, place = self.X, self.places[index]
        if isinstance(X, Table):
            return dataclasses.replace(X, columns=X.columns | {place: X.columns[place][order]})
        made = X.copy()
        made[:, place] = X[order][:, place]
        return made

    def cells(self, index: int) -> list[str] | None:
        """One column as a reader sees it; None if it is several features."""
        X, place = self.X, self.places[index]
        if isinstance(X, Table):
            values = X.columns[place]
        elif len(place) == 1:
            values = X[:, place[0]]
        else:
            return None
        numbers = values.dtype.kind in "iuf"
        return column(values) if numbers else [plain("" if v is None else v, 40) for v in values]


def _given(names: Sequence[str] | None, own: Sequence[str]) -> tuple[str, ...]:
    if names is not None and len(names) != len(own):
        need = f"{len(own)} names, one for each feature"
        raise bad_value("feature_names", f"{len(names)} of them", need)
    return tuple(str(name) for name in (own if names is None else names))


def take_rows(X, rows: np.ndarray):
    """Some rows of an array, a frame or a table."""
    # Pandas, Arrow and `Table` have `take`; arrays have another one, polars has none.
    return X.take(rows) if is_frame(X) and hasattr(X, "take") else X[rows]


def names_of_rows(X, n_rows: int) -> list[str]:
    """Labels of a frame's index, numbers of the rows of a file, or numbers from 0."""
    labels = getattr(X, "index", None) if is_frame(X) else None
    labels = getattr(X, "row_numbers", None) if labels is None else labels
    if labels is not None:
        return [plain(label, 60) for label in labels]
    return [str(i) for i in range(n_rows)]


def _relevance(estimator, n_columns: int) -> np.ndarray | None:
    """The prior's variance of what each column adds, relative to the largest."""
    model, encoder = estimator.model_, estimator.encoder_
    scale = model.prior_scale.get("0/weight")
    if scale is None or scale.ndim != 2:
        return None
    variance = np.square(scale[:, 0])
    of_feature = variance[: model.n_features].copy()
    if model.x_ramps is not None:
        column, _, _, height = model.x_ramps
        of_ramps = variance[model.n_features :] * np.square(height) / 4
        np.add.at(of_feature, column.astype(int), of_ramps)
    if encoder is not None:
        owners = np.array(encoder.feature_columns, object)
        of_feature = np.array([of_feature[owners == name].max() for name in encoder.names])
    told = len(of_feature) == n_columns and np.isfinite(of_feature).all() and np.ptp(of_feature) > 0
    return of_feature / of_feature.max() if told else None
