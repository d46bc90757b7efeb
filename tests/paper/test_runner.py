"""The runner: cells kept and reused, records whole, pictures from the record alone."""

import dataclasses
import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchored import paper
from anchored.cli import app
from anchored.errors import MissingDataError
from anchored.paper import Context, Experiment
from anchored.paper import runner as running
from anchored.paper.catalogue import About
from anchored.paper.figures.toy import distance, mean_and_error, regions
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

    def experiment(self, name="counted", needs=()):
        seconds = {"smoke": 1, "paper": 1}
        return Experiment(
            About(name, "none", "A count", "None.", seconds, needs),
            presets={"smoke": Settings(), "paper": Settings(4)},
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
    record = running.run(
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


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"numbers": 1}'])
def test_spoiled_parts_are_computed_again(tmp_path, content):
    with pytest.raises(KeyboardInterrupt):
        run(Counted(stop_before=2), tmp_path)
    (parts,) = tmp_path.glob(".counted-*.json")
    assert list(json.loads(parts.read_text())["numbers"]) == ["part/0", "part/1"]
    parts.write_text(content)
    again = Counted()
    run(again, tmp_path)
    assert again.computed == [0, 1, 2]


def test_parts_made_by_other_source_are_not_reused(tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        run(Counted(stop_before=2), tmp_path)
    monkeypatch.setattr(running, "_source_digest", lambda: b"other")
    again = Counted()
    run(again, tmp_path)
    assert again.computed == [0, 1, 2]


def test_a_record_of_another_schema_is_refused(tmp_path):
    record, _ = run(Counted(), tmp_path)
    (tmp_path / "counted.json").write_text(json.dumps(record | {"schema": 0}))
    with pytest.raises(ValueError, match="schema 0"):
        paper.load(tmp_path, "counted")


def test_plain_keeps_json_strict():
    value = {"a": np.arange(2.0) / 3, 1: (np.int64(2), float("inf"))}
    assert plain(value) == {"a": [0.0, 0.333333], "1": [2, None]}
    json.dumps(plain(value), allow_nan=False)


# Records that keep their cells


class Grown:
    """Two groups of four cells that may run side by side; they count what they compute."""

    def __init__(self, errors=None, program=True):
        self.computed, self.errors, self.program = [], errors or {}, program
        self.settings = {"a": 1, "b": 1}

    def compute(self, group, i):
        if i in self.errors:
            raise self.errors[i]
        self.computed.append(f"{group}/{i}")
        return {"value": self.settings[group] * i}

    def plan(self, s, context):
        return [
            Cell(
                f"{group}/{i}",
                1.0,
                lambda group=group, i=i: self.compute(group, i),
                group if self.program else None,
                {"factor": self.settings[group]},
            )
            for group in running.chosen("datasets", context.datasets, "ab", "ab")
            for i in range(context.splits or 4)
        ]

    def run(self, folder, jobs=1, seed=0, **choice):
        seconds = {"smoke": 1, "paper": 1}
        experiment = Experiment(
            About("grown", "none", "Growth", "None.", seconds),
            presets={"smoke": Settings(), "paper": Settings()},
            plan=self.plan,
            combine=None,
            findings=lambda record: [f"{len(record['numbers'])} cells."],
            tables=lambda record: [],
        )
        steps = []
        context = Context(seed, None, **choice)
        on_cell = lambda *step: steps.append(step[1:])  # noqa: E731
        return running.run(experiment, "paper", context, folder, on_cell, jobs), steps


def test_a_record_that_keeps_its_cells_grows(tmp_path):
    grown = Grown()
    first, steps = grown.run(tmp_path, datasets=["b"], splits=2)
    assert steps == [(0, 2), (1, 2), (2, 2)]
    assert first["settings"] == {"b": {"factor": 1}}
    more, steps = grown.run(tmp_path, jobs=3)
    assert steps[0] == (2, 8)
    assert sorted(grown.computed) == [f"{group}/{i}" for group in "ab" for i in range(4)]
    assert list(more["numbers"]) == sorted(grown.computed)
    assert more["findings"] == ["8 cells."]
    assert more == paper.load(tmp_path, "grown")
    assert {k: more["numbers"][k] for k in first["numbers"]} == first["numbers"]
    before = (tmp_path / "grown.json").read_bytes()
    assert grown.run(tmp_path)[1] == [(8, 8)]
    assert len(grown.computed) == 8
    assert (tmp_path / "grown.json").read_bytes() == before


def test_a_group_with_other_settings_starts_anew_and_the_others_stay(tmp_path):
    grown = Grown()
    grown.run(tmp_path)
    grown.settings["b"], grown.computed = 7, []
    record, _ = grown.run(tmp_path, datasets=["b"], splits=3)
    assert grown.computed == ["b/0", "b/1", "b/2"]
    assert record["numbers"]["b/2"]["value"] == 14
    assert [label for label in record["numbers"] if label[0] == "a"] == [f"a/{i}" for i in range(4)]
    assert "b/3" not in record["numbers"]


def test_cells_of_two_seeds_and_spoiled_records_are_not_mixed(tmp_path):
    Grown().run(tmp_path)
    with pytest.raises(ValueError, match=r"has seed 0; use another --out for seed 1"):
        Grown().run(tmp_path, seed=1)
    (tmp_path / "grown.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        Grown().run(tmp_path)
    assert (tmp_path / "grown.json").read_text() == "{"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of luck")])
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_was_done_before_an_error_is_kept(tmp_path, error, jobs):
    grown = Grown({3: error})
    with pytest.raises(type(error)):
        grown.run(tmp_path, jobs, datasets=["a"], splits=6)
    before = list(paper.load(tmp_path, "grown")["numbers"])
    assert before[:3] == ["a/0", "a/1", "a/2"]
    grown.errors, grown.computed = {}, []
    record, _ = grown.run(tmp_path, jobs, datasets=["a"], splits=6)
    assert sorted(before + grown.computed) == list(record["numbers"])


def test_no_cell_is_begun_after_an_interrupt(tmp_path, monkeypatch):
    """Also if it comes while a record is written and not while a cell is waited for."""
    grown, release, tell = Grown(), threading.Event(), running.tell
    compute = grown.compute

    def waiting(group, i):
        if i > 1:
            release.wait(10)
        return compute(group, i)

    def interrupted(experiment, record, folder):
        tell(experiment, record, folder)
        if "a/1" in record["numbers"]:
            threading.Timer(0.5, release.set).start()
            raise KeyboardInterrupt

    grown.compute = waiting
    monkeypatch.setattr(running, "tell", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        grown.run(tmp_path, jobs=2, datasets=["a"], splits=8)
    assert release.is_set()  # those under way have ended, though its frames are still held
    assert stopped.traceback
    assert list(paper.load(tmp_path, "grown")["numbers"]) == ["a/0", "a/1"]
    assert len(grown.computed) <= 4  # 0 and 1, and those under way


@pytest.mark.parametrize(("program", "most"), [(True, 2), (False, 1)])
def test_only_cells_that_leave_cores_idle_run_side_by_side(tmp_path, program, most):
    grown, under_way, seen = Grown(program=program), [], []
    compute, both = grown.compute, threading.Barrier(2)

    def watched(group, i):
        under_way.append(i)
        if program and i in (1, 2):
            both.wait(10)
        seen.append(len(under_way))
        under_way.remove(i)
        return compute(group, i)

    grown.compute = watched
    grown.run(tmp_path, jobs=4, datasets=["a"], splits=3)
    assert max(seen) == most


def test_time_is_shared_only_by_cells_that_run_side_by_side(tmp_path, monkeypatch):
    clock = iter([0.0, 6.0] * 2)
    monkeypatch.setattr(running.time, "perf_counter", lambda: next(clock))
    record, _ = Grown().run(tmp_path, jobs=4, datasets=["a"], splits=2)
    assert [cell["seconds"] for cell in record["numbers"].values()] == [6.0, 6.0]
    assert record["seconds"] == 12.0


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
    for name, about in paper.CATALOGUE.items():
        assert name in result.output
        assert about.title in result.output
    assert "boston.txt" in result.output
    for preset, meaning in paper.PRESETS.items():
        assert f"{preset}: {meaning}" in result.output


@pytest.mark.parametrize("columns", ["80", "40"])
def test_list_never_cuts_a_name_that_one_has_to_type(columns):
    result = runner.invoke(app, ["reproduce", "--list"], env={"COLUMNS": columns})
    for name in paper.CATALOGUE:
        assert f" {name} " in result.output
    assert "…" not in result.output


@pytest.mark.parametrize("name", paper.CATALOGUE)
def test_every_experiment_is_complete(name):
    experiment = paper.get(name)
    assert experiment.name == name
    assert set(experiment.presets) == set(experiment.about.seconds)
    needed = {"smoke", experiment.about.default_preset}
    assert needed <= set(experiment.presets) <= set(paper.PRESETS)
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
        counted = Counted().experiment(name, ("boston.txt",))
        if name != "fig-kl":
            return counted

        def plan(settings, context):
            raise MissingDataError("There is no boston.txt.")

        return dataclasses.replace(counted, plan=plan)

    monkeypatch.setattr(paper, "get", get)
    output = refused("all", "--out", str(tmp_path))
    assert "these failed: fig-kl." in output
    made = {p.stem for p in (tmp_path / "paper").glob("*.json")}
    assert made == set(paper.FIGURES) - {"fig-kl"}


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "get", lambda name: Counted(stop_before=1).experiment())
    result = runner.invoke(app, ["reproduce", "fig-kl", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "the same command continues" in result.output


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
    records = [paper.load(docs / "reproduction" / "paper", name) for name in paper.FIGURES]
    assert (
        reproduction_page(records, "reproduction/paper") == (docs / "reproduction.md").read_text()
    )
    assert {record["preset"] for record in records} == {"paper"}
