"""anchored predict --explain, and the report's rows of least sure."""

import csv

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anchored
from anchored import AnchoredRegressor
from anchored.cli import app
from anchored.reporting import why
from anchored.reporting.inputs import Inputs


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"area": rng.uniform(20, 150, 40), "heating": rng.choice(["gas", "electric"], 40)}
    )
    y = 2 * frame["area"] + rng.normal(size=40)
    model = AnchoredRegressor(
        n_members=2, epochs=20, hidden=(8,), prior=2.0, noise_var=1.0, random_state=0
    )
    return model.fit(frame, y), frame, y


def test_predictions_come_with_their_reasons(fitted, tmp_path):
    model, frame, y = fitted
    model.save(tmp_path / "model", held_out=(frame[:20], y[:20]))
    rows = frame[:3].copy()
    rows.loc[1, "area"] = 9_000.0
    rows.to_csv(tmp_path / "rows.csv", index=False)
    given = ["predict", str(tmp_path / "model"), str(tmp_path / "rows.csv"), "--explain"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    found = list(csv.DictReader(result.stdout.splitlines()))
    assert [row["mean_from"].split("=")[0] for row in found] == ["area"] * 3
    assert "area=9e+03 is" in found[1]["unusual"]
    assert found[0]["unusual"] == ""
    assert all(row["epistemic_from"] for row in found)


def test_a_file_without_rows_says_so(fitted, tmp_path):
    model, frame, _ = fitted
    model.save(tmp_path / "model")
    frame[:2].to_csv(tmp_path / "rows.csv", index=False)
    given = ["predict", str(tmp_path / "model"), str(tmp_path / "rows.csv"), "--explain"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code != 0
    assert "contains no test rows" in result.output


def test_the_report_explains_the_rows_it_is_least_sure_of(fitted):
    model, frame, y = fitted
    rows = frame.copy()
    rows.loc[7, "area"] = 2_000.0
    dist = model.predict_dist(rows)
    names = [str(i) for i in range(40)]
    found = why.least_sure(model, dist, Inputs.of(model, rows, None), names)
    assert found[0]["row"] == "7"
    assert "above the largest known" in found[0]["unusual"][0]
    assert found[0]["table"][0][1][0] == "area"
    page = anchored.report(model, rows, y, gp="none asked for")
    assert "Why it is least sure of some rows" in page
    assert "area=2e+03 is" in page
