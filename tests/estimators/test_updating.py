"""partial_fit and warm_start: members go on from where they are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.core.rows import Standardiser
from anchored.error_bars.folds import Folds, extended
from anchored.estimators import updating
from anchored.estimators.kept import Known, Scores

QUICK = {"n_members": 2, "epochs": 60, "hidden": (10,), "random_state": 0, "prior": 2.0}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, 3 * X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def grown():
    """A model of 60 rows and 20 more, and its state before and after."""
    X, y = rows(80)
    model = AnchoredRegressor(**QUICK).partial_fit(X[:60], y[:60])
    before = model._kept
    model.partial_fit(X[60:], y[60:])
    return model, before


def test_members_of_a_linear_model_are_those_of_all_rows():
    """Each is the minimum of its own loss on all rows, whose gradient is zero in closed form."""
    X, y = rows(100)
    given = QUICK | {"hidden": (), "method": "anchored", "noise_var": 0.04}
    model = AnchoredRegressor(**given).partial_fit(X[:70], y[:70])
    for start in range(70, 100, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
        assert model.update_.retuned == ""
    part, record = model.model_.regression, model.model_
    design = np.column_stack([record.standardised(X), np.ones(100)])
    target = (y - part.mean[0]) / part.scale[0]
    scales = np.append(record.prior_scale["0/weight"][:, 0], record.prior_scale["0/bias"])
    left = design.T @ design / part.training_noise_var[0] + np.diag(scales**-2.0)
    for j in range(2):
        centre = np.append(
            record.members.centres["0/weight"][j], record.members.centres["0/bias"][j]
        )
        right = design.T @ target / part.training_noise_var[0] + centre / scales**2
        found = np.append(record.members.params["0/weight"][j], record.members.params["0/bias"][j])
        np.testing.assert_allclose(found, np.linalg.solve(left, right), atol=1e-4)


def test_an_update_keeps_what_is_random_and_fixed(grown):
    model, before = grown
    after = model._kept
    for a, b in zip((before.ensemble, before.others), (after.ensemble, after.others), strict=True):
        for layer, same in zip(a.centres, b.centres, strict=True):
            np.testing.assert_array_equal(layer["weight"], same["weight"])
    n = len(before.prepared.rows.y)
    np.testing.assert_array_equal(after.prepared.rows.x[:n], before.prepared.rows.x)
    np.testing.assert_array_equal(after.prepared.folds.of_row[:n], before.prepared.folds.of_row)
    assert after.prepared.model.data.total_weight == 80  # the penalty's N
    assert model.model_.n_rows == 80
    update = model.update_
    assert (update.n_new, update.n_rows, update.retuned) == (20, 80, "")
    assert 0 < update.n_steps < 60


def test_new_rows_are_learned_and_calibration_follows(grown):
    """New rows are told from held-out ones, and the noise is learned from all 80 rows."""
    model, before = grown
    X, _ = rows(80)
    assert np.count_nonzero(~np.isnan(model._kept.prepared.targets.learned[0].unseen)) == 80
    loss_before = np.mean((before.ensemble.outputs(model._standardised(X[60:])).mean(0)[:, 0]
                           - model._kept.prepared.rows.y[60:, 0]) ** 2)  # fmt: skip
    loss_after = np.mean((model.ensemble_.outputs(model._standardised(X[60:])).mean(0)[:, 0]
                          - model._kept.prepared.rows.y[60:, 0]) ** 2)  # fmt: skip
    assert loss_after < loss_before


@pytest.mark.slow
def test_half_as_many_rows_again_are_fitted_as_a_fresh_fit_would():
    X, y = rows(60)
    model = AnchoredRegressor(**QUICK).partial_fit(X[:40], y[:40])
    assert model.partial_fit(X[40:59], y[40:59]).update_.retuned == ""
    model.partial_fit(X[59:], y[59:])
    assert model.update_.retuned == "rows grew"
    fresh = AnchoredRegressor(**QUICK).fit(X, y)
    np.testing.assert_allclose(model.predict(X), fresh.predict(X), rtol=1e-3, atol=1e-3)


def test_a_drift_calls_for_a_new_fit(grown):
    model, _ = grown
    X, y = rows(25, seed=1)
    moved = clone(model).partial_fit(*rows(60))
    moved.partial_fit(X, y + 5.0)
    assert moved.update_.retuned == "drift"
    steady = Scores(60, -1.0, 0.5)
    assert not updating._drifted(steady, Scores(1000, -1.05, 0.5))  # too small to matter
    assert not updating._drifted(steady, Scores(25, -1.4, 0.5))  # within chance
    assert updating._drifted(steady, Scores(200, -1.8, 0.5))


def test_scores_are_joined_as_if_they_had_come_at_once(rng):
    values = rng.normal(size=50)
    joined = Scores.of(values[:20]).joined(Scores.of(values[20:]))
    np.testing.assert_allclose(joined, (50, values.mean(), values.var()))
    assert Scores().joined(Scores.of(values)) == Scores.of(values)


@pytest.mark.slow
def test_changed_settings_fit_all_rows_anew(grown):
    model = clone(grown[0]).partial_fit(*rows(60))
    model.set_params(hidden=(5,)).partial_fit(*rows(5, seed=1))
    assert model.update_.retuned == "settings changed"
    assert model.ensemble_.network.hidden == (5,)
    assert model.model_.n_rows == 65


def test_warm_start_goes_on_with_the_rows_it_is_given():
    X, y = rows(80)
    model = AnchoredRegressor(**QUICK, warm_start=True).fit(X[:60], y[:60])
    first = model._kept
    model.fit(X[5:70], y[5:70])  # five rows left out, ten new
    assert (model.update_.n_new, model.update_.retuned) == (10, "")
    kept = model._kept.prepared.rows
    assert np.count_nonzero(kept.weight) == 65 == model.model_.n_rows
    n = len(first.prepared.rows.y)
    np.testing.assert_array_equal(kept.x[:n], first.prepared.rows.x)  # each has its place
    np.testing.assert_array_equal(
        model._kept.prepared.folds.of_row[:n], first.prepared.folds.of_row
    )
    assert model.fit(X[:60], y[:60]).update_.n_new == 0  # the rows there were, at weight again
    assert model.fit(X[:, :1], y).n_features_in_ == 1  # other columns: from the beginning


def test_warm_start_needs_half_of_the_earlier_rows():
    X, y = rows(80)
    model = AnchoredRegressor(**QUICK, warm_start=True).fit(X[:60], y[:60])
    assert model.fit(X[28:70], y[28:70]).update_.retuned == ""  # 32 of the 60, and 10 others
    model = clone(model).fit(X[:60], y[:60])
    assert model.fit(X[32:70], y[32:70]).update_.retuned == "few of the earlier rows are left"


def test_classes_are_told_in_the_first_call():
    X, y = rows(60)
    labels = np.where(y > 0, "up", "down")
    model = AnchoredClassifier(**QUICK)
    model.partial_fit(X[:45], labels[:45], classes=["down", "level", "up"])
    model.partial_fit(X[45:], labels[45:])
    assert model.update_.retuned == ""
    assert model.classes_.tolist() == ["down", "level", "up"]
    assert model.predict_proba(X).shape == (60, 3)
    assert np.mean(model.predict(X) == labels) > 0.8
    with pytest.raises(ValueError, match="`y` has the label 'odd', which is not among"):
        model.partial_fit(X[:2], ["odd", "up"])
    with pytest.raises(ValueError, match="`classes` must be those of the first call"):
        model.partial_fit(X[:2], labels[:2], classes=["down", "up"])


def test_tables_groups_and_weights_come_in_parts():
    X, y = rows(50)
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "high", "low")})
    frame.loc[:1, "b"] = "rare"
    groups = np.arange(50) // 5
    model = AnchoredRegressor(**QUICK)
    model.partial_fit(frame[:40], y[:40], np.ones(40), groups[:40])
    later = frame[40:].copy()
    later.loc[45, "b"] = "new level"
    weight = np.r_[np.zeros(2), np.ones(8)]
    model.partial_fit(later, y[40:], weight, np.r_[[0] * 5, [99] * 5])
    assert model.update_.n_new == 8
    kept = model._kept
    folds = kept.prepared.folds.of_row
    assert len(set(folds[kept.prepared.rows.groups == 0])) == 1  # a known group stays together
    assert len(set(folds[-5:])) == 1
    assert kept.known.n_rows == 50
    assert kept.known.x.columns["b"][45] == "new level"
    with pytest.raises(ValueError, match="`groups` must be given for all rows or for none"):
        model.partial_fit(frame[:5], y[:5])


@pytest.mark.parametrize("rare", [True, False])
def test_members_are_not_trained_on_the_feature_of_new_levels(rare):
    """It stands for doubt: a new level is taken for a rare one, or all rows are fitted again."""
    X, y = rows(50)
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "high", "low")})
    frame.loc[40, "b"] = "new level"
    if rare:
        frame.loc[:1, "b"] = "rare"
    model = AnchoredRegressor(**QUICK).partial_fit(frame[:40], y[:40])
    model.partial_fit(frame[40:], y[40:])
    assert model.update_.retuned == ("" if rare else "new levels")
    trained = model._kept.prepared.rows.x[:, : model.model_.n_features]
    assert len(trained) == 50
    assert np.all(trained[:, model.encoder_.new] == 0)
    never = model._standardised(frame[:1].assign(b="never seen"))
    assert np.all(never[0, : model.model_.n_features][model.encoder_.new] == 1)


def test_what_cannot_be_added_to_says_so(grown, tmp_path):
    model, _ = grown
    X, y = rows(10)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="no training rows to add to: it came from a file"):
        anchored.load(tmp_path / "model").partial_fit(X, y)
    with pytest.raises(ValueError, match=r"`y` must have the shape \(10,\)"):
        model.partial_fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="X has 1 features"):
        model.partial_fit(X[:, :1], y)
    stays = AnchoredRegressor(**QUICK, noise_var=0.1, augment=lambda rng, x: x).fit(X, y)
    with pytest.raises(ValueError, match="`augment` changes rows"):
        stays.partial_fit(X, y)


def test_a_copy_does_not_share_updates(grown):
    """`clone` forgets rows; get_params has the new parameter."""
    model = clone(grown[0])
    assert not hasattr(model, "model_")
    assert model.get_params()["warm_start"] is False


def test_thinned_rows_weigh_as_much(rng):
    known = Known.of(rng.normal(size=(40, 2)), np.arange(40.0), np.arange(1.0, 41.0))
    some = known.thinned(10)
    assert some.n_rows == 10
    assert some.weight.sum() == pytest.approx(known.weight.sum())
    np.testing.assert_array_equal(some.x, known.x[some.y.astype(int)])


def test_new_rows_are_shared_out_among_folds():
    several = Folds(np.arange(12) % 3, np.repeat(np.arange(3), 2))
    assert np.bincount(extended(several, 6).of_row).tolist() == [6, 6, 6]
    many = Folds(np.where(np.arange(100) < 20, 0, Folds.IN_NONE), np.zeros(4, int))
    assert np.sum(extended(many, 50).of_row[100:] == 0) == 10


def test_targets_are_standardised_as_before():
    scaler = Standardiser(np.array([1.0]), np.array([2.0]))
    from anchored.estimators.targets import Targets

    np.testing.assert_array_equal(
        Targets(True, None, scaler, True, 1).forward(np.array([[5.0]])), 2
    )
