"""Real tables and gap splits: cells, scores, ranks, and a page that says what the record says."""

import dataclasses
import itertools
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from anchored import metrics, paper
from anchored.cli import app
from anchored.datasets.real import Rows
from anchored.datasets.registry import REAL
from anchored.errors import EnsembleError
from anchored.paper.pages import real_page
from anchored.paper.runner import Context
from anchored.paper.tables import gap, real
from anchored.paper.tables.real_record import SCORES, RealResults, critical_difference
from anchored.paper.tables.real_rivals import Forecast
from anchored.tables.table import Table

runner = CliRunner(env={"COLUMNS": "200"})


def rows_of(name):
    rng = np.random.default_rng(len(name))
    x = rng.normal(size=60)
    labels = np.array(["no", "yes"])[rng.integers(2, size=60)]
    y = labels if REAL[name].task == "classification" else 5 + x
    return Rows(Table({"x": x}, 60), y)


@pytest.fixture
def counted(monkeypatch):
    """A method that notes its tasks and forecasts a standard normal, or equal probabilities."""
    seen = []

    def fit(task):
        seen.append(task)
        if task.n_classes:
            return lambda inputs: Forecast(np.full((len(inputs), 2), 0.5))
        return lambda inputs: Forecast((5 + np.zeros(len(inputs)), 1.0), factor=0.9)

    monkeypatch.setitem(real.METHODS, "counted", real.Method(fit))
    monkeypatch.setattr(real, "load_real", lambda name, folder: rows_of(name))
    return seen


@pytest.fixture
def run(tmp_path):
    def call(methods=("counted",), datasets=("ames", "hmeq"), splits=2, preset="cpu", **others):
        context = Context(0, None, datasets, methods, splits, **others)
        return paper.run(real.EXPERIMENT, preset, context, tmp_path, lambda *step: None)

    return call


def test_a_cell_has_every_score_and_the_seconds(counted, run):
    record = run()
    assert list(record["numbers"]) == [
        f"{name}/counted/{seed}" for name in ("ames", "hmeq") for seed in range(2)
    ]
    times = {f"{a}_{b}" for a in ("fit", "predict") for b in ("seconds", "processor_seconds")}
    for label, cell in record["numbers"].items():
        scores = set(SCORES[REAL[label.split("/")[0]].task])
        assert set(cell) == scores | times | {"n_train", "n_test", "seconds"}
        assert (cell["n_train"], cell["n_test"]) == (48, 12)
    assert record["settings"]["ames"] == {"max_train": 10_000, "sha256": REAL["ames"].sha256}
    assert record["numbers"]["hmeq/counted/0"]["log_loss"] == pytest.approx(np.log(2), rel=1e-5)
    y = real.split_real("ames", rows_of("ames"), 1, None).test.y
    dist, cell = (5 + np.zeros(12), 1.0), record["numbers"]["ames/counted/1"]
    assert cell["crps"] == pytest.approx(metrics.crps(dist, y), rel=1e-5)
    assert cell["width"] == pytest.approx(2 * 1.644854, rel=1e-5)
    assert cell["factor"] == 0.9
    assert cell["interval_score"] == pytest.approx(metrics.interval_score(dist, y, 0.9), rel=1e-5)


def test_methods_see_class_numbers_and_the_seed(counted, run):
    run(datasets=("hmeq",))
    assert [(task.seed, task.n_classes) for task in counted] == [(0, 2), (1, 2)]
    assert set(counted[0].y) == {0, 1}


def test_finished_cells_are_kept_unless_asked_for_again(counted, run):
    run(splits=1)
    run(splits=2)
    assert len(counted) == 4
    run(splits=1, again=True)
    assert len(counted) == 6
    assert [task.seed for task in counted[4:]] == [0, 0]


def test_the_same_rows_for_all_and_no_more_than_the_preset_says(counted, run, monkeypatch):
    few = dataclasses.replace(real.PRESETS["cpu"], max_train=10)
    monkeypatch.setitem(real.EXPERIMENT.presets, "cpu", few)
    run(datasets=("ames",), splits=1)
    assert len(counted[0].y) == 10


def test_a_fit_that_failed_is_said_and_ranked_last(counted, run, monkeypatch):
    def fail(task):
        raise EnsembleError("Members [1] diverged twice.")

    monkeypatch.setitem(real.METHODS, "broken", real.Method(fail))
    record = run(methods=("counted", "broken"))
    cell = record["numbers"]["ames/broken/0"]
    assert cell["failed"] == "EnsembleError"
    assert all(cell[name] is None for name in SCORES["regression"])
    results = RealResults(record)
    assert results.ranks("crps", ["broken", "counted"], "regression").mean == {
        "counted": 1.0,
        "broken": 2.0,
    }
    assert "- broken on ames, seed 0: EnsembleError" in real_page(record)


