"""The figures of the theory: the numbers in their records, at the smoke preset."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from anchored import paper
from anchored.exact.rms import Normal
from anchored.paper.figures.appendix_b import reproduces
from anchored.paper.figures.examples import ANCHORED
from anchored.paper.figures.theory import check_draws
from anchored.paper.plotting import picture

NAMES = ("fig-rms-2d", "fig-rms-cases", "fig-correlated", "appendix-b")
EPS = np.finfo(float).eps
DIGITS = 1e-5  # records keep six digits
# Two means and three entries of a covariance, in five sets of draws; two-sided.
Z_LIMIT = stats.norm.isf(1e-3 / 2 / 25)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theory")
    context = paper.Context(seed=0, data_dir=None)
    for name in NAMES:
        paper.run(paper.get(name), "smoke", context, folder, lambda *_: None)
    return {name: paper.load(folder, name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_picture_from_the_stored_record_alone(records, name):
    experiment, record = paper.get(name), records[name]
    files = picture(lambda figure: experiment.draw(figure, record), experiment.size)
    assert files["png"].startswith(b"\x89PNG")
    assert experiment.findings(record) == record["findings"]
    for table in record["tables"]:
        assert all(len(row) == len(table["header"]) for row in table["rows"])


def test_check_draws_knows_its_errors():
    """Standard errors against the spread over repeats, which has 1/sqrt(2 n) of its own."""
    normal, n_repeats = Normal(np.array([1.0, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])), 2000
    rng = np.random.default_rng(0)
    checks = [check_draws(normal.sample(rng, 50), normal) for _ in range(n_repeats)]
    for moment in ("mean", "cov"):
        spread = np.std([check[moment] for check in checks], axis=0)
        np.testing.assert_allclose(
            spread, checks[0][f"{moment}_error"], rtol=4 / np.sqrt(n_repeats)
        )


# Figure 2 ----------------------------------------------------------------------------------------


def test_exact_anchors_recover_the_posterior(records):
    numbers = records["fig-rms-2d"]["numbers"]
    like, prior = (np.array(numbers[name]["cov"]) for name in ("likelihood", "prior"))
    exact = np.linalg.inv(np.linalg.inv(like) + np.linalg.inv(prior))
    np.testing.assert_allclose(numbers["posterior"]["cov"], exact, rtol=DIGITS)
    wider = prior + prior @ np.linalg.inv(like) @ prior
    np.testing.assert_allclose(numbers["anchor_dist"]["cov"], wider, rtol=DIGITS)
    assert numbers["check"]["max_z"] < Z_LIMIT
    assert numbers["check_from_prior"]["max_z"] > 2 * Z_LIMIT


def test_arrow_of_step_two_is_a_map_solution(records):
    """Its gradient vanishes: the pull of the prior, now about the anchor, balances the data's."""
    numbers = records["fig-rms-2d"]["numbers"]
    i, like = numbers["example"], numbers["likelihood"]
    anchor, solution = (np.array(numbers[name][i]) for name in ("anchors", "solutions"))
    pull = np.linalg.solve(numbers["prior"]["cov"], anchor - solution)
    pull += np.linalg.solve(like["cov"], np.array(like["mean"]) - solution)
    np.testing.assert_allclose(pull, 0, atol=20 * DIGITS)


# Figure 3 ----------------------------------------------------------------------------------------

# Eigenvalues l of the posterior: v / (1 + v) for variances v of the likelihood along its axes.
KEPT = {
    "general": (Fraction(27, 37), Fraction(3, 13)),
    "correlated": (Fraction(39998, 49998), Fraction(2, 10002)),
    "extrapolation": (Fraction(2000, 2001), Fraction(2000, 2001)),
}


@pytest.mark.parametrize("row", KEPT)
def test_rows_follow_from_the_variance_kept(records, row):
    cells, kept = records["fig-rms-cases"]["numbers"]["rows"][row], np.array(KEPT[row], float)
    for name, values in (("exact", kept), ("rms", kept**2)):
        cov = cells[name]["cov"]
        np.testing.assert_allclose(cov[0][0], values.mean(), rtol=DIGITS)
        np.testing.assert_allclose(cov[0][1], (values[0] - values[1]) / 2, rtol=DIGITS, atol=EPS)
    np.testing.assert_allclose(cells["rms"]["gap"], (kept * (1 - kept)).max(), rtol=DIGITS)
    diagonal = 2 / (1 / kept).sum()  # the harmonic mean
    np.testing.assert_allclose(cells["mean-field"]["cov"], diagonal * np.eye(2), rtol=DIGITS)
    assert cells["rms"]["mean"] == cells["exact"]["mean"] == cells["mean-field"]["mean"]
    assert cells["rms"]["check"]["max_z"] < Z_LIMIT


def test_general_row_has_less_variance_and_more_correlation(records):
    cells = records["fig-rms-cases"]["numbers"]["rows"]["general"]
    assert max(cells["rms"]["variance_ratio"]) < 0.62
    assert cells["rms"]["correlation"] > cells["exact"]["correlation"] + 0.29
    assert cells["mean-field"]["correlation"] == 0


