"""Files hold all that predicts, and mangled ones are refused in one line."""

import dataclasses
import json
import os
import pickle
import struct
import time

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import anchored
from anchored import MLP, AnchoredClassifier, AnchoredRegressor, ConvNet, Prior, TextCNN
from anchored.core import networks
from anchored.core.records import as_leaves
from anchored.errors import ModelFileError
from anchored.estimators.inputs import Encoded
from anchored.model import file, forward, runtime, tensors
from anchored.tuning import Settings
from tests.model.saved_models import (
    LABELS,
    REGRESSORS,
    changed,
    classifier,
    encoder,
    inputs,
    regressor,
    untrained,
    with_model,
)

ROWS = inputs(50, seed=9)


def round_trip(estimator, path, **kwargs):
    estimator.save(path / "model.safetensors", **kwargs)
    return anchored.load(path / "model.safetensors")


def assert_same_tree(a, b):
    jax.tree.map(lambda u, v: np.testing.assert_array_equal(np.asarray(u), np.asarray(v)), a, b)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressor_comes_back(name, tmp_path):
    before = regressor(name)
    after = round_trip(before, tmp_path)
    assert isinstance(after, AnchoredRegressor)
    assert str(after.get_params()) == str(before.get_params())
    old, new = before.predict_dist(ROWS), after.predict_dist(ROWS)
    assert (old.conformal is None) == (new.conformal is None)
    for field in ("mean", "epistemic_var", "aleatoric_var", "members", "noise_dof"):
        np.testing.assert_array_equal(getattr(new, field), getattr(old, field))
    np.testing.assert_array_equal(after.predict_interval(ROWS), before.predict_interval(ROWS))
    np.testing.assert_array_equal(after.noise_var_, before.noise_var_)
    assert_same_tree(after.ensemble_.params, before.ensemble_.params)
    assert_same_tree(after.ensemble_.centres, before.ensemble_.centres)
    assert_same_tree(after.prior_, before.prior_)
    assert_same_tree(after.ensemble_.info, before.ensemble_.info)
    assert after.ensemble_.network == before.ensemble_.network
    assert type(after.ensemble_.likelihood) is type(before.ensemble_.likelihood)
    assert (after.encoder_, after.provenance_, after.held_out_) == (None, {}, None)
    functions = [e.sample_functions(1, random_state=0)[0] for e in (before, after)]
    np.testing.assert_array_equal(functions[0](ROWS), functions[1](ROWS))


@pytest.mark.parametrize("name", LABELS)
def test_classifier_comes_back(name, tmp_path):
    before = classifier(name)
    after = round_trip(before, tmp_path)
    assert isinstance(after, AnchoredClassifier)
    assert after.classes_.dtype == before.classes_.dtype
    np.testing.assert_array_equal(after.classes_, before.classes_)
    np.testing.assert_array_equal(after.predict_proba(ROWS), before.predict_proba(ROWS))
    np.testing.assert_array_equal(after.predict(ROWS), before.predict(ROWS))


def test_what_is_kept_beside(tmp_path):
    provenance = {"coverage": 0.8, "table": "houses.csv", "rows": [1, 2], "note": None}
    y = np.arange(50.0)
    after = round_trip(
        regressor("given noise"), tmp_path, provenance=provenance, held_out=(ROWS, y)
    )
    assert after.provenance_ == provenance
    np.testing.assert_array_equal(after.held_out_[0], ROWS)
    np.testing.assert_array_equal(after.held_out_[1], y)
    two = round_trip(regressor("two outputs"), tmp_path, held_out=(ROWS, np.stack([y, y], 1)))
    assert two.held_out_[1].shape == (50, 2)
    labels = classifier("text").predict(ROWS)
    after = round_trip(classifier("text"), tmp_path, held_out=(ROWS, labels))
    np.testing.assert_array_equal(after.held_out_[1], labels)
    with pytest.raises(ValueError, match="label 'never'"):
        round_trip(classifier("text"), tmp_path, held_out=(ROWS, np.full(50, "never")))
    with pytest.raises(ValueError, match=r"`held_out` must be inputs \[row, 3\]"):
        round_trip(classifier("text"), tmp_path, held_out=(ROWS[:, :2], labels))


