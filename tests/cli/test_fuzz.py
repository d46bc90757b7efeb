"""Mangled tables and models through the commands, 2,000 each in the slow tests: a line each."""

import random

import numpy as np
import pytest
from typer.testing import CliRunner

from anchored.cli import _fitting, app
from anchored.errors import TableError
from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table
from tests.model import test_persistence
from tests.model.saved_models import inputs, regressor
from tests.tables import test_reading as test_tables

COUNTS = pytest.mark.parametrize("n_files", [400, pytest.param(2_000, marks=pytest.mark.slow)])
runner = CliRunner()
PLANNED = "planned, not fitted"


def run(*arguments) -> tuple[int, str]:
    """Exit code, and the one line said if the command refused."""
    result = runner.invoke(app, [str(a) for a in arguments])
    if result.exit_code == 0:
        return 0, ""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 2, (arguments, result.output)
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("anchored: ")
    assert line.isprintable()
    assert len(line) < 1_000
    return 2, line


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of three columns named as in the mangled tables."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    x = inputs(90)
    table = Table({f"c{i}": x[:, i] for i in range(x.shape[1])}, len(x))
    regressor("learned noise").save(path, encoder=Encoder.fit(table))
    return path


@COUNTS
def test_mangled_tables(model, tmp_path, monkeypatch, n_files):
    """Fitting goes as far as the plan; what gets there is a table that can be fitted."""

    def stop(plan, *options):
        for inputs, y in ((plan.inputs, plan.y), (plan.test_inputs, plan.y_test)):
            x = plan.encoder.transform(inputs)
            assert np.isfinite(x).all()
            assert len(x) == len(y) > 0
        raise TableError(PLANNED)

    monkeypatch.setattr(_fitting, "fit_plan", stop)
    source, path = random.Random(11), tmp_path / "table.csv"
    n_planned = n_predicted = n_refused = 0
    for i in range(n_files):
        path.write_bytes(test_tables.mangled(source))
        target = f"c{i % 3}"
        _, line = run("fit", path, "--target", target, "--out", tmp_path / "out", "--json")
        n_planned += PLANNED in line
        code, _ = run("predict", model, path)
        n_predicted += code == 0
        n_refused += code == 2
    assert min(n_planned, n_refused) > n_files // 20, (n_planned, n_predicted, n_refused)
    assert not list((tmp_path / "out").iterdir())


@COUNTS
def test_mangled_models(model, tmp_path, n_files):
    rng, path, table = np.random.default_rng(3), tmp_path / "model.safetensors", tmp_path / "t.csv"
    names = [f"c{i}" for i in range(inputs(1).shape[1])]
    table.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    sound = model.read_bytes()
    assert run("predict", model, table)[0] == 0
    for _ in range(n_files):
        content = test_persistence.mangled(sound, rng)
        path.write_bytes(content)
        code, _ = run("predict", path, table)
        assert (code == 0) == (content == sound)
