"""explain: beside closed forms, beside shap, and its words."""

import numpy as np
import pandas as pd
import pytest

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor, ConvNet
from anchored.estimators import explaining

QUICK = {"n_members": 3, "epochs": 40, "hidden": (8,), "random_state": 0, "prior": 2.0}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "area": rng.uniform(20, 150, 60),
            "heating": rng.choice(["gas", "electric", "oil"], 60),
            "lift": rng.choice(["yes", "no"], 60),
        }
    )
    return made, 2 * made["area"] + 20 * (made["heating"] == "gas") + rng.normal(size=60)


@pytest.fixture(scope="module")
def fitted(frame):
    return AnchoredRegressor(**QUICK, noise_var=1.0).fit(*frame)


def test_effects_add_up_to_the_prediction_and_to_the_variance(fitted, frame):
    rows = frame[0][:4]
    found, dist = fitted.explain(rows), fitted.predict_dist(rows)
    for effects, value in (
        (found.mean, dist.mean),
        (found.epistemic, dist.epistemic_var),
        (found.aleatoric, dist.aleatoric_var),
    ):
        np.testing.assert_allclose(effects.value[:, 0], value, rtol=1e-5)
        whole = effects.usual + effects.by_column.sum(axis=1)
        np.testing.assert_allclose(whole, effects.value, rtol=1e-9)
        assert effects.by_column.shape == (4, 3, 1)  # columns of the table, not features
    total = sum(e.usual[0] + e.by_column[..., 0].sum(1) for e in (found.epistemic, found.aleatoric))
    np.testing.assert_allclose(total, dist.variance, rtol=1e-5)


def test_linear_models_have_their_closed_form(rng):
    """Mean: w_i (x_i - E b_i). Variance: of each pair of columns, half of each order."""
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=60)
    given = QUICK | {"hidden": (), "n_members": 4}
    model = AnchoredRegressor(**given, noise_var=0.01).fit(X, y)
    row, background = X[:1], X[: explaining.N_BACKGROUND]
    found = model.explain(row, background=background)
    members, scale = model.model_.members, model.model_.regression.scale[0]
    weight = scale * members.params["0/weight"][..., 0].astype(np.float64)
    x, b = model._standardised(row)[0], model._standardised(background)
    slope = weight.mean(axis=0)
    np.testing.assert_allclose(found.mean.by_column[0, :, 0], slope * (x - b.mean(0)), atol=1e-3)
    bias = scale * members.params["0/bias"].astype(np.float64)
    joint = np.cov(np.column_stack([weight, bias]).T)
    x1, b1 = np.append(x, 1.0), np.column_stack([b, np.ones(len(b))])
    mean, square = b1.mean(axis=0), b1.T @ b1 / len(b1)
    expected = np.zeros(3)
    for i in range(3):
        expected[i] = joint[i, i] * (x[i] ** 2 - square[i, i])
        for k in range(4):
            if k != i:
                first = x1[i] * mean[k] - square[i, k]
                last = x1[i] * x1[k] - mean[i] * x1[k]
                expected[i] += joint[i, k] * (first + last)
    tolerance = 1e-3 * np.abs(expected).max()
    np.testing.assert_allclose(found.epistemic.by_column[0, :, 0], expected, atol=tolerance)


@pytest.mark.slow
def test_a_small_network_agrees_with_shap(rng):
    """Where its own sampling is exact: all 2^4 coalitions of four columns."""
    shap = pytest.importorskip("shap")
    X = rng.normal(size=(50, 4))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])
    model = AnchoredRegressor(**QUICK, noise_var=0.05).fit(X, y)
    background = X[:20]
    found = model.explain(X[:2], background=background, n_paths=4_000)

    def both(rows):
        dist = model.predict_dist(rows)
        return np.stack([dist.mean, dist.epistemic_var], axis=1)

    theirs = shap.KernelExplainer(both, background).shap_values(X[:2], silent=True)
    for i, effects in enumerate((found.mean, found.epistemic)):
        error = np.maximum(effects.error[..., 0], 1e-9)
        assert np.all(np.abs(effects.by_column[..., 0] - theirs[..., i]) < 5 * error + 1e-4)
        assert np.abs(theirs[..., i]).max() > 20 * error.max()


def test_strange_cells_are_named(fitted, frame):
    rows = frame[0][:3].copy()
    rows.loc[0, "heating"] = "wood"
    rows.loc[1, "area"] = 900.0
    found = fitted.explain(rows)
    assert found.unusual[0] == ("heating=wood is in no known row",)
    assert found.unusual[1][0].startswith("area=900 is ")
    assert "deviations above the largest known" in found.unusual[1][0]
    assert found.unusual[2] == ()
    assert found.nearest.rows[2, 0] == 2  # a training row is nearest to itself
    assert found.nearest.distance[2, 0] == 0
    assert found.nearest.targets[2, 0] == frame[1][2]
    assert found.columns[found.mean.largest(1)[0][0]] == "area"


def test_its_words(fitted, frame):
    said = str(fitted.explain(frame[0][:2]))
    first, second = said.split("\n\n")
    assert first.startswith("Row 0: ")
    for words in ("prediction", "epistemic variance", "aleatoric variance", "nearest known rows"):
        assert words in first
    assert "heating=" in second


def test_classes_and_files(frame, tmp_path):
    X, y = frame
    model = AnchoredClassifier(**QUICK).fit(X, y > y.median())
    found, dist = model.explain(X[:2]), model.predict_dist(X[:2])
    np.testing.assert_allclose(found.mean.value, dist.probabilities, rtol=1e-5)
    np.testing.assert_allclose(found.epistemic.value[:, 0], dist.mutual_information, rtol=1e-3)
    np.testing.assert_allclose(found.mean.by_column.sum(axis=-1), 0, atol=1e-9)
    assert "with probability" in found.text(0)
    model.save(tmp_path / "without")
    with pytest.raises(ValueError, match="no rows to compare with"):
        anchored.load(tmp_path / "without").explain(X[:1])
    given = anchored.load(tmp_path / "without").explain(X[:1], background=X)
    np.testing.assert_allclose(given.mean.by_column, found.mean.by_column[:1], atol=1e-5)
    model.save(tmp_path / "with", held_out=(X[:30], y[:30] > y.median()))
    assert "is in no known row" not in str(anchored.load(tmp_path / "with").explain(X[:1]))


@pytest.mark.slow
def test_images_are_refused(rng):
    X, y = rng.normal(size=(12, 6, 6, 1)), np.arange(12) % 2
    model = AnchoredClassifier(
        network=ConvNet((2,), n_outputs=2), n_members=2, epochs=1, prior=1.0, random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="`X` must be rows of a table"):
        model.explain(X[:1])
