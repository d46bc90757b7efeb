"""Turns the ``X`` of users into features: data frames are encoded, arrays are not.

A data frame (pandas, polars, Arrow, or a `Table`) goes through an `Encoder` that is fitted with
the model. Names and numbers of columns are checked as scikit-learn does it.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _check_feature_names, _check_n_features

from anchored.tables.encoder import Encoder
from anchored.tables.frames import array_table, as_table, is_frame
from anchored.tables.levels import Signals
from anchored.tables.reading import Table
from anchored.tables.streams import Streamed


class Inputs(NamedTuple):
    """Features, how a frame became them, and the names of its columns."""

    x: Any
    encoder: Encoder | None = None
    columns: tuple[str, ...] | None = None


class Encoded(np.ndarray):
    """Features [row, feature] that an encoder has made already, such as rows kept in a file."""

    @classmethod
    def of(cls, x: np.ndarray, encoder: Encoder | None) -> np.ndarray:
        """Marked as encoded if there is an encoder."""
        return x if encoder is None else x.view(cls)


def fit_inputs(estimator, X, y, sample_weight=None) -> Inputs:
    """Features of training rows; for a frame also the encoder, from rows of positive weight."""
    if isinstance(X, Streamed):
        estimator.feature_names_in_ = np.array(X.columns, dtype=object)
        estimator.n_features_in_ = len(X.columns)
        return Inputs(X.x, X.encoder, X.columns)
    if not is_frame(X):
        return Inputs(X)
    table = as_table(X)
    columns = tuple(table.columns)
    if isinstance(X, Table):
        estimator.feature_names_in_ = np.array(columns, dtype=object)
    else:  # notes names that are all text
        _check_feature_names(estimator, X, reset=True)
    estimator.n_features_in_ = len(columns)
    signals = _signals(estimator, y, sample_weight, table.n_rows)
    if signals is None:  # what is wrong with the targets or weights is said when they are checked
        encoder = Encoder.fit(table)
        return Inputs(encoder.transform(table), encoder, columns)
    encoder, x = Encoder.fit_transform(table, signals)
    return Inputs(x, encoder, columns)


def _signals(estimator, y, sample_weight, n_rows: int) -> Signals | None:
    """What targets say of levels; None if targets or weights cannot be used."""
    try:
        weight = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, float)
        y = np.asarray(y)
        if weight.shape != (n_rows,) or len(y) != n_rows or not np.any(weight > 0):
            return None
        if is_classifier(estimator):
            return Signals.of_classes(y.reshape(n_rows), weight)
        y = y.astype(np.float64)
        return Signals.of_numbers(y, weight) if np.isfinite(y).all() else None
    except (TypeError, ValueError):
        return None


def encoded_inputs(estimator, X, encoder: Encoder, columns, training: bool = False) -> np.ndarray:
    """Features of later rows, for an estimator that was fitted on a frame of ``columns``.

    The rows will be predicted or, with ``training``, added to the training rows.
    """
    if isinstance(X, Encoded):
        return np.asarray(X)
    if isinstance(X, Table):  # columns are found by name, in any order, among others
        return encoder.transform(X, training)
    if hasattr(estimator, "feature_names_in_"):
        _check_feature_names(estimator, X, reset=False)
    if is_frame(X):
        return encoder.transform(as_table(X), training)
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead. `X` is [row, column].")
    _check_n_features(estimator, X, reset=False)
    return encoder.transform(array_table(X, columns or encoder.names), training)