def test_calibration_comes_back(tmp_path):
    before = changed(regressor("two outputs"), novelty_scale=np.array([0.1, 2.0]))
    after = round_trip(before, tmp_path)
    np.testing.assert_array_equal(after.novelty_scale_, [0.1, 2.0])
    np.testing.assert_array_equal(after.novelty(ROWS), before.novelty(ROWS))
    before = changed(classifier("text"), temperature=1.5)
    after = round_trip(before, tmp_path)
    assert after.temperature_ == 1.5
    np.testing.assert_array_equal(after.novelty_scale_, before.novelty_scale_)
    np.testing.assert_array_equal(after.novelty(ROWS), before.novelty(ROWS))


@pytest.mark.filterwarnings("ignore")
def test_names_and_parameters_of_every_kind(tmp_path):
    frame = pd.DataFrame(inputs(60), columns=["a", "b", "c"])
    network = MLP((4,), activation="tanh")
    z = np.zeros((1, 3), np.float32)
    settings = Settings((4,), "relu", 0.1, 2.0, 16, 0.01, 3, 1.0)
    settings.save(tmp_path / "settings.json")
    prior = Prior.for_network(network, z, 3.0)
    for given in (
        {"network": network, "prior": prior, "random_state": np.random.RandomState(0)},
        {"settings": tmp_path / "settings.json", "hidden": 4, "noise_var": np.array([0.5])},
    ):
        given = {"noise_var": np.float32(0.5)} | given
        before = AnchoredRegressor(n_members=2, epochs=2, **given).fit(frame, frame["a"])
        after = round_trip(before, tmp_path)
        assert list(after.feature_names_in_) == ["a", "b", "c"]
        np.testing.assert_array_equal(after.predict(frame), before.predict(frame))
        assert str(clone(after)) == str(after)
        assert after.network == before.network
        assert isinstance(after.prior, type(before.prior))
        assert after.settings == (settings if "settings" in given else None)


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (ConvNet(((2,), (3, 2)), (4,), n_outputs=2), (12, 9, 8, 2)),
        (ConvNet((), (4,), n_outputs=2), (12, 3, 2, 1)),
        (TextCNN(20, 3, 4, 2, 5, n_outputs=2), (12, 6)),
    ],
)
def test_other_networks_come_back(network, shape, tmp_path):
    rng = np.random.default_rng(0)
    is_text = isinstance(network, TextCNN)
    x = rng.integers(0, 20, size=shape) if is_text else rng.normal(size=shape)
    model = untrained(
        classifier("booleans").model_, network, x, np.int32 if is_text else np.float32
    )
    scale = (None, None) if is_text else (np.asarray(x.mean()), np.asarray(x.std()))
    model = dataclasses.replace(model, x_mean=scale[0], x_scale=scale[1], x_reach=None)
    before = with_model(classifier("booleans"), model)
    before.network, before.n_features_in_ = network, x.shape[1]
    after = round_trip(before, tmp_path, held_out=(x, np.arange(12) % 2 == 0))
    assert after.network == network
    np.testing.assert_array_equal(after.predict_proba(x), before.predict_proba(x))
    np.testing.assert_array_equal(after.held_out_[0], x)
    assert after.held_out_[0].dtype == x.dtype
    with pytest.raises(ModelFileError, match=rf"{type(network).__name__}.*`anchored\.load`"):
        runtime.load(tmp_path / "model.safetensors")


def test_declared_shapes_are_those_of_the_networks():
    for network in (MLP((4, 5), 2), MLP((), 2)):
        params = as_leaves(network.init(jax.random.key(0), np.zeros((1, 3), np.float32)))
        declared = forward.dense_shapes((3, *network.hidden, 2))
        assert {path: leaf.shape for path, leaf in params.items()} == declared
    assert set(forward.ACTIVATIONS) == set(networks.ACTIVATIONS)


@dataclasses.dataclass(frozen=True)
class Own:
    """A network of the user's own: parameters in a nested tree."""

    width: int = 4
    vmappable = True

    def init(self, key, x):
        first, last = jax.random.split(key)
        return {
            "first": {"w": jax.random.normal(first, (x.shape[-1], self.width)) / 2},
            "last": [jax.random.normal(last, (self.width, 1))],
        }

    def apply(self, params, x):
        return jnp.tanh(x @ params["first"]["w"]) @ params["last"][0]

    def prior_variances(self, params, first_var):
        return jax.tree.map(lambda leaf: 1.0, params)


