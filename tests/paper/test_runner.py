"""The runner: cells kept and reused, records whole, pictures from the record alone."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchored import paper
from anchored.cli import app
from anchored.errors import MissingDataError
from anchored.paper import Context, Experiment, runner
from anchored.paper.figures._toy import distance, mean_and_error, regions
from anchored.paper.pages import reproduction_page
from anchored.paper.runner import Cell, Table, plain
from anchored.prediction.predictive import Predictive

runner = CliRunner()


@dataclasses.dataclass(frozen=True)
class Settings:
    n_cells: int = 3


class Counted:
    """An experiment that counts what it computes and can be interrupted before a cell."""

    def __init__(self, stop_before=None):
        self.computed, self.stop_before = [], stop_before

    def compute(self, i):
        if i == self.stop_before:
            raise KeyboardInterrupt
        self.computed.append(i)
        return {"value": np.float32(i) / 3, "missing": np.nan}

    def experiment(self):
        return Experiment(
            name="counted",
            figure="none",
            title="A count",
            claim="None.",
            presets={"smoke": Settings(), "paper": Settings(4)},
            seconds={"smoke": 1, "paper": 1},
            plan=lambda s, context: [
                Cell(f"part/{i}", 1.0, lambda i=i: self.compute(i)) for i in range(s.n_cells)
            ],
            combine=lambda s, results: {"sum": sum(r["value"] for r in results.values())},
            findings=lambda record: [f"The sum is {record['numbers']['sum']}."],
            tables=lambda record: [Table("T", ("a",), [("1",)])],
            draw=lambda figure, record: figure.subplots().plot([0, record["numbers"]["sum"]]),
            size=(2, 2),
        )


def run(counted, folder, preset="smoke", seed=0):
    steps = []
    record = runner.run(
        counted.experiment(), preset, Context(seed, None), folder, lambda *step: steps.append(step)
    )
    return record, steps


def test_a_record_says_what_was_done(tmp_path):
    record, steps = run(Counted(), tmp_path)
    assert record["numbers"] == {"sum": 1.0}
    assert record["settings"] == {"n_cells": 3}
    assert record["findings"] == ["The sum is 1.0."]
    assert {"anchored", "jax", "python"} <= set(record["versions"])
    assert record == paper.load(tmp_path, "counted")
    assert [p.name for p in tmp_path.iterdir()] == ["counted.json"]  # nothing left behind
    assert steps == [("part/0", 0, 3), ("part/1", 1, 3), ("part/2", 2, 3), ("", 3, 3)]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Counted(stop_before=2), tmp_path)
    assert not (tmp_path / "counted.json").exists()
    again = Counted()
    record, _ = run(again, tmp_path)
    assert again.computed == [2]
    assert record["numbers"] == run(Counted(), tmp_path / "whole")[0]["numbers"]


@pytest.mark.parametrize("change", [{"preset": "paper"}, {"seed": 1}])
def test_parts_of_another_run_are_not_reused(tmp_path, change):
    with pytest.raises(KeyboardInterrupt):
        run(Counted(stop_before=2), tmp_path)
    again = Counted()
    run(again, tmp_path, **change)
    assert again.computed[:3] == [0, 1, 2]


def test_a_spoiled_part_is_computed_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Counted(stop_before=2), tmp_path)
    (part,) = tmp_path.glob(".counted-*/*1.json")
    part.write_text("{")
    again = Counted()
    run(again, tmp_path)
    assert again.computed == [1, 2]


def test_a_record_of_another_schema_is_refused(tmp_path):
    record, _ = run(Counted(), tmp_path)
    (tmp_path / "counted.json").write_text(json.dumps(record | {"schema": 0}))
    with pytest.raises(ValueError, match="schema 0"):
        paper.load(tmp_path, "counted")


def test_plain_keeps_json_strict():
    value = {"a": np.arange(2.0) / 3, 1: (np.int64(2), float("inf"))}
    assert plain(value) == {"a": [0.0, 0.333333], "1": [2, None]}
    json.dumps(plain(value), allow_nan=False)


# Distances of the toy figures


def test_distance_is_nothing_to_itself_and_known_for_a_shift():
    grid = np.linspace(-2, 2, 9)
    exact = Predictive(np.zeros(9), np.full(9, 4.0), np.zeros(9))
    shifted = Predictive(np.ones(9), np.full(9, 4.0), np.zeros(9))
    wider = Predictive(np.zeros(9), np.full(9, 16.0), np.zeros(9))
    where = regions(grid, np.array([-1.0, 1.0]))
    assert {name: int(mask.sum()) for name, mask in where.items()} == {
        "at": 2,
        "between": 3,
        "outside": 4,
    }
    same = distance(exact, exact, where)
    assert (same["kl"], same["w2"], same["ratio_at"]) == (0, 0, 1)
    assert distance(exact, shifted, where)["kl"] == pytest.approx(1 / 8)
    assert distance(exact, shifted, where)["w2"] == pytest.approx(1)
    wide = distance(exact, wider, where)
    assert wide["kl"] == pytest.approx(np.log(2) + 1 / 8 - 1 / 2)
    assert wide["reverse_kl"] == pytest.approx(2 - 1 / 2 - np.log(2))
    assert wide["ratio_outside"] == pytest.approx(2)


def test_mean_and_error():
    summary = mean_and_error([{"a": 1.0}, {"a": 3.0}])
    assert summary == {"a": {"mean": 2.0, "error": pytest.approx(1.0)}}


# The command


def test_list_names_everything_and_what_it_takes():
    result = runner.invoke(app, ["reproduce", "--list"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for name in paper.MODULES:
        assert name in result.output
    assert "boston.txt" in result.output


@pytest.mark.parametrize("name", paper.MODULES)
def test_every_experiment_is_complete(name):
    experiment = paper.get(name)
    assert experiment.name == name
    assert set(experiment.presets) == set(experiment.seconds) == set(paper.PRESETS)
    for settings in experiment.presets.values():
        assert dataclasses.is_dataclass(settings)
        with pytest.raises(dataclasses.FrozenInstanceError):
            settings.anything = 1  # type: ignore


KINDS = ("json", "png", "svg")
SMOKED = ("fig-methods", "fig-losses", "fig-kl", "nuts-check")


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOKED)
def test_smoke_writes_record_and_pictures_that_can_be_redrawn(name, tmp_path):
    command = ["reproduce", name, "--preset", "smoke", "--out", str(tmp_path)]
    result = runner.invoke(app, command, env={"ANCHORED_DATA": ""})
    assert result.exit_code == 0, result.output
    folder = tmp_path / "smoke"
    assert sorted(p.name for p in folder.iterdir()) == [f"{name}.{k}" for k in KINDS]
    assert (folder / f"{name}.png").read_bytes()[1:4] == b"PNG"
    record = paper.load(folder, name)
    assert record["findings"]
    assert not re.search(r"\bnan\b|None", " ".join(record["findings"]))
    assert record["findings"][0].split(":")[0] in result.output
    # The picture needs the record alone.
    picture = folder / f"{name}.svg"
    before, kept = picture.read_bytes(), (folder / f"{name}.json").read_bytes()
    picture.unlink()
    assert runner.invoke(app, [*command, "--redraw"]).exit_code == 0
    assert picture.read_bytes() == before
    assert (folder / f"{name}.json").read_bytes() == kept


def refused(*arguments, env=None):
    result = runner.invoke(app, ["reproduce", *arguments], env=env)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return result.output


def test_wrong_use_is_one_clear_line(tmp_path):
    assert "Did you mean 'fig-kl'?" in refused("fig-lk")
    assert "--preset must be one of smoke, paper; got 'papr'" in refused(
        "fig-kl", "--preset", "papr"
    )
    assert "which figure?" in refused()
    out = ["--out", str(tmp_path)]
    assert "no record of fig-kl" in refused("fig-kl", "--redraw", *out)
    (tmp_path / "paper").mkdir(exist_ok=True)
    (tmp_path / "paper" / "fig-kl.json").write_text("{")
    assert "cannot be read" in refused("fig-kl", "--redraw", *out)
    needs = refused("fig-kl", *out, "--data-dir", str(tmp_path))
    assert "fig-kl needs boston.txt" in needs
    assert "There is no boston.txt" in needs


def test_all_goes_on_after_a_failure(tmp_path, monkeypatch):
    def get(name):
        counted = Counted().experiment()
        if name != "fig-kl":
            return dataclasses.replace(counted, name=name)

        def plan(settings, context):
            raise MissingDataError("There is no boston.txt.")

        return dataclasses.replace(counted, name=name, plan=plan, needs=("boston.txt",))

    monkeypatch.setattr(paper, "get", get)
    output = refused("all", "--out", str(tmp_path))
    assert "not made: fig-kl." in output
    made = {p.stem for p in (tmp_path / "paper").glob("*.json")}
    assert made == set(paper.MODULES) - {"fig-kl"}


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "get", lambda name: Counted(stop_before=1).experiment())
    result = runner.invoke(app, ["reproduce", "fig-kl", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "the same command goes on" in result.output


def test_a_page_is_made_from_the_records(tmp_path):
    record, _ = run(Counted(), tmp_path / "records" / "paper")
    renamed = json.dumps(record | {"name": "fig-kl"})
    (tmp_path / "records" / "paper" / "fig-kl.json").write_text(renamed)
    page = tmp_path / "page.md"
    command = ["reproduce", "--page", str(page), "--out", str(tmp_path / "records")]
    assert runner.invoke(app, command).exit_code == 0
    text = page.read_text()
    assert "## A count (none)" in text
    assert "![A count](records/paper/fig-kl.png)" in text
    assert "- The sum is 1.0." in text
    assert "`anchored reproduce fig-kl --preset smoke` took less than a second." in text
    assert "| a |\n| --- |\n| 1 |" in text
    assert "no records" in refused("--page", str(page), "--out", str(tmp_path / "empty"))


def test_the_committed_page_is_that_of_the_committed_records(tmp_path):
    docs = Path(__file__).resolve().parents[2] / "docs"
    records = [paper.load(docs / "reproduction" / "paper", name) for name in paper.MODULES]
    assert (
        reproduction_page(records, "reproduction/paper") == (docs / "reproduction.md").read_text()
    )
    assert {record["preset"] for record in records} == {"paper"}
