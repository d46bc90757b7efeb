"""Estimators with networks and likelihoods of the user's own."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_regressor_multioutput, parametrize_with_checks

import anchored
from anchored import (
    MLP,
    AnchoredClassifier,
    AnchoredRegressor,
    Censored,
    ConvNet,
    Mixture,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Prior,
    Quantile,
    StudentT,
    ZeroInflatedPoisson,
)
from anchored.core.adapters import as_network
from anchored.errors import ModelFileError
from anchored.exact import gp
from anchored.exact.drawn import (
    PriorFamily,
    choose_classification,
    choose_regression,
    effort_of,
)
from anchored.exact.evidence import Twin, tune_regression
from anchored.exact.kernels import Kernel
from tests.core.adapters.zoo import FRAMEWORKS, apply_plain, init_plain, network

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=120)
SHORT = {"n_members": 2, "epochs": 20, "random_state": 0}


def any_width(params, x):
    """A function of inputs of any width: the mean and the mean square of a row."""
    z = jnp.stack([x.mean(axis=-1), jnp.square(x).mean(axis=-1)], axis=-1)
    return jnp.tanh(z @ params["w0"] + params["b0"]) @ params["w1"]


ANY_WIDTH = (
    any_width,
    {
        "w0": np.zeros((2, 4), np.float32),
        "b0": np.zeros(4, np.float32),
        "w1": np.zeros((4, 1), np.float32),
    },
)


class Named(tuple):
    """A pair of functions whose name, and so that of each check, is the same in every process."""

    def __repr__(self):
        return "plain"


def init_five(key, x):
    params = init_plain(key, x)
    return params | {"w1": jnp.tile(params["w1"], (1, 5)) * jnp.arange(1.0, 6.0)}


PLAIN, FIVE = Named((init_plain, apply_plain)), Named((init_five, apply_plain))


@parametrize_with_checks(
    [AnchoredRegressor(network=PLAIN, n_members=2, epochs=100, random_state=0)]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_checks_pass_with_a_foreign_network(estimator, check):
    if check.func is check_regressor_multioutput:  # a network has as many outputs as targets
        estimator = clone(estimator).set_params(network=FIVE)
    check(estimator)


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request):
    network(request.param)
    return request.param


@pytest.fixture(scope="module")
def fitted(framework):
    return AnchoredRegressor(network=network(framework), **SHORT).fit(X, Y)


def test_error_bars_calibration_and_files(fitted, framework, tmp_path):
    dist = fitted.predict_dist(X)
    assert dist.mean.shape == (120,)
    assert dist.conformal is not None  # held-out rows corrected it
    fitted.save(tmp_path / "model.anchored")
    again = anchored.load(tmp_path / "model.anchored", network=network(framework))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(np.asarray(again.novelty(X)), np.asarray(fitted.novelty(X)))
    with pytest.raises(
        ModelFileError, match=r"files contain no code. Give it again: anchored.load"
    ):
        anchored.load(tmp_path / "model.anchored")


def test_clone_fits_to_the_same_bits(fitted):
    again = clone(fitted).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_another_network_does_not_fit_the_file(tmp_path):
    model = AnchoredRegressor(network=network("function"), **SHORT).fit(X, Y)
    model.save(tmp_path / "model.anchored")
    function, example = network("function")
    wider = {name: np.zeros([8 if n == 8 else n for n in a.shape], np.float32)
             for name, a in example.items()}  # fmt: skip
    with pytest.raises(ModelFileError, match="only the network has the parameter `more`"):
        anchored.load(
            tmp_path / "model.anchored",
            network=(function, wider | {"more": np.zeros(1, np.float32)}),
        )
    other = wider | {"b0": np.zeros(9, np.float32)}
    with pytest.raises(ModelFileError, match=r"parameter `b0` is float32 of shape \(9,\)"):
        anchored.load(tmp_path / "model.anchored", network=(lambda p, x: x[:, :1], other))


def test_grid_search_and_another_process_agree(tmp_path):
    search = GridSearchCV(
        AnchoredRegressor(network=ANY_WIDTH, **SHORT), {"learning_rate": [0.01, 0.03]}, cv=2
    ).fit(X, Y)
    best = AnchoredRegressor(network=ANY_WIDTH, **SHORT, **search.best_params_).fit(X, Y)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    best.save(tmp_path / "model.anchored")
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np, anchored\n"
        "from tests.estimators.test_own_networks import ANY_WIDTH\n"
        f"folder = {str(tmp_path)!r}\n"
        "model = anchored.load(folder + '/model.anchored', network=ANY_WIDTH)\n"
        "np.save(folder + '/y.npy', model.predict(np.load(folder + '/x.npy')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), best.predict(X))


def test_prior_by_pattern():
    given = {"w1": 0.5}
    model = AnchoredRegressor(network=ANY_WIDTH, prior=given, **SHORT).fit(X, Y)
    np.testing.assert_allclose(model.prior_.scale["w1"], np.sqrt(0.5), rtol=1e-6)
    with pytest.raises(
        ValueError,
        match="`prior` names 'w7', which is not a parameter; the parameters are b0, w0, w1",
    ):
        AnchoredRegressor(network=ANY_WIDTH, prior={"w7": 1.0}, **SHORT).fit(X, Y)


def test_classes_with_a_foreign_network():
    def logits(params, x):
        return jax.nn.relu(x @ params["w0"]) @ params["w1"]

    net = (logits, {"w0": np.zeros((3, 8), np.float32), "w1": np.zeros((8, 2), np.float32)})
    model = AnchoredClassifier(network=net, n_members=2, epochs=200, random_state=0)
    labels = np.where(X[:, 0] > 0, "up", "down")
    assert model.fit(X, labels).score(X, labels) > 0.9


def test_tokens_are_found_out():
    """A network that takes whole numbers alone is given them as they are."""
    tokens = RNG.integers(0, 9, size=(60, 5))

    def bag(params, x):
        return params["embedding"][x].mean(axis=1) @ params["w"]

    example = {"embedding": np.zeros((9, 4), np.float32), "w": np.zeros((4, 1), np.float32)}
    model = AnchoredRegressor(network=(bag, example), **SHORT).fit(tokens, tokens.mean(axis=1))
    assert model.model_.x_mean is None
    assert model.predict(tokens).shape == (60,)


def test_inputs_of_several_arrays(tmp_path):
    inputs = {"table": X * 100 + 5, "word": RNG.integers(0, 5, 120), "flags": X[:, :2] > 0}

    def apply(params, x):
        word = params["embedding"][x["word"]]
        return jnp.tanh(x["table"] @ params["w0"] + word) @ params["w1"] + x["flags"] @ params["w2"]

    shapes = {"embedding": (5, 6), "w0": (3, 6), "w1": (6, 1), "w2": (2, 1)}
    net = (apply, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    model = AnchoredRegressor(network=net, **SHORT).fit(inputs, Y)
    standardised = model._standardised(inputs)
    np.testing.assert_array_equal(standardised[:, -1], inputs["word"])
    assert abs(standardised[:, 2:5].std() - 1) < 1e-6
    few = {name: part[:7] for name, part in inputs.items()}
    np.testing.assert_allclose(model.predict(few), model.predict(inputs)[:7], rtol=1e-5)
    model.save(tmp_path / "model.anchored")
    again = anchored.load(tmp_path / "model.anchored", network=net)
    np.testing.assert_array_equal(again.predict(inputs), model.predict(inputs))
    with pytest.raises(ValueError, match="`X` must have the parts 'flags'"):
        model.predict({"table": X})


# Prior variance and noise without a twin


def family(network, x):
    return PriorFamily.of(*(Prior.for_network(network, x[:1], v) for v in (1.0, 4.0)))


def test_draws_choose_what_the_exact_twin_would():
    """What draws choose is nearly as likely under the exact twin as what that chooses itself."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150, 2))
    y = (np.sin(3 * x[:, :1]) + 0.3 * rng.normal(size=(150, 1))).astype(np.float32)
    y, weight = (y - y.mean()) / y.std(), np.ones(150)
    net = MLP((200,), activation="erf")
    chosen = choose_regression(net, family(net, x), x.astype(np.float32), y, weight)
    exact = tune_regression(Twin(2, (200,), "erf"), x, y, weight)
    at_chosen, at_best = (
        gp.log_evidence(Kernel.paper(first_var, 2, (200,), "erf"), x, y, noise_var) / len(x)
        for first_var, noise_var, *_ in (chosen, exact)
    )
    assert at_best - 0.02 < at_chosen <= at_best + 1e-6  # nats a row


