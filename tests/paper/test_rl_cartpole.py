"""The cart-pole figure: its cells, what its record says, its picture, and a short run of it all."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from anchored import paper
from anchored.cli import app
from anchored.paper.figures import rl_cartpole
from anchored.paper.figures.rl_cartpole_averaged import Averaged
from anchored.paper.figures.rl_cartpole_models import Source, judged
from anchored.paper.figures.rl_cartpole_record import Curves, Mean, draw, main_settings
from anchored.paper.plotting import picture
from anchored.paper.prose import rendered
from anchored.paper.runner import Context, plain
from anchored.rl.dynamics import DynamicsModel
from anchored.rl.environments.cartpole import CartPoleSwingUp

runner = CliRunner(env={"COLUMNS": "400"})
SMOKE = rl_cartpole.PRESETS["smoke"]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    command = ["reproduce", "fig-rl-cartpole", "--preset", "smoke", "--out", str(folder)]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    return paper.load(folder / "smoke", "fig-rl-cartpole"), folder


def made_up(ends, n_seeds=10):
    """A record of two trials whose second has a given mean and deviation one over seeds."""
    spread = np.linspace(-1, 1, n_seeds) / np.std(np.linspace(-1, 1, n_seeds), ddof=1)
    numbers = {
        f"{group}/{seed}": {"returns": [0.0, float(end + spread[seed] * (1 + i))], "seconds": 1.0}
        for i, (group, end) in enumerate(ends.items())
        for seed in range(n_seeds)
    }
    settings = plain(SMOKE) | {"n_last": 1, "n_trials": 2}
    record = {"name": "fig-rl-cartpole", "numbers": numbers, "preset": "smoke", "seconds": 1.0}
    return record | {"settings": dict.fromkeys(ends, settings)}


def test_a_short_run_has_every_curve_and_a_picture(smoke):
    record, folder = smoke
    cells = rl_cartpole.plan(SMOKE, Context(0, None))
    assert {cell.label for cell in cells} == set(record["numbers"])
    assert len(record["numbers"]) == SMOKE.n_seeds * (3 * 5 + 1 + 3 * 2)
    for result in record["numbers"].values():
        assert np.isfinite(result["returns"] if "returns" in result else result["error"]).all()
    # All methods meet the same first trial, which is at random.
    first = {n: record["numbers"][f"high:{n}/1"]["returns"][0] for n in rl_cartpole.METHODS}
    assert len(set(first.values())) == 1
    second = {n: record["numbers"][f"high:{n}/1"]["returns"][1] for n in rl_cartpole.METHODS}
    assert len(set(second.values())) == 3
    assert (folder / "smoke" / "fig-rl-cartpole.png").stat().st_size > 10_000


def test_a_run_adds_what_is_missing_alone(smoke, monkeypatch):
    record, folder = smoke
    computed = []
    learnt = rl_cartpole._learnt
    monkeypatch.setattr(
        rl_cartpole, "_learnt", lambda *given: computed.append(given) or learnt(*given)
    )
    file = folder / "smoke" / "fig-rl-cartpole.json"
    kept = file.read_text()
    file.write_text(kept.replace('"low:anchored/1"', '"low:lost/1"'))
    command = ["reproduce", "fig-rl-cartpole", "--preset", "smoke", "--out", str(folder)]
    assert runner.invoke(app, command).exit_code == 0
    assert len(computed) == 1
    again = paper.load(folder / "smoke", "fig-rl-cartpole")["numbers"]["low:anchored/1"]
    assert again["returns"] == record["numbers"]["low:anchored/1"]["returns"]


def test_seeds_can_be_added_to_some_methods():
    context = Context(0, None, methods=["high:anchored"], splits=3)
    labels = [cell.label for cell in rl_cartpole.plan(SMOKE, context)]
    assert labels == [f"high:anchored/{seed}" for seed in range(3)]
    with pytest.raises(ValueError, match=r"--methods must be one of .*; got 'anchored'"):
        rl_cartpole.plan(SMOKE, Context(0, None, methods=["anchored"]))


def test_findings_say_what_is_clear_and_what_is_not():
    ends = {"high:unconstrained": 50.0, "high:anchored": 60.0, "high:regularised": 59.9}
    told, first = rl_cartpole.findings(made_up(ends | {"high:true": 90.0}))
    assert "Anchored ends above unconstrained (difference 10.0 ± 0.3)." in told
    assert "Anchored ends about level with regularised (difference 0.1 ± 0.3)." in told
    assert "true model 90.0 ± 1.3 (± one standard error over 10 seeds)" in told
    # Of two trials the second is the first that is planned, and the end.
    assert "anchored earns more than unconstrained at high noise (10.0 ± 0.3)" in first


def test_ends_are_means_of_the_last_trials_over_seeds():
    curves = Curves(made_up({"low:anchored": 5.0, "low:unconstrained@10": 3.0}, n_seeds=4))
    end = curves.end("low", "anchored")
    assert end == Mean(pytest.approx(5.0), pytest.approx(0.5))
    assert curves.names("low") == ["anchored", "unconstrained@10"]
    assert curves.end("low", "regularised") is None
    assert [m.sign for m in (Mean(2.1, 1.0), Mean(-2.1, 1.0), Mean(1.9, 1.0), Mean(9, None))] == [
        1, -1, 0, 0
    ]  # fmt: skip


def test_a_record_of_few_cells_can_be_drawn_and_told(smoke):
    record, _ = smoke
    few = {label: r for label, r in record["numbers"].items() if label.endswith("anchored/0")}
    part = record | {"numbers": few}
    assert len(rl_cartpole.findings(part)) == 3
    assert rl_cartpole.tables(part)[0].rows[0][1].replace(".", "").lstrip("-").isdecimal()
    assert picture(lambda figure: draw(figure, part), (6, 2))["png"]


def test_the_section_is_made_from_the_record(smoke):
    record, _ = smoke
    s = main_settings(record)
    text = rendered("rl_cartpole.md.j2", record=record, s=s, pictures="rl")
    words = " ".join(text.split())
    assert "the networks train for 40 more steps" in words
    assert "![Learning to swing a pole up in a noisy world](rl/fig-rl-cartpole.png)" in text
    assert "2 networks with 1 hidden layers of 8 nodes" in words
    assert all(finding in text for finding in record["findings"])


def test_models_are_judged_beside_the_equations():
    """One that trains comes nearer to them, in error and in nats."""
    source = Source(CartPoleSwingUp(0.005, 100), SMOKE.planner, 2, 4, 0)
    settings = dataclasses.replace(SMOKE.dynamics, capacity=400)
    few, many = (judged(source, settings, n, *rl_cartpole._functions()) for n in (1, 1_000))
    assert many["error"] < few["error"] / 2
    assert 0 < many["lost"] < few["lost"]
    assert many["spread"] > 0


def test_models_are_told_apart_from_runs():
    record = made_up({"high:anchored": 5.0})
    alone = {"error": 0.5, "spread": 0.25, "lost": 1.0, "seconds": 1.0}
    record["numbers"] |= {f"models:anchored@{SMOKE.n_train_steps}/{i}": alone for i in range(2)}
    *_, told = rl_cartpole.findings(record)
    assert "error of the mean 0.50 ± 0.00 deviations of the noise" in told
    assert rl_cartpole.tables(record)[-1].rows == [
        ["anchored, 40 steps", "0.50 ± 0.00", "0.25 ± 0.00", "1.00 ± 0.00"]
    ]


def test_averaged_worlds_are_the_mean_of_the_members(rng):
    env = CartPoleSwingUp(0.005, 20)
    settings = dataclasses.replace(SMOKE.dynamics, n_members=3)
    model = DynamicsModel.begin(jax.random.key(0), 4, 1, settings, env.features, env.reward)
    world, none = Averaged(model), jnp.zeros((6, 4))
    seen = jnp.asarray(rng.normal(size=(6, 4)), jnp.float32)
    action = jnp.asarray(rng.uniform(-1, 1, (6, 1)), jnp.float32)
    each = [model.step(jnp.int32(j), none, seen, action)[0] for j in range(3)]
    reached, reward = world.step(jnp.int32(0), none, seen, action)
    np.testing.assert_allclose(reached, np.mean(each, axis=0), atol=1e-5)
    np.testing.assert_allclose(reward, env.reward(seen, action, reached), atol=1e-6)
    noisy, _ = world.step(jnp.int32(0), none + 1.0, seen, action)
    deviations = [model.step(jnp.int32(j), none + 1.0, seen, action)[0] - each[j] for j in range(3)]
    np.testing.assert_allclose(
        noisy - reached, np.sqrt(np.mean(np.square(deviations), 0)), rtol=1e-3
    )


def test_planning_without_the_spread_differs_in_that_alone():
    context = Context(0, None)
    runs = {
        name: rl_cartpole._learnt(SMOKE, context, "high", name, 40, 1)["returns"]
        for name in ("anchored", "anchored-averaged")
    }
    with_spread, without = runs.values()
    assert with_spread[0] == without[0]  # the first trial is at random
    assert with_spread[1] != without[1]
    ends = {"high:anchored": 5.0, "high:anchored-averaged": 2.0, "high:unconstrained": 1.0}
    told = " ".join(rl_cartpole.EXPERIMENT.findings(made_up(ends | {"high:regularised": 1.0})))
    assert (
        "earns less than planning with each member in turn (the spread changes the reward by 3.0"
        in told
    )
