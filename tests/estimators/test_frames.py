"""Data frames with text, dates and missing cells go straight into the estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor, runtime
from anchored.errors import TableError
from anchored.tables.frames import as_table

QUICK = {"hidden": (6,), "n_members": 3, "epochs": 20, "prior": 4.0, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def frame(n=90, seed=0):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "size": rng.normal(50, 10, n),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "day": pd.date_range("2021-01-01", periods=n).astype(str),
            "lift": rng.random(n) > 0.5,
            "price": [f"${v:,.2f}" for v in rng.uniform(1_000, 9_000, n)],
        }
    )
    made.loc[3, "size"] = np.nan
    made.loc[[5, 9], "city"] = None
    return made


def target(made):
    return 3 * made["size"].fillna(50) / 10 + 5.0 * (made["city"] == "Rome")


@pytest.fixture(scope="module")
def fitted():
    return AnchoredRegressor(**QUICK).fit(frame(), target(frame()))


def test_every_kind_of_frame_is_the_same_table(fitted):
    made = frame(30, seed=1)
    expected = fitted.predict_interval(made)
    for other in (pl.from_pandas(made), pa.Table.from_pandas(made), as_table(made)):
        np.testing.assert_array_equal(fitted.predict_interval(other), expected)
    array = made.to_numpy(dtype=object)
    np.testing.assert_array_equal(fitted.predict_interval(array), expected)


def test_names_are_checked_as_scikit_learn_does(fitted):
    made = frame(10)
    assert list(fitted.feature_names_in_) == list(made.columns)
    assert fitted.n_features_in_ == 5
    with pytest.raises(ValueError, match="same order as they were in fit"):
        fitted.predict(made[made.columns[::-1]])
    with pytest.raises(ValueError, match="yet now missing"):
        fitted.predict(made.drop(columns="city"))
    # A `Table` is read from a file, whose columns may come in any order, among others.
    mixed = as_table(made[made.columns[::-1]].assign(more=1))
    np.testing.assert_array_equal(fitted.predict(mixed), fitted.predict(made))
    with pytest.raises(TableError, match="column 'size', row 1 must contain a number"):
        fitted.predict(made.assign(size="large"))


@pytest.mark.parametrize("kind", [AnchoredRegressor, AnchoredClassifier])
def test_scikit_learn_s_tools_take_frames(kind):
    made = frame()
    y = (
        target(made)
        if kind is AnchoredRegressor
        else (target(made) > 16).map({True: "a", False: "b"})
    )
    model = kind(**QUICK)
    assert np.isfinite(cross_val_score(model, made, y, cv=2)).all()
    search = GridSearchCV(model, {"hidden": [(4,), (6,)]}, cv=2).fit(made, y)
    assert search.best_estimator_.encoder_.names == tuple(made.columns)
    piped = make_pipeline(FunctionTransformer(lambda X: X.drop(columns="day")), clone(model))
    assert len(piped.fit(made, y).predict(made)) == len(made)


def test_a_frame_from_fit_to_file_and_back(fitted, tmp_path):
    path, made = tmp_path / "model.safetensors", frame(20, seed=2)
    fitted.save(path, held_out=(made, target(made)))
    after = anchored.load(path)
    assert list(after.feature_names_in_) == list(made.columns)
    np.testing.assert_array_equal(after.predict_interval(made), fitted.predict_interval(made))
    # Rows that were kept for a report are encoded already.
    x, y = after.held_out_
    np.testing.assert_array_equal(after.predict(x), fitted.predict(made))
    np.testing.assert_array_equal(y, target(made))
    light = runtime.load(path).predict_table(as_table(made))
    np.testing.assert_allclose(light["mean"], fitted.predict(made), rtol=1e-5)
    after.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_days_have_no_ramps():
    """A zigzag in a column is followed; one in time ends with the training rows."""
    made = frame(300)
    zigzag = np.sin(made["size"].fillna(50) / 3) + 0.001 * np.arange(300)
    model = AnchoredRegressor(hidden=(6,), n_members=2, epochs=2, random_state=0).fit(made, zigzag)
    ramped = {model.encoder_.feature_names[int(i)] for i in model.model_.x_ramps[0]}
    assert "size" in ramped
    assert "day: days" in model.encoder_.feature_names
    assert "day: days" not in ramped


def test_rows_of_weight_zero_do_not_shape_the_encoder():
    made = frame()
    made.loc[:39, "city"] = "Nowhere"
    weight = np.r_[np.zeros(40), np.ones(50)]
    weighted = AnchoredRegressor(**QUICK).fit(made, target(made), sample_weight=weight)
    alone = AnchoredRegressor(**QUICK).fit(made[40:], target(made[40:]))
    assert weighted.encoder_ == alone.encoder_
    np.testing.assert_array_equal(weighted.predict(made), alone.predict(made))


def test_a_memory_map_and_augmented_rows_are_regressed_too(tmp_path):
    """Rows that stay in a file give what rows in memory give, up to the order they come in."""
    rng = np.random.default_rng(0)
    made = np.memmap(tmp_path / "x", np.float32, "w+", shape=(300, 3))
    made[:] = rng.normal(size=made.shape)
    y = 2 * np.asarray(made[:, 0]) + 0.1 * rng.normal(size=300)
    quick = QUICK | {"epochs": 150}
    stays = AnchoredRegressor(**quick).fit(made, y)
    memory = AnchoredRegressor(**quick).fit(np.asarray(made), y)
    assert stays.score(made, y) > 0.98
    assert memory.score(made, y) > 0.98
    np.testing.assert_allclose(stays.noise_var_, memory.noise_var_, rtol=0.5)
    np.testing.assert_allclose(stays.predict(made), stays.predict(np.asarray(made)), rtol=1e-5)
    seen = []

    def jitter(rng, x):
        seen.append(len(x))
        return x + 0.01 * rng.normal(size=x.shape)

    augmented = AnchoredRegressor(**quick | {"epochs": 5}, augment=jitter).fit(np.asarray(made), y)
    assert len(seen) > 10
    assert np.isfinite(augmented.predict(made)).all()
