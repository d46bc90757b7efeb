"""The NumPy path gives the estimator's numbers, without JAX, quickly."""

import dataclasses
import resource
import subprocess
import sys
import time

import numpy as np
import pytest

from anchored.errors import ModelFileError, TableError
from anchored.model import runtime
from anchored.tables.encoder import Encoder
from tests.model import saved_models
from tests.model.saved_models import (
    LABELS,
    REGRESSORS,
    changed,
    classifier,
    inputs,
    regressor,
    table,
)

# Single precision has 6e-8; sums of about ten terms, in another order, lose a few of these.
RTOL = 1e-5
WIDE = np.concatenate([inputs(300, seed=5), 4 * inputs(300, seed=6)])  # the latter far outside


def loaded(estimator, path, **kwargs):
    estimator.save(path / "model.safetensors", **kwargs)
    return runtime.load(path / "model.safetensors")


def columns_of(dist, coverage):
    lower, upper = dist.interval(coverage)
    return {
        "mean": dist.mean,
        "std": dist.std,
        "epistemic_std": np.sqrt(dist.epistemic_var),
        "aleatoric_std": np.sqrt(dist.aleatoric_var),
        "lower": lower,
        "upper": upper,
    }


@pytest.mark.parametrize("name", REGRESSORS)
def test_regression_is_the_estimator_s(name, tmp_path):
    model = loaded(regressor(name), tmp_path)
    assert (model.task, model.classes) == ("regression", None)
    for coverage in (0.5, 0.99):
        found = model.predict(WIDE, coverage)
        dist = regressor(name).predict_dist(WIDE)
        n_outputs = 2 if "two outputs" in name else 1
        assert len(found) == 6 * n_outputs + 1
        np.testing.assert_allclose(
            found["novelty"], regressor(name).novelty(WIDE), rtol=RTOL, atol=1e-6
        )
        # Means and ends of intervals may be near zero, as differences of larger numbers.
        size = np.abs(dist.mean) + dist.std + dist.interval(coverage)[1] - dist.mean
        for column, expected in columns_of(dist, coverage).items():
            error = np.abs(expected if column.endswith("std") else size).reshape(len(WIDE), -1)
            parts = expected.reshape(len(WIDE), -1)
            for i in range(n_outputs):
                got = found[column if n_outputs == 1 else f"{column}_{i}"]
                assert got.shape == (len(WIDE),)
                assert np.all(np.abs(got - parts[:, i]) <= RTOL * error[:, i]), column


@pytest.mark.parametrize("name", LABELS)
def test_classification_is_the_estimator_s(name, tmp_path):
    estimator = classifier(name)
    model = loaded(estimator, tmp_path)
    assert model.task == "classification"
    np.testing.assert_array_equal(model.classes, estimator.classes_)
    found, dist = model.predict(WIDE), estimator.predict_dist(WIDE)
    labels = [f"p({label})" for label in estimator.classes_]
    assert list(found) == ["prediction", *labels, "entropy", "mutual_information", "novelty"]
    for label, p in zip(labels, dist.probabilities.T, strict=True):
        np.testing.assert_allclose(found[label], p, rtol=10 * RTOL, atol=1e-7)  # exp of logits
    np.testing.assert_allclose(found["entropy"], dist.entropy, rtol=RTOL, atol=1e-6)
    np.testing.assert_allclose(
        found["mutual_information"], dist.mutual_information, rtol=RTOL, atol=1e-6
    )
    # Mutual information is a small difference: beside its scale it is off by a little more.
    np.testing.assert_allclose(found["novelty"], estimator.novelty(WIDE), rtol=10 * RTOL, atol=1e-3)
    clear = np.abs(np.diff(np.sort(dist.probabilities, axis=1)[:, -2:]))[:, 0] > 1e-5
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found["prediction"][clear], estimator.predict(WIDE)[clear])


def test_blocks_do_not_matter(tmp_path, monkeypatch):
    model = loaded(regressor("shape of the noise"), tmp_path)
    whole = model.predict(WIDE)
    monkeypatch.setattr(runtime, "_BLOCK_ROWS", (7, 7))
    for name, column in model.predict(WIDE).items():
        size = np.abs(whole[name]).max()  # ends of intervals may be near zero
        np.testing.assert_allclose(column, whole[name], rtol=RTOL, atol=RTOL * size)
    assert model.predict(WIDE[:0])["mean"].shape == (0,)
    assert model.predict(WIDE[:1].astype(np.float32))["mean"].shape == (1,)


def test_temperature_is_applied_to_the_average(tmp_path):
    cold, warm = (changed(classifier("text"), temperature=t) for t in (1.0, 2.0))
    found, plain = loaded(warm, tmp_path).predict(WIDE), cold.predict_dist(WIDE)
    root = np.sqrt(plain.probabilities)
    root /= root.sum(axis=1, keepdims=True)
    got = np.stack([found[f"p({label})"] for label in cold.classes_], axis=1)
    np.testing.assert_allclose(got, root, rtol=10 * RTOL, atol=1e-7)
    np.testing.assert_allclose(
        found["mutual_information"], plain.mutual_information, rtol=RTOL, atol=1e-6
    )