def test_the_network_s_own_prior_is_asked():
    """A network that can only be linear leaves a parabola to the noise; a ReLU layer would not."""
    x = np.linspace(-1.7, 1.7, 100, dtype=np.float32)[:, None]
    y = (x**2 - np.mean(x**2)) / np.std(x**2)
    linear = (lambda p, x: x @ p["w"] + p["b"], {"w": np.zeros((1, 1), np.float32),
                                                 "b": np.zeros(1, np.float32)})  # fmt: skip
    net = as_network(linear)
    chosen = choose_regression(net, family(net, x), x, y, np.ones(100))
    assert chosen.noise_var[0] > 0.8
    borrowed = tune_regression(Twin(1, (1,), "relu"), x, y, np.ones(100))
    assert borrowed.noise_var[0] < 0.01


def test_networks_that_take_long_are_asked_for_less():
    x = np.zeros((5, 32, 32, 3), np.float32)
    efforts = []
    for net in (ConvNet(((2,),), (4,), 1), ConvNet(((8,), (16,)), (32,), 1), ConvNet.vgg13(1)):
        efforts.append(effort_of(net, Prior.for_network(net, x[:1]), x))
    draws = [effort.n_draws for effort in efforts]
    assert draws == sorted(draws, reverse=True)
    assert [effort.searches for effort in efforts] == [True, True, False]


