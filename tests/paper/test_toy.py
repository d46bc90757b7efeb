"""The small figures: what their records say is what was computed, and agrees with theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

from anchored import MLP, Categorical, Data, Gaussian, Predictive, Prior, paper
from anchored.datasets import random_points
from anchored.paper.figures import action, convergence, likelihoods
from anchored.paper.figures.conditional import Trained, follow
from anchored.paper.figures.toy import from_panel
from anchored.paper.plotting import picture


def smoke(name, folder):
    """The record of the smoke preset, without any data folder; the picture needs no more."""
    experiment = paper.get(name)
    paper.run(experiment, "smoke", paper.Context(0, None), folder, lambda *_: None)
    record = paper.load(folder, name)
    files = picture(lambda figure: experiment.draw(figure, record), experiment.size)
    assert files["png"].startswith(b"\x89PNG")
    assert not any("nan" in line or "None" in line for line in record["findings"])
    return record["numbers"]


def assert_pooled(panel, members, noise_var):
    """The recorded panel is the predictive of these members."""
    members = np.array(members)
    dist, shown = (
        Predictive.from_members(members, np.full_like(members, noise_var)),
        from_panel(panel),
    )
    np.testing.assert_allclose(shown.mean, dist.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(shown.std, dist.std, rtol=1e-3)


def test_action(tmp_path):
    numbers, settings = smoke("fig-action", tmp_path), action.PRESETS["smoke"]
    assert_pooled(numbers["ensemble"], numbers["after"], settings.noise_var)

    def misfit(members):
        at_points = [np.interp(numbers["x"], numbers["grid"], f) for f in numbers[members]]
        return np.sqrt(np.mean(np.square(np.array(at_points) - numbers["y"]), axis=1))

    deviation = np.sqrt(settings.noise_var)
    assert len(misfit("after")) == 3
    assert np.all(misfit("before") > 5 * deviation)
    assert np.all(misfit("after") < 2 * deviation)
    few, many = numbers["distance"].values()
    assert many["kl"]["mean"] < few["kl"]["mean"]


def test_random_points_follow_a_prior_draw():
    network = MLP((30,), activation="erf")
    prior = Prior.for_network(network, np.zeros((1, 1)))
    x, y = random_points(jax.random.key(0), network, prior, 1e-12, 2.0, n_points=50)
    assert x.shape == (50, 1)
    assert np.all(np.diff(x[:, 0]) > 0)
    assert np.abs(x).max() <= 2.0
    drawn = network.apply(prior.sample(jax.random.split(jax.random.key(0), 3)[1]), x)
    np.testing.assert_allclose(y, drawn[:, 0], atol=1e-5)


def test_convergence(tmp_path):
    numbers, settings = smoke("fig-convergence", tmp_path), convergence.PRESETS["smoke"]
    assert np.shape(numbers["members"]) == (20, settings.n_grid)
    for n in settings.sizes:  # the smaller ensembles are the first members of the largest
        assert_pooled(numbers["panels"][str(n)], numbers["members"][:n], settings.noise_var)
    kl = {
        method: {n: d["kl"]["mean"] for n, d in by_size.items()}
        for method, by_size in numbers["distance"].items()
    }
    assert all(by_size["20"] < by_size["3"] for by_size in kl.values())
    assert kl["ideal"]["20"] < min(kl["anchored"]["20"], kl["rms"]["20"])
    # The mean of 20 draws is off by 1/20 of their variance, 1/40 nats; the error of their
    # variance costs about 1/(2 * 19) more, and noise on top takes a part of both away.
    assert 0.02 < kl["ideal"]["20"] < 0.07


def trained(kind):
    """A network at a prior draw, on rows whose last input is always zero."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    x[:, 2] = 0.0
    network = MLP((8, 8), n_outputs=1 if kind == "regression" else 3)
    likelihood = Gaussian(0.1) if kind == "regression" else Categorical()
    data = Data.make(x, np.sin(x[:, 0]) if kind == "regression" else np.arange(60) % 3)
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    params = jax.jit(Prior.sample)(prior, jax.random.key(3))
    return Trained(network, prior, likelihood, data, params)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_the_line_is_the_likelihood_of_changed_parameters(kind):
    net = trained(kind)
    rows, weight = net.data.x, np.asarray(net.data.weight)

    def by_hand(value):
        layer = net.params[1] | {"weight": net.params[1]["weight"].at[2, 5].set(value)}
        outputs = net.network.apply((net.params[0], layer, net.params[2]), rows)
        log_prob = np.asarray(net.likelihood.log_prob(outputs, net.data.y), float)
        return np.sum(weight * log_prob)

    here = float(net.params[1]["weight"][2, 5])
    values = here + np.array([-0.5, 0.0, 0.3])
    line = net.log_likelihood("1/weight", 2 * 8 + 5, values)
    np.testing.assert_allclose(line, [by_hand(v) - by_hand(here) for v in values], atol=2e-3)

    def total(layer_weight):
        layers = (net.params[0], net.params[1] | {"weight": layer_weight}, net.params[2])
        log_prob = net.likelihood.log_prob(net.network.apply(layers, rows), net.data.y)
        return jnp.sum(net.data.weight * log_prob)

    step = 1e-3
    low, high = net.log_likelihood("1/weight", 2 * 8 + 5, [here - step, here + step])
    slope = float(jax.grad(total)(net.params[1]["weight"])[2, 5])
    np.testing.assert_allclose((high - low) / (2 * step), slope, rtol=0.02, atol=0.02)


