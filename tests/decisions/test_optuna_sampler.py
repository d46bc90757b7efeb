"""In Optuna: spaces known and unknown before, steps, choices, constraints and failures."""

import math
import warnings

import pytest

optuna = pytest.importorskip("optuna")
from anchored.decisions import AnchoredSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_it_samples_every_kind_of_parameter_together():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        rate = trial.suggest_float("rate", 1e-3, 1, log=True)
        share = trial.suggest_float("share", 0, 1, step=0.25)
        n = trial.suggest_int("n", 2, 10, step=2)
        kind = trial.suggest_categorical("kind", ["a", (1, 2), None])
        return (
            (x - 0.3) ** 2
            + abs(math.log10(rate) + 1)
            + abs(share - 0.5)
            + abs(n - 6)
            + (kind == "a")
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's, of choices that its storages cannot keep
        studies = [
            optuna.create_study(sampler=AnchoredSampler(seed=seed, n_startup_trials=6))
            for seed in range(6)
        ]
        for study in studies:
            study.optimize(objective, n_trials=14)
    trials = [study.trials for study in studies]
    assert {t.params["share"] for found in trials for t in found} <= {0, 0.25, 0.5, 0.75, 1}
    assert {t.params["n"] for found in trials for t in found} <= {2, 4, 6, 8, 10}
    # Six searches together: one may begin with a lucky point.
    first, later = (
        sum(min(t.value for t in found[part]) for found in trials)
        for part in (slice(6), slice(6, None))
    )
    assert later < first


def test_spaces_defined_by_running_are_sampled_where_they_are_known():
    """``depth`` is there only for trees: it is sampled alone, and ``x`` by the model."""

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        if trial.suggest_categorical("kind", ["tree", "line"]) == "tree":
            return (x - 0.8) ** 2 + 0.01 * trial.suggest_int("depth", 1, 5)
        return 1 + (x - 0.8) ** 2

    study = optuna.create_study(sampler=AnchoredSampler(seed=1, n_startup_trials=5))
    study.optimize(objective, n_trials=13)
    assert abs(study.best_params["x"] - 0.8) < 0.1
    assert study.best_params["kind"] == "tree"


def test_constraints_and_failures_are_learned():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        trial.set_user_attr("limit", 0.5 - x)  # x must be 0.5 or more
        if x > 0.95:
            raise RuntimeError("diverged")
        return x

    sampler = AnchoredSampler(
        seed=0, n_startup_trials=4, constraints_func=lambda trial: [trial.user_attrs["limit"]]
    )
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=14, catch=RuntimeError)
    feasible = [t.value for t in study.trials if t.value is not None and t.value >= 0.5]
    assert min(feasible) < 0.55


def test_several_objectives_are_refused():
    study = optuna.create_study(
        directions=["minimize"] * 2, sampler=AnchoredSampler(n_startup_trials=2)
    )
    with pytest.raises(ValueError, match="2 objectives and AnchoredSampler takes one"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=3)
