"""What shuffling columns does, against models whose answer is known."""

import numpy as np
import pytest

from anchored import AnchoredRegressor, Predictive
from anchored.reporting.importance import importances
from anchored.reporting.inputs import Inputs


def single(x, names):
    return Inputs(x, tuple(names), tuple(np.arange(len(names))[:, None]))


def measured(y):
    def measure(dist, rows):
        return np.square(dist.mean - y[rows])[:, None], dist.epistemic_var[:, None]

    return measure


def test_importance_finds_the_columns_that_matter(rng):
    """A linear model: shuffling a column with slope s raises the squared error by 2 s^2."""
    x = rng.normal(size=(250, 4))
    slopes = np.array([0.0, 1.0, 3.0, 0.0])
    y = x @ slopes + rng.normal(size=250)

    def predict(x):
        mean = x @ slopes
        return Predictive(mean, np.exp(x[:, 3]), np.ones_like(mean))

    inputs = single(x, ["nothing", "some", "much", "spread"])
    (found,) = importances(predict, inputs, predict(x), measured(y))
    rise = found.score.mean(axis=1)
    assert rise[0] == rise[3] == 0
    # The rise is the mean of 250 rows of about 2 s^2 z^2, with z^2 of deviation sqrt 2.
    for i in (1, 2):
        two = 2 * slopes[i] ** 2
        assert abs(rise[i] - two) < 4 * two * np.sqrt(2 / 250)
    assert np.all(found.spread[:3] == 0)
    assert np.all(found.spread[3] > 0.5)
    (again,) = importances(predict, inputs, predict(x), measured(y))
    np.testing.assert_array_equal(found.score, again.score)
    name, (cell,) = found.telling_columns(np.array([7]))[0]
    assert name == "much"
    assert float(cell.replace("\N{MINUS SIGN}", "-")) == pytest.approx(x[7, 2], abs=6e-4)


def test_features_of_one_column_are_shuffled_together(rng):
    x = rng.normal(size=(100, 1)) * np.ones((1, 2))  # two copies, of which one would suffice

    def predict(x):
        return Predictive(np.minimum(x[:, 0], x[:, 1]), np.ones(len(x)), np.ones(len(x)))

    def rise(inputs):
        return importances(predict, inputs, predict(x), measured(x[:, 0]))[0].score.mean()

    assert rise(Inputs(x, ("c",), ([0, 1],))) > 1.5 * rise(single(x, "ab"))


def test_one_run_of_the_networks_serves_all_outputs_and_the_rows_as_they_are(rng):
    x = rng.normal(size=(400, 3))
    y = x @ rng.normal(size=(3, 2))
    asked = []

    def predict(x):
        asked.append(len(x))
        return Predictive(x[:, :2], np.square(x[:, 1:]), np.ones((len(x), 2)))

    def measure(dist, rows):
        return np.square(dist.mean - y[rows]), dist.epistemic_var

    dist = predict(x)
    found = importances(predict, single(x, "abc"), dist, measure)
    assert len(found) == 2
    assert asked == [400] + 15 * [300]  # three columns, five times each
    for k, part in enumerate(found):
        (alone,) = importances(
            lambda x, k=k: Predictive(x[:, k], np.square(x[:, k + 1]), np.ones(len(x))),
            single(x, "abc"),
            dist.output(k),
            measured(y[:, k]),
        )
        np.testing.assert_allclose(part.score, alone.score, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(part.spread, alone.spread, rtol=1e-12, atol=1e-12)


def test_the_evidence_and_shuffling_agree_on_what_matters(rng):
    """Of five columns two matter: the report names them by evidence, and the ranks go together."""
    x = rng.normal(size=(1_100, 5))
    y = np.sin(2 * x[:, 1]) + 0.7 * x[:, 3] + 0.1 * rng.normal(size=1_100)
    model = AnchoredRegressor(n_members=2, epochs=15, random_state=0).fit(x, y)
    inputs = Inputs.of(model, x[:200], list("abcde"))
    assert inputs is not None
    (found,) = importances(
        model.predict_dist, inputs, model.predict_dist(x[:200]), measured(y[:200])
    )
    shown = found.shown("rise", "change")["relevant"]
    assert set(shown["names"][:2]) == {"b", "d"}
    assert shown["agreement"] > 0.3
    few = AnchoredRegressor(n_members=2, epochs=5, random_state=0).fit(x[:45], y[:45])
    assert Inputs.of(few, x[:9], None).relevance is None  # too few rows to tell
