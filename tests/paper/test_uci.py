"""The UCI benchmark: its methods in the target's units, its records kept split by split."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from scipy import optimize

from anchored import metrics, paper
from anchored.baselines import EnsembleOf
from anchored.core.training import Schedule
from anchored.datasets import Split, load_paper_split
from anchored.errors import EnsembleError
from anchored.exact import gp
from anchored.exact.kernels import Kernel
from anchored.paper import Context
from anchored.paper.pages import benchmark_page
from anchored.paper.tables import uci
from anchored.paper.tables import uci_methods as methods
from anchored.paper.tables.uci_methods import OUTSIDERS, PAPER, Method, Task
from anchored.paper.tables.uci_published import PUBLISHED
from anchored.paper.tables.uci_scores import SCORES, Results, load_records
from anchored.paper.tables.uci_settings import PAPER_SETTINGS
from anchored.prediction.predictive import Predictive
from anchored.tuning import Settings

SETTINGS = Settings((8,), "relu", 0.05, 5.0, 32, 0.02, 20, 0.99, single_var=0.3)


def rows(seed):
    """Sixty noisy rows to train on and twenty to test with, of another sample for each seed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(2.0, 3.0, size=(80, 3))
    y = 5 + 2 * np.sin(x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=80)
    return Split(x[:60], y[:60], x[60:], y[60:])


def task(split=0, dataset="boston"):
    made = rows(split)
    return Task(dataset, split, made.x_train, made.y_train, made.x_test, seed=0)


# Records


class Counted:
    """A method that counts its fits; it can raise an error at a split."""

    def __init__(self, monkeypatch, errors=None, names=("counted",)):
        self.fitted, self.errors = [], errors or {}
        for kind, name in itertools.product(("paper", "tuned"), names):
            monkeypatch.setitem(methods.METHODS[kind], name, Method(self.fit))

    def fit(self, task, settings):
        if task.split in self.errors:
            raise self.errors[task.split]
        self.fitted.append(task.split)
        moments = np.full((3, len(task.x_test)), [[1.0], [2.0], [3.0]]) * (1 + task.seed)
        return Predictive.from_members(moments, np.full_like(moments, settings.noise_var))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the table on the synthetic rows as boston's and gives the record."""
    monkeypatch.setattr(uci, "load_uci_split", lambda name, split, data_dir: rows(split))
    monkeypatch.setitem(PAPER_SETTINGS, "boston", SETTINGS)

    def run(splits=3, method="counted", preset="paper", jobs=1, **choice):
        context = Context(0, None, ["boston"], [method], splits, **choice)
        return paper.run(
            uci.EXPERIMENT, preset, context, tmp_path / preset, lambda *step: None, jobs
        )

    return run


def test_a_record_is_on_disk_and_as_the_page_reads_it(run, monkeypatch, tmp_path):
    Counted(monkeypatch)
    record = run()
    assert load_records(tmp_path) == [record]
    assert list(tmp_path.rglob("*.*")) == [tmp_path / "paper" / "table-uci.json"]
    assert list(record["numbers"]) == [f"boston/counted/{split}" for split in range(3)]
    assert all(tuple(split) == SCORES for split in record["numbers"].values())
    assert record["settings"] == {"boston": json.loads(json.dumps(dataclasses.asdict(SETTINGS)))}
    lines = (tmp_path / "paper" / "table-uci.json").read_text().splitlines()
    starts = [line for line in lines if line.startswith('"boston/counted/')]
    assert len(starts) == 3  # a line for each split
    scores = record["numbers"]["boston/counted/1"]
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((rows(1).y_test - 2) ** 2)), rel=1e-5)


def test_a_finished_split_is_not_fitted_again_unless_the_settings_are_others(run, monkeypatch):
    method = Counted(monkeypatch)
    first = run(2)
    more = run(4)
    assert method.fitted == [0, 1, 2, 3]
    assert more["numbers"].items() >= first["numbers"].items()
    changed = dataclasses.replace(SETTINGS, noise_var=0.06)
    monkeypatch.setitem(PAPER_SETTINGS, "boston", changed)
    new = run(1)
    assert method.fitted == [0, 1, 2, 3, 0]
    assert list(new["numbers"]) == ["boston/counted/0"]
    assert new["numbers"]["boston/counted/0"]["nll"] != first["numbers"]["boston/counted/0"]["nll"]


