"""``anchored reproduce table-uci``: the benchmark from the command line."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from anchored.cli import app
from anchored.errors import EnsembleError
from anchored.paper.tables.uci_methods import METHODS, PAPER, Method
from anchored.paper.tables.uci_scores import load_records
from anchored.paper.tables.uci_settings import PAPER_SETTINGS
from anchored.prediction.predictive import Predictive
from anchored.tuning import Settings

runner = CliRunner(env={"COLUMNS": "200"})
SETTINGS = Settings((4,), "relu", 0.1, 10.0, 64, 0.01, 2, 0.99, single_var=0.2)


@pytest.fixture
def table(tmp_path):
    """Runs the command, writing to a new folder; gives the result and the folder of records."""

    def run(*args, name="table-uci", columns="200"):
        out = tmp_path / "new" / "out"
        command = ["reproduce", name, "--out", str(out), *map(str, args)]
        result = runner.invoke(app, command, env={"COLUMNS": columns})
        assert "Traceback" not in result.output
        return result, out

    return run


@pytest.fixture
def seen(monkeypatch):
    """The settings every fit was given, by a method that costs nothing."""
    found = []

    def fit(task, settings):
        found.append((task.dataset, task.split, settings))
        moments = np.tile([[0.0], [1.0]], len(task.x_test))
        return Predictive.from_members(moments, np.ones_like(moments))

    for preset, name in itertools.product(METHODS, ("anchored-5x50", "relu-gp", "single-50")):
        monkeypatch.setitem(METHODS[preset], name, Method(fit))
    return found


def one_line(result, words):
    assert result.exit_code == 2
    assert words in result.output
    assert sum("anchored:" in line for line in result.output.splitlines()) == 1


def test_scores_of_a_real_table_are_printed_and_kept(table, uci_folder):
    args = ["--preset", "smoke", "--datasets", "yacht", "--methods", "anchored-5x50, relu-gp"]
    result, folder = table(*args, "--splits", 2, "--data-dir", uci_folder)
    assert result.exit_code == 0, result.output
    (record,) = load_records(folder)
    cells = [f"yacht/{method}/{i}" for method in ("anchored-5x50", "relu-gp") for i in range(2)]
    assert (record["preset"], list(record["numbers"])) == ("smoke", cells)
    assert record["settings"]["yacht"]["epochs"] == 60
    assert str(folder / "smoke" / "table-uci.json") in result.output
    for words in ("RMSE", "NLL, Gaussian", "NLL, Student-t", "CRPS", "s a split"):
        assert words in result.output
    (printed,) = [line for line in result.stdout.splitlines() if "relu-gp" in line]
    cells = [cell.strip() for cell in printed.strip("│").split("│")]
    rmse = [record["numbers"][cell]["rmse"] for cell in (f"yacht/relu-gp/{i}" for i in range(2))]
    error = np.std(rmse, ddof=1) / np.sqrt(2)
    assert cells[:3] == ["yacht", "relu-gp", f"{np.mean(rmse):.3f} ± {error:.2g}"]
    assert (cells[4], cells[-1]) == ("-", "2")
    assert all(0 < value < 2 for value in rmse)  # y spans 62


def test_lists_are_taken_once_and_splits_cut_to_what_there_is(table, seen, uci_folder):
    args = ["--datasets", "song,yacht,song", "--methods", "relu-gp", "--splits", 2, "--jobs", 1]
    result, _ = table(*args, "--data-dir", uci_folder)
    assert result.exit_code == 0, result.output
    paper = [(name, PAPER_SETTINGS[name]) for name in ("song", "yacht", "yacht")]
    assert [(name, settings) for name, _, settings in seen] == paper
    assert [split for _, split, _ in seen] == [0, 0, 1]


def test_the_same_command_goes_on_after_an_interrupt(table, seen, uci_folder, monkeypatch):
    fit, stop_at = PAPER["relu-gp"].fit, [1]

    def stopped(task, settings):
        if task.split in stop_at:
            raise KeyboardInterrupt
        return fit(task, settings)

    monkeypatch.setitem(PAPER, "relu-gp", Method(stopped))
    args = ["--datasets", "yacht", "--methods", "relu-gp", "--splits", 3, "--data-dir", uci_folder]
    result, folder = table(*args, "--jobs", 1)
    assert result.exit_code == 130
    assert f"stopped. Finished parts are kept in {folder}" in result.output
    stop_at.clear()
    assert table(*args)[0].exit_code == 0
    assert sorted(split for _, split, _ in seen) == [0, 1, 2]


def test_a_failed_fit_is_said(table, uci_folder, monkeypatch):
    def diverged(task, settings):
        raise EnsembleError("diverged")

    monkeypatch.setitem(PAPER, "relu-gp", Method(diverged))
    args = ["--datasets", "yacht", "--methods", "relu-gp", "--splits", 1]
    result, _ = table(*args, "--data-dir", uci_folder)
    assert result.exit_code == 0, result.output
    assert "not finite" in result.output
    assert "1, 1 failed" in result.output


def test_own_settings_have_records_of_their_own(table, seen, uci_folder, tmp_path):
    file = tmp_path / "mine.json"
    SETTINGS.save(file)
    args = ["--datasets", "yacht", "--methods", "single-50", "--splits", 1]
    args += ["--data-dir", uci_folder]
    result, folder = table(*args, "--settings", file)
    assert result.exit_code == 0, result.output
    (record,) = load_records(folder)
    assert (record["preset"], list(record["numbers"])) == ("tuned", ["yacht/single-50/0"])
    assert record["settings"]["yacht"]["first_var"] == 10.0
    assert seen == [("yacht", 0, SETTINGS)]
    # A folder has a file for each data set.
    other = dataclasses.replace(SETTINGS, noise_var=0.2)
    other.save(tmp_path / "yacht.json")
    assert table(*args, "--settings", tmp_path)[0].exit_code == 0
    assert seen[1:] == [("yacht", 0, other)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--datasets", "yaht"], "--datasets must be one of boston, "),
        (["--datasets", "yaht"], "got 'yaht'. Did you mean 'yacht'?"),
        (["--datasets", "diabetes"], "--datasets must be one of boston, "),
        (["--datasets", " , "], "--datasets must name at least one of boston, "),
        (["--methods", "relu-pg"], "got 'relu-pg'. Did you mean 'relu-gp'?"),
        (["--preset", "defaults", "--methods", "relu-gp"], "--methods must be one of anchored-def"),
        (["--preset", "fast"], "must be one of smoke, paper, paper-splits, defaults, tuned"),
        (["--preset", "tuned"], "--preset tuned needs --settings"),
        (["--redraw"], "there is no record of table-uci"),
        (["--page", "page.md"], "--page shows all figures in --out: leave out table-uci."),
        (["--settings", "none.json"], "cannot read none.json: No such file or directory"),
        (["--settings", "x", "--preset", "defaults"], "use --preset tuned"),
        (["--settings", "x", "--preset", "smoke"], "use --preset tuned"),
    ],
)
def test_mistakes_are_one_clear_line_and_leave_nothing(table, args, words):
    result, folder = table(*args)
    one_line(result, words)
    assert not folder.exists()


@pytest.mark.parametrize(
    "args", [["--datasets", "yacht"], ["--splits", "1"], ["--settings", "x"], ["--jobs", "1"]]
)
def test_options_of_the_table_are_refused_for_a_figure(table, args):
    result, _ = table(*args, name="fig-kl")
    one_line(result, f"fig-kl takes no {args[0]}.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "does not contain settings: it is not JSON"),
        ("{}", "does not contain settings: `format` is missing"),
    ],
)
def test_a_broken_file_of_settings_is_named(table, tmp_path, content, words):
    file = tmp_path / "broken.json"
    file.write_text(content)
    one_line(table("--settings", file)[0], f"--settings: {file} {words}")


def test_settings_that_lack_something_are_refused_before_anything_runs(table, seen, tmp_path):
    file = tmp_path / "mine.json"
    dataclasses.replace(SETTINGS, single_var=None).save(file)
    one_line(table("--settings", file)[0], "single-50 needs `single_var`")
    assert not seen


def test_missing_data_are_one_clear_line(table, tmp_path):
    args = ["--preset", "smoke", "--datasets", "yacht", "--methods", "relu-gp"]
    result, _ = table(*args, "--data-dir", tmp_path)
    one_line(result, f"There is no yacht.txt in {tmp_path}, and")


def test_a_folder_that_cannot_be_made_is_one_clear_line(table, tmp_path):
    (tmp_path / "new").write_text("")
    one_line(table("--preset", "smoke")[0], "cannot write to")


def test_the_list_names_the_table():
    result = runner.invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    assert "table-uci" in result.output


def test_records_are_plain_json(table, seen, uci_folder):
    args = ["--datasets", "yacht", "--methods", "relu-gp", "--splits", 1]
    _, folder = table(*args, "--data-dir", uci_folder)
    text = (folder / "paper" / "table-uci.json").read_text()
    record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["numbers"]["yacht/relu-gp/0"]["coverage_90"] <= 1


def test_scores_are_not_cut_in_a_narrow_terminal(table, seen, uci_folder):
    args = ["--datasets", "yacht", "--methods", "anchored-5x50", "--splits", 2]
    table(*args, "--data-dir", uci_folder)
    folded, _ = table(*args, "--redraw", columns="60")
    assert folded.exit_code == 0
    assert "…" not in folded.output


def test_another_seed_does_not_spoil_a_record(table, seen, uci_folder):
    args = ["--datasets", "yacht", "--methods", "relu-gp", "--splits", 1]
    _, folder = table(*args, "--data-dir", uci_folder)
    before = (folder / "paper" / "table-uci.json").read_bytes()
    result, _ = table(*args, "--data-dir", uci_folder, "--seed", 1)
    one_line(result, "has seed 0; use another --out for seed 1")
    assert (folder / "paper" / "table-uci.json").read_bytes() == before
    assert table(*args, "--redraw")[0].exit_code == 0
    assert (folder / "paper" / "table-uci.json").read_bytes() == before