@pytest.mark.filterwarnings("ignore")
def test_a_network_of_the_users_own_saves_and_is_handed_again(tmp_path):
    path, x = tmp_path / "model.safetensors", inputs(40)
    quick = {"n_members": 3, "epochs": 5, "random_state": 0}
    before = AnchoredRegressor(network=Own(), noise_var=0.1, **quick).fit(x, x[:, 0])
    before.save(path)
    after = anchored.load(path, network=Own())
    np.testing.assert_array_equal(after.predict_interval(ROWS), before.predict_interval(ROWS))
    assert_same_tree(after.ensemble_.params, before.ensemble_.params)
    assert_same_tree(after.prior_, before.prior_)
    with pytest.raises(ModelFileError, match=r"network of your own, Own.*network=Own\("):
        anchored.load(path)
    with pytest.raises(ModelFileError, match=r"is float32 of shape \(3, 5\), but the file has"):
        anchored.load(path, network=Own(5))
    with pytest.raises(ModelFileError, match="only the network has the parameter `0/bias`"):
        anchored.load(path, network=MLP((4,)))
    with pytest.raises(ModelFileError, match="only MLP networks can predict without JAX"):
        runtime.load(path)


def test_what_cannot_be_saved_is_said(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted = regressor("given noise")
    with pytest.raises(NotFittedError):
        AnchoredRegressor().save(path)
    with pytest.raises(TypeError, match="not JSON serializable"):
        fitted.save(path, provenance={"when": object()})
    with pytest.raises(ValueError, match="`encoder` and `provenance` take more than"):
        fitted.save(path, provenance={"log": "x" * 5_000_000})
    with pytest.raises(FileNotFoundError):
        fitted.save(tmp_path / "no" / "model.safetensors")
    dates = np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")
    with pytest.raises(TypeError, match="`classes_` are of type datetime64"):
        changed(classifier("booleans"), classes=dates).save(path)
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_rows_are_not_kept(tmp_path):
    after = round_trip(regressor("given noise"), tmp_path)
    with pytest.raises(ValueError, match=r"came from a file.*fit again"):
        after.compare_to_gp(ROWS)


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    regressor("given noise").save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space"):
        regressor("two outputs").save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]


# Hostile files


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Bytes of a small file with everything in it."""
    path = tmp_path_factory.mktemp("sound") / "model.safetensors"
    held_out = (Encoded.of(ROWS[:5], encoder()), np.arange(5.0))
    changed(regressor("shape of the noise"), encoder=encoder()).save(path, held_out=held_out)
    return path.read_bytes()


@pytest.fixture(scope="module")
def sound_classes(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "model.safetensors"
    labels = classifier("text").classes_[np.arange(5) % 3]
    classifier("text").save(path, held_out=(ROWS[:5], labels))
    return path.read_bytes()


def refusal(path):
    """The one line that both readers say; the same for both."""
    lines = set()
    for load in (runtime.load, anchored.load):
        with pytest.raises(ModelFileError) as caught:
            load(path)
        lines.add(str(caught.value))
    (line,) = lines
    assert "\n" not in line
    assert len(line) < 500
    return line


def mangled(content, rng):
    """Cut, flipped, overwritten, doubled or shuffled: never what it was."""
    data = bytearray(content)
    kind = rng.integers(6)
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 200))
    if kind == 0:
        del data[at:]
    elif kind == 1:
        for bit in rng.integers(8 * len(data), size=rng.integers(1, 5)):
            data[bit // 8] ^= 1 << (bit % 8)
    elif kind == 2:
        data[at : at + length] = rng.bytes(length)
    elif kind == 3:
        data[at:at] = data[at : at + length]
    elif kind == 4:
        del data[at : at + length]
    else:
        data[:8] = struct.pack("<Q", int(rng.integers(2**62)) >> int(rng.integers(62)))
    return bytes(data)


def test_1_000_mangled_files_are_refused(sound, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "model.safetensors"
    n_refused = 0
    while n_refused < 1_000:
        content = mangled(sound, rng)
        if content == sound:
            continue
        path.write_bytes(content)
        with pytest.raises(ModelFileError) as caught:
            file.load(path)
        assert "\n" not in str(caught.value)
        n_refused += 1


VALUES = [
    *(None, True, False, 0, 1, -1, 2, 7, 10**9, 10**400, -0.5, 0.5, 1e299, 1e308, float("inf")),
    *("", "relu", "MLP", "ConvNet", "TextCNN", "../../etc/passwd", "x" * 10_000, "\x00\n\ud800"),
    *([], {}, [[]], [1, 2], ["a"], [1] * 5_000, {"a": 1}, [None], [1e300], [-1], [10**9] * 3),
]


def opened(content, path):
    path.write_bytes(content)
    fields, arrays = tensors.read(path)
    tree = json.loads(json.dumps(fields._left))
    return tree, dict(arrays._left)


def places(tree):
    """Every (container, key) of a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from places(value)


