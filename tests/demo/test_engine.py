"""The demo's pictures against the library: members, exact posterior, what is kept and when."""

import dataclasses
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import Data, Gaussian, Predictive, Prior, Schedule, fit_ensemble, metrics
from anchored.core.loss import MemberLoss, Own
from anchored.core.state import Batch
from anchored.demo import engine, presets, protocol
from anchored.demo.engine import Programs, Shape, follow, rounded
from anchored.exact import gp

SIX = presets.presets()["regression"][0]["points"]
BLOBS = presets.presets()["classification"][0]["points"]
SMALL = {"n_members": 3, "width": 8}


@pytest.fixture(scope="module")
def programs():
    return Programs()


def opened(problem="regression", points=SIX, seed=0, **settings):
    settings = presets.DEFAULTS[problem].as_dict() | SMALL | settings
    record = {"type": "open", "problem": problem, "settings": settings, "points": points}
    return protocol.applied(None, protocol.read(json.dumps(record | {"seed": seed}), None))


def after(scene, **record):
    return protocol.applied(scene, protocol.read(json.dumps(record), scene))


@pytest.fixture(scope="module")
def picture(programs):
    return follow(None, opened(), programs).advanced(0)


def compilations(run):
    """How many programs XLA compiles in ``run``."""
    counted = []

    def listen(event, seconds, **kwargs):
        if event == "/jax/core/compile/backend_compile_duration":
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return len(counted)


def test_members_are_those_of_fit_ensemble(picture):
    """Same seed, anchors, initial draws and steps: the same networks after 40 of them."""
    scene, n_steps = picture.scene, 40
    x, y = np.array(SIX)[:, :1], np.array(SIX)[:, 1]
    network = picture.shape.network
    prior = Prior.for_network(network, x, scene.settings.first_var)
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(scene.settings.noise_var),
        Data.make(x, y),
        n_members=3,
        schedule=Schedule(n_steps, 64, scene.settings.learning_rate),
    )
    flat = engine.Raveller.like(prior.scale).ravel_members
    np.testing.assert_allclose(picture.anchors, flat(ensemble.centres), rtol=1e-6)
    ours = picture.advanced(n_steps)
    np.testing.assert_allclose(ours.state.theta, flat(ensemble.params), atol=2e-4)
    np.testing.assert_allclose(ours.objective, ensemble.info.objective[-1], rtol=1e-3)
    theirs = ensemble.predict(np.asarray(picture.grid))
    np.testing.assert_allclose(ours.predictive().mean, theirs.mean, atol=1e-3)
    np.testing.assert_allclose(ours.predictive().std, theirs.std, atol=1e-3)


def test_steps_may_be_taken_in_pieces(picture):
    whole, pieces = picture.advanced(30), picture.advanced(7).advanced(3).advanced(20)
    np.testing.assert_array_equal(whole.state.theta, pieces.state.theta)
    assert (whole.step, pieces.step) == (30, 30)


def test_trained_long_without_data_every_member_is_its_anchor(picture, programs):
    """With no rows the penalty is all there is, and its minimiser is known."""
    empty = follow(picture, after(picture.scene, type="points", points=[]), programs)
    slow = after(empty.scene, type="settings", settings={"learning_rate": 1e-3})
    end = follow(empty.advanced(1500), slow, programs).advanced(1500)
    np.testing.assert_allclose(end.state.theta, picture.anchors, atol=2e-3)
    np.testing.assert_allclose(end.objective, 0, atol=1e-4)
    assert end.frame()["n_points"] == 0


def test_trained_long_the_gradient_vanishes(picture, programs):
    """At rest each member solves (theta - anchor) / var = d log p(y) / d theta."""
    rest = picture.advanced(4000)
    for rate in (3e-3, 3e-4):
        slower = after(rest.scene, type="settings", settings={"learning_rate": rate})
        rest = follow(rest, slower, programs).advanced(4000)
    x, y = np.array(SIX, np.float32)[:, :1], np.array(SIX, np.float32)[:, 1]
    raveller = engine.Raveller.like(rest.prior.scale)

    def fit(theta):
        outputs = rest.shape.network.apply(raveller.unravel(theta), x)[:, 0]
        return -0.5 * jnp.sum((y - outputs) ** 2) / rest.scene.settings.noise_var

    slope = np.asarray(jax.vmap(jax.grad(fit))(rest.state.theta))
    pull = (np.asarray(rest.state.theta) - rest.anchors) / np.asarray(rest.state.extra.scale) ** 2
    # Of two forces that balance: what is left beside what there is.
    assert np.linalg.norm(slope - pull) < 0.02 * np.linalg.norm(pull)