def test_methods_run_on_their_tasks_and_slow_ones_when_asked_for():
    def planned(**options):
        cells = real.plan(real.PRESETS["cpu"], Context(0, None, **options))
        return {tuple(cell.label.split("/")[:2]) for cell in cells}

    every = planned()
    assert {dataset for dataset, _ in every} == set(REAL)
    assert {m for d, m in every if d == "ames"} == {
        "anchored",
        "catboost",
        "catboost-conformal",
        "hgb",
        "ridge",
    }
    assert {m for d, m in every if d == "hmeq"} == {"anchored", "catboost", "hgb", "logistic"}
    assert planned(datasets=["ames"], methods=["tabm", "logistic"]) == {("ames", "tabm")}
    assert len(real.plan(real.PRESETS["cpu"], Context(0, None, ["ames"], ["ridge"]))) == 5
    with pytest.raises(ValueError, match="--methods must be one of"):
        planned(methods=["xgboost"])


def test_our_estimators_are_fitted_with_nothing_set_but_the_seed(monkeypatch):
    seen = []

    class Model:
        model_ = SimpleNamespace(
            regression=SimpleNamespace(noise=(SimpleNamespace(factor=1.7),)),
        )

        def __init__(self, **settings):
            seen.append(settings)

        def fit(self, inputs, y):
            seen.append((inputs, y))
            return self

        def predict_dist(self, inputs):
            return np.zeros(len(inputs)), 1.0

    monkeypatch.setattr(real, "AnchoredRegressor", Model)
    task = real.Task(rows_of("ames").inputs, rows_of("ames").y, 0, 7)
    forecast = real.anchored(task)(task.inputs)
    assert (forecast.dist[1], forecast.factor) == (1.0, 1.7)
    assert seen[0] == {"random_state": 7}
    assert seen[1][0] is task.inputs