def change_tree(tree, rng):
    found = list(places(tree))
    container, key = found[rng.integers(len(found))]
    kind = rng.integers(4)
    if kind == 0 and isinstance(container, dict):
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container["foreign"] = 1
    else:
        container[key] = VALUES[rng.integers(len(VALUES))]


def change_arrays(arrays, rng):
    name = list(arrays)[rng.integers(len(arrays))]
    array = arrays[name]
    values = [np.nan, np.inf, -np.inf, 0, -1, 1e20]
    kind = rng.integers(7)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays["../" + name] = array
    elif kind == 2:
        dtypes = (np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_)
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(dtypes[rng.integers(7)])
    elif kind == 3:
        arrays[name] = array.reshape(1, *array.shape)
    elif kind == 4:
        arrays[name] = array[:-1] if array.ndim else array.reshape(1)
    elif kind == 5:
        arrays[name] = np.repeat(array, 2, axis=-1) if array.ndim else array.reshape(1)
    else:
        changed = array.astype(array.dtype, copy=True).reshape(-1)
        with np.errstate(all="ignore"):
            changed[rng.integers(max(changed.size, 1))] = np.asarray(
                values[rng.integers(6)]
            ).astype(array.dtype)
        arrays[name] = changed.reshape(array.shape)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_500_forged_files_are_refused_or_harmless(task, sound, sound_classes, tmp_path):
    """The digest is right, the content is not; what is accepted must work."""
    rng = np.random.default_rng(1)
    path = tmp_path / "model.safetensors"
    content = sound if task == "regression" else sound_classes
    n_refused = 0
    for _ in range(500):
        tree, arrays = opened(content, path)
        change = change_tree if rng.integers(2) else change_arrays
        change(tree, rng) if change is change_tree else change(arrays, rng)
        forge(path, tree, arrays)
        try:
            model = runtime.load(path)
        except ModelFileError:
            n_refused += 1
            continue
        assert len(next(iter(model.predict(ROWS[:2]).values()))) == 2
        try:
            anchored.load(path)
        except ModelFileError:
            n_refused += 1  # parameters of no estimator, of which the runtime knows nothing
    assert 350 < n_refused < 500


def forge(path, tree, arrays, metadata=None):
    """Like `tensors.write`, but anything goes."""
    from safetensors.numpy import save

    text = json.dumps(tree)
    digest = tensors._digest(text, arrays)
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    path.write_bytes(save(arrays, metadata or {"anchored": text, "sha256": digest}))