def test_classes_choose_by_their_own_prior_too():
    x = RNG.normal(size=(100, 2)).astype(np.float32)
    net = MLP((50,), n_outputs=2)
    easy = choose_classification(net, family(net, x), x, (x[:, 0] > 0).astype(float), np.ones(100))
    coins = choose_classification(
        net, family(net, x), x, RNG.integers(0, 2, 100).astype(float), np.ones(100)
    )
    assert easy > coins


# Likelihoods

COUNTS = {
    "negative binomial": (NegativeBinomial(), lambda f, r: r.negative_binomial(3, 3 / (3 + f))),
    "zero-inflated": (ZeroInflatedPoisson(), lambda f, r: r.poisson(f) * (r.random(len(f)) < 0.7)),
    "poisson": (Poisson(), lambda f, r: r.poisson(f)),
    "ordinal": (Ordinal(5), lambda f, r: np.clip(r.poisson(f), 0, 4)),
}
REALS = {
    "student": (StudentT(3.0), lambda f, r: f + 0.3 * r.standard_t(3, len(f))),
    "mixture": (Mixture(2), lambda f, r: r.normal(f + r.choice([-1.5, 1.5], len(f)), 0.2)),
    "censored": (Censored(low=1.0), lambda f, r: np.maximum(r.normal(f, 0.3), 1.0)),
    "quantile": (Quantile(0.5), lambda f, r: f + 0.3 * r.laplace(size=len(f))),
}


def simulated(name, n, rng):
    x = rng.uniform(-1, 1, size=(n, 1))
    likelihood, draw = (COUNTS | REALS)[name]
    return likelihood, x, np.asarray(draw(np.exp(0.5 + x[:, 0]), rng), float)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COUNTS, *REALS])