def test_the_command_writes_a_record_and_knows_its_presets(tmp_path, uci_folder):
    command = ["reproduce", "table-real", "--out", str(tmp_path), "--data-dir", str(uci_folder)]
    result = runner.invoke(app, [*command, "--preset", "smoke"])
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "smoke" / "table-real.json").read_text())["numbers"]
    assert list(numbers) == ["boston/ridge/0"]
    result = runner.invoke(app, [*command, "--datasets", "boston", "--methods", "ridge"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "cpu" / "table-real.json").is_file()
    result = runner.invoke(app, [*command, "--preset", "paper"])
    assert "--preset must be one of smoke, cpu; got 'paper'." in result.output


# Ranks


def made_record(scores, **changed):
    """Of {(table, method): values of all scores by seed}."""
    numbers = {}
    for (dataset, method), values in scores.items():
        for seed, value in enumerate(values):
            names = SCORES[REAL[dataset].task]
            cell = dict.fromkeys(names, value) | {"coverage": 0.9, "fit_processor_seconds": 2.0}
            numbers[f"{dataset}/{method}/{seed}"] = cell | changed.get(method, {})
    settings = {dataset: {"max_train": 10_000} for dataset, _ in scores}
    return {"numbers": numbers, "settings": settings, "preset": "cpu", "cores": 2}


def test_critical_differences_are_the_published_ones():
    """Demsar 2006, table 5: 2.343 for two to five methods ..."""
    for n_methods, q in ((2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)):
        wanted = q * np.sqrt(n_methods * (n_methods + 1) / (6 * 15))
        assert critical_difference(n_methods, 15) == pytest.approx(wanted, rel=1e-3)


def test_ranks_are_means_over_tables_of_means_over_common_seeds():
    tables = ("ames", "taxis", "ikea")
    rng = np.random.default_rng(0)
    values = {(d, m): rng.normal(size=3) for d, m in itertools.product(tables, "abc")}
    values["ames", "c"] = values["ames", "c"][:2]
    ranks = RealResults(made_record(values)).ranks("crps", list("abc"), "regression")
    means = [[values[d, m][: 2 if d == "ames" else 3].mean() for m in "abc"] for d in tables]
    wanted = dict(zip("abc", stats.rankdata(means, axis=1).mean(axis=0), strict=True))
    assert ranks.mean == pytest.approx(wanted)
    assert list(ranks.mean.values()) == sorted(ranks.mean.values())
    assert ranks.n_tables == 3


def test_higher_accuracy_ranks_first():
    results = RealResults(made_record({("hmeq", "a"): [0.7], ("hmeq", "b"): [0.9]}))
    assert list(results.ranks("accuracy", ["a", "b"], "classification").mean) == ["b", "a"]
    assert list(results.ranks("brier", ["a", "b"], "classification").mean) == ["a", "b"]


# The page


def page_of(scores, **changed):
    return real_page(made_record(scores, **changed))


def rivals_record():
    return {
        ("ames", "anchored"): [1.00, 1.02],
        ("ames", "catboost"): [2.0, 2.0],
        ("ames", "catboost-conformal"): [0.98, 0.98],
        ("ames", "ridge"): [0.5, 0.5],
        ("taxis", "anchored"): [3.0, 3.0],
        ("taxis", "catboost"): [2.0, 2.0],
        ("taxis", "catboost-conformal"): [2.0, 2.0],
        ("taxis", "ridge"): [4.0, 4.0],
        ("hmeq", "anchored"): [0.5],
        ("hmeq", "catboost"): [0.6],
        ("hmeq", "logistic"): [0.7],
    }


def test_the_page_counts_wins_and_losses():
    page = page_of(rivals_record(), anchored={"fit_processor_seconds": 5.0, "coverage": 0.95})
    assert "better than catboost in 90 % interval score on 1 of 2, CRPS on 1 of 2" in page
    assert "The RMSE of anchored is at most 5% above CatBoost's on 1 of 2 tables." in page
    assert "The RMSE of anchored is more than 2% above that of ridge on ames of 2 tables." in page
    assert "The log loss of anchored is more than 2% above that of logistic on none of 1" in page
    assert (
        "takes 2.5 times the processor seconds of CatBoost: this is the median over 3 tables"
        in page
    )
    assert "| anchored | 95.0% | 95.0% to 95.0% | 2 |" in page
    assert "| table | learned factor |\n| --- | --- |\n| ames | 1.010 |" in page
    assert "| catboost | 90.0% | 90.0% to 90.0% | 0 |" in page
    assert "| ames | 1.010 ± 0.010 | 2.000 ± 0.000 | 0.980 ± 0.000 | **0.500 ± 0.000** |" in page
    ranks = re.search(r"\| ridge \| (.*?) \|", page).group(1)
    assert ranks == "2.50"  # the best and the worst
    assert f"critical difference {critical_difference(4, 2):.2f}" in " ".join(page.split())


def test_the_page_without_ours_does_not_speak_of_us():
    scores = {key: value for key, value in rivals_record().items() if key[1] != "anchored"}
    page = page_of(scores)
    assert "is better than" not in page
    assert "CatBoost's on" not in page
    assert "| ames | 2.000 ± 0.000 |" in page


# Gap and tail splits


@pytest.mark.parametrize("n", [12, 13, 17])
def test_gap_and_tail_rows_are_the_middle_third_and_the_outer_sixths(n):
    values = np.random.default_rng(n).permutation(n).astype(float)
    train, test = gap.split_rows(values, "gap")
    np.testing.assert_array_equal(np.sort(values[test]), np.arange(n // 3, 2 * n // 3))
    tail_train, tail_test = gap.split_rows(values, "tail")
    low, high = int(np.ceil(n / 6)), int(np.floor(5 * n / 6))
    np.testing.assert_array_equal(np.sort(values[tail_train]), np.arange(low, high))
    for rows in ((train, test), (tail_train, tail_test)):
        assert sorted(np.concatenate(rows)) == list(range(n))


def test_there_is_a_split_for_each_feature_that_was_published():
    cells = gap.plan(gap.PRESETS["cpu"], Context(0, None))
    found = {}
    for cell in cells:
        dataset, kind, method, feature = cell.label.split("/")
        found.setdefault((dataset, kind, method), []).append(int(feature))
    counts = {d: len(found[d, "tail", "anchored"]) for d in ("boston", "energy", "wine", "naval")}
    assert counts == {"boston": 12, "energy": 5, "wine": 10, "naval": 12}
    assert found["boston", "gap", "anchored"] == [i for i in range(13) if i != 3]
    assert len(found) == 18


def test_a_gap_record_is_scored_and_shown_beside_what_was_published(tmp_path, uci_folder):
    context = Context(0, uci_folder, ["yacht"], ["ridge"])
    record = paper.run(gap.EXPERIMENT, "smoke", context, tmp_path, lambda *step: None)
    assert list(record["numbers"]) == ["yacht/gap/ridge/0", "yacht/tail/ridge/0"]
    cell = record["numbers"]["yacht/gap/ridge/0"]
    assert (cell["n_train"], cell["n_test"]) == (205, 103)
    assert cell["nll"] > 3
    ours = {"nll": 1.5, "coverage": 0.88}
    numbers = {f"yacht/{kind}/anchored/{i}": ours for kind in gap.KINDS for i in range(6)}
    numbers |= {f"boston/gap/anchored/{i}": ours | {"nll": 2.6} for i in range(12)}
    made = {"numbers": numbers, "settings": {"yacht": {"max_rows": 10_000}}}
    page = real_page(made_record(rivals_record()), made)
    assert "at or below the best of the published numbers on 2 of 3." in " ".join(page.split())
    assert "| yacht | **1.500 ± 0.000** | 1.580 | 1.890 | 2.570 | 88.0% |" in page
    assert "| boston | 2.600 ± 0.000 | 2.690 | 2.590 | **2.510** | 88.0% |" in page
