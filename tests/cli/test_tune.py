import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from anchored.cli import app
from anchored.datasets import load_uci_split
from anchored.tuning import Settings, search

runner = CliRunner()


@pytest.fixture
def tune(tmp_path):
    """Runs the command with few networks, writing to a new folder."""

    def run(*args):
        small = ["--members", "2", "--hidden", "4", "--trials", "2"]
        out = tmp_path / "new" / "found.json"
        result = runner.invoke(app, ["tune", *small, "--out", str(out), *args])
        assert "Traceback" not in result.output
        return result, out

    return run


@pytest.fixture
def stubbed(monkeypatch):
    """A search that costs nothing: the n-th trial scores n."""
    scores = iter(range(1, 100))

    def run(split, settings, n_members, seed):
        return search.Trial(settings, float(next(scores)), 0.1)

    prior = search._TunedPrior(10.0, 0.1, 0.5)
    monkeypatch.setattr(search, "_tune_prior", lambda *args: prior)
    monkeypatch.setattr(search, "_run", run)
    monkeypatch.setattr(search, "_single_var", lambda *args: 0.25)
    return monkeypatch


def test_tune_writes_the_settings_and_prints_the_search(tune, monkeypatch):
    short = search.Space(batch_size=(64, 64), steps=(500, 1_000))
    monkeypatch.setitem(search.tune.__kwdefaults__, "space", short)
    result, out = tune("diabetes", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)
    schema = Path(__file__).parents[2] / "docs" / "schemas" / "tune.json"
    jsonschema.validate(record, json.loads(schema.read_text()))
    assert (record["data"], record["rows"], record["ended"]) == ("diabetes", 398, "trials")
    assert len(record["trials"]) == 2
    assert 5.0 < record["score"] == min(trial["score"] for trial in record["trials"]) < 6.5
    found = Settings.load(out)
    assert found.hidden == (4,)
    assert 0.2 < found.noise_var < 1
    assert record["settings"] == json.loads(json.dumps(found.__dict__))
    assert record["paper"] is None


def test_the_paper_stands_beside_what_was_found(tune, stubbed, uci_folder):
    result, out = tune("yacht", "--data-dir", str(uci_folder), "--hidden", "5")
    assert result.exit_code == 0, result.output
    for words in ("yacht: settings", "paper", "3000", "0.997", "Best of 2 trials", "exact GP"):
        assert words in result.output
    assert str(out) in result.output.replace("\n", "")
    assert Settings.load(out).hidden == (4, 5)
    assert Settings.load(out).single_var == 0.25


@pytest.mark.parametrize("data", ["song", "yacht"])
def test_only_the_training_part_of_the_split_is_seen(tune, stubbed, uci_folder, data):
    """Song has a training part of its own, the others nine tenths of the rows."""
    seen, checked = [], search._checked_rows
    stubbed.setattr(search, "_checked_rows", lambda *rows: seen.append(rows) or checked(*rows))
    result, _ = tune(data, "--data-dir", str(uci_folder), "--json")
    assert result.exit_code == 0, result.output
    rows = load_uci_split(data, 0, uci_folder)
    np.testing.assert_array_equal(seen[0][0], rows.x_train)
    np.testing.assert_array_equal(seen[0][1], rows.y_train)


def test_an_interrupt_keeps_what_was_found(tune, stubbed):
    stub, calls = search._run, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return stub(*args)

    stubbed.setattr(search, "_run", interrupted)
    result, out = tune("diabetes")
    assert result.exit_code == 130
    assert f"stopped. {out} has the best of 1 finished trials" in result.output
    assert Settings.load(out).single_var is None


def test_an_interrupt_before_the_first_trial_writes_nothing(tune, stubbed):
    def interrupted(*args):
        raise KeyboardInterrupt

    stubbed.setattr(search, "_run", interrupted)
    result, out = tune("diabetes")
    assert result.exit_code == 130
    assert "stopped before the first trial" in result.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["bostn"], "TABLE must be a file or one of boston, "),
        (["bostn"], "Did you mean 'boston'?"),
        (["digits"], "TABLE must be a file or one of boston, "),
        (["yacht", "--data-dir", "/nowhere"], "There is no yacht.txt in /nowhere"),
        (["song", "--split", "1"], "--split must be 0, the only one, for song; got 1"),
        (["protein", "--split", "5"], "--split must be an integer from 0 to 4 for protein; got 5"),
        (["diabetes", "--sampler", "grid"], "`sampler` must be one of tpe, random; got 'grid'"),
        (["diabetes", "--out", "/"], "cannot write /: it is a folder"),
    ],
)
def test_mistakes_are_one_clear_line(tune, args, words):
    result, _ = tune(*args)
    assert result.exit_code == 2
    assert words in result.output
    assert sum("anchored:" in line for line in result.output.splitlines()) == 1
