"""The encoder of tables as a transformer of scikit-learn."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table, as_table, is_frame


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turns numbers, yes and no, categories, dates and missing cells into numeric features.

    `AnchoredRegressor` and `AnchoredClassifier` encode data frames themselves, with a feature for
    new levels. Use this class for other models and in pipelines. Numbers stay as they are, and
    missing ones get the median. Categories get a feature for each frequent level, and one for all
    other levels, including new ones. Dates become days and the time of year, week and day.
    Identifiers, free text and constants are left out.

    Parameters
    ----------
    keep : names of columns to use although they would be left out.

    Attributes
    ----------
    encoder_ : the record that says how each column becomes features; ``encoder_.left_out`` has
        the columns that are not used, and why.

    Examples
    --------
    >>> import pandas as pd
    >>> from anchored import TableEncoder
    >>> frame = pd.DataFrame({"size": [30.0, None, 90.0], "lift": ["yes", "no", "no"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> print(*encoder.get_feature_names_out(), sep=", ")
    size, size is missing, lift=yes
    >>> encoder.transform(frame)[1]
    array([60.,  1.,  0.])
    """

    def __init__(self, keep=()):
        self.keep = keep

    def fit(self, X, y=None):
        """Learn the kind of each column of a data frame of pandas, polars or Arrow, or an array."""
        found = Encoder.fit(self._table(X, reset=True), tuple(self.keep))
        # Other models would not know what to make of a feature that no training row has.
        self.encoder_ = found.without_new_levels()
        return self

    def transform(self, X) -> np.ndarray:
        """Features [row, feature] of a frame with the same columns."""
        check_is_fitted(self)
        return self.encoder_.transform(self._table(X, reset=False))

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """A name for each feature, made from its column, its level or its part of a date."""
        check_is_fitted(self)
        return np.array(self.encoder_.feature_names, dtype=object)

    def _table(self, X, reset: bool) -> Table:
        if isinstance(X, Table):
            return X
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)  # names and their order
            return as_table(X)
        x: Any = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,  # of one row, every column is constant
        )
        columns = {f"x{place}": column.astype(np.float64) for place, column in enumerate(x.T)}
        return Table(columns, len(x))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
