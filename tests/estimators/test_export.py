"""Estimators with networks of any kind as ONNX graphs: the same mean, deviations and interval."""

import json

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from typer.testing import CliRunner

from anchored import AnchoredClassifier, AnchoredRegressor, ConvNet, StudentT
from anchored.cli import app
from anchored.errors import ModelFileError
from tests.core.adapters.zoo import FRAMEWORKS, apply_plain, example_plain, network

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=120)
SHORT = {"n_members": 3, "epochs": 20, "random_state": 0}
KNOWN = SHORT | {"noise_var": 0.01, "prior": 1.0}
PLAIN = (apply_plain, example_plain())


def run(path, inputs):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def check_regression(model, path, inputs, x, coverage=0.9):
    """Within 1e-5 of the deviation, or of the number itself."""
    model.export_onnx(path, coverage)
    found, dist = run(path, inputs), model.predict_dist(x)
    lower, upper = dist.interval(coverage)
    for name, expected in {
        "mean": dist.mean,
        "epistemic_std": np.sqrt(dist.epistemic_var),
        "aleatoric_std": np.sqrt(dist.aleatoric_var),
        "std": dist.std,
        "lower": lower,
        "upper": upper,
    }.items():
        apart = np.abs(found[name][:, 0] - expected) / np.maximum(dist.std, np.abs(expected))
        assert apart.max() < 1e-5, name


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework(framework, tmp_path):
    x = X.astype(np.float32)
    model = AnchoredRegressor(network=network(framework), **KNOWN).fit(x, Y)
    check_regression(model, tmp_path / "model.onnx", {"x": x}, x)


def test_noise_and_intervals_that_held_out_rows_taught(tmp_path):
    x = X.astype(np.float32)
    model = AnchoredRegressor(network=PLAIN, **SHORT).fit(x, Y)
    assert model.predict_dist(x).conformal is not None
    check_regression(model, tmp_path / "model.onnx", {"x": x}, x)


def test_another_coverage(tmp_path):
    x = X.astype(np.float32)
    model = AnchoredRegressor(network=PLAIN, **KNOWN).fit(x, Y)
    check_regression(model, tmp_path / "model.onnx", {"x": x}, x, coverage=0.5)
    told = json.loads(onnx.load(tmp_path / "model.onnx").graph.doc_string)
    assert told["coverage"] == 0.5


def test_inputs_of_several_arrays_are_named(tmp_path):
    table = X.astype(np.float32)
    inputs = {"table": 100 * table + 5, "word": RNG.integers(0, 5, 120), "flags": X[:, :2] > 0}

    def apply(params, x):
        word = params["embedding"][x["word"]]
        return jnp.tanh(x["table"] @ params["w0"] + word) @ params["w1"] + x["flags"] @ params["w2"]

    shapes = {"embedding": (5, 6), "w0": (3, 6), "w1": (6, 1), "w2": (2, 1)}
    example = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    model = AnchoredRegressor(network=(apply, example), **KNOWN).fit(inputs, Y)
    check_regression(model, tmp_path / "model.onnx", inputs, inputs)


def test_classes_of_images_by_the_command(tmp_path):
    """A network of ours that is not dense needs nothing but its file."""
    images = RNG.normal(size=(30, 6, 6, 1)).astype(np.float32)
    labels = np.where(images.mean(axis=(1, 2, 3)) > 0, "up", "down")
    network = ConvNet(((3,),), (4,), 2)
    model = AnchoredClassifier(network=network, prior=1.0, **SHORT)
    model.fit(images, labels).save(tmp_path / "model.safetensors")
    out = tmp_path / "model.onnx"
    command = ["export", str(tmp_path / "model.safetensors"), "--onnx", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = run(out, {"x": images})["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(images), atol=1e-5)


def test_the_command_is_told_where_a_network_is(tmp_path):
    model = AnchoredRegressor(network=PLAIN, **KNOWN).fit(X, Y)
    model.save(tmp_path / "model.safetensors")
    command = [
        "export",
        str(tmp_path / "model.safetensors"),
        "--onnx",
        str(tmp_path / "model.onnx"),
    ]
    runner = CliRunner()
    result = runner.invoke(app, command)
    assert result.exit_code == 2
    assert "Give it again" in result.output
    result = runner.invoke(app, [*command, "--network", "tests.estimators.test_export:PLAIN"])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(
        run(tmp_path / "model.onnx", {"x": X.astype(np.float32)})["mean"][:, 0],
        model.predict(X),
        atol=1e-5,
    )
    for bad in ("nowhere", "nowhere:net", "json:net"):
        result = runner.invoke(app, [*command, "--network", bad])
        assert result.exit_code == 2
        assert "--network must name a Python object" in result.output


def test_own_likelihoods_are_refused(tmp_path):
    model = AnchoredRegressor(hidden=4, likelihood=StudentT(), prior=1.0, **SHORT).fit(X[:9], Y[:9])
    with pytest.raises(ModelFileError, match=r"likelihood, StudentT\. Its predictions are samples"):
        model.export_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
