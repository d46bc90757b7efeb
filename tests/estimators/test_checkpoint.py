"""An estimator that is killed in any of its trainings ends with the same file; plans come first."""

import math
import re

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone

from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.core import checkpoints, training
from anchored.core.checkpoints import Checkpoint
from anchored.errors import CheckpointWarning
from anchored.exact import gp
from anchored.tables import memory
from tests.core.test_checkpoints import Killed

_EVIDENCES = ("evidence_gradient", "laplace_log_evidence")
QUICK = {"epochs": 20, "batch_size": 32, "n_members": 4, "random_state": 0}


def problem(n=260):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 2))
    return x, np.sin(x[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.fixture
def kill(monkeypatch):
    """Stops the process, as it were, when it would write a state of some training."""
    keep = training.keep

    def at(name, n):
        left = [n]

        def counted(keeper, run):
            keep(keeper, run)
            left[0] -= keeper.checkpoint.name == name
            if left[0] < 0:
                raise Killed

        monkeypatch.setattr(training, "keep", counted)

    monkeypatch.setattr(checkpoints.Keeper, "due", lambda keeper, ahead=0.0: True)
    yield at
    monkeypatch.setattr(training, "keep", keep)


def saved(model, path):
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", [AnchoredRegressor, AnchoredClassifier])
def test_a_killed_fit_ends_with_the_same_file(tmp_path, kill, kind, monkeypatch):
    x, y = problem()
    y = y if kind is AnchoredRegressor else (y > 0).astype(int)
    whole = saved(kind(**QUICK).fit(x, y), tmp_path / "whole")
    place = Checkpoint(tmp_path / "kept")
    model = kind(**QUICK, checkpoint=place)
    names = ["members", "folds", *(["noise-0"] if kind is AnchoredRegressor else [])]
    for name in names:
        kill(name, 3)
        with pytest.raises(Killed):
            model.fit(x, y)
    trained = []

    def counted(state, data, n):
        trained.append(n)
        return advance(state, data, n)

    kill("none", 0)
    advance = training.advance
    monkeypatch.setattr(training, "advance", counted)
    model = clone(model).set_params(checkpoint=tmp_path / "kept").fit(x, y)
    assert saved(model, tmp_path / "killed") == whole
    n_steps = 20 * (260 // 32)
    # The members are finished, and so are those of the folds for the regressor.
    assert sum(trained) < (3_100 if kind is AnchoredRegressor else n_steps)
    assert not (tmp_path / "kept").exists()


def test_a_killed_fit_of_many_rows_ends_with_the_same_file(tmp_path, kill, monkeypatch):
    """Its members continue from those that did not see the fold."""
    monkeypatch.setattr(AnchoredRegressor, "_matrix_rows", 100)
    monkeypatch.setattr("anchored.tuning.MANY_ROWS", 100)
    x, y = problem()
    given = QUICK | {"hidden": 8}
    whole = saved(AnchoredRegressor(**given).fit(x, y), tmp_path / "whole")
    for name in ("folds", "continued"):
        kill(name, 3)
        with pytest.raises(Killed):
            AnchoredRegressor(**given, checkpoint=tmp_path / "kept").fit(x, y)
    kill("none", 0)
    model = AnchoredRegressor(**given, checkpoint=tmp_path / "kept").fit(x, y)
    assert saved(model, tmp_path / "killed") == whole
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("kind", [AnchoredRegressor, AnchoredClassifier])
@pytest.mark.parametrize("own", [False, True])
def test_what_is_known_of_the_evidence_is_not_computed_again(tmp_path, kind, own, monkeypatch):
    x, y = problem(80)
    y = np.exp(3 * y) if kind is AnchoredRegressor else (y > 0).astype(int)  # skewed: has scales
    given = QUICK | ({"network": _own(kind is AnchoredClassifier)} if own else {})
    costly = ("evidence_of", "laplace_evidence_of") if own else _EVIDENCES
    calls, last = [], [math.inf]
    for name in costly:
        monkeypatch.setattr(gp, name, _counted(getattr(gp, name), calls, last))
    whole = saved(kind(**given).fit(x, y), tmp_path / "whole")
    n_all, last[0] = len(calls), len(calls) // 2
    calls.clear()
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda keeper, ahead=0.0: True)
    with pytest.raises(Killed):
        kind(**given, checkpoint=tmp_path / "kept").fit(x, y)
    calls.clear()
    last[0] = math.inf
    again = kind(**given, checkpoint=tmp_path / "kept").fit(x, y)
    assert 0 < len(calls) < 0.7 * n_all
    assert saved(again, tmp_path / "killed") == whole
    assert not (tmp_path / "kept").exists()


def _own(classifies):
    def apply(params, x):
        return jnp.tanh(x @ params["w0"]) @ params["w1"]

    shapes = {"w0": (2, 8), "w1": (8, 2 if classifies else 1)}
    return apply, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def _counted(function, calls, last):
    def counted(*args, **kwargs):
        calls.append(function)
        if len(calls) > last[0]:
            raise Killed
        return function(*args, **kwargs)

    return counted


def test_evidence_of_other_rows_is_not_used(tmp_path, monkeypatch):
    x, y = problem(60)
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda keeper, ahead=0.0: True)
    said = []
    place = Checkpoint(tmp_path / "kept", say=said.append)  # is not cleared
    AnchoredRegressor(**QUICK, checkpoint=place).fit(x, y)
    assert not said
    whole = saved(AnchoredRegressor(**QUICK).fit(2 * x**3, y), tmp_path / "whole")
    other = AnchoredRegressor(**QUICK, checkpoint=place).fit(2 * x**3, y)
    assert "is from other rows or settings; 'evidence' starts again" in said[0]
    assert saved(other, tmp_path / "other") == whole


def test_a_folder_that_cannot_be_written_costs_no_fit(tmp_path):
    (tmp_path / "file").write_text("in the way")
    x, y = problem(60)
    model = AnchoredRegressor(**QUICK, checkpoint=tmp_path / "file" / "folder")
    with pytest.warns(CheckpointWarning, match="No checkpoint can be written"):
        model.fit(x, y)
    assert model.predict(x).shape == (60,)


def test_a_plan_says_what_a_fit_does():
    x, y = problem()
    model = AnchoredRegressor(**QUICK)
    plan = model.plan(x, y)
    assert not hasattr(model, "model_")
    assert (plan.n_rows, plan.n_members, plan.n_others) == (260, 4, 30)
    ensemble = model.fit(x, y).ensemble_
    assert plan.n_steps == ensemble.info.steps[-1]
    assert plan.n_parameters >= sum(leaf[0].size for leaf in model.model_.members.params.values())
    assert plan.fits
    assert 0 < plan.n_steps * plan.step_seconds < plan.seconds
    assert re.search(r"^Members: +4 of [\d,]+ parameters, and 30 without", str(plan), re.MULTILINE)
    assert re.search(r"^Steps: +at most 160 of 32 rows", str(plan), re.MULTILINE)


def test_classes_have_a_plan_too(tmp_path):
    x, y = problem()
    plan = AnchoredClassifier(**QUICK, checkpoint=tmp_path).plan(x, y > 0)
    assert (plan.n_others, plan.n_shares * plan.share >= 4) == (15, True)
    assert str(tmp_path) in str(plan)
    assert not list(tmp_path.iterdir())


def test_rows_that_do_not_fit_in_memory_are_refused_before_work(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1e4)
    x, y = problem()
    need = memory.RAMPED_BYTES * 260 * 2
    with pytest.raises(MemoryError, match=rf"needs about {need / 1e3:.0f} kB of memory, and 10 kB"):
        AnchoredRegressor(**QUICK).fit(x, y)


def test_trials_of_a_classifier_are_not_trained_again(tmp_path, kill, monkeypatch):
    x, y = problem(520)
    y = (y > 0).astype(int)
    quick = QUICK | {"epochs": 4, "hidden": (8,)}  # two trials: of two priors
    whole = saved(AnchoredClassifier(**quick).fit(x, y), tmp_path / "whole")
    kill("trial-1", 1)
    with pytest.raises(Killed):
        AnchoredClassifier(**quick, checkpoint=Checkpoint(tmp_path / "kept")).fit(x, y)
    names = {path.name.partition(".")[0] for path in (tmp_path / "kept").iterdir()}
    assert names == {"evidence", "trial-0", "trial-1"}
    kill("trial-0", 0)  # is not written again
    again = AnchoredClassifier(**quick, checkpoint=tmp_path / "kept").fit(x, y)
    assert saved(again, tmp_path / "killed") == whole
    assert not (tmp_path / "kept").exists()