def test_splits_side_by_side_score_as_one_at_a_time(run, tmp_path):
    alone = run(4, "anchored-5x50")
    (tmp_path / "paper" / "table-uci.json").unlink()
    beside = run(4, "anchored-5x50", jobs=3)

    def without_time(record):
        return [(n, scores | {"seconds": 0}) for n, scores in record["numbers"].items()]

    assert without_time(alone) == without_time(beside)


@pytest.mark.parametrize(("method", "program"), [("anchored-5x50", True), ("relu-gp", False)])
def test_only_methods_that_leave_cores_idle_share_a_program(method, program):
    cells = uci.plan(uci.PRESETS["paper"], Context(0, None, ["boston"], [method]))
    assert len(cells) == 20
    assert {cell.program for cell in cells} == {f"boston/{method}" if program else None}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EnsembleError("Members [1] diverged twice."), "diverged"),
        (np.linalg.LinAlgError("2-th leading minor"), "singular"),
    ],
)
def test_a_failed_fit_is_said_in_the_record_and_on_the_page(
    run, monkeypatch, tmp_path, error, reason
):
    method = Counted(monkeypatch, {1: error}, ["anchored-5x50"])
    record = run(method="anchored-5x50")
    failed = record["numbers"]["boston/anchored-5x50/1"]
    assert failed["failed"] == reason
    assert failed["seconds"] >= 0
    assert all(failed[name] is None for name in SCORES if name != "seconds")
    assert "failed" not in record["numbers"]["boston/anchored-5x50/0"]
    for name in ("rmse", "nll", "nll_student_t"):
        assert score_of(record, name, "anchored-5x50") == (math.inf, None, 3)
    assert math.isfinite(score_of(record, "seconds", "anchored-5x50").mean)
    page = benchmark_page(load_records(tmp_path))
    assert f"- anchored 5x 50, paper, on boston: split 1 ({reason})." in page
    assert "| boston | not finite (3) | 2.52 ± 0.05 |" in page
    assert "; more on boston (not finite)." in page
    run(method="anchored-5x50")  # it would fail again: that is a result too
    assert method.fitted == [0, 2]


def test_a_page_without_failures_does_not_speak_of_them(run, monkeypatch, tmp_path):
    Counted(monkeypatch)
    run()
    SETTINGS.save(tmp_path / "mine.json")
    run(preset="tuned", settings=tmp_path / "mine.json")
    page = benchmark_page(load_records(tmp_path))
    assert "failed" not in page
    assert "| paper | counted |" in page
    assert "| tuned | counted |" in page


def score_of(record, name, method="m"):
    return Results([record]).score(record["preset"], method, "boston", name)


def test_summaries_are_means_with_standard_errors():
    def record(values):
        splits = [dict.fromkeys(SCORES) | {"nll": value} for value in values]
        numbers = {f"boston/m/{i}": split for i, split in enumerate(splits)}
        return {"preset": "paper", "cores": 2, "numbers": numbers}

    three = record([1.0, 2.0, 6.0])
    assert score_of(three, "nll") == (3.0, pytest.approx(7**0.5 / 3**0.5), 3)
    assert score_of(three, "nll_student_t") is None
    assert score_of(record([1.0]), "nll") == (1.0, None, 1)


def test_the_smoke_preset_cuts_the_epochs_alone():
    smoke, whole = (uci.hyperparameters(uci.PRESETS[p], "wine", None) for p in ("smoke", "paper"))
    assert (smoke.epochs, whole.epochs) == (10, 500)
    assert dataclasses.replace(smoke, epochs=500) == whole == PAPER_SETTINGS["wine"]


# Scores


def predictive(family, members=5):
    rng = np.random.default_rng(3)
    means = rng.normal(size=(members, 50))
    return dataclasses.replace(Predictive.from_members(means, 0.3 + 0 * means), family=family)


