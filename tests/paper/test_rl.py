"""Experiments with agents: psi is the most likely, records tell what they hold, pages too."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks import rl_page as writer
from typer.testing import CliRunner

from anchored import paper
from anchored.cli import app
from anchored.paper import Context
from anchored.paper.figures import rl_push
from anchored.paper.figures.rl_push_drawing import unpacked
from anchored.paper.pages import rl_page
from anchored.paper.tables import deep_sea
from anchored.paper.tables.deep_sea import psi, solved_after


def test_psi_is_most_likely(rng):
    """Of many runs it is the true one; of one run on one size, psi^n is one in k."""
    runs = []
    for size in (5, 10):
        first = rng.geometric(0.8**size, 400)
        runs += [(size, int(k) if k <= 60 else None, 60) for k in first]
    value, error = psi(runs)
    assert abs(value - 0.8) < 4 * error
    assert error < 0.01
    alone, _ = psi([(10, 50, 100)])
    assert alone**10 == pytest.approx(1 / 50, rel=1e-3)
    assert psi([(10, None, 50)])[0] == pytest.approx(0.3)  # the lowest that is looked at


def test_solved_is_one_episode_in_ten():
    total = np.zeros(40)
    assert solved_after(total) is None
    total[[20, 25, 29]] = 0.99
    assert solved_after(total) == 30
    assert solved_after(total[:29]) is None


def test_the_smoke_of_deep_sea_is_a_record_that_grows(tmp_path):
    out = ["--preset", "smoke", "--out", str(tmp_path)]
    run = CliRunner().invoke(
        app, ["reproduce", "table-deep-sea", *out, "--methods", "anchored", "--splits", "1"]
    )
    assert run.exit_code == 0, run.output
    record = json.loads((tmp_path / "smoke/table-deep-sea.json").read_text())
    (cell,) = record["numbers"].values()
    assert list(record["numbers"]) == ["anchored/5/0"]
    assert cell["n_episodes"] == 60
    found = "-" if cell["found"] is None else cell["found"]
    assert found == "-" or 1 <= found <= 60
    assert (tmp_path / "smoke/table-deep-sea.png").stat().st_size > 5_000


def sea_record(found):
    numbers = {
        f"{method}/{size}/{seed}": {"found": k, "solved": k, "n_episodes": 2000, "seconds": 1.0}
        for (method, size), of_seed in found.items()
        for seed, k in enumerate(of_seed)
    }
    return {"numbers": numbers, "preset": "cpu", "settings": {}, "seconds": 5.0, "cores": 2}


def test_the_table_of_deep_sea_says_what_the_record_holds():
    anchors, rival = deep_sea.TUNED
    found = {(anchors, 20): [100, 300, 200], (anchors, 50): [5000], (rival, 20): [400, None, None]}
    record = sea_record(found)
    (table,) = deep_sea.tables(record)
    rows = {row[0]: row[1:] for row in table.rows}
    mine, theirs = (rows[deep_sea.METHODS[method]] for method in deep_sea.TUNED)
    assert mine[:2] == ("3 of 3; 200", "1 of 1; 5,000")
    assert theirs[:2] == ("1 of 3; > 2,000", "-")
    assert mine[2] > theirs[2]
    words = deep_sea.findings(record)
    assert any("in 3 of 3 seeds; the target was 9 of 10" in line for line in words)
    assert any("so anchors explore better" in line for line in words)
    assert any("prior), none (randomised priors, faster rate)." in w for w in words)


def test_anchors_differ_in_their_steps_and_prior_alone():
    one, other = (
        dataclasses.asdict(deep_sea.agent_of(deep_sea.Settings(), method))
        for method in ("anchored", "anchored-units")
    )
    changed = {name for name in one if one[name] != other[name]}
    assert changed == {"in_prior_units", "learning_rate", "first_var", "prior_scale"}


def test_large_sizes_have_seeds_of_their_own():
    cells = [cell.label for cell in deep_sea.plan(deep_sea.Settings(), Context(0, None))]
    for size, n_seeds in ((30, 10), (40, 1), (50, 1)):
        some = [label for label in cells if label.split("/")[1] == str(size)]
        assert len(some) == 2 * n_seeds
        assert {label.split("/")[0] for label in some} == set(deep_sea.TUNED)


def test_psi_is_compared_over_the_runs_that_both_have():
    """Of a size that one has met with more seeds, and of one it alone has met, the rest is left."""
    found = {("anchored", 20): [100, 300, None], ("anchored", 50): [5000]}
    other = ("randomised-priors", 20)
    (pair,) = deep_sea.pairs(sea_record(found | {other: [100, 300]}))
    assert pair["psi"][0] == pair["psi"][1]
    assert (pair["sizes"], pair["better"]) == ("20", "")


def test_psi_over_sizes_with_many_seeds_is_told_apart():
    """One long run that failed weighs on the rest; sizes with ten seeds count by themselves too."""
    tuned = deep_sea.TUNED
    found = {(method, 20): [100] * 10 for method in tuned}
    found |= {(tuned[0], 30): [None], (tuned[1], 30): [100]}
    both, many = deep_sea.pairs(sea_record(found))
    assert (both["sizes"], many["sizes"]) == ("20, 30", "20")
    assert both["psi"][0] < both["psi"][1]
    assert many["psi"][0] == many["psi"][1]


@pytest.fixture(scope="module")
def push_record(tmp_path_factory):
    """A run too short to learn anything, that has all parts."""
    settings = dataclasses.replace(
        rl_push.PRESETS["smoke"],
        n_episodes=200,
        greedy_episodes=200,
        n_judged=20,
        agent=dataclasses.replace(rl_push.PRESETS["smoke"].agent, n_updates=20),
    )
    folder = tmp_path_factory.mktemp("push")
    experiment = dataclasses.replace(rl_push.EXPERIMENT, presets={"smoke": settings})
    return paper.run(experiment, "smoke", Context(0, None), folder, lambda *_: None), folder


def test_the_smoke_of_the_robot_arm_has_all_parts(push_record):
    record, folder = push_record
    numbers = record["numbers"]
    assert set(numbers) == {"anchored", "epsilon-greedy", "pictures"}
    for name in rl_push.WORDS:
        assert numbers[name]["n_episodes"] == 200
        assert numbers[name]["n_steps"] == 200 * 50
        assert -1.0 <= numbers[name]["final_reward"] <= 0.0
    assert np.shape(numbers["anchored"]["scenes"]["C"]["q"]) == (5, 4)
    assert len(record["findings"]) == 5
    assert (folder / ".fig-rl-push-anchored/q_agent.safetensors").exists()


def test_scenes_are_what_they_are_called():
    s = rl_push.Settings()
    a, b, c = (rl_push.scenes(s, kind) for kind in "ABC")
    assert a.shape == b.shape == c.shape == (20, 4)
    np.testing.assert_allclose(np.hypot(*a[:, 2:].T), 0.8, rtol=1e-5)
    assert np.hypot(*b[:, 2:].T).max() < 0.5  # within 5 cm
    assert np.hypot(*c[:, 2:].T).min() > 3.0
    ahead = np.sum(a[:, :2] * a[:, 2:], axis=1)
    np.testing.assert_allclose(ahead, np.hypot(*a[:, :2].T) * 0.8, rtol=1e-5)


def test_pictures_are_packed_without_loss(rng):
    image = rng.integers(0, 255, (480, 480, 3)).astype(np.uint8)
    back = unpacked(json.loads(json.dumps(paper.runner.plain(rl_push._packed(image)))))
    assert back.shape[2] == 3
    assert {tuple(pixel) for pixel in back[0, :5]} <= {tuple(p) for p in image.reshape(-1, 3)}


def test_the_page_is_of_its_records(push_record):
    record, _ = push_record
    text = rl_page({"fig-rl-push": record}, {}, "reinforcement_learning")
    for line in record["findings"]:
        assert line in text
    assert "for the planar substitute, not for the robot arm" in text
    assert "Deep sea" not in text
    assert "## Speed" not in text


def test_the_page_shows_trials_and_speed():
    choice = {
        "first_var": 1.0,
        "prior_scale": 3.0,
        "learning_rate": 0.01,
        "noise_var": 0.1,
        "capacity": 10_000,
    }
    looks = [{"spread_unseen": 2.268}, {"spread_unseen": None}]
    trials = {
        "choices": {"q": choice | {"in_prior_units": True}},
        "trials": {
            "anchored/q/14/1": {"found": 1200, "n_episodes": 1500},
            "anchored/q/14/2": {"found": None, "n_episodes": 1500},
            "randomised-priors/q/14/1": {"found": 7, "n_episodes": 1500},
        },
        "drift": {"randomised-priors/q": looks},
    }
    times = {
        "32": {
            "one": {"clock_median": 60.0},
            "all": {"processor_median": 44.0, "clock_median": 24.0},
        },
        "50": {
            "one": {"clock_median": 74.0},
            "all": {"processor_median": 75.0, "clock_median": 51.0},
        },
    }
    line = {"name": "a", "value": 19.0, "unit": "x", "target": 20.0, "at_least": True, "ok": False}
    beside = {
        "deep_sea_trials": trials,
        "rl_planning": {
            "milliseconds": times,
            "target": 50.0,
            "devices": 2,
            "cores": 2,
            "load": [0.5, 0.5, 0.5],
        },
        "rl": {"lines": [line], "cores": 2, "load": [0.1, 0.2, 0.3]},
    }
    sea = sea_record({("anchored", 20): [100]})
    sea |= {"findings": [], "tables": [], "title": "Sea"}
    text = rl_page({"table-deep-sea": sea}, beside, "pictures")
    assert "| 1 | 3 | 0.1 | 10,000 | 0.01 * | 1,200, > 1,500 | 7 |" in text
    assert "| randomised priors, rate 0.01 * | 2.27 | - |" in text
    assert "| 32 nodes | 60.0 ms | 24.0 ms | 44.0 ms | met |" in text
    assert "| 50 nodes | 74.0 ms | 51.0 ms | 75.0 ms | missed |" in text
    assert "| a | 19 x | at least 20 x | missed |" in text


def test_the_page_in_docs_is_what_the_records_say():
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page()
