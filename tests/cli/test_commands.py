"""The commands for a table of one's own, as a new user would call them."""

import csv
import dataclasses
import html
import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import safetensors.numpy
from typer.testing import CliRunner

import anchored
import anchored.metrics
from anchored import AnchoredRegressor, tuning
from anchored.cli import app
from anchored.cli.fit import fit
from anchored.cli.tune import tune
from anchored.core import outputs
from anchored.error_bars.folds import plan_folds
from anchored.tables import memory
from anchored.tables.plan import make_plan
from anchored.tables.reading import read_table
from anchored.tuning import Settings, search

runner = CliRunner()
SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
QUICK = ["--n-members", "4", "--max-seconds", "2"]


def mixed_table(n_rows: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Numbers, a category, a yes/no, a date, an identifier and missing cells, with a price."""
    rng = np.random.default_rng(seed)
    size, town = rng.uniform(20, 200, n_rows), rng.integers(3, size=n_rows)
    lift, day = rng.uniform(size=n_rows) < 0.4, rng.integers(0, 1000, n_rows)
    price = 2 * size + 40 * town + 25 * lift + 0.05 * day + rng.normal(0, 10, n_rows)
    dates = np.datetime64("2020-01-01") + day
    rows = [
        [
            f"flat-{i}",
            f"{size[i]:.1f}" if rng.uniform() > 0.1 else "",
            ["north", "south", "old town"][town[i]],
            "yes" if lift[i] else "no",
            str(dates[i]),
            f"{price[i]:.2f}",
        ]
        for i in range(n_rows)
    ]
    return ["id", "size", "town", "lift", "built", "price"], rows


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def check_schema(name: str, content: dict) -> None:
    jsonschema.validate(content, json.loads((SCHEMAS / f"{name}.json").read_text()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def flats(folder):
    return write_csv(folder / "flats.csv", *mixed_table(260))


@pytest.fixture(scope="module")
def fitted(flats):
    """What `anchored fit` printed and the folder it wrote."""
    out = flats.parent / "flats-model"
    result = runner.invoke(app, ["fit", str(flats), "--target", "price", *QUICK, "--out", str(out)])
    assert result.exit_code == 0, result.output
    return result.output, out


def settings_file(path: Path, **changes) -> Path:
    """Settings of a training that ends after few epochs, not after some seconds."""
    few = Settings((10,), "relu", 0.1, 1.0, 32, 0.05, 20, 0.99)
    dataclasses.replace(few, **changes).save(path)
    return path


def money_table(path: Path, n_rows: int = 150) -> Path:
    """Prices in dollars, shares in per cent, dates in words, a None that is missing."""
    rng = np.random.default_rng(5)
    price, share = rng.uniform(100, 9_000, n_rows), rng.uniform(0, 100, n_rows)
    day = np.datetime64("2019-01-01") + rng.integers(0, 900, n_rows)
    rows = [
        [
            f"${price[i]:,.2f}",
            f"{share[i]:.1f} %" if i % 7 else "",
            day[i].item().strftime("%d-%b-%Y"),
            ["None", "north", "south"][rng.integers(3)],
            f"{price[i] / 50 + share[i] + rng.normal():.3f}",
        ]
        for i in range(n_rows)
    ]
    return write_csv(path, ["price", "share", "sold", "town", "score"], rows)


def predict(model: Path, table: Path, *options: str):
    result = runner.invoke(app, ["predict", str(model), str(table), *options])
    return result, list(csv.DictReader(io.StringIO(result.stdout)))


def test_fit_says_what_it_will_do_and_what_came_of_it(fitted):
    output, out = fitted
    for words in ("Regression of 'price'", "1 date", "Left out: 'id'", "should take about", "208"):
        assert words in output
    for words in ("intervals cover", "The networks' spread is", "Report:", "anchored predict"):
        assert words in output
    assert sorted(p.name for p in out.iterdir()) == [
        "metrics.json",
        "model.safetensors",
        "report.html",
    ]
    summary = output.split("\n\n")[-1]
    assert len(summary.strip().splitlines()) <= 10


def test_scores_are_kept_as_json(fitted):
    record = json.loads((fitted[1] / "metrics.json").read_text())
    check_schema("fit", record)
    assert record["rows"] == {"train": 208, "test": 52, "without_target": 0}
    # The noise is 10, missing sizes aside; the target's own deviation is about 110.
    assert 8 < record["scores"]["rmse"] < 60
    assert record["gp_words"] == anchored.metrics.GPComparison(**record["gp"]).words
    assert "far from the data" in record["gp_words"]


def test_predictions_are_the_models_own(fitted, flats):
    result, rows = predict(fitted[1] / "model.safetensors", flats)
    assert result.exit_code == 0, result.output
    assert len(rows) == 260
    assert list(rows[0]) == [
        "mean", "std", "epistemic_std", "aleatoric_std", "lower", "upper", "novelty",
    ]  # fmt: skip
    model = anchored.load(fitted[1] / "model.safetensors")
    dist = model.predict_dist(read_table(flats))
    lower, upper = dist.interval(0.9)
    for name, expected in (("mean", dist.mean), ("std", dist.std), ("lower", lower)):
        np.testing.assert_allclose([float(r[name]) for r in rows], expected, rtol=1e-4)
    assert np.all(upper > lower)


def test_columns_in_any_order_extra_ones_ignored_missing_ones_listed(fitted, flats, folder):
    model = fitted[1] / "model.safetensors"
    _, straight = predict(model, flats)
    header, rows = mixed_table(260)
    turned = [[*reversed(row), "x"] for row in rows]
    mixed = write_csv(folder / "turned.csv", [*reversed(header), "colour"], turned)
    result, again = predict(model, mixed)
    assert again == straight
    assert "columns ignored: " in result.stderr
    assert "colour" in result.stderr
    short = write_csv(folder / "short.csv", ["town", "built"], [["north", "2020-01-01"]])
    result, _ = predict(model, short)
    assert result.exit_code == 2
    assert "lift" in result.stderr
    assert "size" in result.stderr


def test_rows_unlike_the_training_rows_are_told(fitted, folder):
    odd = ["a", "9000", "north", "yes", "2021-05-05", ""]
    usual = ["b", "100", "south", "no", "2021-01-01", ""]
    table = write_csv(folder / "odd.csv", mixed_table(1)[0], [odd, usual])
    result, rows = predict(fitted[1] / "model.safetensors", table)
    assert float(rows[0]["novelty"]) > 1 > float(rows[1]["novelty"])
    assert "1 of 2 rows have a novelty above 1" in result.stderr


def test_a_wider_interval_for_more_coverage(fitted, flats):
    model = fitted[1] / "model.safetensors"
    _, usual = predict(model, flats)
    _, wide = predict(model, flats, "--coverage", "0.99")
    for narrow, broad in zip(usual, wide, strict=True):
        assert float(broad["lower"]) < float(narrow["lower"]) < float(narrow["upper"])
        assert float(narrow["upper"]) < float(broad["upper"])


def test_predict_to_a_file_with_a_summary(fitted, flats, folder):
    out = folder / "predictions.csv"
    command = ["predict", str(fitted[1] / "model.safetensors"), str(flats), "--out", str(out)]
    result = runner.invoke(app, [*command, "--json"])
    summary = json.loads(result.stdout)
    check_schema("predict", summary)
    assert summary["rows"] == 260
    assert len(out.read_text().splitlines()) == 261


def test_report_from_the_model_alone_and_from_new_rows(fitted, folder):
    model = fitted[1] / "model.safetensors"
    for table in ([], [str(write_csv(folder / "later.csv", *mixed_table(80, seed=1)))]):
        out = folder / "page.html"
        command = ["report", str(model), *table, "--out", str(out), "--json"]
        result = runner.invoke(app, command)
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        check_schema("report", record)
        assert record["rows"] == (80 if table else 52)
        page = out.read_text()
        assert page.startswith("<!DOCTYPE html>")
        # The comparison is that of the fit, for which alone the training rows were there.
        said = json.loads((fitted[1] / "metrics.json").read_text())["gp_words"]
        assert html.escape(said, quote=False).replace("'", "&#39;") in page


def test_export(fitted, folder):
    out = folder / "flats.onnx"
    command = ["export", str(fitted[1] / "model.safetensors"), "--onnx", str(out), "--json"]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    check_schema("export", record)
    assert onnxruntime.InferenceSession(str(out)).get_inputs()[0].shape[1] == len(record["inputs"])


def test_classes_from_standard_input(folder, monkeypatch):
    monkeypatch.setattr(tuning.defaults, "_STEPS", (2_000, 2_000))  # whatever else the machine does
    header, rows = mixed_table(600)
    table = write_csv(folder / "towns.csv", header, rows)
    out = folder / "towns-model"
    command = ["fit", "-", "--target", "town", "--n-members", "4", "--out", str(out), "--json"]
    result = runner.invoke(app, command, input=table.read_bytes())
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    check_schema("fit", record)
    assert record["task"] == "classification"
    assert record["scores"]["accuracy"] > 0.5
    _, predictions = predict(out / "model.safetensors", table)
    names = ["p(north)", "p(old town)", "p(south)"]
    assert {"prediction", "entropy", "mutual_information", "novelty", *names} == set(predictions[0])
    total = [sum(float(row[name]) for name in names) for row in predictions]
    np.testing.assert_allclose(total, 1, atol=1e-5)


def test_the_command_and_python_give_the_same_model(folder):
    table, out = money_table(folder / "money.csv"), folder / "money-model"
    settings = settings_file(folder / "few.json")
    command = ["fit", str(table), "--target", "score", "--n-members", "3", "--random-state", "4"]
    command += ["--settings", str(settings), "--out", str(out)]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    for words in (
        "Read: 'price' as numbers like $1,234.5.",
        "Read: 'share' as numbers like 1234.5 %.",
        "Read: 'sold' as dates like DD Month YYYY.",
        "Words that count as missing: 'None' in 'town'",
    ):
        assert words in result.output
    test = np.array(make_plan(read_table(table), "score", seed=4).test_rows) - 1
    frame = pd.read_csv(table)
    train = np.setdiff1d(np.arange(len(frame)), test)
    model = AnchoredRegressor(n_members=3, random_state=4, settings=str(settings))
    model.fit(frame.drop(columns="score").iloc[train], frame["score"].to_numpy()[train])
    model.save(folder / "python.safetensors")
    ours = safetensors.numpy.load_file(folder / "python.safetensors")
    theirs = safetensors.numpy.load_file(out / "model.safetensors")
    assert ours.keys() <= theirs.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)
    rows = frame.drop(columns="score").iloc[test]
    again = anchored.load(out / "model.safetensors")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    scores = json.loads((out / "metrics.json").read_text())["scores"]
    dist = model.predict_dist(rows)
    assert scores["nll"] == anchored.metrics.nll(dist, frame["score"].to_numpy()[test])


def test_the_networks_see_the_test_rows_once(folder, monkeypatch):
    """Scores, verdict, comparison with the GP and report share what they say."""
    calls, run = [], outputs.in_blocks

    def counted(network, function, params, shared, x):
        calls.append(np.asarray(x))
        return run(network, function, params, shared, x)

    monkeypatch.setattr(outputs, "in_blocks", counted)
    table = money_table(folder / "once.csv")
    command = ["fit", str(table), "--target", "score", "--n-members", "2", "--json"]
    command += ["--settings", str(settings_file(folder / "few.json")), "--out", str(folder / "1")]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["gp"] is not None
    model, plan = (
        anchored.load(folder / "1" / "model.safetensors"),
        make_plan(read_table(table), "score"),
    )
    expected = model.model_.standardised(plan.encoder.transform(plan.test_inputs))
    assert sum(x.shape == expected.shape and np.allclose(x, expected) for x in calls) == 1


def test_fit_and_report_say_why_there_is_no_exact_answer(folder):
    out = folder / "deep"
    command = ["fit", str(money_table(folder / "deep.csv")), "--target", "score", "--out", str(out)]
    command += ["--settings", str(settings_file(folder / "deep.json")), "--n-members", "2"]
    result = runner.invoke(app, [*command, "--method", "deep"])
    assert result.exit_code == 0, result.output
    assert "Not compared with exact inference. An exact GP needs a known noise" in result.output
    record = json.loads((out / "metrics.json").read_text())
    check_schema("fit", record)
    assert record["gp"] is None
    later = folder / "later.html"
    runner.invoke(app, ["report", str(out / "model.safetensors"), "--out", str(later)])
    for page in (out / "report.html", later):
        assert "An exact GP needs a known noise" in page.read_text()


def test_tune_and_fit_a_table_of_ones_own(folder, monkeypatch):
    table, found = money_table(folder / "own.csv"), folder / "settings" / "own.json"
    short = search.Space(batch_size=(64, 64), steps=(100, 200))
    monkeypatch.setitem(search.tune.__kwdefaults__, "space", short)
    command = ["tune", str(table), "--target", "score", "--n-trials", "1", "--n-members", "2"]
    command += ["--hidden", "6,4", "--out", str(found)]
    result = runner.invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    check_schema("tune", record)
    assert (record["target"], record["split"], record["rows"]) == ("score", None, 120)
    command = ["fit", str(table), "--target", "score", "--members", "2", "--seed", "1", "--json"]
    command += ["--settings", str(found), "--out", str(folder / "own-model")]
    result = runner.invoke(app, command)  # with the options of version 0.1.0
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert (record["hidden"], record["members"], record["seed"]) == ([6, 4], 2, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tune", "TABLE", "--target", "town"], "settings are for regression; 'town' has classes"),
        (["tune", "TABLE"], "--target must name the column to predict, one of: "),
        (["tune", "TABLE", "--target", "score", "--split", "1"], "--split needs a UCI table"),
        (["tune", "diabetes", "--group", "town"], "--group needs a file with --target"),
        (["fit", "TABLE", "--target", "town", "--settings", "FEW"], "--settings is for regression"),
        (["fit", "TABLE", "--target", "score", "--settings", "gone.json"], "cannot read gone.json"),
        (["fit", "TABLE", "--target", "score", "--settings", "TABLE"], "does not contain settings"),
    ],
)
def test_options_that_do_not_go_together(folder, arguments, words):
    table, few = money_table(folder / "own.csv"), settings_file(folder / "few.json")
    names = {"TABLE": str(table), "FEW": str(few)}
    out = ["--out", str(folder / "unused" / "out")]
    result = runner.invoke(app, [names.get(a, a) for a in arguments] + out)
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_options_are_pythons_parameters():
    known = inspect.signature(AnchoredRegressor).parameters
    of_table = {"table", "target", "task", "coverage", "group", "order", "keep", "out", "as_json"}
    of_table |= {"resume", "dry_run"}
    assert {*inspect.signature(fit).parameters} - of_table <= {*known}
    of_command = {"data", "split", "data_dir", *of_table}
    searched = inspect.signature(search.tune).parameters
    assert {*inspect.signature(tune).parameters} - of_command <= {*searched}


def test_too_little_memory_is_one_clear_line(flats, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available", lambda: 1e4)
    command = ["fit", str(flats), "--target", "price", "--out", str(tmp_path)]
    result = runner.invoke(app, command)
    assert result.exit_code == 2
    assert "of memory and" in result.output


def test_a_bundled_table_needs_no_target(tmp_path):
    result = runner.invoke(app, ["fit", "iris", *QUICK, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Classification of 'target'" in result.output


@pytest.mark.parametrize(("option", "column"), [("--group", "town"), ("--time", "built")])
def test_splits_by_group_and_by_time(flats, tmp_path, option, column):
    command = ["fit", str(flats), "--target", "price", option, column, "--n-members", "2"]
    command += ["--settings", str(settings_file(tmp_path / "few.json")), "--json"]
    result = runner.invoke(app, [*command, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    used = [c["name"] for c in json.loads(result.stdout)["columns"]["used"]]
    assert column not in used


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.csv", "--target", "y"], "nothing.csv"),
        (["diabtes", "--target", "y"], "diabtes"),
        (["TABLE"], "--target must name the column to predict, one of: "),
        (["TABLE", "--target", "pricy"], "Did you mean 'price'?"),
        (["TABLE", "--target", "price", "--group", "street"], "street"),
        (["TABLE", "--target", "price", "--time", "when"], "when"),
        (["TABLE", "--target", "town", "--task", "regression"], "not a number"),
        (["TABLE", "--target", "price", "--task", "ranking"], "regression, classification"),
        (["TABLE", "--target", "price", "--hidden", "50;50"], "--hidden"),
        (["TABLE", "--target", "price", "--coverage", "90"], "--coverage"),
        (["TABLE", "--target", "price", "--method", "bagging"], "--method"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(flats, tmp_path, arguments, words):
    arguments = [str(flats) if a == "TABLE" else a for a in arguments]
    result = runner.invoke(app, ["fit", *arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not list((tmp_path / "out").glob("*"))


def test_odd_tables_get_a_plan_or_one_clear_line(tmp_path):
    """Cells and targets that a first version stumbled over."""
    rng = np.random.default_rng(0)
    days = [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2023" for i in range(60)]
    columns = {
        "x": [f"{v:.3f}" for v in rng.normal(size=60)],
        "late": ["0"] * 50 + ["1"] * 10,
        "order": [str(i) for i in range(60)],
        "same": ["5"] * 60,
        "grouped digits": [f"1_{i:03d}" for i in range(60)],
        "european": [f"{1 + i % 12:02d}/{1 + i % 11:02d}/2023" for i in range(60)],
        "days": days,
    }
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    table = write_csv(tmp_path / "odd.csv", list(columns), rows)
    for options, words in (
        (["--target", "late", "--time", "order"], "only one class"),
        (["--target", "same"], "only one value"),
        (["--target", "grouped digits", "--task", "regression"], "not a number"),
        (["--target", "x", "--time", "european"], "day and month"),
        (["--target", "x", "--group", "same"], "only one value"),
        (["--target", "order", "--task", "classification", "--group", "order"], "to test on"),
    ):
        result = runner.invoke(app, ["fit", str(table), *options, "--out", str(tmp_path / "out")])
        assert result.exit_code == 2, (options, result.output)
        assert words in result.output
    assert not (tmp_path / "out").exists()


def test_groups_are_held_out_as_a_whole():
    groups = np.repeat(np.arange(12), 10)
    folds = plan_folds(120, groups, 5, 3, 5, 5_000)
    for group in range(12):
        assert len(np.unique(folds.of_row[groups == group])) == 1
    assert set(folds.of_row) == set(folds.of_member)
    many = plan_folds(6_000, np.arange(6_000) // 100, 5, 3, 8, 5_000)
    held = np.unique(np.flatnonzero(many.of_row == 0) // 100)
    assert len(held) == 12
    assert np.sum(many.of_row == 0) == 1_200
    assert plan_folds(120, np.zeros(120), 5, 3, 5, 5_000) is None


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = runner.invoke(app, ["fit", "diabetes", "--members", "2", "--out", str(blocked)])
    assert result.exit_code == 2
    assert "cannot write" in result.output


def test_a_model_file_that_is_none_is_one_clear_line(flats, tmp_path):
    bad = tmp_path / "model.safetensors"
    bad.write_bytes(b"not a model")
    for command in (["predict", str(bad), str(flats)], ["report", str(bad)]):
        result = runner.invoke(app, command)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert len(result.output.strip().splitlines()) == 1


def test_the_commands_of_the_guide_run(flats, tmp_path, monkeypatch):
    """Every line of the shell blocks, in order, in a folder that has the table."""
    text = (SCHEMAS.parent / "your_table.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 4
    monkeypatch.chdir(tmp_path)
    short = search.Space(batch_size=(64, 64), steps=(100, 200))
    monkeypatch.setitem(search.tune.__kwdefaults__, "space", short)
    (tmp_path / "flats.csv").write_bytes(flats.read_bytes())
    write_csv(tmp_path / "later.csv", *mixed_table(60, seed=2))
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "anchored"
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0, (line, result.output)
    for name in ("predictions.csv", "later.html", "flats.onnx", "flats-model/report.html"):
        assert (tmp_path / name).stat().st_size > 1_000


@pytest.mark.slow
def test_a_fit_killed_at_any_moment_leaves_whole_files_or_none(flats, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from anchored.cli import app; app()", "fit", str(flats)]
    command += ["--target", "price", *QUICK, "--out", str(out)]
    rng = np.random.default_rng(0)
    for _ in range(6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(1, 20))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if (out / "model.safetensors").exists():
            anchored.load(out / "model.safetensors")
            assert (out / "report.html").read_text().rstrip().endswith("</html>")
            json.loads((out / "metrics.json").read_text())
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(out.iterdir())) == 3


def test_version_and_help():
    assert runner.invoke(app, ["--version"]).output.strip() == anchored.__version__
    output = runner.invoke(app, ["--help"]).output
    assert all(name in output for name in ("fit", "predict", "report", "export", "tune"))
