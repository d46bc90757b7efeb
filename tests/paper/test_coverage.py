"""Coverage of truths drawn from the prior: scores against closed forms, record, page, command."""

import dataclasses

import jax
import numpy as np
import pytest
from benchmarks import coverage_page as writer
from scipy import stats
from typer.testing import CliRunner

from anchored import AnchoredRegressor, paper
from anchored.baselines import InfiniteWidthGP
from anchored.cli import app
from anchored.core.likelihoods import Categorical
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.errors import EnsembleError
from anchored.exact import gp
from anchored.paper import Context
from anchored.paper.pages import coverage_page
from anchored.paper.tables import coverage
from anchored.paper.tables.coverage_methods import METHODS, MethodSettings, settings_of
from anchored.paper.tables.coverage_problems import REGIONS, Case, noise_var, pose, with_noise
from anchored.paper.tables.coverage_record import ranks
from anchored.paper.tables.coverage_results import Mean, Results, case_of, log_needed, verdict
from anchored.paper.tables.coverage_scores import LEVELS, N_RANKED, function_band, scores
from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive
from anchored.prediction.special import softmax

runner = CliRunner(env={"COLUMNS": "400"})
CASE = Case(2, 25, "medium")


def is_near(values, expected, n_errors=4.0):
    """Whether the mean of independent values is within some standard errors."""
    values = np.asarray(values, float)
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.all(np.abs(values.mean(axis=0) - expected) <= n_errors * errors)


# Truths


def gp_truth(seed):
    """A function drawn from the exact GP's prior, posed as the networks' are."""
    rng = np.random.default_rng(seed)
    x, x_test = rng.normal(size=(25, 2)), rng.normal(size=(60, 2))
    x_test[30:] *= REGIONS["outside"]
    network = MLP((50,))
    prior = Prior.for_network(network, x[:1], 10.0)
    kernel = gp.twin(network, prior)
    with jax.enable_x64(True):
        both = np.concatenate([x, x_test])
        covariance = np.asarray(kernel.covariance(both, both))
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(both)))
    function = root @ rng.normal(size=len(both))
    return with_noise(rng, network, prior, noise_var(CASE, kernel, x), x, x_test, function)


def test_the_exact_gp_holds_truths_from_its_own_prior_as_often_as_it_says():
    found = []
    for seed in range(120):
        posed = gp_truth(seed)
        dist = InfiniteWidthGP()(jax.random.key(0), posed.problem).output(0)
        found.append(scores(dist, posed.latent, posed.y, seed))
    for region in REGIONS:
        for what in ("function", "target"):
            assert is_near([truth[region][what] for truth in found], LEVELS)
        shares = [truth[region]["ranks"] / 30 for truth in found]
        assert is_near(shares, 1 / (N_RANKED + 1))


def test_the_noise_is_a_share_of_the_deviation_that_networks_have():
    x = np.random.default_rng(0).normal(size=(30, 2))
    network = MLP((50,))
    prior = Prior.for_network(network, x[:1], 10.0)
    draw = jax.jit(jax.vmap(lambda key: network.apply(prior.sample(key), x)[:, 0]))
    functions = np.asarray(draw(jax.random.split(jax.random.key(0), 400)))
    expected = noise_var(CASE, gp.twin(network, prior), x) / 0.3**2
    assert is_near(np.var(functions, axis=1), expected)


@pytest.mark.parametrize("case", [CASE, Case(1, 30, "classes")])
def test_a_truth_is_the_same_for_every_method_and_another_for_each_number(case):
    one, again, other = (pose(case, 20, 10.0, 5, 0, truth) for truth in (3, 3, 4))
    assert np.array_equal(one.problem.data.y, again.problem.data.y)
    assert np.array_equal(one.latent, again.latent)
    assert one.seed == again.seed != other.seed
    assert not np.allclose(one.latent, other.latent)
    norms = np.linalg.norm(np.concatenate([p.problem.x for p in (one, other)]), axis=1)
    assert norms.reshape(2, 2, 5)[:, 1].mean() > 1.5 * norms.reshape(2, 2, 5)[:, 0].mean()


