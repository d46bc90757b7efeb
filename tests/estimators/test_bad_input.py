"""Bad input: each a message that names the argument, what was got and the repair."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from anchored import MLP, AnchoredClassifier, AnchoredRegressor, TextCNN

QUICK = {"n_members": 2, "epochs": 20, "hidden": (4,), "random_state": 0}
X = np.random.default_rng(0).normal(size=(20, 3))
Y = X[:, 0].copy()
LABELS = (Y > 0).astype(int)


def spoiled(array, value):
    out = array.copy()
    out.flat[4] = value
    return out


def both(X_bad, y=Y, labels=LABELS):
    return [
        lambda: AnchoredRegressor(**QUICK).fit(X_bad, y),
        lambda: AnchoredClassifier(**QUICK).fit(X_bad, labels),
    ]


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (both(spoiled(X, np.nan)), "Input X contains NaN"),
        (both(spoiled(X, np.inf)), "Input X contains infinity"),
        (both(X[:0], Y[:0], LABELS[:0]), "Found array with 0 sample"),
        (both(X[:, :0]), "Found array with 0 feature"),
        (both(X[:1], Y[:1], LABELS[:1]), "Found array with 1 sample.* minimum of 2 is required"),
        (both(X[:-1]), "inconsistent numbers of samples"),
        (both(X[:, 0]), "Expected 2D array, got 1D array instead"),
        (both(np.array([["a", "b"]] * 20)), "dtype|could not convert string"),
        (
            both(pd.DataFrame({"name": [f"row {i}" for i in range(20)], "city": ["Rome"] * 20})),
            r"no column is left to predict from: 'name' \(identifier.*'city' \(constant\)",
        ),
    ],
)
def test_bad_tables(calls, message):
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_targets(value):
    with pytest.raises(ValueError, match="Input y contains"):
        AnchoredRegressor(**QUICK).fit(X, spoiled(Y, value))


def test_labels_must_be_classes():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        AnchoredClassifier(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=r"`y` must have at least 2 classes .* got one class"):
        AnchoredClassifier(**QUICK).fit(X, np.zeros(20, int))
    with pytest.raises(ValueError, match="at least 2 classes"):
        AnchoredClassifier(**QUICK).fit(X, LABELS, sample_weight=LABELS)


@pytest.mark.parametrize("make", [AnchoredRegressor, AnchoredClassifier])
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(20), "Negative values"),
        (np.zeros(20), "Sample weights must contain at least one non-zero"),
        (np.full(20, np.nan), "sample_weight contains NaN"),
        (np.ones(19), r"sample_weight.shape == \(19,\), expected \(20,\)"),
    ],
)
def test_bad_weights(make, weight, message):
    with pytest.raises(ValueError, match=message):
        make(**QUICK).fit(X, LABELS, sample_weight=weight)


@pytest.mark.parametrize("make", [AnchoredRegressor, AnchoredClassifier])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"activation": "rellu"}, r"`activation` must be one of .*Did you mean 'relu'\?"),
        ({"method": "ancored"}, r"`method` must be one of .*Did you mean 'anchored'\?"),
        ({"hidden": (0,)}, "`hidden` must be a positive whole number; got 0"),
        ({"hidden": "wide"}, "`hidden` must be \"auto\", a width or several; got 'wide'"),
        ({"n_members": 0}, "`n_members` must be a positive whole number; got 0"),
        ({"n_members": 2.5}, "`n_members` must be a positive whole number; got 2.5"),
        ({"epochs": -1}, "`epochs` must be a positive whole number; got -1"),
        ({"batch_size": "big"}, "`batch_size` must be a positive whole number; got 'big'"),
        ({"learning_rate": 0}, '`learning_rate` must be a positive number or "auto"; got 0'),
        ({"decay_rate": 2.0}, "`decay_rate` must be above 0 and at most 1; got 2.0"),
        (
            {"prior": -3.0},
            '`prior` must be "auto", a positive number, a `Prior` or a dict .*got -3.0',
        ),
        ({"prior": "wide"}, '`prior` must be "auto", a positive number, a `Prior` or a dict'),
    ],
)
def test_bad_settings(make, changed, message):
    with pytest.raises(ValueError, match=message):
        make(**QUICK | changed).fit(X, LABELS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise_var": -1.0}, "`noise_var` must be positive and finite; got -1.0"),
        ({"noise_var": 0.0}, "`noise_var` must be positive and finite; got 0.0"),
        ({"noise_var": "low"}, '`noise_var` must be "auto" or positive; got'),
        ({"noise_var": [1.0, 2.0, 3.0]}, "`noise_var` must be one number or 1 of them"),
        ({"predictive": "normal"}, "`predictive` must be one of gaussian, student-t"),
        ({"method": "deep", "noise_var": 0.5}, "`noise_var` must be .*'deep' learns the noise"),
        ({"network": MLP((4,), 3)}, "`network` must have 1 outputs for this `y` and `method`"),
        ({"network": MLP}, "`network` must be a `Network` such as MLP"),
        ({"network": "mlp"}, "`network` must be a `Network` such as MLP"),
    ],
)
def test_bad_regression_settings(changed, message):
    with pytest.raises(ValueError, match=message):
        AnchoredRegressor(**QUICK | changed).fit(X, Y)


def test_unknown_method_of_classes():
    with pytest.raises(ValueError, match="`method` must be one of anchored, regularised"):
        AnchoredClassifier(**QUICK, method="bagging").fit(X, LABELS)


def test_words_outside_the_vocabulary():
    tokens = np.arange(60).reshape(20, 3)
    model = AnchoredClassifier(**QUICK, network=TextCNN(30, 2, 2, 2, 4, 2))
    with pytest.raises(ValueError, match="`X` must contain whole numbers from 0 to 29"):
        model.fit(tokens, LABELS)


def test_networks_must_fit_the_classes():
    with pytest.raises(ValueError, match=r"`network` must have 2 outputs .* it has 5"):
        AnchoredClassifier(**QUICK, network=MLP((4,), 5)).fit(X, LABELS)


def test_targets_beyond_double_precision():
    with pytest.raises(ValueError, match=r"`y` has a deviation of .* give it in other units"):
        AnchoredRegressor(**QUICK).fit(X, Y * 1e200)


def test_wrong_columns_at_predict():
    model = AnchoredRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but AnchoredRegressor is expecting 3"):
        model.predict(X[:, :2])
    assert np.isfinite(model.predict(np.full((1, 3), 1e300))).all()  # beyond reach
    with pytest.raises(ValueError, match="`coverage` must be a number between 0 and 1"):
        model.predict_interval(X, coverage=95)


@pytest.mark.parametrize(
    ("X_odd", "y_odd"),
    [
        (np.column_stack([X, np.ones(20)]), Y),  # constant column
        (np.ones((20, 2)), Y),  # nothing to learn from
        (np.random.default_rng(1).normal(size=(10, 40)), Y[:10]),  # more columns than rows
        (X * 1e12, Y * 1e12),
        (X * 1e-12, Y * 1e-12),
        (X + 1e12, Y + 1e12),
        (X.astype(np.float32), Y.astype(np.float32)),
        (np.round(X).astype(int), np.round(Y).astype(int)),
        (np.repeat(X[:2], 10, axis=0), np.repeat(Y[:2], 10)),  # two distinct rows
    ],
)
def test_odd_but_legal_data_gives_finite_answers(X_odd, y_odd):
    model = AnchoredRegressor(**QUICK).fit(X_odd, y_odd)
    mean, std = model.predict(X_odd, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert np.isfinite(model.predict_interval(X_odd)).all()
    labels = np.arange(len(X_odd)) % 2
    assert np.isfinite(AnchoredClassifier(**QUICK).fit(X_odd, labels).predict_proba(X_odd)).all()


def test_a_constant_target_is_said_and_repeated():
    with pytest.warns(UserWarning, match=r"`y` is constant \(3\): there is nothing to learn"):
        model = AnchoredRegressor(**QUICK | {"epochs": 2000}).fit(X, np.full(20, 3.0))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 3.0, atol=0.05)
    assert np.all((std > 0) & (std < 0.1))


@pytest.mark.filterwarnings("ignore:`y` is constant")
@settings(max_examples=25)
@given(
    arrays(np.float64, (12, 2), elements=st.floats(-1e15, 1e15)),
    arrays(np.float64, 12, elements=st.floats(-1e15, 1e15)),
)
def test_any_finite_table_gives_finite_answers(X_any, y_any):
    model = AnchoredRegressor(**QUICK, noise_var="auto", prior=1.0).fit(X_any, y_any)
    mean, std = model.predict(X_any, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