def test_padding_does_not_count(picture):
    data, n = picture.data, len(SIX)
    junk = dataclasses.replace(data, x=data.x.at[n:].set(5.0), y=data.y.at[n:].set(-7.0))
    other = dataclasses.replace(picture, data=junk)
    ours, theirs = picture.advanced(25), other.advanced(25)
    np.testing.assert_array_equal(ours.state.theta, theirs.state.theta)
    np.testing.assert_array_equal(ours.objective, theirs.objective)


@pytest.mark.parametrize("activation", ["erf", "relu", "leaky_relu"])
def test_the_exact_answer_is_that_of_gp(programs, activation):
    scene = opened(activation=activation, first_var=3.0, noise_var=0.01)
    shape = Shape.of(scene)
    prior = engine._prior(shape, 3.0)
    ours, why = engine._exact(scene, shape, prior)
    assert why == ""
    x, y = np.array(SIX, np.float32)[:, :1], np.array(SIX, np.float32)[:, 1]
    grid = np.asarray(engine._grid(scene))
    theirs = gp.condition(gp.twin(shape.network, prior), x, y, 0.01).predict(grid)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-6)


def test_the_frame_is_the_predictive_in_four_digits(picture):
    now = picture.advanced(200)
    frame, ours = now.frame(), now.predictive()
    json.dumps(frame, allow_nan=False)
    assert (frame["type"], frame["status"], frame["step"]) == ("frame", "ok", 200)
    assert (frame["n_points"], frame["seed"], len(frame["loss"])) == (6, 0, 3)
    close = {"rtol": 5e-4, "atol": 1e-12}
    np.testing.assert_allclose(frame["x"], np.linspace(-2, 2, 160), rtol=5e-4, atol=1e-6)
    np.testing.assert_allclose(frame["members"], now.means[..., 0], **close)
    np.testing.assert_allclose(frame["mean"], ours.mean[:, 0], **close)
    np.testing.assert_allclose(frame["epistemic"], np.std(now.means[..., 0], 0, ddof=1), **close)
    np.testing.assert_allclose(frame["total"], ours.std[:, 0], **close)
    np.testing.assert_allclose(frame["gp"]["mean"], now.exact.mean[:, 0], **close)
    np.testing.assert_allclose(frame["gp"]["total"], now.exact.std[:, 0], **close)
    a, b = now.exact, ours
    by_hand = np.log(b.std / a.std) + (a.variance + (a.mean - b.mean) ** 2) / (2 * b.variance) - 0.5
    np.testing.assert_allclose(frame["kl"], by_hand.mean(), **close)
    np.testing.assert_allclose(frame["kl"], metrics.kl(a, b).mean(), **close)


def test_the_deviation_shrinks_at_the_points_and_stays_away_from_them(picture):
    before, after_training = (picture.advanced(n).frame() for n in (0, 3000))
    x = np.array(after_training["x"])
    at = [np.abs(x - point).argmin() for point, _ in SIX]
    away = np.abs(x) > 1.6
    assert np.max(np.array(after_training["epistemic"])[at]) < 0.1
    assert np.min(np.array(after_training["epistemic"])[away]) > 0.1
    assert np.mean(after_training["loss"]) < np.mean(before["loss"])


def test_weights_are_named_and_shown(picture, programs):
    scene = after(picture.scene, type="weights", pair=[3, 23])
    weights = follow(picture, scene, programs).advanced(0).frame()["weights"]
    assert weights["names"] == ["b1[3]", "W2[7,0]"]
    assert weights["n_parameters"] == presets.n_parameters("regression", 8) == 24
    np.testing.assert_allclose(weights["anchors"], picture.anchors[:, [3, 23]], rtol=5e-4)
    np.testing.assert_allclose(weights["prior_std"], [10**0.5, 8**-0.5], rtol=5e-4)
    default = picture.frame()["weights"]
    assert (default["pair"], default["names"]) == ([8, 16], ["W1[0,0]", "W2[0,0]"])