def test_labels_have_both_classes_and_the_chances_of_the_logit():
    for truth in range(20):
        posed = pose(Case(1, 5, "classes"), 50, 10.0, 5, 0, truth)
        assert set(np.ravel(posed.problem.rows.y)) == {0.0, 1.0}
        assert np.allclose(posed.y, 1 / (1 + np.exp(-posed.latent)), atol=1e-6)


# Scores


def test_ranks_are_even_and_bands_hold_if_truth_and_members_are_alike(rng):
    """Student-t bands of ten normal members hold a like truth exactly as often as they say."""
    n = 20_000
    scale = np.exp(rng.normal(size=n))
    members, truth = scale * rng.normal(size=(10, n)), scale * rng.normal(size=n)
    dist = Predictive.from_members(members, np.zeros_like(members))
    found = scores(dist, truth, truth, 0)
    counts = found["inside"]["ranks"] + found["outside"]["ranks"]
    assert stats.chisquare(counts).pvalue > 1e-3
    shares = (found["inside"]["function"] + found["outside"]["function"]) / 2
    errors = np.sqrt(np.array(LEVELS) * (1 - np.array(LEVELS)) / n)
    assert np.all(np.abs(shares - LEVELS) < 4 * errors)


def test_members_too_close_together_leave_the_truth_beyond_them(rng):
    truth, members = rng.normal(size=2_000), 0.3 * rng.normal(size=(10, 2_000))
    dist = Predictive.from_members(members, np.zeros_like(members))
    found = scores(dist, truth, truth, 0)["inside"]
    assert (found["ranks"][0] + found["ranks"][-1]) / 1_000 > 0.5
    assert found["function"][1] < 0.6


def test_the_usual_spread_allows_for_few_members(rng):
    members = rng.normal(size=(4, 40_000))
    found = scores(Predictive.from_members(members, members * 0), members[0], members[0], 0)
    logs = np.log(members.var(axis=0, ddof=1))[:20_000]
    error = np.sqrt(np.pi / 2) * logs.std() / np.sqrt(len(logs))  # of a median
    assert abs(found["inside"]["log_var"]) < 4 * error < abs(np.median(logs))


def test_the_band_has_the_learned_factor_and_neither_noise_nor_correction(rng):
    members = rng.normal(size=(10, 50))
    dist = Predictive.from_members(members, np.ones_like(members), "student-t")
    var = members.var(axis=0, ddof=1)
    conformal = dist.held_out(3 * rng.normal(size=50), np.ones(50))
    assert isinstance(conformal, Conformal)
    wider = dataclasses.replace(dist, epistemic_var=4 * var, noise_dof=5.0, conformal=conformal)
    lower, upper = function_band(wider).interval(0.9)
    half = stats.t(9).ppf(0.95) * np.sqrt(4 * var + var / 10)
    assert np.allclose(lower, members.mean(axis=0) - half)
    assert np.allclose(upper, members.mean(axis=0) + half)
    # Ranks are among members as far apart as the band says.
    beyond = members.mean(axis=0) + 1.5 * (members.max(axis=0) - members.mean(axis=0))
    assert scores(dist, beyond, beyond, 0)["inside"]["ranks"][-1] == 25
    assert scores(wider, beyond, beyond, 0)["inside"]["ranks"][-1] == 0


def test_the_spread_that_is_needed_is_the_one_that_holds_truths(rng):
    """Means off by 0.7 exact deviations need 1.49 times the exact variance."""
    n, needed = 20_000, 1 + 0.7**2
    members = 0.7 * rng.normal(size=n) + np.sqrt(needed) * rng.normal(size=(10, n))
    exact = Predictive(np.zeros(n), np.ones(n), np.zeros(n))
    truth = rng.normal(size=n)
    dist = Predictive.from_members(members, np.zeros_like(members))
    found = scores(dist, truth, truth, 0, exact)
    for region in REGIONS:
        share = found[region]["function"][1]
        assert abs(share - 0.9) < 4 * np.sqrt(0.09 / (n / 2))
        # The squares of normal numbers have a relative deviation of root two.
        error = needed * np.sqrt(2 / (n / 2))
        assert abs(np.exp(found[region]["log_needed"]) - needed) < 4 * error


