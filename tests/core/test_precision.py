"""Training in double and in half precision."""

import jax
import numpy as np
import pytest

import anchored
from anchored import (
    MLP,
    AnchoredRegressor,
    Data,
    Ensemble,
    Gaussian,
    Prior,
    Schedule,
    advance,
    fit_ensemble,
    init_ensemble,
    objective,
)
from anchored.core.members import OneByOne
from anchored.model.tensors import read

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = X @ [1.0, -0.5, 0.2] + 0.3 * RNG.normal(size=30)
NOISE = 0.1


def linear(dtype, member_map=None):
    network = MLP(())
    return fit_ensemble(
        jax.random.key(0),
        network,
        Prior.for_network(network, X[:1], first_var=2.0),
        Gaussian(NOISE),
        Data.make(X, Y, np.linspace(0.5, 1.5, 30), dtype=dtype),
        n_members=3,
        schedule=Schedule(6_000, 64, 0.05, 0.9),
        member_map=member_map,
    )


def from_closed_form(fitted):
    """The largest distance of a member's parameters from the minimum for its anchor."""
    inputs, weight = np.column_stack([np.ones(30), X]), np.linspace(0.5, 1.5, 30)
    prior = Prior.for_network(MLP(()), X[:1], first_var=2.0)

    def flat(tree):
        layer = {name: np.asarray(leaf, np.float64) for name, leaf in tree[0].items()}
        return np.concatenate([layer["bias"].reshape(-1, 1), layer["weight"].reshape(-1, 3)], 1)

    precision = np.diag(1 / flat(prior.scale)[0] ** 2)
    weighted = inputs.T * (weight / NOISE)
    exact = np.linalg.solve(
        weighted @ inputs + precision, (weighted @ Y)[:, None] + precision @ flat(fitted.centres).T
    )
    return np.max(np.abs(flat(fitted.params) - exact.T))


@pytest.mark.parametrize("member_map", [None, OneByOne(looped=True)])
def test_double_precision_reaches_the_closed_form(member_map):
    """Beyond what single precision can tell, in one thread or in several."""
    fitted = linear("float64", member_map)
    assert fitted.dtype == "float64"
    assert from_closed_form(fitted) < 1e-12
    assert fitted.outputs(X).dtype == np.float64
    member = fitted.member(1)
    np.testing.assert_array_equal(member.outputs(X)[0], fitted.outputs(X)[1])


def test_single_precision_does_not():
    assert 1e-9 < from_closed_form(linear("float32")) < 1e-4


def test_half_precision_trains_nearly_as_well():
    fitted = linear("bfloat16")
    assert fitted.dtype == "bfloat16"
    assert fitted.network == MLP(())
    weight = np.asarray(fitted.params[0]["weight"])
    assert weight.dtype == np.float32
    assert not np.any(weight.view(np.uint32) & 0xFFFF)  # bfloat16 holds them
    assert 1e-5 < from_closed_form(fitted) < 0.03  # about eight bits


def test_states_go_on_in_double_precision():
    network = MLP((5,))
    data = Data.make(X[:20], Y[:20], dtype="float64").with_capacity(30)
    prior = Prior.for_network(network, X[:1])
    state = init_ensemble(jax.random.key(0), network, prior, Gaussian(NOISE), data, n_members=2)
    assert state.theta.dtype == np.float64
    data = data.append(X[20:], Y[20:])
    np.testing.assert_array_equal(np.asarray(data.y)[:30, 0], Y)  # nothing was rounded
    further = advance(state, data, 50)
    assert further.theta.dtype == np.float64
    assert objective(further, data).dtype == np.float64
    assert np.all(objective(further, data) < objective(state, data))
    assert Ensemble.of_state(further).outputs(X).dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32  # outside all is as it was


def short(dtype, **given):
    return AnchoredRegressor(
        hidden=6, n_members=2, epochs=30, noise_var=0.1, prior=1.0, random_state=0, dtype=dtype,
        **given,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_files_keep_the_type_and_numpy_follows(dtype, tmp_path):
    path = tmp_path / "model.safetensors"
    model = short(dtype).fit(X, Y)
    model.save(path)
    again, light = anchored.load(path), anchored.runtime.load(path)
    assert again.dtype == dtype
    assert again.ensemble_.dtype == dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(light.predict(X)["mean"], model.predict(X), rtol=rtol, atol=rtol)
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    assert again.prior_.scale[0]["weight"].dtype == (dtype if dtype == "float64" else "float32")


@pytest.mark.slow
def test_half_precision_takes_half_the_room(tmp_path):
    sizes = {}
    for dtype in ("float32", "bfloat16"):
        model = short(dtype).set_params(hidden=400, epochs=1).fit(X, Y)
        model.save(tmp_path / dtype)
        sizes[dtype] = (tmp_path / dtype).stat().st_size
    n_params = sum(leaf.size for leaf in model.model_.members.params.values())
    assert abs(sizes["float32"] - sizes["bfloat16"] - 2 * n_params) < 200
    read(tmp_path / "bfloat16")


def test_held_out_rows_teach_the_noise_in_double_precision(tmp_path):
    model = AnchoredRegressor(hidden=6, n_members=2, epochs=30, random_state=0, dtype="float64")
    model.fit(X, Y)
    assert model.model_.regression.noise is not None
    onnxruntime = pytest.importorskip("onnxruntime")
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    found = dict(zip(["mean", "lower"], session.run(["mean", "lower"], {"x": X}), strict=True))
    np.testing.assert_allclose(found["mean"][:, 0], model.predict(X), rtol=1e-9)
    np.testing.assert_allclose(found["lower"][:, 0], model.predict_dist(X).interval()[0], rtol=1e-9)


def test_an_unknown_type_is_named():
    with pytest.raises(ValueError, match=r"`dtype`.*float32, float64, bfloat16"):
        short("float16").fit(X, Y)
    with pytest.raises(ValueError, match="`dtype`"):
        Data.make(X, Y, dtype="double")