def test_new_points_and_settings_compile_nothing(programs):
    # Once through everything, as the first use of an operation compiles it.
    def tour(seed):
        now = follow(None, opened(seed=seed), programs).advanced(1)
        for record in (
            {"type": "points", "points": [*SIX, [1.0, 0.1 * seed]]},
            {"type": "points", "points": [*SIX, [1.0, 0.5], [1.5, 0.1 * seed]]},
            {"type": "points", "points": []},
            {"type": "settings", "settings": {"noise_var": 0.01 * (1 + seed)}},
            {"type": "settings", "settings": {"learning_rate": 0.01 * (1 + seed)}},
            {"type": "settings", "settings": {"method": "rms"}},
            {"type": "settings", "settings": {"method": "unconstrained"}},
            {"type": "settings", "settings": {"first_var": 1.0 + seed}},
            {"type": "anchors"},
            {"type": "reset"},
            {"type": "view", "view": [-1, 3]},
        ):
            now = follow(now, after(now.scene, **record), programs).advanced(3)
            now.frame()

    tour(0)
    n_known = programs.n_compiled
    assert compilations(lambda: tour(1)) == 0
    assert programs.n_compiled == n_known
    assert compilations(lambda: jax.jit(lambda x: x * 3.25 + 1)(np.ones(7))) > 0  # it can count


def test_what_goes_on_and_what_begins_anew(picture, programs):
    now = picture.advanced(20)

    def then(**record):
        return follow(now, after(now.scene, **record), programs)

    for kept in (
        then(type="settings", settings={"method": "regularised"}),
        then(type="settings", settings={"noise_var": 0.5}),
        then(type="settings", settings={"learning_rate": 0.1}),
        then(type="points", points=SIX[:3]),
    ):
        assert kept.state.theta is now.state.theta
        assert kept.state.opt_state is now.state.opt_state
        assert kept.anchors is now.anchors
        assert (kept.step, kept.since) == (20, 0)
    looked = then(type="view", view=[0, 1])
    assert (looked.state.theta is now.state.theta, looked.since) == (True, 20)
    np.testing.assert_allclose(looked.grid[:, 0], np.linspace(0, 1, 160), atol=1e-6)

    anchors = then(type="anchors")
    assert anchors.state.theta is now.state.theta
    assert np.all(anchors.anchors != now.anchors)
    reset = then(type="reset")
    assert reset.anchors is now.anchors
    assert reset.step == 0
    assert np.any(np.asarray(reset.state.theta) != np.asarray(picture.state.theta))

    wider = then(type="settings", settings={"first_var": 40.0})
    assert wider.step == 0
    ratio = wider.anchors[:, :16] / now.anchors[:, :16]  # same seed: same draws, twice as wide
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-4)


def test_centres_and_noise_of_the_methods(picture, programs):
    def now(**settings):
        scene = after(picture.scene, type="settings", settings=settings)
        return follow(picture, scene, programs)

    assert np.all(np.asarray(now(method="anchored").state.own.centre) == picture.anchors)
    assert not np.any(noise(now(method="anchored")))
    assert not np.any(now(method="regularised").state.own.centre)
    assert float(now(method="regularised").state.extra.penalty) == 1
    assert float(now(method="unconstrained").state.extra.penalty) == 0
    shaken, more = (noise(now(method="rms", noise_var=v)) for v in (0.25, 0.0625))
    assert np.count_nonzero(shaken) == 3 * len(SIX)
    np.testing.assert_allclose(more, 2 * shaken, rtol=1e-4)


class Outputs:
    """Their own parameters."""

    def apply(self, params, x):
        return params


def noise(picture):
    """Noise [member, row] in the score of each row, as the gradient of the loss has it."""
    state, loss = picture.state, MemberLoss(Outputs(), None)
    n_rows = len(state.extra.numbers)
    zeros, extra = jnp.zeros((n_rows, 1)), state.extra._replace(scale=jnp.ones(1))
    batch = Batch(zeros, zeros, jnp.ones(n_rows), jnp.arange(n_rows), 1.0)
    slopes = [jax.grad(loss)(zeros, Own(zeros, s, None), extra, batch) for s in state.own.seed]
    return -np.stack(slopes)[..., 0]


def test_noise_of_a_target_stays_while_others_come_and_go(picture, programs):
    one = after(picture.scene, type="settings", settings={"method": "rms"})
    two = after(one, type="points", points=[*SIX, [1.5, 0.0]])
    three = after(two, type="points", points=[*SIX[1:], [1.5, 0.0]])
    first, second, third = (noise(follow(picture, s, programs)) for s in (one, two, three))
    np.testing.assert_array_equal(first[:, :6], second[:, :6])
    np.testing.assert_array_equal(second[:, 1:7], third[:, :6])
    assert not np.any(third[:, 6:])
    assert len(np.unique(second[:, :7])) == 21


def test_there_is_no_exact_answer_without_a_kernel_or_a_prior(picture, programs):
    scene = after(picture.scene, type="settings", settings={"method": "unconstrained"})
    frame = follow(picture, scene, programs).advanced(1).frame()
    assert (frame["gp"], frame["kl"]) == (None, None)
    assert "prior" in frame["kl_why"]
    tanh = opened(activation="tanh")
    exact, why = engine._exact(tanh, Shape.of(tanh), engine._prior(Shape.of(tanh), 1.0))
    assert exact is None
    assert "tanh" in why


