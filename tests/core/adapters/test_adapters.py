"""A network is the same function, and trains to the same members, whatever it is written in."""

import copy
import importlib.util
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble, init_ensemble
from anchored.core.adapters import as_network
from anchored.core.members import OneByOne, Vmapped
from tests.core.adapters.zoo import (
    FRAMEWORKS,
    NAMES,
    OURS,
    apply_plain,
    as_theirs,
    example_plain,
    init_plain,
    linear_network,
    network,
)

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
DATA = Data.make(X, Y)


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request):
    network(request.param)
    return request.param


def test_same_weights_same_outputs_and_gradients(framework):
    theirs, ours = as_network(network(framework)), OURS.init(jax.random.key(1), X)

    def loss(apply, params):
        return jnp.mean(jnp.square(apply(params, X)[:, 0] - Y))

    np.testing.assert_allclose(
        theirs.apply(as_theirs(framework, ours), X), OURS.apply(ours, X), atol=1e-6
    )
    slope = as_theirs(framework, jax.grad(lambda p: loss(OURS.apply, p))(ours))
    other = jax.grad(lambda p: loss(theirs.apply, p))(as_theirs(framework, ours))
    assert slope.keys() == other.keys()
    for path in slope:
        np.testing.assert_allclose(other[path], slope[path], atol=1e-6)


def test_same_prior(framework):
    theirs = Prior.for_network(network(framework), X[:1], first_var=10.0)
    ours = Prior.for_network(OURS, X[:1], first_var=10.0)
    for path, scale in as_theirs(framework, ours.scale).items():
        np.testing.assert_allclose(theirs.scale[path], scale, rtol=1e-6)


def test_same_start_and_anchors_same_members(framework):
    """Anchors come with the state, so those of both are put in by hand."""
    prior = Prior.for_network(OURS, X[:1], first_var=10.0)
    given = {"n_members": 2, "schedule": Schedule(300, 64)}
    start = init_ensemble(jax.random.key(0), OURS, prior, Gaussian(0.1), DATA, **given).params
    ours = fit_ensemble(
        jax.random.key(0), OURS, prior, Gaussian(0.1), DATA, method="regularised", start=start,
        member_map=Vmapped(), **given,
    )  # fmt: skip
    centre = jax.tree.map(lambda leaf: leaf[0], start)  # any centre but zero
    moved = [Prior(centre, prior.scale)]
    moved.append(Prior(*(as_theirs(framework, tree) for tree in (centre, prior.scale))))
    trained = [
        fit_ensemble(
            jax.random.key(0), net, p, Gaussian(0.1), DATA, method="regularised", start=s,
            member_map=Vmapped(), **given,
        )
        for net, p, s in (
            (OURS, moved[0], start),
            (network(framework), moved[1], as_theirs(framework, start)),
        )
    ]  # fmt: skip
    for path, leaf in as_theirs(framework, trained[0].params).items():
        np.testing.assert_allclose(trained[1].params[path], leaf, atol=1e-4)
    apart = np.abs(np.asarray(trained[0].params[0]["weight"] - ours.params[0]["weight"]))
    assert apart.max() > 1e-2  # the centre counts


def test_members_start_by_initialisers_of_their_own(framework):
    net = as_network(network(framework))
    first, again, other = (net.init(jax.random.key(seed), X) for seed in (0, 0, 1))
    for path in first:
        np.testing.assert_array_equal(first[path], again[path])
    weight = NAMES[framework][0]
    assert not np.allclose(first[weight], other[weight])


def test_a_copy_is_the_same_network(framework):
    """scikit-learn's `clone` copies; a copy must not compile anything again."""
    given = network(framework)
    one, other = as_network(given), as_network(copy.deepcopy(given))
    assert one == other
    assert hash(one) == hash(other)


def test_linear_posterior(framework):
    """Each member of a linear model is where the closed form of its anchor is."""
    net, weight, bias = linear_network(framework)
    prior, noise = Prior.for_network(net, X[:1], first_var=2.0), 0.1
    fitted = fit_ensemble(
        jax.random.key(0), net, prior, Gaussian(noise), DATA, n_members=3,
        schedule=Schedule(4_000, 64, 0.05, 0.97),
    )  # fmt: skip
    inputs = np.column_stack([X, np.ones(len(X))]).astype(np.float64)
    found, anchors, scale = (
        np.concatenate([np.reshape(tree[weight], (-1, 3)), np.reshape(tree[bias], (-1, 1))], 1)
        for tree in (fitted.params, fitted.centres, prior.scale)
    )
    precision = np.diag(1 / scale[0].astype(np.float64) ** 2)
    exact = np.linalg.solve(
        inputs.T @ inputs / noise + precision,
        (inputs.T @ Y / noise)[:, None] + precision @ anchors.T,
    )
    np.testing.assert_allclose(found, exact.T, atol=1e-4)


