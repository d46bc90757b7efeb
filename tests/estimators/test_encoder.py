"""The transformer against the encoder it holds, and against scikit-learn's own checks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from anchored import TableEncoder
from anchored.errors import TableError
from anchored.tables.encoder import Encoder
from anchored.tables.reading import as_table


@parametrize_with_checks([TableEncoder()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def frame(n_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    size, town = rng.uniform(20, 200, n_rows), rng.integers(3, size=n_rows)
    days = rng.integers(0, 900, n_rows)
    columns = {
        "size": np.where(rng.uniform(size=n_rows) < 0.1, np.nan, size),
        "town": np.array(["north", "south", "old town"], dtype=object)[town],
        "built": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D"),
        "code": [f"k{i}" for i in range(n_rows)],
    }
    return pd.DataFrame(columns), 0.1 * days + 40 * town


def test_features_are_those_of_the_encoder():
    X, _ = frame()
    encoder = TableEncoder().fit(X)
    expected = Encoder.fit(as_table(X))
    assert encoder.encoder_ == expected
    np.testing.assert_array_equal(encoder.transform(X), expected.transform(as_table(X)))
    assert tuple(encoder.get_feature_names_out()) == expected.feature_names
    assert encoder.encoder_.left_out == (("code", "identifier: every row has a different text"),)
    assert TableEncoder(keep=["code"]).fit(X).encoder_.left_out == ()
    with pytest.raises(TableError, match="lacks the column 'cod'"):
        TableEncoder(keep=["cod"]).fit(X)


def test_levels_that_no_training_row_has_are_among_the_others():
    """A feature of their own would be 0 in all training rows, and of no use to other models."""
    X, y = frame(300)
    X["town"] = X["town"].where(X.index >= 4, "hamlet")  # too few rows for a feature of its own
    y[:4] += 100.0
    new = X.assign(town="never seen")
    encoder = TableEncoder().fit(X)
    assert "town is new" not in encoder.get_feature_names_out()
    hamlet = encoder.transform(X.assign(town="hamlet"))
    np.testing.assert_array_equal(encoder.transform(new), hamlet)
    pipeline = make_pipeline(TableEncoder(), Ridge()).fit(X, y)
    assert np.mean(pipeline.predict(new) - pipeline.predict(X.assign(town="north"))) > 50


def test_pipelines_clones_and_frames_out():
    X, y = frame()
    pipeline = make_pipeline(TableEncoder(), Ridge())
    assert cross_val_score(clone(pipeline), X, y).min() > 0.95
    out = TableEncoder().set_output(transform="pandas").fit_transform(X)
    assert list(out.columns[:2]) == ["size", "size is missing"]
    assert list(out.index) == list(X.index)
