"""Files that version 0.1.0 wrote still load, and predict what they did."""

import json
from pathlib import Path

import numpy as np
import pytest

import anchored
from anchored import runtime
from tests.model.saved_models import inputs

FOLDER = Path(__file__).parent / "version_0_1_0"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
ROWS = inputs(5, seed=9)


@pytest.mark.parametrize("name", EXPECTED)
def test_predictions_are_those_of_the_version_that_wrote_the_file(name):
    found, expected = anchored.load(FOLDER / f"{name}.safetensors"), EXPECTED[name]
    x = np.array(expected["x"]) if "x" in expected else ROWS
    if found.encoder_ is not None:
        x = dict(zip("abc", x.T, strict=True))
        x = pd_frame(x)
    dist = found.predict_dist(x)
    np.testing.assert_allclose(dist.mean, expected["mean"], rtol=1e-5)
    np.testing.assert_allclose(found.novelty(x), expected["novelty"], rtol=1e-4)
    if "classes" in expected:
        assert found.classes_.tolist() == expected["classes"]
        return
    np.testing.assert_allclose(dist.std, expected["std"], rtol=1e-5)
    # One factor on widths has become a map of levels: the same where rows are alike.
    width = np.diff(expected["interval"], axis=-1)
    np.testing.assert_allclose(
        found.predict_interval(x, 0.9), expected["interval"], atol=0.05 * width.max()
    )


def pd_frame(columns):
    import pandas as pd

    return pd.DataFrame(columns)


def test_what_was_kept_beside_is_still_there():
    shape = anchored.load(FOLDER / "shape.safetensors")
    assert shape.provenance_ == {"coverage": 0.8}
    assert runtime.load(FOLDER / "shape.safetensors").coverage == 0.8
    np.testing.assert_array_equal(shape.held_out_[1], np.arange(5.0))
    labels = anchored.load(FOLDER / "labels.safetensors")
    assert labels.held_out_[1].tolist() == ["no", "yes", "no", "perhaps", "yes"]


@pytest.mark.parametrize("name", ["shape", "two_outputs", "variance_head", "labels"])
def test_an_old_file_saved_again_is_the_same_model(name, tmp_path):
    before = anchored.load(FOLDER / f"{name}.safetensors")
    before.save(tmp_path / "new.safetensors")
    found = [
        runtime.load(path).predict(ROWS)
        for path in (FOLDER / f"{name}.safetensors", tmp_path / "new.safetensors")
    ]
    for column in found[0]:
        np.testing.assert_array_equal(found[0][column], found[1][column])
