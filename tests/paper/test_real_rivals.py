"""What other methods see of a table, and whether their forecasts find a known truth."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from anchored import metrics
from anchored.paper.tables import real_rivals as rivals
from anchored.paper.tables.real import METHODS, regression_scores
from anchored.paper.tables.real_features import MISSING_LEVEL, Codes, Features, Filled, Reader
from anchored.paper.tables.real_rivals import Held, Task
from anchored.tables.table import Table

NEEDS = {"catboost": "catboost", "catboost-conformal": "catboost", "ngboost": "ngboost"}
NEEDS |= {"realmlp": "pytabkit", "tabm": "pytabkit"}
QUICK = [name for name in METHODS if name not in ("anchored", "realmlp", "tabm", "ngboost")]
BASE = {"a": 0.0, "b": 2.0, "c": -2.0, "": 1.0}


def text(*cells):
    return np.array(cells, object)


# Features


def test_numbers_keep_gaps_dates_become_numbers_and_text_a_category():
    table = Table(
        {
            "n": np.array([1.0, np.nan, 3.0]),
            "price": text("$1,000", "$20", None),
            "when": text("2020-01-01", "2020-07-01 12:00", "NA"),
            "town": text("x", None, "y"),
            "same": text("k", "k", "k"),
            "none": np.full(3, np.nan),
        },
        3,
    )
    reader = Reader.fit(table)
    assert set(reader.kinds) == {"n", "price", "when", "town"}
    found = reader.read(table)
    assert found.categories.tolist() == [["x"], [MISSING_LEVEL], ["y"]]
    n, price, days, year, week, day = found.numbers.T
    np.testing.assert_array_equal(n, [1, np.nan, 3])
    np.testing.assert_array_equal(price, [1000, 20, np.nan])
    np.testing.assert_array_equal(days, [18262, 18444.5, np.nan])
    np.testing.assert_allclose(year[:2], [0, 182.5 / 365.25])
    np.testing.assert_allclose(week[:2], [2 / 7, 2.5 / 7])  # both are Wednesdays
    np.testing.assert_array_equal(day[:2], [0, 0.5])


def test_kinds_are_those_of_the_training_rows():
    train = Table({"n": text("1", "2"), "t": text("2020-01-01", "2021-01-01")}, 2)
    test = Table({"n": text("x", "4"), "t": text("soon", "2020-01-02")}, 2)
    found = Reader.fit(train).read(test).numbers
    np.testing.assert_array_equal(found[:, 0], [np.nan, 4])
    np.testing.assert_array_equal(found[:, 1], [np.nan, 18263])


def test_codes_are_by_frequency_and_rare_levels_share_one():
    column = text("b", "a", "b", "c", MISSING_LEVEL)[:, None]
    codes = Codes.fit(column, 2)
    np.testing.assert_array_equal(codes.encode(column)[:, 0], [0, 1, 0, 2, np.nan])
    np.testing.assert_array_equal(codes.encode(text("new")[:, None]), [[2]])


def test_gaps_are_filled_and_said():
    whole = Features(np.array([[1.0, 5], [np.nan, 6], [3, 7], [9, 8]]), text(*"aab", "")[:, None])
    filled = Filled.fit(whole, 9)
    np.testing.assert_array_equal(
        filled.numbers(whole), [[1, 5, 0], [3, 6, 1], [3, 7, 0], [9, 8, 0]]
    )
    np.testing.assert_array_equal(filled.categories(whole)[:, 0], [0, 0, 1, 3])


# Forecasts


def made(n, rng, noise=0.5):
    """A number, a category with missing cells, and a target of known noise."""
    x, levels = rng.uniform(-1, 1, n), rng.choice(list(BASE), n)
    mean = 10 + 3 * x + np.array([BASE[level] for level in levels])
    table = Table(
        {
            "x": np.where(rng.uniform(size=n) < 0.05, np.nan, x),
            "level": np.array([level or None for level in levels], object),
        },
        n,
    )
    return table, mean + noise * rng.normal(size=n), mean


def forecast(name, inputs, y, test, n_classes=0, seed=0):
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: pip install 'anchored[outsiders]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages
        return METHODS[name].fit(Task(inputs, y, n_classes, seed))(test)


def check_regression(name, repeated=True):
    rng = np.random.default_rng(0)
    (inputs, y, _), (test, y_test, _) = made(600, rng), made(500, rng)
    found = forecast(name, inputs, y, test)
    scores = regression_scores(found, y_test)
    # With a twentieth of x missing the best there is has an error of 0.5 to 0.65.
    assert 0.45 < scores["rmse"] < 1.0
    assert scores["rmse"] < 0.5 * np.std(y_test)
    assert 0.83 < scores["coverage"] < 0.97  # four standard errors of 500 rows and 120 held out
    assert scores["crps"] < 0.62 * scores["rmse"]
    assert (scores["nll"] is None) == (not found.has_density)
    again = forecast(name, inputs, y, test) if repeated else found
    np.testing.assert_array_equal(metrics.crps(again.dist, y_test), scores["crps"])


def check_classes(name):
    rng = np.random.default_rng(1)
    (inputs, _, mean), (test, _, mean_test) = made(600, rng), made(500, rng)
    cut = [np.digitize(m + 0.5 * rng.logistic(size=len(m)), [8.5, 11.5]) for m in (mean, mean_test)]
    found = forecast(name, inputs, cut[0], test, 3)
    assert found.dist.shape == (500, 3)
    base = np.bincount(cut[0]) / 600
    floor = -np.mean(np.log(base[cut[1]]))
    assert metrics.log_loss(found.dist, cut[1]) < 0.8 * floor
    assert metrics.accuracy(found.dist, cut[1]) > 0.6


@pytest.mark.parametrize("name", [n for n in QUICK if "regression" in METHODS[n].tasks])
def test_regression_finds_the_signal_and_its_noise(name):
    check_regression(name)


@pytest.mark.parametrize("name", [n for n in QUICK if "classification" in METHODS[n].tasks])
def test_classes_are_told_apart(name):
    check_classes(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ngboost", "realmlp", "tabm"])
def test_slow_methods_do_too(name):
    check_regression(name, repeated=name != "tabm")  # which takes minutes
    check_classes(name)


def test_a_class_that_only_held_out_rows_would_have_is_kept():
    y = np.zeros(50, int)
    y[::2] = 1
    order = np.random.default_rng(0).permutation(50)
    y[order[-1]] = 2
    held = Held.of(Task(Table({"x": np.arange(50.0)}, 50), y, 3, 0))
    assert set(y[held.kept]) == {0, 1, 2}
    assert 2 not in y[held.out]
    assert sorted([*held.kept, *held.out]) == list(range(50))


# Distributions of point forecasts


def test_the_conformal_interval_is_the_split_conformal_one():
    rng = np.random.default_rng(2)
    residuals, point = rng.standard_t(4, 999), rng.normal(size=20)
    found = rivals.conformal(point, residuals)
    lower, upper = metrics.inputs.as_dist(found.dist).interval(0.9)
    ordered = np.sort(residuals)
    # Of n residuals the ceil((n + 1) q)-th.
    np.testing.assert_allclose(lower, point + ordered[50 - 1])
    np.testing.assert_allclose(upper, point + ordered[950 - 1])
    assert found.point is point
    assert not found.has_density


def test_quantiles_between_the_fitted_levels_are_a_normal_s_if_those_are():
    """So the CRPS of few levels is that of the whole distribution."""
    from scipy import special

    location, scale = np.array([1.0, -3.0]), np.array([2.0, 0.1])
    fitted = location + scale * special.ndtri(np.arange(1, 20) / 20)[:, None]
    found = rivals.between(fitted)
    wanted = location + scale * special.ndtri(np.arange(1, 200) / 200)[:, None]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    y = np.array([2.0, -3.2])
    assert metrics.crps(found, y) == pytest.approx(metrics.crps((location, scale), y), rel=0.02)


def test_the_intervals_of_hgb_are_its_conformal_ones():
    """Levels that cross in between do not widen them."""
    rng = np.random.default_rng(3)
    (inputs, y, _), (test, _, _) = made(300, rng), made(50, rng)
    task = Task(inputs, y, 0, 0)
    dist = metrics.inputs.as_dist(METHODS["hgb"].fit(task)(test).dist)
    held = Held.of(task)
    codes = Codes.fit(held.whole.categories, 254)

    def columns(found):
        return np.hstack([found.numbers, codes.encode(found.categories)])

    for level, got in zip((0.05, 0.95), dist.interval(0.9), strict=True):
        model = rivals.HistGradientBoostingRegressor(
            loss="quantile", quantile=level, random_state=0, categorical_features=[False, True]
        ).fit(columns(held.whole)[held.kept], y[held.kept])
        scores = y[held.out] - model.predict(columns(held.whole)[held.out])
        shift = np.quantile(scores, level, method="weibull")
        wanted = model.predict(columns(held.reader.read(test))) + shift
        np.testing.assert_allclose(got, wanted)
