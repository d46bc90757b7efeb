"""The arithmetic of the live page is that of the library, in a real browser.

Weights are random numbers in double precision, so that both sides round alike.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from anchored_site import live
from scipy import stats

from anchored import runtime
from anchored.exact import rms
from anchored.model.forward import ACTIVATIONS, dense_shapes
from anchored.model.record import (
    FittedModel,
    Members,
    NetworkRecord,
    Noise,
    NoiseShape,
    Regression,
)
from anchored.model.runtime import Predictor
from anchored.prediction.conformal import Conformal
from anchored.prediction.warp import Warp

STATIC = Path(__file__).resolve().parents[2] / "site" / "static"
N_FEATURES, N_MEMBERS = 3, 4


@pytest.fixture(scope="module")
def page(browser):
    opened = browser.new_page()
    opened.add_script_tag(path=str(STATIC / "anchored.js"))
    yield opened
    opened.close()


def network(rng, n_inputs, n_outputs, activation, hidden=(6,)):
    record = NetworkRecord(
        "MLP", {"activation": activation, "hidden": hidden}, n_outputs, (n_inputs,)
    )
    shapes = dense_shapes((n_inputs, *hidden, n_outputs))
    params = {path: rng.normal(size=(N_MEMBERS, *shape)) for path, shape in shapes.items()}
    return record, params


def fitted(rng, activation="relu", hidden=(6,), n_outputs=1, n_ramps=0, **parts):
    """A model of random numbers; ``parts`` replace fields of the record."""
    record, params = network(rng, N_FEATURES + n_ramps, n_outputs, activation, hidden)
    nothing = np.zeros(N_MEMBERS)
    members = Members(
        record, params, params, tuple(range(N_MEMBERS)), (), nothing, nothing, nothing
    )
    made = FittedModel(
        package="",
        parameters={},
        n_rows=None,
        n_features=N_FEATURES,
        feature_names=None,
        columns=None,
        members=members,
        prior_mean={},
        prior_scale={},
        x_mean=rng.normal(size=N_FEATURES),
        x_scale=rng.uniform(0.5, 2, N_FEATURES),
        x_reach=None,
        x_limit=None,
        x_ramps=None,
        regression=regression(),
        classes=None,
    )
    return dataclasses.replace(made, **parts)


def regression(**parts):
    made = Regression(
        "student-t", True, np.array([3.0]), np.array([2.0]), None, None, np.array([0.3]), None
    )
    return dataclasses.replace(made, **parts)


def noise(rng, shape=True, conformal=True, dof=5.0):
    record, params = network(rng, N_FEATURES, 1, "tanh")
    knots = [(0.05, -1.9), (0.25, -0.6), (0.5, 0.1), (0.75, 0.6), (0.95, 1.7)]
    return Noise(
        1.4,
        0.2,
        dof,
        NoiseShape(record, params, -1.0, 1.5) if shape else None,
        Conformal.through(knots) if conformal else None,
    )


def bent(rng):
    """Inputs with a reach, a limit and ramps."""
    reach = np.array([[-1.0, -2.0, -0.5], [1.0, 2.0, 0.8]])
    ramps = np.array([[0.0, 2.0], [-0.5, -0.2], [0.5, 0.4], [1.0, 2.0]])
    return {"x_reach": reach, "x_limit": np.array([1.5, np.inf, 4.0]), "x_ramps": ramps}


MODELS = {
    **{name: lambda rng, name=name: fitted(rng, name) for name in ACTIVATIONS},
    "deep": lambda rng: fitted(rng, "erf", (5, 7)),
    "linear": lambda rng: fitted(rng, "relu", ()),
    "normal": lambda rng: fitted(rng, regression=regression(family="gaussian")),
    "predicts its noise": lambda rng: fitted(
        rng, n_outputs=2, regression=regression(floor=1e-3, noise_var=None)
    ),
    "held-out noise": lambda rng: fitted(rng, regression=regression(noise=(noise(rng),))),
    "normal noise": lambda rng: fitted(
        rng, regression=regression(noise=(noise(rng, False, False, np.inf),))
    ),
    "logarithms": lambda rng: fitted(
        rng, regression=regression(noise=(noise(rng),), warp=Warp(1.5, 0.0, 4e3, 1.05))
    ),
    "bent inputs": lambda rng: fitted(rng, n_ramps=2, novelty_scale=np.array([0.7]), **bent(rng)),
}


def columns(page, model, rows, coverage):
    found = page.evaluate(
        "([model, rows, coverage]) => anchored.predict(model, rows, coverage)",
        [json.loads(json.dumps(live.as_json(model))), rows.tolist(), coverage],
    )
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_python(page, rng, name):
    model = MODELS[name](rng)
    rows = 2 * rng.normal(size=(20, N_FEATURES))
    for coverage in (0.2, 0.9, 0.999):
        ours = Predictor(model).predict(rows, coverage)
        theirs = columns(page, model, rows, coverage)
        for column, values in ours.items():
            np.testing.assert_allclose(theirs[column], values, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_classes_are_those_of_python(page, rng, temperature):
    model = fitted(
        rng,
        n_outputs=3,
        regression=None,
        classes=np.array(["a", "b", "c"]),
        temperature=temperature,
        novelty_scale=np.array([0.4, 1.2]),
    )
    rows = 2 * rng.normal(size=(20, N_FEATURES))
    ours, theirs = Predictor(model).predict(rows), columns(page, model, rows, 0.9)
    assert theirs["prediction"].tolist() == ours["prediction"].tolist()
    for i, label in enumerate("abc"):
        np.testing.assert_allclose(theirs["probabilities"][:, i], ours[f"p({label})"], rtol=1e-6)
    for column in ("entropy", "mutual_information", "novelty"):
        np.testing.assert_allclose(theirs[column], ours[column], rtol=1e-6, atol=1e-12)


def test_quantiles_are_those_of_scipy(page):
    levels, dofs = [1e-6, 0.01, 0.3, 0.5, 0.8, 0.9999], [1, 1.5, 3, 9, 40, 1e4]
    found = page.evaluate(
        """([levels, dofs]) => levels.map((level) => dofs.map((dof) =>
             anchored.studentQuantile(anchored.normalScore(level), dof)))""",
        [levels, dofs],
    )
    wanted = [[stats.t.ppf(level, dof) for dof in dofs] for level in levels]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


def test_two_parameters_are_those_of_python(page, rng):
    for _ in range(10):
        mean, variances, priors = rng.normal(size=2), *rng.uniform(0.01, 3, (2, 2))
        correlation = rng.uniform(-0.99, 0.99)
        found = page.evaluate(
            "(given) => anchored.rms(given)",
            {
                "mean": mean.tolist(),
                "variances": variances.tolist(),
                "correlation": correlation,
                "prior_variances": priors.tolist(),
            },
        )
        deviation = np.sqrt(variances)
        cov = np.array([[1, correlation], [correlation, 1]]) * np.outer(deviation, deviation)
        precision = np.linalg.inv(cov)
        given = (rms.Normal(np.zeros(2), np.diag(priors)), precision, precision @ mean)
        for name, formula in (
            ("posterior", rms.posterior),
            ("anchored", rms.anchored_posterior),
            ("mean_field", rms.mean_field_posterior),
        ):
            exact = formula(*given)
            np.testing.assert_allclose(found[name]["mean"], exact.mean, rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(found[name]["cov"], exact.cov, rtol=1e-8, atol=1e-12)


def test_bad_rows_are_refused(page, rng):
    model = json.loads(json.dumps(live.as_json(fitted(rng))))
    with pytest.raises(Exception, match="a row must be 3 numbers"):
        page.evaluate("(model) => anchored.predict(model, [[1, 2]])", model)
    with pytest.raises(Exception, match="coverage must be between 0 and 1"):
        page.evaluate("(model) => anchored.predict(model, [[1, 2, 3]], 90)", model)


def test_a_saved_model_predicts_the_same_in_the_browser(page, rng):
    """Through a file, with the weights in single precision as they are saved."""
    path = Path(__file__).parents[1] / "model" / "version_0_1_0" / "shape.safetensors"
    loaded = runtime.load(path)
    fitted = loaded.fitted
    x = fitted.x_mean + fitted.x_scale * rng.normal(size=(30, fitted.n_features))
    ours, theirs = loaded.predict(x, 0.9), columns(page, fitted, x, 0.9)
    for column in ("mean", "std", "lower", "upper"):
        np.testing.assert_allclose(theirs[column], ours[column], rtol=2e-4)