def test_the_last_layer_of_a_regression_is_exactly_normal():
    net = trained("regression")
    curves = [net.curve("2/weight", i, cap=50.0, drop=6.0, n_points=64) for i in range(8)]
    alive = [c for c in curves if c.end_fall > 5.5]
    assert len(alive) >= 4
    assert max(c.distance for c in alive) < 1e-3


def test_an_input_that_is_always_zero_is_flat():
    net = trained("classification")
    falls = np.array([net.curve("0/weight", i, 3.0, 6.0, 64).fall for i in range(24)])
    assert np.all(falls[16:] == 0.0)  # weights of the third input
    assert np.any(falls[:16] > 1.0)


@pytest.mark.parametrize("width", [1e-4, 0.01, 1.0])
def test_a_curve_is_found_however_narrow(width):
    curve = follow(lambda v: -0.5 * np.square((v - 0.4) / width), -20.0, 20.0, 6.0, 64)
    np.testing.assert_allclose(
        [curve.values[0], curve.values[-1]],
        0.4 + np.array([-1, 1]) * np.sqrt(12) * width,
        rtol=0.01,
    )
    assert curve.distance < 1e-8


def test_a_curve_that_is_not_normal_is_told():
    plateau = follow(lambda v: -10.0 * np.square(np.maximum(v, 0.0)), -3.0, 3.0, 6.0, 64)
    assert plateau.values[0] == -3.0
    assert plateau.end_fall == 0.0
    double = follow(lambda v: np.logaddexp(-50 * (v - 1) ** 2, -50 * (v + 1) ** 2), -3, 3, 6.0, 64)
    assert double.distance > 0.3


def test_likelihoods(tmp_path):
    numbers = smoke("fig-likelihoods", tmp_path)
    leaves = {kind: block["anchored"]["leaves"] for kind, block in numbers.items()}
    for leaf in [*leaves["regression"].values(), *leaves["classification"].values()]:
        for curve, distance in zip(leaf["curves"], leaf["distance"][:2], strict=True):
            assert max(curve["likelihood"]) == max(curve["normal"]) == 1.0
            p, q = (np.array(curve[name]) for name in ("likelihood", "normal"))
            apart = 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()
            np.testing.assert_allclose(apart, distance, atol=1e-4)
    assert max(leaves["regression"]["2/weight"]["distance"]) < 1e-3
    first = leaves["classification"]["0/weight"]
    pixel = np.array(first["position"]) // likelihoods.PRESETS["smoke"].hidden[0]
    blank = load_digits().data[:500].max(axis=0) == 0
    assert np.any(blank[pixel])
    assert np.all(np.array(first["fall"])[blank[pixel]] == 0.0)