def test_intervals_cover_simulated_targets(name):
    """Coverage on simulated targets is within two points of the nominal 90 %.

    Whole numbers and limits have probability, so an interval with its ends covers more than 90 %
    even if all is right. With ties split at random (the PIT) exactly 90 % is right for every
    target. Intervals with their ends must cover what those of the truth do, within two points.
    """
    rng = np.random.default_rng(3)
    likelihood, x, y = simulated(name, 2_000, rng)
    _, x_new, y_new = simulated(name, 5_000, rng)
    way, draw = "inverted_cdf" if name in COUNTS else "linear", (COUNTS | REALS)[name][1]
    truth = np.stack([draw(np.exp(0.5 + x_new[:, 0]), rng) for _ in range(1_000)])
    ends = np.quantile(truth, [0.05, 0.95], axis=0, method=way)
    expected = np.mean((ends[0] <= y_new) & (y_new <= ends[1]))
    model = AnchoredRegressor(hidden=20, n_members=5, random_state=0, likelihood=likelihood)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist = model.fit(x, y).predict_dist(x_new)
    low, high = dist.interval(0.9)
    covered = np.mean((low <= y_new) & (y_new <= high))
    pit = dist.pit(y_new)
    inside = np.mean((pit >= 0.05) & (pit <= 0.95))
    error = np.sqrt(0.9 * 0.1 / len(y_new))
    print(f" [{name}: {inside:.3f} ± {error:.3f}, with ends {covered:.3f}, truth {expected:.3f}] ")
    assert abs(inside - 0.9) < 0.02
    assert abs(covered - expected) < 0.02
    assert abs(np.mean(pit < 0.5) - 0.5) < 0.03


@pytest.mark.parametrize("name", ["student", "negative binomial"])
def test_likelihoods_through_the_estimator(name, tmp_path):
    likelihood, x, y = simulated(name, 80, np.random.default_rng(0))
    model = AnchoredRegressor(hidden=8, likelihood=likelihood, **SHORT).fit(x, y)
    dist = model.predict_dist(x)
    assert dist.family == "samples"
    assert np.isfinite(dist.log_density(y)).all()
    assert np.isfinite(dist.crps(y)).all()
    assert model.noise_var_ is None
    assert model.predict_interval(x).shape == (80, 2)
    model.save(tmp_path / "model.anchored")
    again = anchored.load(tmp_path / "model.anchored", likelihood=likelihood)
    np.testing.assert_array_equal(again.predict_quantiles(x), model.predict_quantiles(x))
    with pytest.raises(ModelFileError, match=r"has the likelihood .* got nothing. Give it again"):
        anchored.load(tmp_path / "model.anchored")
    with pytest.raises(ModelFileError, match="which cannot predict without JAX"):
        anchored.runtime.load(tmp_path / "model.anchored")
    assert clone(model).get_params()["likelihood"] is not None


def test_limits_stay_limits():
    """Targets at a limit are at it after standardising, and so are draws."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = np.maximum(1_000 + 300 * x[:, 0] + 50 * rng.normal(size=300), 1_000.1)
    model = AnchoredRegressor(
        hidden=8, likelihood=Censored(low=1_000.1), n_members=2, epochs=500, random_state=0
    ).fit(x, y)
    dist = model.predict_dist(np.array([[-1.0]]))
    assert np.mean(dist.draws == 1_000.1) > 0.9
    assert dist.draws.min() == 1_000.1
    probability = np.exp(dist.log_density([1_000.1])[0])
    assert abs(probability - np.mean(dist.draws == 1_000.1)) < 0.03


def test_bad_likelihoods_are_named():
    class NoOutputs:
        log_prob = sample = staticmethod(lambda *given: None)

    for bad, words in (
        (3, "`likelihood` must be an object with `log_prob"),
        (NoOutputs(), r"`likelihood` must be one with `n_outputs\(n_targets\)`"),
    ):
        with pytest.raises(ValueError, match=words):
            AnchoredRegressor(likelihood=bad, **SHORT).fit(X, Y)
    with pytest.raises(ValueError, match="`noise_var` must be 'auto' beside a `likelihood`"):
        AnchoredRegressor(likelihood=StudentT(), noise_var=0.1, **SHORT).fit(X, Y)
    with pytest.raises(ValueError, match="`method` must be another method"):
        AnchoredRegressor(likelihood=StudentT(), method="deep", **SHORT).fit(X, Y)
