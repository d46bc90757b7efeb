"""Short trials on held-out rows choose the prior of classes, and the depth of their network."""

import jax
import numpy as np
import pytest
from sklearn.base import clone

from anchored import AnchoredClassifier
from anchored.core.loss import Folds
from anchored.core.training import Schedule
from anchored.estimators import trials


def rings(n: int, noise: float, seed: int = 0):
    """Two classes: near the origin or not, with labels that are wrong at a rate ``noise``."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.square(x).sum(axis=1) > 1.4
    return x, np.where(rng.random(n) < noise, ~y, y).astype(int)


def made(monkeypatch, x, y, **given):
    """The estimator after its fit, and the candidates it tried."""
    tried = []
    original = trials._losses

    def noted(key, candidate, folds, **how):
        losses = original(key, candidate, folds, **how)
        tried.append((candidate, losses))
        return losses

    monkeypatch.setattr(trials, "_losses", noted)
    model = AnchoredClassifier(n_members=2, random_state=0, **given).fit(x, y)
    return model, tried


def test_the_candidate_of_least_held_out_loss_is_fitted(monkeypatch):
    x, y = rings(600, noise=0.2)
    model, tried = made(monkeypatch, x, y, epochs=20)
    assert [(c.widths, c.share) for c, _ in tried] == [
        (None, 1.0),
        (None, 0.2),
        ((), 1.0),
        ((50, 50), 0.04),
        ((50, 50), 2.0),
    ]
    shared = [float(c.model.prior.scale[0]["bias"][0]) ** 2 for c, _ in tried if c.widths != ()]
    assert shared == pytest.approx([shared[0] * share for share in (1, 0.2, 0.04, 2)], rel=1e-5)
    chosen = tried[0]
    for other in tried[1:]:
        gain = (chosen[1] - other[1])[np.isfinite(other[1])]
        if gain.mean() > gain.std() / np.sqrt(len(gain)):
            chosen = other
    widths = chosen[0].widths
    assert model.ensemble_.network.hidden == ((50,) if widths is None else widths)
    scale = np.asarray(model.prior_.scale[0]["bias"])
    np.testing.assert_allclose(scale, np.asarray(chosen[0].model.prior.scale[0]["bias"]))


def test_every_candidate_is_judged_by_the_same_fifth_of_the_rows(monkeypatch):
    x, y = rings(500, noise=0.1)
    _, tried = made(monkeypatch, x, y, epochs=5)
    held = [np.isfinite(losses) for _, losses in tried]
    assert all(np.array_equal(held[0], other) for other in held)
    assert held[0].sum() == 100


@pytest.mark.parametrize(
    ("given", "n_tried"),
    [({"hidden": 20}, 2), ({"prior": 3.0}, 0)],
    ids=["a given network has its prior chosen", "a given prior leaves nothing to choose"],
)
def test_what_is_given_is_not_chosen(monkeypatch, given, n_tried):
    x, y = rings(500, noise=0.1)
    _, tried = made(monkeypatch, x, y, epochs=5, **given)
    assert len(tried) == n_tried


def test_a_fit_takes_as_many_steps_as_a_trial_unless_they_are_given(monkeypatch):
    x, y = rings(500, noise=0.1)
    judged = []
    monkeypatch.setattr(trials, "best", lambda key, first, *more: judged.append(first) or first)
    model = AnchoredClassifier(n_members=2, epochs=5, random_state=0).fit(x, y)
    assert model.ensemble_.info.steps[-1] == 5 * (500 // 64)
    model = AnchoredClassifier(n_members=2, random_state=0).fit(x, y)
    trial = trials.shorter(judged[-1].schedule, 500)
    assert model._schedule(500).n_steps(500) == pytest.approx(trial.n_steps(500), rel=0.01)
    assert model.ensemble_.info.steps[-1] == model._schedule(500).n_steps(500)


def test_few_rows_try_nothing(monkeypatch):
    x, y = rings(trials.LEAST_ROWS - 1, noise=0.1)
    assert made(monkeypatch, x, y, epochs=5)[1] == []


def test_rows_of_one_group_try_nothing_and_take_all_steps():
    x, y = rings(500, noise=0.1)
    fresh = AnchoredClassifier(hidden=(5,), n_members=2, random_state=0)
    model = clone(fresh).fit(x, y, groups=np.zeros(500))
    assert model.ensemble_.info.steps[-1] == fresh._schedule(500).n_steps(500)


def test_a_gain_below_its_standard_error_changes_nothing():
    rng = np.random.default_rng(0)
    folds = Folds(np.zeros(400, int), np.zeros(5, int))
    rows = trials.Rows(np.zeros((400, 1)), np.zeros((400, 1)), np.ones(400), None, None)
    other = trials.Candidate(None, rows, Schedule(), None, 1.0)
    losses, noise = np.ones(400), rng.normal(size=400)
    noise -= noise.mean()
    error = noise.std() / 20
    assert not trials._clearly_less(losses - 0.9 * error + noise, losses, folds, other)
    assert trials._clearly_less(losses - 1.1 * error + noise, losses, folds, other)


def test_a_trial_has_half_of_the_steps_and_the_same_last_rate():
    usual = Schedule.of_steps(10_000, 640, 64, 0.03)
    trial = trials.shorter(usual, 640)
    assert trial.n_steps(640) == usual.n_steps(640) // 2
    ends = [s.decay_rate ** (s.n_steps(640) / 20) for s in (usual, trial)]
    assert ends[0] == pytest.approx(ends[1], rel=0.02)


def test_the_choice_depends_on_the_key_alone():
    x, y = rings(500, noise=0.1)
    first, second = (
        AnchoredClassifier(n_members=2, epochs=5, random_state=3).fit(x, y) for _ in range(2)
    )
    for a, b in zip(
        jax.tree.leaves(first.ensemble_.params),
        jax.tree.leaves(second.ensemble_.params),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
