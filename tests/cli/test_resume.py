"""``anchored fit`` goes on after a stop, says what it would take, and takes files of any size."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anchored
from anchored.cli import app
from anchored.core import checkpoints, training
from anchored.tables import memory
from anchored.tuning import Settings

runner = CliRunner()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    frame["y"] = frame["a"] + 0.1 * rng.normal(size=80)
    path = tmp_path_factory.mktemp("table") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Few epochs of a small network."""
    path = tmp_path_factory.mktemp("settings") / "settings.json"
    Settings((8,), "relu", 0.1, 1.0, 32, 0.05, 10, 0.99).save(path)
    return ["--target", "y", "--n-members", "2", "--settings", str(path)]


def fit(table, out, quick, *more):
    return runner.invoke(app, ["fit", str(table), *quick, "--out", str(out), *more])


def test_a_stopped_fit_goes_on_to_the_same_file(table, quick, tmp_path, monkeypatch):
    done = fit(table, tmp_path / "whole", quick)
    assert done.exit_code == 0, done.output
    keep, left = training.keep, [3]

    def stopping(keeper, run):
        keep(keeper, run)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    out = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        patch.setattr(training, "keep", stopping)
        patch.setattr(checkpoints.Keeper, "due", lambda keeper, ahead=0.0: True)
        stopped = fit(table, out, quick)
    assert stopped.exit_code == 130
    assert f"The same command continues from {out / '.checkpoint'}" in stopped.output
    again = fit(table, out, quick)
    assert again.exit_code == 0, again.output
    assert f"Continuing from the checkpoint in {out / '.checkpoint'}" in again.output
    names = {"model.safetensors", "report.html", "metrics.json"}
    assert {path.name for path in out.iterdir()} == names
    model = "model.safetensors"
    assert (out / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()


def test_no_resume_starts_anew(table, quick, tmp_path):
    kept = tmp_path / ".checkpoint"
    kept.mkdir()
    (kept / "members.0.safetensors").write_bytes(b"of an old run")
    done = fit(table, tmp_path, quick, "--no-resume")
    assert done.exit_code == 0, done.output
    assert "checkpoint" not in done.output
    assert not kept.exists()


def test_a_dry_run_says_what_a_fit_would_take(table, quick, tmp_path):
    out = tmp_path / "out"
    said = fit(table, out, quick, "--dry-run", "--json")
    found = json.loads(said.stdout)
    assert (found["n_members"], found["n_rows"]) == (2, 64)
    assert found["n_steps"] == 20
    assert not out.exists()


@pytest.mark.slow
def test_large_files_are_fitted_from_a_folder(quick, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for i in range(2):
        frame = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
        frame.assign(y=frame["a"]).to_parquet(tmp_path / f"{i}.parquet")
    monkeypatch.setattr(memory, "available", lambda: 1e5)
    files = [str(tmp_path / f"{i}.parquet") for i in range(2)]
    done = runner.invoke(app, ["fit", *files, *quick, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "The table is larger than memory: 200 rows decide how columns are read." in done.output
    assert "Rows: 160 to train, 40 set aside to test." in done.output
    model = anchored.load(tmp_path / "out" / "model.safetensors")
    assert model.model_.n_rows == 160
    refused = runner.invoke(app, ["fit", *files, *quick, "--group", "a"])
    assert "--group needs one table that fits in memory" in refused.output