def two_classes(logits):
    """Members of two classes from the logits [member, batch] of the second."""
    outputs = np.stack([np.zeros_like(logits), logits], axis=-1)
    members = softmax(outputs)
    return Predictive.from_members(members, members * (1 - members), Categorical.family)


def test_the_function_of_two_classes_is_the_difference_of_logits(rng):
    logits = rng.normal(scale=5.0, size=(10, 30))
    band = function_band(two_classes(logits))
    expected = Predictive.from_members(logits, np.zeros_like(logits), "student-t")
    assert np.allclose(band.interval(0.9), expected.interval(0.9))


@pytest.mark.parametrize(("stated", "sign"), [(0.8, 0), (0.97, -1), (0.999, -1), (0.6, 1)])
def test_sets_of_labels_hold_as_often_as_stated_if_the_chances_are_right(stated, sign):
    dist = two_classes(np.full((3, 2), np.log(stated / (1 - stated))))
    true = np.array([0.8, 0.8])
    found = np.array(scores(dist, np.zeros(2), true, 0)["inside"]["target"])
    assert np.all(np.sign(np.round(found - LEVELS, 9)) == sign)


def test_a_set_of_labels_is_what_chance_draws_would_give(rng):
    """The stated chance of a label is 0.7, the true one 0.9; the other comes in two of three."""
    dist = two_classes(np.full((3, 2), np.log(0.7 / 0.3)))
    found = scores(dist, np.zeros(2), np.array([0.9, 0.9]), 0)["inside"]["target"][1]
    first = rng.random(100_000) < 0.9
    held = first | (rng.random(100_000) < (0.9 - 0.7) / 0.3)
    assert abs(held.mean() - found) < 4 * held.std() / np.sqrt(len(held))


# Plan


def labels_of(preset, **options):
    cells = coverage.plan(coverage.PRESETS[preset], Context(0, None, **options))
    return [cell.label for cell in cells]


def test_the_most_telling_cells_come_first_and_each_once():
    labels = labels_of("cpu")
    assert len(set(labels)) == len(labels)
    first = labels[: labels.index("3d-100-medium:nuts/0")]
    problems = {case_of(label.split(":")[0]) for label in first}
    assert problems == {Case(d, 100, kind) for d in (1, 3, 8) for kind in ("medium", "classes")}
    assert {label.split(":")[1].split("/")[0] for label in first} >= set(coverage.FIRST)
    assert sum(label.startswith("3d-100-medium:rms/") for label in first) >= 20


def test_methods_meet_only_problems_they_can_solve():
    labels = labels_of("cpu")
    assert not any("classes:gp/" in label for label in labels)
    chains = {case_of(label.split(":")[0]) for label in labels if ":nuts/" in label}
    assert chains == {
        Case(d, n, kind)
        for d in (1, 3)
        for n in (30, 100)
        for kind in ("medium", "large", "classes")
    }


def test_options_choose_problems_methods_and_truths():
    labels = labels_of("cpu", datasets=["8d-30-small"], methods=["rms", "gp"], splits=2)
    assert labels == [f"8d-30-small:{m}/{t}" for m in ("rms", "gp") for t in range(2)]
    with pytest.raises(ValueError, match=r"--datasets.*2d-100-medium"):
        labels_of("cpu", datasets=["2d-100-medium"])


def test_cells_are_kept_unless_what_their_own_method_uses_has_changed():
    changed = MethodSettings(n_steps=10)
    before, after = (settings_of(s, "rms", CASE) for s in (MethodSettings(), changed))
    assert before != after
    assert settings_of(changed, "nuts", CASE) == settings_of(MethodSettings(), "nuts", CASE)
    assert settings_of(changed, "estimator", CASE)["method"] == AnchoredRegressor().method


def test_an_exact_gp_that_fails_leaves_other_methods_their_scores(monkeypatch):
    def singular(self, problem):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(InfiniteWidthGP, "condition", singular)
    settings = coverage.PRESETS["smoke"]
    options = {"datasets": ["1d-30-medium"], "methods": ["gp", "deep"], "splits": 1}
    gp_cell, other = coverage.plan(settings, Context(0, None, **options))
    assert gp_cell.compute() == {"failed": "singular"}
    assert "log_needed" not in other.compute()["inside"]