@pytest.mark.parametrize("family", ["gaussian", "student-t"])
def test_scores_are_those_of_the_metrics(family):
    dist, y = predictive(family), np.random.default_rng(4).normal(size=50)
    gaussian, student = predictive("gaussian"), predictive("student-t")
    assert uci.scores(dist, y) == {
        "rmse": metrics.rmse(dist, y),
        "nll": metrics.nll(gaussian, y),
        "nll_student_t": metrics.nll(student, y),
        "crps": metrics.crps(dist, y),
        "coverage_90": metrics.coverage(dist, y, 0.9),
        "calibration_error": metrics.calibration_error(dist, y),
    }
    assert metrics.nll(gaussian, y) != metrics.nll(student, y)
    assert (*uci.scores(dist, y), "seconds") == SCORES


def test_without_members_to_differ_there_is_no_student_t():
    y = np.zeros(50)
    exact = dataclasses.replace(predictive("gaussian"), members=None)
    assert uci.scores(exact, y)["nll_student_t"] is None
    assert uci.scores(predictive("gaussian", members=1), y)["nll_student_t"] is None


def test_the_paper_s_splits_have_a_preset_of_their_own(run, monkeypatch):
    monkeypatch.setattr(uci, "load_paper_split", lambda _, split, folder: rows(split + 7))
    Counted(monkeypatch)
    own, other = run(1, preset="paper-splits"), run(8)
    assert (
        own["numbers"]["boston/counted/0"]["rmse"] == other["numbers"]["boston/counted/7"]["rmse"]
    )


def test_the_relu_gp_has_the_paper_s_numbers_on_the_paper_s_splits(uci_folder):
    """Nothing random enters it but the splits, so all printed digits agree."""
    settings, nll, rmse = PAPER_SETTINGS["yacht"], [], []
    for i in range(20):
        split = load_paper_split("yacht", i, uci_folder)
        made = Task("yacht", i, split.x_train, split.y_train, split.x_test, seed=0)
        scores = uci.scores(PAPER["relu-gp"].fit(made, settings), split.y_test)
        nll.append(scores["nll"])
        rmse.append(scores["rmse"])
    for values, published in ((nll, PUBLISHED.nll), (rmse, PUBLISHED.rmse)):
        error = np.std(values, ddof=1) / np.sqrt(20)
        assert (round(np.mean(values), 2), round(error, 2)) == published["relu-gp"]["yacht"][:2]


# Methods


@pytest.mark.parametrize("name", [name for name in PAPER if name not in OUTSIDERS])
def test_every_method_predicts_in_the_target_s_units(name):
    made = task()
    dist = PAPER[name].fit(made, SETTINGS)
    assert dist.mean.shape == dist.variance.shape == (20,)
    assert np.all(np.isfinite(dist.mean))
    assert np.all(np.isfinite(dist.variance))
    assert np.all(dist.aleatoric_var > 0)
    moved = PAPER[name].fit(made._replace(y=3 * made.y + 7), SETTINGS)
    # The same standardised task but for rounding, which training to a few digits may widen.
    close = 1e-6 if name == "relu-gp" else 2e-2
    np.testing.assert_allclose(moved.mean, 3 * dist.mean + 7, atol=close * made.y.std())
    np.testing.assert_allclose(moved.variance, 9 * dist.variance, rtol=close)
    exact = name.endswith("-gp")
    assert (uci.scores(dist, rows(0).y_test)["nll_student_t"] is None) == (
        exact or name == "single-50"
    )


def by_hand(made, first_var, activation):
    """The exact process on standardised float32 rows, moved back."""
    x_mean, x_std, y_mean, y_std = (
        f(a, axis=0) for a in (made.x, made.y) for f in (np.mean, np.std)
    )
    x, y = np.float32((made.x - x_mean) / x_std), np.float32((made.y - y_mean) / y_std)
    kernel = Kernel.paper(first_var, made.x.shape[1], SETTINGS.hidden, activation)
    dist = gp.condition(kernel, x, y, SETTINGS.noise_var).predict((made.x_test - x_mean) / x_std)
    evidence = gp.log_evidence(kernel, x, y, SETTINGS.noise_var)
    return y_mean + y_std * dist.mean[:, 0], y_std**2 * dist.variance[:, 0], evidence