def test_exact_rows(records):
    """C is exact as drawn; B only in its correlation, and in full once its line is long."""
    numbers = records["fig-rms-cases"]["numbers"]
    assert numbers["rows"]["extrapolation"]["rms"]["gap"] < 1 / 2001
    row = numbers["rows"]["correlated"]
    assert row["rms"]["correlation"] > row["exact"]["correlation"] > 0.999
    assert row["rms"]["variance_ratio"][0] < 0.8
    gaps = [cell["gap"] for cell in numbers["lengths"].values()]
    np.testing.assert_allclose(gaps[0], row["rms"]["gap"], rtol=DIGITS)
    assert gaps == sorted(gaps, reverse=True)
    across = float(KEPT["correlated"][1])  # what the width alone costs
    np.testing.assert_allclose(gaps[-1], across * (1 - across), rtol=DIGITS)


# Appendix B.3 ------------------------------------------------------------------------------------


def test_two_node_network(records):
    numbers = records["fig-correlated"]["numbers"]
    half = 0.5e-3
    np.testing.assert_array_equal(numbers["precision"], [[90, 63], [63, 44.1]])
    np.testing.assert_array_equal(numbers["precision_of_text"], [[900, 630], [630, 441]])
    printed = [[0.169, -0.231], [-0.231, 0.338]]
    np.testing.assert_allclose(numbers["posterior"]["cov"], printed, rtol=0, atol=half)
    assert abs(numbers["posterior_of_text"]["cov"][0][0] - 0.169) > half
    exact = 2 * np.array([[6094.21, -8700.3], [-8700.3, 12433.0]]) / 272.2**2
    np.testing.assert_allclose(numbers["anchored"]["cov"], exact, rtol=DIGITS)
    assert numbers["check"]["max_z"] < Z_LIMIT
    np.testing.assert_allclose(numbers["elbows"], [-1.25, 0.25])


def test_two_node_draws_solve_the_map_equations(records):
    """S_post S_prior^-1 anchor, anchor by anchor: the prior's draws shown are the anchors."""
    numbers = records["fig-correlated"]["numbers"]
    push = np.array([[46.1, -63.0], [-63.0, 92.0]]) / 272.2 / 0.5
    draws = numbers["draws"]
    expected = np.array(draws["prior"]) @ push
    np.testing.assert_allclose(draws["anchored"], expected, rtol=0, atol=10 * DIGITS)


def test_two_node_predictive(records):
    """The nodes are 3 and 2.1 at x = -5 and silent at 5, where only noise is left."""
    numbers = records["fig-correlated"]["numbers"]
    nodes = np.array([3.0, 2.1])
    for name in ("posterior", "anchored"):
        found = numbers["exact_fit_std" if name == "posterior" else "anchored_fit_std"]
        expected = np.sqrt(nodes @ np.array(numbers[name]["cov"]) @ nodes)
        # A small difference of large terms, from entries of six digits.
        np.testing.assert_allclose(found[0] ** 2, expected**2, rtol=0, atol=40 * DIGITS)
        assert found[1] == 0
    assert numbers["anchored_fit_std"][0] < 0.13 * numbers["exact_fit_std"][0]
    for name in ("exact_predictive", "anchored_predictive"):
        np.testing.assert_allclose(numbers[name]["std"][-1] ** 2, 0.1, rtol=DIGITS)


# Appendix B --------------------------------------------------------------------------------------


def test_printed_numbers_reproduce_but_for_two(records):
    numbers = records["appendix-b"]["numbers"]
    failed = {
        (name, check["what"])
        for name, cell in numbers.items()
        for check in cell["checks"]
        if not reproduces(check)
    }
    assert failed == {("two-node network", "S_like"), ("two-node network", ANCHORED)}
    assert {cell["section"] for cell in numbers.values()} == {
        "B.1.1",
        "B.1.2",
        "B.2",
        "B.3",
        "ours",
    }
    off = {c["what"]: c["off"] for c in numbers["two-node network"]["checks"]}
    np.testing.assert_allclose(off[ANCHORED], (0.338 - 2 * 12433 / 272.2**2) / 0.5e-3, rtol=1e-4)
    assert off["S_like"] is None


def test_special_examples_are_exact_and_the_others_not(records):
    gaps = {name: cell["gap"] for name, cell in records["appendix-b"]["numbers"].items()}
    exact = {name for name, gap in gaps.items() if gap < 1e-12}
    assert exact == {"tied and free", "all tied", "anisotropic prior"}


def test_overlapping_mixture_exceeds_its_prior(records):
    numbers = records["appendix-b"]["numbers"]
    assert numbers["overlapping mixture"]["largest_kept"] > 1.04
    assert numbers["overlapping mixture"]["anchored"][0][0] == 1.025
    for name, cell in numbers.items():
        if name != "overlapping mixture":
            assert cell["largest_kept"] <= 1 + 10 * EPS


def test_counter_example_loses_its_correlation(records):
    cell = records["appendix-b"]["numbers"]["counter-example"]
    assert cell["exact_correlation"][0][1] == 0.125
    assert abs(cell["anchored_correlation"][0][1]) <= EPS
    assert cell["largest_kept"] < 1