# Record and page


def made_up(values, n=12, log_var=None, failed=0):
    """A record of ``n`` truths whose shares at 90 % vary about those of ``values``."""
    numbers, settings = {}, {}
    for (problem, method), share in values.items():
        settings[f"{problem}:{method}"] = {"width": 50, "first_var": 10.0, "n_test": 100}
        for truth in range(n):
            held = share + 0.02 * (-1) ** truth
            even = [9] * 10 + [10]
            part = {"function": [0.5, held, 0.95], "target": [0.5, 0.9, 0.95], "ranks": even}
            part["log_var"] = (log_var or {}).get(method, 0.0) + 0.1 * truth
            numbers[f"{problem}:{method}/{truth}"] = dict.fromkeys(REGIONS, part) | {"seconds": 2.0}
        for truth in range(n, n + failed):
            numbers[f"{problem}:{method}/{truth}"] = {"failed": "diverged", "seconds": 1.0}
    head = {"name": "table-coverage", "preset": "cpu", "seed": 0, "cores": 2, "seconds": 60.0}
    return head | {"settings": settings, "numbers": numbers}


def told(record):
    experiment = coverage.EXPERIMENT
    tables = [table._asdict() for table in experiment.tables(record)]
    return record | {"findings": experiment.findings(record), "tables": tables}


def test_shares_are_means_with_the_standard_error_of_the_truths():
    record = told(made_up({("3d-100-medium", "rms"): 0.91}, n=8, failed=1))
    error = np.std([2.0, -2.0] * 4, ddof=1) / np.sqrt(8)
    assert f"{error:.0f}" == "1"
    assert "mean over 3d-100-medium: rms 91 ± 1 / 91 ± 1 %." in record["findings"][0]
    assert record["tables"][1]["rows"] == [["3d-100-medium", "91 ± 1 (8)"]]
    assert record["findings"][-1] == "Fits that failed and are left out: 1."
    assert "failed" not in " ".join(told(made_up({("1d-30-small", "gp"): 0.9}))["findings"])


def test_spreads_and_shares_are_held_against_the_reference_on_the_same_truths():
    values = {("1d-100-medium", "gp"): 0.9, ("1d-100-medium", "anchored"): 0.5}
    record = told(made_up(values, log_var={"gp": -1.0, "anchored": -1.0 + np.log(0.25)}))
    text = " ".join(record["findings"])
    assert (
        "divided by that of exact GP, median over the problems, inside / outside: anchored 0.25"
        in text
    )
    assert "in points, inside / outside: anchored -40 ± 0 / -40 ± 0." in text
    assert text.count("too few truths to tell): exact GP 1 right; anchored 1 too sure.") == 2
    classes = {("1d-100-classes", "nuts"): 0.9, ("1d-100-classes", "rms"): 0.9}
    text = " ".join(told(made_up(classes, log_var={"rms": np.log(1.5)}))["findings"])
    assert (
        "divided by that of NUTS, median over the problems, inside / outside: rms 1.50 / 1.50."
        in text
    )


def test_a_truth_without_an_exact_answer_hides_nothing_of_the_others():
    """A cell of an older record, or one whose exact GP failed."""
    record = made_up({("1d-100-medium", "rms"): 0.9})
    asked = Results(record).needed(Case(1, 100, "medium"), "rms", log_needed("inside"))
    assert asked is None
    for truth in range(1, 12):
        number = record["numbers"][f"1d-100-medium:rms/{truth}"]
        number["inside"] = number["inside"] | {"log_needed": 0.5 + 0.1 * (-1) ** truth}
    asked = Results(record).needed(Case(1, 100, "medium"), "rms", log_needed("inside"))
    assert asked.n == 11
    assert asked.value == pytest.approx(0.5 - 0.1 / 11)


@pytest.mark.parametrize(
    ("mean", "word"),
    [
        (Mean(0.87, 0.001, 20, 19), "right"),
        (Mean(0.80, 0.04, 20, 19), "too sure"),
        (Mean(0.80, 0.04, 4, 3), "unclear"),  # so few cannot tell
        (Mean(0.80, None, 1, 0), "unclear"),
        (Mean(0.99, 0.001, 20, 19), "too wide"),
    ],
)
def test_a_share_is_right_if_near_and_wrong_only_if_the_truths_can_tell(mean, word):
    assert verdict(mean) == word