def test_the_relu_gp_is_the_exact_process_of_the_settings():
    made = task()
    dist = PAPER["relu-gp"].fit(made, SETTINGS)
    mean, variance, _ = by_hand(made, SETTINGS.first_var, "relu")
    # The network's prior is float32.
    np.testing.assert_allclose(dist.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(dist.variance, variance, rtol=1e-5)


def test_the_erf_gp_has_the_prior_of_highest_evidence():
    made = task()
    dist = PAPER["erf-gp"].fit(made, SETTINGS)
    best = optimize.minimize_scalar(
        lambda log: -by_hand(made, np.exp(log), "erf")[2], bounds=(-4, 8), method="bounded"
    )
    mean, variance, _ = by_hand(made, np.exp(best.x), "erf")
    np.testing.assert_allclose(dist.mean, mean, atol=5e-3 * made.y.std())
    np.testing.assert_allclose(dist.variance, variance, rtol=2e-2)
    assert abs(best.x - np.log(SETTINGS.first_var)) > 0.2  # not what it was given
    same = PAPER["erf-gp"].fit(made, dataclasses.replace(SETTINGS, activation="erf"))
    mean, variance, _ = by_hand(made, SETTINGS.first_var, "erf")
    np.testing.assert_allclose(same.variance, variance, rtol=1e-5)


def test_the_exact_processes_see_so_many_rows_and_no_more(monkeypatch):
    monkeypatch.setattr(methods, "GP_ROWS", {"boston": 25})
    fit = PAPER["relu-gp"].fit
    made, few = task(), task()._replace(x=task().x[:25], y=task().y[:25])
    np.testing.assert_array_equal(fit(made, SETTINGS).mean, fit(few, SETTINGS).mean)
    other = made._replace(dataset="wine")
    assert not np.allclose(fit(other, SETTINGS).mean, fit(few, SETTINGS).mean)


def test_two_layers_are_trained_longer_at_a_quarter_of_the_rate(monkeypatch):
    seen = []
    monkeypatch.setattr(methods, "infer", lambda *asked: seen.append(asked))
    for name in ("anchored-5x50", "anchored-5x50-50"):
        PAPER[name].fit(task(), SETTINGS)
    (one, _, one_settings), (two, _, two_settings) = seen
    assert one_settings == SETTINGS
    assert two_settings.hidden == (8, 8)
    assert one.schedule == dataclasses.replace(SETTINGS.schedule, epochs=40)  # 60 rows, 2 batches
    assert (two.schedule.learning_rate, two.schedule.epochs) == (0.005, 60)
    assert (two.schedule.batch_size, two.schedule.decay_rate) == (32, 0.99)
    assert (two.method, two.n_members) == ("anchored", 5)
    assert (one.prior_start, two.prior_start) == (True, True)


def test_members_start_where_validation_said(monkeypatch):
    seen = []
    monkeypatch.setattr(methods, "infer", lambda method, *_: seen.append(method.prior_start))
    for dataset in ("boston", "naval"):
        PAPER["anchored-5x50"].fit(task(dataset=dataset), SETTINGS)
    assert seen == [True, False]


def test_tuned_settings_are_trained_as_they_were_tuned(monkeypatch):
    seen = []
    monkeypatch.setattr(methods, "infer", lambda *asked: seen.append(asked))
    methods.METHODS["tuned"]["anchored-10x50"].fit(task(), SETTINGS)
    ((ten, _, _),) = seen
    assert ten == EnsembleOf("anchored", 10, SETTINGS.schedule, prior_start=False)


def test_a_single_network_has_a_constant_variance():
    made = task()
    dist = PAPER["single-50"].fit(made, SETTINGS)
    np.testing.assert_allclose(dist.variance, 0.3 * made.y.var())
    with pytest.raises(ValueError, match="lack `single_var`"):
        PAPER["single-50"].fit(made, dataclasses.replace(SETTINGS, single_var=None))


def test_splits_and_seeds_have_keys_of_their_own():
    fit = PAPER["anchored-5x50"].fit
    made = task()
    first = fit(made, SETTINGS).mean
    np.testing.assert_array_equal(fit(made, SETTINGS).mean, first)
    for change in ({"split": 1}, {"seed": 1}):
        assert not np.allclose(fit(made._replace(**change), SETTINGS).mean, first)


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "n_steps"), [(691, 64, 22_000), (640, 64, 20_000), (50, 64, 2_000)]
)
def test_as_many_steps_as_with_a_smaller_last_batch(n_rows, batch_size, n_steps):
    schedule = methods.as_many_steps(Schedule(epochs=2_000, batch_size=batch_size), n_rows)
    assert schedule.n_steps(n_rows) == n_steps
