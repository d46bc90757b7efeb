import dataclasses
import math
import sys

import numpy as np
import optuna
import pytest

from anchored import MLP
from anchored.errors import EnsembleError
from anchored.exact import gp
from anchored.tuning import Space, Twin, default_schedule, search, tune, tune_regression

SPACE = Space(batch_size=(32, 64), learning_rate=(0.01, 0.1), steps=(20, 100))


@pytest.fixture(scope="module")
def table():
    """200 rows of a curved plane with noise of deviation 0.5: x [200, 3], y [200]."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    return x, 5 * np.sin(x[:, 0]) + x[:, 1] + 0.5 * rng.normal(size=200)


def small(table, n_trials=3, space=SPACE, **kwargs):
    return tune(*table, hidden=(8,), n_members=2, n_trials=n_trials, space=space, **kwargs)


@pytest.fixture(scope="module")
def traces():
    """Gets an entry whenever a forward pass is traced; no other module searches such networks."""
    traces, apply = [], MLP.apply
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MLP, "apply", lambda *args: traces.append(1) or apply(*args))
        yield traces


@pytest.fixture(scope="module")
def result(table, traces):
    found = small(table, n_trials=12)
    assert traces
    return found


@pytest.fixture
def known_prior(monkeypatch):
    """For tests of the schedules alone: the prior is not tuned."""
    monkeypatch.setattr(search, "_tune_prior", lambda *args: search._TunedPrior(5.0, 0.02, 1.0))


def without_seconds(result):
    return [trial._replace(seconds=0.0) for trial in result.trials], result.settings


def test_the_settings_are_those_of_the_lowest_score(result):
    assert len(result.trials) == 12
    assert result.ended == "trials"
    best = min(result.trials, key=lambda trial: trial.score)
    assert result.score == best.score < max(trial.score for trial in result.trials)
    assert dataclasses.replace(result.settings, single_var=None) == best.settings
    assert 0 < result.settings.single_var < 1  # better than predicting the mean


def test_the_search_stays_in_its_space(result):
    assert {trial.settings.batch_size for trial in result.trials} == {32, 64}
    for settings, _, seconds in result.trials:
        assert 0.01 <= settings.learning_rate <= 0.1
        assert 0.99 <= settings.decay_rate <= 0.9995
        steps = settings.schedule.n_steps(160)
        assert 20 <= steps < 100 + 160 // settings.batch_size  # rounded up to whole epochs
        assert seconds > 0


def test_the_same_seed_repeats_the_search(table, result):
    again = small(table, n_trials=12)
    assert without_seconds(again) == without_seconds(result)


def test_the_same_seed_repeats_a_random_search(table, result, known_prior):
    once, again = (small(table, n_trials=12, sampler="random") for _ in range(2))
    assert without_seconds(once) == without_seconds(again)
    assert once.trials[11].settings.learning_rate != result.trials[11].settings.learning_rate


def test_another_seed_is_another_search(table, result, known_prior):
    other = small(table, random_state=1)
    assert other.trials[1].settings.learning_rate != result.trials[1].settings.learning_rate


def test_scores_are_in_the_units_of_the_target(table, result):
    x, y = table
    scaled = small((x, 8 * y))
    assert scaled.trials[0].settings == result.trials[0].settings
    assert scaled.trials[0].score == pytest.approx(result.trials[0].score + math.log(8), abs=1e-9)
    assert scaled.gp_score == pytest.approx(result.gp_score + math.log(8), abs=1e-9)


def test_the_prior_is_near_the_highest_evidence_and_predicts_no_worse(table, result):
    split = search._Split.make(*search._checked_rows(*table), seed=0)
    twin = Twin(3, (8,), "relu")
    top = tune_regression(twin, split.x, split.y, np.ones(160))
    noise_var, first_var = result.settings.noise_var, result.settings.first_var
    assert 0.49 < noise_var / top.noise_var[0] < 2.01
    assert 0.49 < first_var / top.first_var < 2.01

    def evidence(first_var, noise_var):
        return gp.log_evidence(twin(np.log([first_var])), split.x, split.y, noise_var)

    assert evidence(first_var, noise_var) > evidence(top.first_var, top.noise_var[0]) - 0.05 * 160
    exact = gp.condition(twin(np.log([top.first_var])), split.x, split.y, top.noise_var)
    assert result.gp_score <= split.score(exact.predict(split.valid_x)) + 1e-9


@pytest.mark.parametrize("n_rows", [160, 5_000, 12_800])
def test_the_first_trial_is_the_default_schedule_of_adam(n_rows):
    asked = optuna.trial.FixedTrial(search._default_schedule(Space(), n_rows))
    prior = search._TunedPrior(1.0, 0.1, 0.0)
    first = search._asked_settings(asked, MLP((50,)), prior, Space(), n_rows).schedule
    default = default_schedule(n_rows, noise_var=1e-3)  # as many steps as the search has
    assert first.decay_rate == pytest.approx(default.decay_rate, abs=1e-5)
    assert not default.in_prior_units
    default = dataclasses.replace(default, tolerance=0.0)
    assert first == dataclasses.replace(default, decay_rate=first.decay_rate)


def test_batches_fit_the_rows_and_trials_are_bounded():
    assert search._exponents(Space(), 364) == (5, 8)
    assert search._exponents(Space(), 10) == (5, 5)
    assert search._exponents(Space(), 10**6) == (5, 13)
    numbers = {"exponent": 13, "learning_rate": 0.1, "steps": 30_000, "decay": 0.01}
    prior = search._TunedPrior(1.0, 0.1, 0.0)
    settings = search._asked_settings(
        optuna.trial.FixedTrial(numbers), MLP((50,)), prior, Space(), 40_000
    )
    assert 8_192 * settings.schedule.n_steps(40_000) < Space().max_rows + 40_000


def test_a_schedule_that_diverges_does_not_stop_the_search(table, known_prior):
    wild = dataclasses.replace(SPACE, learning_rate=(0.01, 1e9))
    result = small(table, n_trials=6, space=wild, sampler="random")
    scores = [trial.score for trial in result.trials]
    assert len(scores) == 6
    assert math.inf in scores
    assert math.isfinite(result.score)


def test_an_error_if_every_schedule_diverges(table, known_prior):
    wild = dataclasses.replace(SPACE, learning_rate=(1e8, 1e9))
    with pytest.raises(EnsembleError, match=r"all 2 trials. Search lower rates with `space="):
        small(table, n_trials=2, space=wild)


def test_rates_and_lengths_compile_nothing(table, result, traces, known_prior):
    size = result.settings.batch_size
    space = Space(batch_size=(size, size), learning_rate=(0.02, 0.2), steps=(30, 200))
    traces.clear()
    small(table, n_trials=5, space=space, random_state=1)
    assert not traces


def test_no_trial_begins_after_max_seconds(table, known_prior):
    result = small(table, n_trials=50, max_seconds=1e-3)
    assert (len(result.trials), result.ended) == (1, "seconds")


def test_an_interrupt_keeps_the_finished_trials(table, known_prior):
    seen = []

    def on_trial(trial):
        seen.append(trial)
        if len(seen) == 2:
            raise KeyboardInterrupt

    result = small(table, n_trials=50, on_trial=on_trial)
    assert (list(result.trials), result.ended) == (seen, "interrupt")
    assert result.settings.single_var is None


def test_an_interrupt_at_the_end_keeps_all_trials(table, known_prior, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_single_var", interrupted)
    result = small(table)
    assert (len(result.trials), result.ended) == (3, "interrupt")


def test_an_interrupt_before_the_first_trial_is_passed_on(table, known_prior, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small(table)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampler": "tep"}, "`sampler` must be one of tpe, random; got 'tep'. Did you mean 'tpe'"),
        ({"n_trials": 0}, "`n_trials` must be a positive whole number; got 0"),
        ({"max_seconds": 0}, "`max_seconds` must be a positive number; got 0"),
        ({"random_state": -1}, "`random_state` must be a whole number"),
        ({"hidden": (0,)}, "`hidden` must be"),
        ({"activation": "rleu"}, "`activation` must be one of"),
        ({"n_members": 1}, "`n_members` must be at least 2"),
        ({"x": np.zeros((20, 2, 2))}, r"`x` must be \[batch, feature\]"),
        ({"y": np.zeros(19)}, r"got shapes \(20, 2\) and \(19,\)"),
        ({"x": np.full((20, 2), np.nan)}, "`x` has values that are missing or infinite"),
        ({"y": np.ones(20)}, r"`y` is constant \(1\)"),
    ],
)
def test_bad_arguments_are_refused(change, words):
    given = {"x": np.zeros((20, 2)), "y": np.arange(20.0)} | change
    with pytest.raises(ValueError, match=words):
        tune(**given)


def test_bad_spaces_are_refused():
    for name, bad in [("steps", (10, 5)), ("decay_rate", (0.9, 1.0)), ("learning_rate", (0, 1))]:
        with pytest.raises(ValueError, match=f"`{name}` must be two numbers above 0"):
            Space(**{name: bad})


def test_what_to_install_is_said(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'anchored\[tune\]'"):
        small(table)


def test_optunas_logging_is_left_as_it_was(table, known_prior, capfd):
    level = optuna.logging.get_verbosity()
    small(table, n_trials=1)
    assert optuna.logging.get_verbosity() == level
    assert capfd.readouterr().err == ""
