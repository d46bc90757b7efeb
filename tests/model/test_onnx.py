"""The exported graph, run by onnxruntime, gives the estimator's numbers."""

import dataclasses
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import anchored
from anchored import AnchoredRegressor
from anchored.errors import ModelFileError
from anchored.model import file, runtime
from anchored.model import onnx as export_module
from tests.model.saved_models import LABELS, REGRESSORS, changed, classifier, inputs, regressor

WIDE = np.concatenate([inputs(100, seed=5), 4 * inputs(100, seed=6)]).astype(np.float32)
RTOL = 1e-4


def run(estimator, path, x=WIDE):
    estimator.save(path / "model.safetensors")
    export_module.export(runtime.load(path / "model.safetensors"), path / "model.onnx")
    session = onnxruntime.InferenceSession(path / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": x}), strict=True))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regression(name, tmp_path):
    found, dist = run(regressor(name), tmp_path), regressor(name).predict_dist(WIDE)
    assert list(found) == ["mean", "epistemic_std", "aleatoric_std", "std", "lower", "upper"]
    shape = (len(WIDE), 2 if "two outputs" in name else 1)
    std = dist.std.reshape(shape)
    np.testing.assert_allclose(found["std"], std, rtol=RTOL)
    epistemic = np.sqrt(dist.epistemic_var).reshape(shape)
    np.testing.assert_allclose(found["epistemic_std"], epistemic, rtol=RTOL, atol=1e-6)
    aleatoric = np.sqrt(dist.aleatoric_var).reshape(shape)
    np.testing.assert_allclose(found["aleatoric_std"], aleatoric, rtol=RTOL)
    expected = {"mean": dist.mean} | dict(zip(("lower", "upper"), dist.interval(0.9), strict=True))
    for what, values in expected.items():
        assert np.max(np.abs(found[what] - values.reshape(shape)) / std) < RTOL
    assert found["mean"].shape == shape


def test_intervals_of_another_coverage(tmp_path):
    model = regressor("shape of the noise")
    model.save(tmp_path / "model.safetensors", provenance={"coverage": 0.5})
    export_module.export(runtime.load(tmp_path / "model.safetensors"), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    lower, upper = session.run(["lower", "upper"], {"x": WIDE})
    for found, expected in zip((lower, upper), model.predict_dist(WIDE).interval(0.5), strict=True):
        np.testing.assert_allclose(found[:, 0], expected, rtol=RTOL)
    told = json.loads(onnx.load(tmp_path / "model.onnx").graph.doc_string)
    assert told["coverage"] == 0.5


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_classification(name, temperature, tmp_path):
    estimator = changed(classifier(name), temperature=temperature)
    found = run(estimator, tmp_path)
    assert list(found) == ["probabilities"]
    expected = estimator.predict_proba(WIDE)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=RTOL, atol=1e-7)


def test_ramps_go_with_the_model(tmp_path):
    """A zigzag in one column: file, NumPy and ONNX have the ramps that the networks take."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(200, 2))
    y = np.interp(x[:, 0], np.linspace(-1, 1, 9), [0, 1, 0, 1, 0, 1, 0, 1, 0])
    y += 0.05 * rng.normal(size=200)
    model = AnchoredRegressor(n_members=4, epochs=40, random_state=0).fit(x, y)
    assert model.model_.x_ramps is not None
    x = np.concatenate([x[:50], 3 * x[:50]]).astype(np.float32)
    found, dist = run(model, tmp_path, x), model.predict_dist(x)
    saved = runtime.load(tmp_path / "model.safetensors").predict(x)
    for mean, std in ((found["mean"][:, 0], found["std"][:, 0]), (saved["mean"], saved["std"])):
        assert np.max(np.abs(mean - dist.mean) / dist.std) < RTOL
        np.testing.assert_allclose(std, dist.std, rtol=RTOL)
    again = anchored.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert model.compare_to_gp(x).epistemic_ratio > 0
    broken = dataclasses.replace(model.model_, x_ramps=model.model_.x_ramps[[0, 2, 1, 3]])
    file.save(broken, tmp_path / "broken.safetensors")
    with pytest.raises(ModelFileError, match="`x_ramps` must end after they start"):
        anchored.load(tmp_path / "broken.safetensors")


def test_rows_may_be_few_or_many(tmp_path):
    for n_rows in (0, 1, 3):
        found = run(regressor("shape of the noise"), tmp_path, WIDE[:n_rows])
        assert all(array.shape == (n_rows, 1) for array in found.values())


def test_the_graph_says_what_it_is(tmp_path):
    run(classifier("text"), tmp_path)
    graph = onnx.load(tmp_path / "model.onnx")
    assert (graph.producer_name, graph.ir_version) == ("anchored", 8)
    assert [(o.domain, o.version) for o in graph.opset_import] == [("", 18)]
    told = json.loads(graph.graph.doc_string)
    assert told == {"features": None, "classes": ["no", "perhaps", "yes"]}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "model.safetensors"]


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    regressor("given noise").save(tmp_path / "model.safetensors")
    model = runtime.load(tmp_path / "model.safetensors")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'anchored\[onnx\]'"):
        export_module.export(model, tmp_path / "model.onnx")