def test_problems_count_alike_and_errors_add_up():
    both = Mean.of([Mean(0.8, 0.03, 4, 3), None, Mean(0.9, 0.04, 40, 39)])
    assert both == pytest.approx((0.85, 0.025, 44, 42))
    one = Mean.of([Mean(0.8, None, 1, 0), Mean(0.9, 0.04, 4, 3)])
    assert one == pytest.approx((0.85, None, 5, 3))
    assert Mean.of([None]) is None


def test_errors_of_ranks_are_over_truths():
    record = made_up({("3d-100-medium", "gp"): 0.9}, n=2)
    both = list(record["numbers"].values())
    both[0]["inside"] = both[0]["inside"] | {"ranks": [100] + [0] * 10}
    both[1]["inside"] = both[1]["inside"] | {"ranks": [0] * 10 + [100]}
    shares, errors = ranks(Results(record), [Case(3, 100, "medium")], "gp", "inside")
    assert shares.tolist() == [0.5] + [0.0] * 9 + [0.5]
    assert errors == pytest.approx([0.5] + [0.0] * 9 + [0.5])


def test_the_page_says_in_a_word_what_the_record_shows():
    values = {("3d-100-medium", "gp"): 0.9, ("3d-100-medium", "anchored"): 0.5}
    text = coverage_page(told(made_up(values)), "pictures")
    assert "| exact GP | right (90 ± 1 %) | right (90 ± 1 %) |" in text
    assert "| anchored | too sure (50 ± 1 %) | too sure (50 ± 1 %) |" in text
    assert "(pictures/cpu/table-coverage.png)" in text
    assert "24 fits, 60 s on 2 cores" in " ".join(text.split())
    assert "one hidden layer of 50 ReLU nodes" in text


def test_the_page_is_made_from_its_record():
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page()


def test_the_record_of_the_page_says_what_its_numbers_do():
    record = paper.load(writer.RECORDS, "table-coverage")
    again = told(record)
    assert record["findings"] == again["findings"]
    rows = [[list(row) for row in table["rows"]] for table in again["tables"]]
    assert [table["rows"] for table in record["tables"]] == rows


# Command


def test_cells_are_printed_kept_and_added_to(tmp_path, monkeypatch):
    def fails(s, posed):
        raise EnsembleError("Members [1] diverged twice.")

    monkeypatch.setitem(METHODS, "rms", METHODS["rms"]._replace(fit=fails))
    command = ["reproduce", "table-coverage", "--out", str(tmp_path), "--datasets", "1d-30-medium"]
    for methods in ("gp", "gp,rms"):
        result = runner.invoke(app, [*command, "--methods", methods, "--splits", "3"])
        assert result.exit_code == 0, result.output
    record = paper.load(tmp_path / "cpu", "table-coverage")  # the usual preset
    assert list(record["numbers"]) == [
        f"1d-30-medium:{m}/{t}" for m in ("gp", "rms") for t in range(3)
    ]
    assert record["numbers"]["1d-30-medium:rms/0"]["failed"] == "diverged"
    assert "Fits that failed and are left out: 3." in result.output
    assert coverage_page(record, "pictures")


@pytest.mark.slow
def test_smoke_meets_every_method_and_can_be_redrawn(tmp_path):
    command = ["reproduce", "table-coverage", "--preset", "smoke", "--out", str(tmp_path)]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "smoke"
    record = paper.load(folder, "table-coverage")
    met = {label.split(":")[1].split("/")[0] for label in record["numbers"]}
    assert met == set(METHODS) - {"unconstrained", "estimator-anchored"}
    assert not any("failed" in truth for truth in record["numbers"].values())
    drawn = (folder / "table-coverage.png").read_bytes()
    assert drawn[1:4] == b"PNG"
    (folder / "table-coverage.png").unlink()
    assert runner.invoke(app, [*command, "--redraw"]).exit_code == 0
    assert (folder / "table-coverage.png").read_bytes() == drawn