@pytest.mark.parametrize("scale", [[0.5, 40.0], [0.0, 40.0]])
def test_novelty_is_the_largest_share(scale, tmp_path):
    estimator = changed(regressor("two outputs"), novelty_scale=np.array(scale))
    deviation = np.sqrt(estimator.predict_dist(WIDE).epistemic_var)
    with np.errstate(divide="ignore"):
        expected = (deviation / scale).max(axis=1)
    found = loaded(estimator, tmp_path).predict(WIDE)["novelty"]
    np.testing.assert_allclose(found, expected, rtol=RTOL)


def test_coverage_is_that_of_the_file(tmp_path):
    estimator = regressor("given noise")
    usual = loaded(estimator, tmp_path)
    other = loaded(estimator, tmp_path, provenance={"coverage": 0.6})
    assert (usual.coverage, other.coverage) == (0.9, 0.6)
    np.testing.assert_array_equal(other.predict(WIDE)["upper"], usual.predict(WIDE, 0.6)["upper"])
    with pytest.raises(ModelFileError, match="coverage"):
        loaded(estimator, tmp_path, provenance={"coverage": 90})


def test_a_table_goes_through_the_encoder(tmp_path):
    encoder = saved_models.encoder()
    model = loaded(changed(regressor("given noise"), encoder=encoder), tmp_path)
    assert model.encoder == encoder
    expected = model.predict(WIDE, 0.7)
    for name, column in model.predict_table(table(WIDE, "cab"), 0.7).items():
        np.testing.assert_array_equal(column, expected[name])
    with pytest.raises(TableError, match="'b'"):
        model.predict_table(table(WIDE, "ca"))
    with pytest.raises(ModelFileError, match="makes 2 features, its networks take 3"):
        loaded(changed(regressor("given noise"), encoder=Encoder.fit(table(WIDE, "ab"))), tmp_path)
    with pytest.raises(ValueError, match="fitted on arrays"):
        loaded(regressor("given noise"), tmp_path).predict_table(table(WIDE))


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (np.zeros(3), r"\[row, 3\]"),
        (np.zeros((2, 4)), r"\[row, 3\]"),
        (np.full((1, 3), "a"), "array of numbers"),
        ([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]], "nan in row 1, feature 1"),
        ([[0.0, 0.0, np.inf]], "inf in row 0, feature 2"),
    ],
)
def test_bad_inputs_are_named(x, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        loaded(regressor("given noise"), tmp_path).predict(x)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 1, "0.9", np.nan])
def test_bad_coverage(coverage, tmp_path):
    with pytest.raises(ValueError, match="`coverage` must be"):
        loaded(regressor("given noise"), tmp_path).predict(WIDE, coverage)


BLOCKED = """
import sys
for name in ("jax", "jaxlib", "scipy", "sklearn", "optax", "pandas"):
    sys.modules[name] = None  # an import then fails
from anchored.model import runtime
model = runtime.load(sys.argv[1])
print(*model.predict([[5.0, -300.0, 0.01]])["mean"])
"""


def in_new_process(path):
    command = [sys.executable, "-c", BLOCKED, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return float(result.stdout)


def test_runs_without_jax_scipy_and_scikit_learn(tmp_path):
    model = loaded(regressor("shape of the noise"), tmp_path)
    found = in_new_process(tmp_path / "model.safetensors")
    assert found == model.predict([[5.0, -300.0, 0.01]])["mean"][0]


@pytest.mark.slow
def test_starts_in_0_3_seconds(tmp_path):
    """Of processor time: other work on the machine does not count."""
    loaded(regressor("shape of the noise"), tmp_path)

    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        in_new_process(tmp_path / "model.safetensors")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_predicts_150_000_rows_a_second(tmp_path):
    """Ten members of 50 nodes on 10 features, with intervals and a shape of the noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 10))
    quick = {"n_members": 10, "hidden": (50,), "epochs": 2, "prior": 4.0}
    estimator = saved_models.AnchoredRegressor(**quick).fit(x, x[:, 0] + rng.normal(size=200))
    noise = dataclasses.replace(estimator.model_.regression.noise[0], shape=saved_models.shape(x))
    made = saved_models.of_target(estimator.model_, noise=(noise,))
    model = loaded(saved_models.with_model(estimator, made), tmp_path)
    rows = rng.normal(size=(100_000, 10))

    def seconds():
        start = time.process_time()
        model.predict(rows)
        return time.process_time() - start

    assert len(rows) / min(seconds() for _ in range(3)) > 150_000
