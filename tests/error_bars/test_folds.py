"""Rows held out, and what is done when the members that should predict them diverge."""

import jax
import numpy as np
import pytest

from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.core.loss import Folds
from anchored.error_bars.folds import plan_folds, predict_held_out, without_rows
from anchored.errors import DroppedMemberWarning, HealthWarning
from anchored.estimators import base
from tests.core.test_ensembles import Explosive

# Members of the ensemble itself diverge too, which has a warning of its own.
pytestmark = pytest.mark.filterwarnings("ignore::anchored.errors.DroppedMemberWarning")
SETTINGS = {"n_members": 6, "epochs": 20, "prior": 5.0, "random_state": 1}


def rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


def test_groups_stay_together():
    groups = np.repeat(np.arange(20), 5)
    folds = plan_folds(100, groups, 5, 3, 8, 5_000)
    for group in range(20):
        assert len(set(folds.of_row[groups == group])) == 1
    assert plan_folds(100, np.zeros(100), 5, 3, 8, 5_000) is None
    many = plan_folds(100, groups, 5, 3, 8, many_rows=50)
    assert set(many.of_row) == {Folds.IN_NONE, 0}


def test_every_class_is_in_every_part_that_is_trained_on(rng):
    """A class of two rows or more has one in the rows of each fold's members; folds are even."""
    labels = rng.permutation(np.repeat([0, 1, 2, 3], [2, 3, 6, 9]))
    folds = plan_folds(20, None, 5, 3, 8, 5_000, labels=labels)
    for fold in range(5):
        assert set(labels[folds.of_row != fold]) == {0, 1, 2, 3}
        assert np.sum(folds.of_row == fold) == 4
        for label, n in ((2, 6), (3, 9)):
            held = np.sum(labels[folds.of_row == fold] == label)
            assert n // 5 <= held <= n // 5 + 1


def test_too_few_rows_are_not_held_out():
    assert plan_folds(9, None, 10, 3, 8, 5_000) is None
    assert plan_folds(10, None, 10, 3, 8, 5_000).of_row.tolist() == list(range(10))


@pytest.fixture
def one_again(monkeypatch):
    """Folds try member 0 again, which diverged on all rows; by themselves they take the others."""

    def with_one(key, model, members, folds, **how):
        return without_rows(key, model, (0, 1, 5), folds, **how)

    monkeypatch.setattr(base, "without_rows", with_one)


def test_folds_take_the_members_that_are_left():
    """One of each pair of opposite noise before the other, in each fold the same."""
    taken = {}

    def fit(key, *model, members, folds, **how):
        taken.update(members=members)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anchored.error_bars.folds.fit_ensemble", fit)
        folds = Folds(np.arange(4) % 2, np.repeat([0, 1], 4))
        without_rows(None, (), (0, 1, 3, 4, 5), folds)
    assert taken["members"] == [0, 4, 1, 3, 0, 4, 1, 3]


@pytest.mark.parametrize("kind", [AnchoredRegressor, AnchoredClassifier])
def test_fold_members_that_diverge_leave_the_work_to_the_others(kind, one_again):
    X, y = rows()
    y = y if kind is AnchoredRegressor else y > 0
    n_outputs = 1 if kind is AnchoredRegressor else 2
    model = kind(**SETTINGS, network=Explosive((8,), n_outputs))
    with pytest.warns(DroppedMemberWarning, match="networks trained on parts of the rows"):
        model.fit(X, y)
    if kind is AnchoredRegressor:
        assert model.model_.regression.noise is not None
        assert model.predict_dist(X).conformal is not None
    else:
        assert model.temperature_ != 1.0


def test_survivors_speak_for_their_fold():
    """Members 1 and 4 of two folds of three are gone: each fold speaks with one member less."""

    class Others:
        member_ids = (0, 2, 3, 5)

        def take(self, index):
            taken = Others()
            taken.taken = [self.member_ids[i] for i in index]
            return taken

        def outputs(self, x):
            return np.array([np.full((len(x), 1), j) for j in self.taken])

    folds = Folds(np.arange(10) % 2, np.repeat([0, 1], 3))
    held = predict_held_out(Others(), folds, np.zeros((10, 2)), least=2)
    assert held.rows.tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    assert held.outputs[:, 0, 0].tolist() == [0, 2]
    assert held.outputs[:, 5, 0].tolist() == [3, 5]
    assert predict_held_out(Others(), folds, np.zeros((10, 2)), least=3) is None


def test_nothing_is_dropped_in_silence(monkeypatch, one_again):
    """If no fold is left, a warning says what the noise is learned from instead."""
    from anchored.estimators import regression

    monkeypatch.setattr(regression, "_LEAST_SPREAD", 99)
    X, y = rows()
    with pytest.warns(HealthWarning, match="Too few remain to predict held-out rows"):
        model = AnchoredRegressor(**SETTINGS, network=Explosive((8,))).fit(X, y)
    assert model.model_.regression.noise is None


def test_of_many_rows_members_continue_from_what_they_were_without_the_fold(monkeypatch):
    """Each from itself, for a third of the steps; a member that diverged makes all start anew."""
    calls = []
    fit_ensemble = base.fit_ensemble

    def seen(*args, **how):
        calls.append(how)
        return fit_ensemble(*args, **how)

    monkeypatch.setattr(base, "fit_ensemble", seen)
    monkeypatch.setattr(AnchoredRegressor, "_matrix_rows", 50)
    monkeypatch.setattr("anchored.tuning.MANY_ROWS", 50)
    held_out = []
    monkeypatch.setattr(base, "without_rows", lambda *a, **k: kept(without_rows(*a, **k)))

    def kept(others):
        held_out.append(others)
        return others

    model = AnchoredRegressor(hidden=8, n_members=4, epochs=30, prior=5.0, random_state=0)
    model.fit(*rows(100))
    (others,), (how,) = held_out, calls
    assert others.n_members == 4
    assert how["schedule"].rule == "muon"
    assert how["schedule"].n_steps(100) == 10 == -(-30 // 3)
    # Members 0, 2, 1, 3 are in the fold, in this order.
    trees = how["start"], others.params, model.ensemble_.centres, others.centres
    for start, other, centre, own in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_array_equal(start, np.asarray(other)[[0, 2, 1, 3]])
        np.testing.assert_array_equal(centre, np.asarray(own)[[0, 2, 1, 3]])
    network = Explosive((8,))
    dropped = AnchoredRegressor(network=network, **SETTINGS | {"n_members": 8})
    monkeypatch.setattr(AnchoredRegressor, "_has_twin", lambda self: True)
    with pytest.warns(DroppedMemberWarning):
        dropped.fit(*rows(100))
    assert "start" not in calls[-1]
