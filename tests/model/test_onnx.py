"""The exported graph, run by onnxruntime, gives the estimator's numbers."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from anchored.model import onnx as export_module
from anchored.model import runtime
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
    assert list(found) == ["mean", "epistemic_std", "std"]
    shape = (len(WIDE), 2 if "two outputs" in name else 1)
    std = dist.std.reshape(shape)
    np.testing.assert_allclose(found["std"], std, rtol=RTOL)
    epistemic = np.sqrt(dist.epistemic_var).reshape(shape)
    np.testing.assert_allclose(found["epistemic_std"], epistemic, rtol=RTOL, atol=1e-6)
    assert np.max(np.abs(found["mean"] - dist.mean.reshape(shape)) / std) < RTOL
    assert found["mean"].shape == shape


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_classification(name, temperature, tmp_path):
    estimator = changed(classifier(name), temperature=temperature)
    found = run(estimator, tmp_path)
    assert list(found) == ["probabilities"]
    expected = estimator.predict_proba(WIDE)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=RTOL, atol=1e-7)


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