def test_a_forgery_without_changes_loads(sound, tmp_path):
    path = tmp_path / "model.safetensors"
    tree, arrays = opened(sound, path)
    forge(path, tree, arrays)
    runtime.load(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "cut short, or it is not a model file"),
        (b"\x00" * 100, "cut short, or it is not a model file"),
        (b"mean,std\n1,2\n" * 50, "cut short, or it is not a model file"),
        (pickle.dumps({"weights": [1.0] * 100}), "cut short, or it is not a model file"),
        (struct.pack("<Q", 2**63) + b"{}" * 50, "cut short"),
        (struct.pack("<Q", 5 << 20) + b" " * (6 << 20), "its header has more than 4,194,304 bytes"),
        (struct.pack("<Q", 100) + b"[" * 100, "not JSON"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "not JSON"),
        (struct.pack("<Q", 2) + b"{}", "another program"),
        (struct.pack("<Q", 2) + b"[]", "its tensors are damaged"),
    ],
)
def test_foreign_files(content, match, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert match in refusal(path)


def test_huge_shapes_take_no_memory(tmp_path):
    for shape, offsets in (([2**40], [0, 2**42]), ([2**62, 4], [0, 4]), ([2**40], [0, 4])):
        tensor = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        header = json.dumps({"a": tensor, "__metadata__": {"anchored": "{}"}}).encode()
        path = tmp_path / "model.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        assert "its tensors are damaged" in refusal(path)
    os.truncate(path, 2 << 30)  # sparse: takes no space
    assert "larger than" in refusal(path)


def test_other_places(tmp_path):
    assert "cannot be read (No such file" in refusal(tmp_path / "nothing.safetensors")
    assert "cannot be used as a model" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    start = time.perf_counter()
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert time.perf_counter() - start < 5  # does not wait for a writer


def test_formats(sound, tmp_path):
    path = tmp_path / "model.safetensors"
    tree, arrays = opened(sound, path)
    forge(path, tree | {"format": 3, "new": [], "package": "9.9"}, arrays)
    assert "format 3, written by anchored 9.9" in refusal(path)
    assert "Upgrade anchored" in refusal(path)
    forge(path, tree | {"format": 0}, arrays)
    assert "there is no format 0" in refusal(path)
    forge(path, tree | {"format": "1"}, arrays)
    assert "`format` must be a whole number" in refusal(path)
    forge(path, {}, arrays, {"format": "pt"})
    assert "another program" in refusal(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t, a: t["ensemble"].pop("retrained"), "`ensemble/retrained` is missing"),
        (lambda t, a: t.update(extra=1), "'extra'` is not known"),
        (lambda t, a: a.update({"extra": np.zeros(3)}), "the tensor 'extra' is not known"),
        (
            lambda t, a: t["ensemble"]["network"]["fields"].update(hidden=[7]),
            "/0/bias` is float32 of shape (3, 6); it must be float32 of shape (3, 7)",
        ),
        (
            lambda t, a: t["ensemble"]["network"]["fields"].update(hidden=[1] * 2_000),
            "`ensemble/network/fields/hidden` must be a list of at most 1000",
        ),
        (
            lambda t, a: a.update({"x_scale": -a["x_scale"]}),
            "the tensor `x_scale` has values that are impossible there",
        ),
        (
            lambda t, a: a.update({"ensemble/params/1/weight": np.full((3, 6, 1), np.nan, "f4")}),
            "the tensor `ensemble/params/1/weight` has values that are impossible there",
        ),
        (
            lambda t, a: t["regression"]["noise"][0].update(noise_dof=1.5),
            "`regression/noise/0/noise_dof` must be a number above 2 and at most inf, not 1.5",
        ),
        (lambda t, a: t.update(classes={}), "`classes` must be null beside `regression`, not {}"),
        (lambda t, a: t.update(n_features=4), "`n_features` must be 3, as the network has it"),
    ],
)
def test_forged_files_are_told_what_is_wrong(change, match, sound, tmp_path):
    path = tmp_path / "model.safetensors"
    tree, arrays = opened(sound, path)
    change(tree, arrays)
    forge(path, tree, arrays)
    assert match in refusal(path)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ({"type": "str", "labels": ["a", "b"]}, "3 different ones"),
        ({"type": "str", "labels": ["a", "b", "b"]}, "3 different ones"),
        ({"type": "int8", "labels": [1, 2, 300]}, "are not int8"),
        ({"type": "object", "labels": [1, 2, 3]}, "a list of str"),
        ({"type": "datetime64", "labels": [1, 2, 3]}, "`classes/type` must be one of"),
        ({"type": "float64", "labels": [1.0, 2.0, float("nan")]}, "finite"),
    ],
)
def test_forged_labels(labels, match, sound_classes, tmp_path):
    path = tmp_path / "model.safetensors"
    tree, arrays = opened(sound_classes, path)
    forge(path, tree | {"classes": labels}, arrays)
    assert match in refusal(path)


def test_parameters_of_no_estimator(sound, tmp_path):
    path = tmp_path / "model.safetensors"
    tree, arrays = opened(sound, path)
    for wrong in ({"colour": "red"}, {"settings": {"hidden": 1}}, {"settings": 3}):
        forge(path, tree | {"parameters": tree["parameters"] | wrong}, arrays)
        with pytest.raises(ModelFileError, match="parameters that fit no estimator"):
            anchored.load(path)