def test_one_by_one_gives_the_same_members(framework):
    prior = Prior.for_network(network(framework), X[:1])
    fits = [
        fit_ensemble(
            jax.random.key(0), network(framework), prior, Gaussian(0.1), DATA, n_members=2,
            schedule=Schedule(50, 64), member_map=way,
        )
        for way in (Vmapped(), OneByOne(looped=True))
    ]  # fmt: skip
    np.testing.assert_allclose(fits[0].outputs(X), fits[1].outputs(X), atol=1e-4)


def test_ours_is_handed_back():
    assert as_network(OURS) is OURS


@pytest.mark.parametrize("bad", [None, 3, "mlp", MLP, object(), apply_plain, (apply_plain,)])
def test_what_is_no_network_is_refused(bad):
    with pytest.raises(ValueError, match="`network` must be a `Network` such as MLP"):
        as_network(bad)


def test_parameters_that_are_not_real_are_named():
    params = example_plain() | {"b0": np.zeros(8, np.int32)}
    with pytest.raises(TypeError, match="parameter `b0` of type int32; parameters must be arrays"):
        as_network((apply_plain, params))

    def init(key):
        return {"w": jnp.zeros((3, 1), bool)}

    with pytest.raises(TypeError, match="parameter `w` of type bool"):
        Prior.for_network((init, apply_plain), X)


def test_outputs_of_the_wrong_shape_are_named():
    def deep(params, x):
        return (x @ params["w"])[:, :, None]

    with pytest.raises(ValueError, match=r"deep must return an array \[batch, out\]; for 1 rows"):
        Prior.for_network((deep, {"w": np.zeros((3, 1), np.float32)}), X[:1])

    def pair(params, x):
        return x @ params["w"], 0.0

    with pytest.raises(TypeError, match=r"must return one array .* it returned a tuple"):
        Prior.for_network((pair, {"w": np.zeros((3, 1), np.float32)}), X[:1])


def test_one_output_may_lack_its_axis():
    net = as_network((lambda p, x: x @ p["w"], {"w": np.zeros(3, np.float32)}))
    assert net.apply({"w": jnp.ones(3)}, X).shape == (30, 1)


def test_a_network_that_ignores_its_parameters_is_refused():
    net = (lambda p, x: x[:, :1], {"w": np.zeros((3, 1), np.float32)})
    prior = Prior.for_network(net, X[:1])
    with pytest.raises(ValueError, match="does not use its parameters"):
        fit_ensemble(jax.random.key(0), net, prior, Gaussian(0.1), DATA)


def test_a_start_that_is_not_finite_is_named():
    def init(key, x):
        return init_plain(key, x) | {"b0": jnp.full(8, jnp.nan)}

    prior = Prior.for_network((init, apply_plain), X[:1])
    with pytest.raises(
        ValueError, match=r"not finite in its parameter `b0`. Check its initialiser"
    ):
        fit_ensemble(jax.random.key(0), (init, apply_plain), prior, Gaussian(0.1), DATA)


def test_a_network_that_cannot_be_hashed_names_the_field():
    class Net:
        def __init__(self):
            self.sizes = [3, 8]

        def __eq__(self, other):
            return True

        init, apply = staticmethod(init_plain), staticmethod(apply_plain)

    with pytest.raises(TypeError, match=r"its field `sizes` is a list. Make it a tuple"):
        as_network(Net())


def test_no_framework_is_imported_by_the_users_of_another():
    code = (
        "import sys, numpy as np; from anchored import AnchoredRegressor\n"
        "X = np.linspace(-1, 1, 20)[:, None]\n"
        "net = (lambda p, x: x @ p['w'], {'w': np.zeros((1, 1), np.float32)})\n"
        "AnchoredRegressor(network=net, n_members=2, epochs=2).fit(X, X[:, 0])\n"
        "print([n for n in ('equinox', 'flax', 'torch', 'torchax') if n in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True)
    assert run.stdout.decode().strip() == "[]", run.stderr.decode()


_BRIDGE = """
import torch
from anchored.core.adapters.torch import _bridge
packet = torch._ops.OpOverloadPacket
before = packet.__getattr__
{change}
try:
    _bridge()
except ImportError as error:
    print(error)
assert packet.__getattr__ is before
try:
    torch.ops.aten.sum.no_such_name
except AttributeError:
    pass
else:
    raise SystemExit("the stand-in is still there")
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("", "^$"),
        (
            "torch.ops.aten.__dict__['prod'] = object()",
            r"^torchax \S+ cannot be loaded beside PyTorch \S+ \(.+\)\. Versions that fit each "
            r"other: pip install 'anchored\[torch\]'\.\n$",
        ),
    ],
)
def test_pytorch_is_left_as_it_was(change, said):
    """torchax lists operators that PyTorch dropped; a stand-in is there while it is loaded."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("torchax") is None:
        pytest.skip("torchax is not installed")
    command = [sys.executable, "-W", "ignore", "-c", _BRIDGE.format(change=change)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert re.search(said, found.stdout)
