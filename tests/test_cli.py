import json

import pytest
from typer.testing import CliRunner

import anchored
from anchored.cli import app

runner = CliRunner()


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "new" / "folder"
    result = runner.invoke(app, ["fit", "diabetes", "--members", "4", "--out", str(out)])
    return result, out


def test_fit_prints_the_scores_and_draws(fitted):
    result, out = fitted
    assert result.exit_code == 0, result.output
    for words in ("RMSE", "NLL", "50% intervals cover", "95% intervals cover", "average KL"):
        assert words in result.output
    assert (out / "diabetes.png").read_bytes()[1:4] == b"PNG"
    assert sorted(p.name for p in out.iterdir()) == ["diabetes.png", "metrics.json"]


def test_metrics_are_kept_as_json(fitted):
    scores = json.loads((fitted[1] / "metrics.json").read_text())
    assert scores["rows"] == {"train": 331, "test": 111}
    assert 0.7 < scores["coverage"]["0.9"] <= 1
    assert 40 < scores["rmse"] < 75


def test_unknown_data_is_one_clear_line():
    result = runner.invoke(app, ["fit", "diabtes"])
    assert result.exit_code == 2
    assert "DATA must be one of diabetes; got 'diabtes'" in result.output
    assert "Traceback" not in result.output


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = runner.invoke(app, ["fit", "diabetes", "--members", "2", "--out", str(blocked)])
    assert result.exit_code == 2
    assert "cannot write" in result.output


def test_version_and_help():
    assert runner.invoke(app, ["--version"]).output.strip() == anchored.__version__
    assert "fit" in runner.invoke(app, ["--help"]).output
