import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from anchored import MLP, ConvNet, Data, Gaussian, Prior, Schedule, TextCNN, fit_ensemble
from anchored.core.priors import draw_anchors
from anchored.exact import gp


def test_paper_scales():
    prior = Prior.for_network(MLP((50, 20)), jnp.zeros((1, 4)), first_var=12.0)
    variances = jax.tree.map(lambda s: float(s.ravel()[0] ** 2), prior.scale)
    assert variances[0] == pytest.approx({"weight": 3.0, "bias": 12.0})
    assert variances[1] == pytest.approx({"weight": 1 / 50, "bias": 1 / 50})
    assert variances[2] == pytest.approx({"weight": 1 / 20})


@pytest.mark.parametrize(
    ("network", "x", "fan_ins"),
    [
        (ConvNet(((4,),), (6,), 3), jnp.zeros((1, 8, 8, 2)), [18, 64, 6]),
        (TextCNN(30, 5, 7, 3, 9), jnp.zeros((1, 10), int), [1, 15, 7, 9]),
    ],
)
def test_scales_come_from_fan_in(network, x, fan_ins):
    scale = Prior.for_network(network, x, first_var=1.0).scale
    weights = [layer.get("weight", layer.get("embedding")) for layer in scale]
    np.testing.assert_allclose([1 / w.ravel()[0] ** 2 for w in weights], fan_ins, rtol=1e-5)


def test_log_prob_matches_scipy(rng):
    prior = Prior({"a": jnp.array([1.0, -2.0])}, {"a": jnp.array([0.5, 3.0])})
    value = rng.normal(size=2)
    expected = stats.norm.logpdf(value, [1.0, -2.0], [0.5, 3.0]).sum()
    np.testing.assert_allclose(prior.log_prob({"a": jnp.asarray(value)}), expected, rtol=1e-5)


def test_anchors_have_the_prior_moments():
    prior = Prior({"a": jnp.array([1.0, -2.0])}, {"a": jnp.array([0.5, 3.0])})
    n = 4000
    draws = np.asarray(draw_anchors(jax.random.key(0), prior, n)["a"])
    z_mean = (draws.mean(0) - [1.0, -2.0]) / (np.array([0.5, 3.0]) / np.sqrt(n))
    z_var = (draws.var(0, ddof=1) / np.array([0.25, 9.0]) - 1) / np.sqrt(2 / (n - 1))
    assert np.all(np.abs([z_mean, z_var]) < stats.norm.isf(1e-3 / 8))


def test_member_j_is_the_same_whatever_the_number_of_members():
    prior = Prior.for_network(MLP((5,)), jnp.zeros((1, 2)))
    few, many = (draw_anchors(jax.random.key(3), prior, n) for n in (2, 9))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[:2]), few, many)


def test_one_leaf_overridden():
    prior = Prior.for_network(MLP((5,)), jnp.zeros((1, 2)))
    changed = prior.with_leaf("1/weight", variance=4.0, mean=1.5)
    np.testing.assert_allclose(changed.scale[1]["weight"], 2.0)
    np.testing.assert_allclose(changed.mean[1]["weight"], 1.5)
    np.testing.assert_array_equal(changed.scale[0]["bias"], prior.scale[0]["bias"])


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_first_var_must_be_positive(bad):
    with pytest.raises(ValueError, match="`first_var` must be a positive number"):
        Prior.for_network(MLP((5,)), jnp.zeros((1, 2)), first_var=bad)


def test_unknown_leaf_lists_the_leaves():
    prior = Prior.for_network(MLP((5,)), jnp.zeros((1, 2)))
    with pytest.raises(ValueError, match="`path` must be one of 0/bias, 0/weight, 1/weight"):
        prior.with_leaf("2/weight", variance=1.0)
    with pytest.raises(ValueError, match="`variance` must be positive"):
        prior.with_leaf("0/bias", variance=-1.0)


def test_a_network_without_variances_has_those_of_its_shapes():
    class Bare:
        init, apply = staticmethod(MLP((5,)).init), staticmethod(MLP((5,)).apply)

    ours, bare = (
        Prior.for_network(network, jnp.zeros((1, 2)), 3.0) for network in (MLP((5,)), Bare())
    )
    for a, b in zip(jax.tree.leaves(ours.scale), jax.tree.leaves(bare.scale), strict=True):
        np.testing.assert_allclose(a, b)


def test_patterns_change_the_leaves_they_fit():
    prior = Prior.for_network(MLP((5,)), jnp.zeros((1, 2)))
    changed = prior.with_leaves({"0.*": 4.0, "0.bias": 9.0})
    assert np.all(changed.scale[0]["weight"] == 2.0)
    assert np.all(changed.scale[0]["bias"] == 3.0)
    np.testing.assert_array_equal(changed.scale[1]["weight"], prior.scale[1]["weight"])
    with pytest.raises(
        ValueError,
        match=r"names '2.*', which is not a parameter; the parameters are 0.bias, 0.weight",
    ):
        prior.with_leaves({"2.*": 1.0})


def test_describe_is_a_table_of_the_leaves():
    prior = Prior.for_network(MLP((5,)), jnp.zeros((1, 2)), 4.0)
    prior = prior.with_leaf("0/weight", variance=[[1.0], [2.0]])
    lines = [line.split() for line in prior.describe().splitlines()]
    assert lines[0] == ["parameter", "shape", "mean", "variance"]
    assert lines[1] == ["0.bias", "5", "0", "4"]
    assert lines[2] == ["0.weight", "2", "x", "5", "0", "1", "to", "2"]
    assert lines[3] == ["1.weight", "5", "x", "1", "0", "0.2"]


def test_a_flat_prior_neither_draws_nor_pulls():
    prior = Prior.for_network(MLP((5,)), jnp.zeros((1, 2)), first_var=3.0)
    flat = prior.with_leaf("0/weight", variance=np.inf, mean=1.5)
    draw, other = flat.sample(jax.random.key(1)), prior.sample(jax.random.key(1))
    np.testing.assert_array_equal(draw[0]["weight"], 1.5)
    np.testing.assert_array_equal(draw[1]["weight"], other[1]["weight"])
    moved = (other[0] | {"weight": 7.0 + other[0]["weight"]}, *other[1:])
    assert flat.log_prob(moved) == flat.log_prob(other)
    np.testing.assert_array_equal(jax.grad(flat.log_prob)(moved)[0]["weight"], 0.0)
    rest = prior.with_leaf("0/weight", variance=1.0).log_prob(other)
    weights = stats.norm.logpdf(np.asarray(other[0]["weight"])).sum()
    np.testing.assert_allclose(flat.log_prob(other), rest - weights, rtol=1e-5)


def test_a_flat_prior_trains_but_has_no_twin():
    x = np.linspace(-1, 1, 20)[:, None]
    network = MLP((5,))
    flat = Prior.for_network(network, x).with_leaf("0/weight", variance=np.inf)
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        flat,
        Gaussian(0.1),
        Data.make(x, x),
        n_members=2,
        schedule=Schedule(5, 10),
    )
    assert np.all(np.isfinite(ensemble.predict(x).std))
    with pytest.raises(ValueError, match="`prior` is flat in places"):
        gp.twin(network, flat)
