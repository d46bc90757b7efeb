"""Positive, skewed targets are predicted on a logarithmic scale where that is likelier."""

import numpy as np
import pytest

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.reporting.making import comparison
from anchored.tables.reading import Table

QUICK = {"hidden": (12,), "n_members": 4, "epochs": 60, "random_state": 0}


def prices(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 2))
    return x, np.exp(3 + x[:, 0] + 0.3 * rng.normal(size=n_rows))


@pytest.fixture(scope="module")
def fitted():
    return AnchoredRegressor(**QUICK).fit(*prices(300))


def test_the_scale_is_found_and_intervals_stay_possible(fitted):
    """Coverage within four standard errors of 400 rows, and nothing below zero."""
    assert fitted.model_.regression.warp is not None
    x, y = prices(400, seed=1)
    lower, upper = fitted.predict_interval(x, 0.9).T
    assert np.all(lower >= 0)
    share = np.mean((lower <= y) & (y <= upper))
    assert abs(share - 0.9) < 4 * np.sqrt(0.09 / 400) + 0.02  # learned from 300 rows
    dist = fitted.predict_dist(x)
    assert np.corrcoef(dist.mean, dist.std)[0, 1] > 0.8  # error bars grow with the prediction
    plain = AnchoredRegressor(**QUICK, target_scale="linear").fit(*prices(300))
    assert plain.model_.regression.warp is None
    assert dist.log_density(y).mean() > plain.predict_dist(x).log_density(y).mean()


def test_means_are_right_in_the_large(fitted):
    x, y = prices(4_000, seed=2)
    error = 4 * np.std(y) / np.sqrt(300)  # of the mean of the rows it is learned from
    assert abs(fitted.predict(x).mean() - y.mean()) < error


def test_one_member_has_a_mean_too():
    """Without held-out rows the noise says how far the mean is above the median."""
    model = AnchoredRegressor(**{**QUICK, "n_members": 1}).fit(*prices(300))
    warp = model.model_.regression.warp
    assert warp is not None
    assert warp.raised == pytest.approx(np.exp(0.09 / 2), abs=0.03)


def test_another_process_reads_the_scale(fitted, tmp_path):
    x, _ = prices(50, seed=3)
    fitted.save(tmp_path / "m.safetensors")
    again = anchored.load(tmp_path / "m.safetensors")
    assert again.model_.regression.warp == fitted.model_.regression.warp
    np.testing.assert_allclose(again.predict(x), fitted.predict(x), rtol=1e-6)
    found = anchored.runtime.load(tmp_path / "m.safetensors").predict(x)
    np.testing.assert_allclose(found["mean"], fitted.predict(x), rtol=1e-5)
    np.testing.assert_allclose(found["lower"], fitted.predict_interval(x)[:, 0], rtol=1e-4)


def test_functions_and_the_exact_limit_are_on_it(fitted):
    x, y = prices(40, seed=4)
    draws = np.array([f(x) for f in fitted.sample_functions(4, random_state=0)])
    np.testing.assert_allclose(draws.mean(axis=0), fitted.predict(x), rtol=1e-4)
    assert np.corrcoef(np.log(draws.mean(axis=0)), np.log(y))[0, 1] > 0.9
    compared = fitted.compare_to_gp(x)
    assert 0.05 < compared.epistemic_ratio < 20
    assert comparison(fitted, x, fitted.predict_dist(x)) == compared  # as reports do it


@pytest.mark.parametrize(
    ("given", "y"),
    [
        ({"noise_var": 1.0}, None),
        ({"method": "deep"}, None),
        ({}, "two"),
        ({}, "negative"),
    ],
)
def test_log_is_refused_where_it_cannot_be(given, y):
    x, target = prices(60)
    if y == "two":
        target = np.stack([target, target], axis=1)
    if y == "negative":
        target = target - 100
    with pytest.raises(ValueError, match="target_scale"):
        AnchoredRegressor(**QUICK, **given, target_scale="log").fit(x, target)


def test_bad_scale():
    with pytest.raises(ValueError, match="`target_scale` must be one of auto, linear, log"):
        AnchoredRegressor(**QUICK, target_scale="sqrt").fit(*prices(60))


def jobs(n_rows, seed):
    rng = np.random.default_rng(seed)
    effect = np.random.default_rng(9).normal(size=80)
    job = rng.integers(80, size=n_rows)
    table = Table({"job": np.array([f"job {k}" for k in job], object)}, n_rows)
    return table, effect[job] + 0.3 * rng.normal(size=n_rows)


def test_columns_of_many_levels_are_learned():
    """80 levels explain most of the target; a level never seen is predicted with doubt."""
    table, y = jobs(800, 0)
    later, y_later = jobs(300, 1)
    model = AnchoredRegressor(**QUICK).fit(table, y)
    left = np.mean((model.predict(later) - y_later) ** 2) / y_later.var()
    assert left < 0.35  # the noise is a tenth; the most frequent 30 levels alone leave 0.6
    new = Table({"job": np.array(["never seen"] * 2, object)}, 2)
    unseen, usual = (model.predict_dist(rows).epistemic_var.mean() for rows in (new, later))
    assert unseen > 9 * usual
    assert np.all(model.novelty(new) > 1)
    classes = AnchoredClassifier(**QUICK).fit(table, y > 0)
    assert np.mean(classes.predict(later) == (y_later > 0)) > 0.85


def test_a_mistyped_cell_is_not_extrapolated_without_bounds(rng):
    x = rng.normal(size=(200, 2))
    model = AnchoredRegressor(**QUICK).fit(x, x[:, 0])
    near, far = model.predict([[1e3, 0.0], [1e9, 0.0]])
    assert near == far
    assert abs(far) < 60