def test_a_diverged_network_is_told_in_lawful_json(picture):
    theta = picture.state.theta.at[1].set(np.nan)
    broken = dataclasses.replace(picture.state, theta=theta)
    frame = dataclasses.replace(picture, state=broken).advanced(2).frame()
    json.dumps(frame, allow_nan=False)
    assert frame["status"] == "diverged"
    assert frame["loss"][1] is None
    assert frame["kl"] is None
    assert all(value is None for value in frame["members"][1])
    assert None not in frame["members"][0]


def test_classes(programs):
    scene = opened("classification", BLOBS)
    start = follow(None, scene, programs).advanced(0)
    end = start.advanced(400)
    frame = end.frame()
    json.dumps(frame, allow_nan=False)
    assert (frame["extent"], frame["side"]) == ((-3.0, 3.0), 41)
    probability = np.array(frame["probability"])
    assert probability.shape == (41 * 41,)
    dist = Predictive.from_members(end.means, end.means * (1 - end.means), "categorical")
    np.testing.assert_allclose(probability, dist.probabilities[:, 1], rtol=5e-4)
    information = np.array(frame["mutual_information"])
    np.testing.assert_allclose(information, dist.mutual_information, rtol=5e-4, atol=1e-12)
    # x1 runs fastest.
    x = np.array([[-3 + 6 * 30 / 40, -3 + 6 * 10 / 40]], np.float32)
    unravel = engine.Raveller.like(end.prior.scale).unravel
    members = [end.shape.network.apply(unravel(p), x) for p in end.state.theta]
    want = np.mean([jax.nn.softmax(outputs)[0, 1] for outputs in members])
    np.testing.assert_allclose(probability[10 * 41 + 30], want, rtol=1e-3)
    cells = [round((x2 + 3) / 6 * 40) * 41 + round((x1 + 3) / 6 * 40) for x1, x2, _ in BLOBS]
    right = (probability[cells] > 0.5) == [bool(label) for *_, label in BLOBS]
    assert right.mean() > 0.8
    assert frame["weights"]["n_parameters"] == presets.n_parameters("classification", 8)


def test_one_member_alone_is_the_regularised_network(programs):
    scene = opened(n_members=1)
    anchors = np.ones((1, 24), np.float32)
    prior = engine._prior(Shape.of(scene), 10.0)
    assert not np.any(engine._state(scene, Shape.of(scene), prior, anchors, anchors).own.centre)


def test_programs_are_few_and_shared(programs, monkeypatch):
    made = []
    monkeypatch.setattr(engine, "_compiled_draw", lambda shape: made.append("draw") or object())
    monkeypatch.setattr(engine, "_compiled_advance", lambda shape: made.append(shape) or object())
    few = Programs(most=2)
    one = Shape.of(opened())
    other, third = one._replace(activation="tanh"), one._replace(width=9)
    assert few.get(one) is few.get(one)
    assert few.get(other).draw is few.get(one).draw
    few.get(third)  # `other` was used longest ago and goes
    assert [few.ready(s) for s in (one, other, third)] == [True, False, True]
    assert made == ["draw", one, other, "draw", third]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.23456, "1.235"),
        (-0.000123456, "-0.0001235"),
        (123456.0, "123500.0"),
        (9.9999, "10.0"),
        (1e-30, "1e-30"),
        (3.4e38, "3.4e+38"),
        (np.inf, "null"),
        (np.nan, "null"),
    ],
    ids=str,
)
def test_numbers_are_short(value, text):
    assert json.dumps(rounded(value)) == text


def test_many_numbers_are_short():
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.linspace(-17, 17, 1000)
    short = rounded(values)
    np.testing.assert_allclose(short, values, rtol=5.1e-4)
    assert max(len(f"{abs(v):e}".split("e")[0].rstrip("0")) for v in short) <= 5  # d.ddd
    assert all(len(repr(abs(v)).split("e")[0].replace(".", "").strip("0")) <= 4 for v in short)


@pytest.mark.slow
def test_memory_stays_bounded_whatever_widths_are_asked_for():
    code = """
import psutil
from anchored.demo.engine import Programs, Shape
programs, sizes = Programs(most=4), []
for first in (5, 25):
    for width in range(first, first + 20):
        programs.get(Shape("regression", "erf", 2, width, 48))
    sizes.append(psutil.Process().memory_info().rss)
print((sizes[1] - sizes[0]) / 1e6)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 80  # megabytes; twenty programs of some ten each were compiled
