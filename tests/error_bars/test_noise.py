"""Noise learned from held-out rows: its shape, and what the regressor does with it."""

import jax
import numpy as np
import pytest

from anchored import AnchoredRegressor, metrics
from anchored.error_bars import noise
from anchored.error_bars.calibration import Calibration
from anchored.error_bars.noise import learn_noise


def deviation(x):
    return 0.1 + 0.5 * np.abs(x[:, 0])


def rows(seed, n_rows, deviation):
    """Inputs, members [member, row] near the true function, targets, true deviations."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, size=(n_rows, 2))
    members = np.sin(x[:, 0]) + 0.05 * rng.normal(size=(4, n_rows))
    true = np.broadcast_to(deviation(x), n_rows)
    return x, members, np.sin(x[:, 0]) + true * rng.normal(size=n_rows), true


def predictive(found, members, x):
    level = Calibration(found.factor, found.noise_var, found.noise_dof)
    return level.predictive(members, found.at(x) / found.noise_var)


@pytest.fixture(scope="module")
def changing():
    x, members, y, _ = rows(0, 600, deviation)
    return learn_noise(jax.random.key(0), x, members, y, np.ones(600)).noise


def test_changing_noise_is_found(changing):
    x, members, y, true = rows(1, 2_000, deviation)
    assert changing.shape is not None
    assert np.corrcoef(np.log(changing.at(x)), np.log(true**2))[0, 1] > 0.9
    dist = predictive(changing, members, x)
    inside = np.abs(y - dist.mean) < dist.interval(0.9)[1] - dist.mean
    high = true > np.median(true)
    # Of 300 rows learned from and 1,000 fresh ones; the shape is known to a tenth or so.
    error = 4 * np.sqrt(0.9 * 0.1 * (1 / 300 + 1 / 1_000))
    for half in (high, ~high):
        assert abs(inside[half].mean() - 0.9) < error
    # A constant noise covers too few where there is much: the test can tell.
    flat = np.abs(y - dist.mean) < np.quantile(np.abs(y - dist.mean), 0.9)
    assert flat[high].mean() < 0.9 - error


def test_far_away_the_noise_is_as_seen(changing):
    x = rows(0, 600, deviation)[0]
    far = changing.at(1e3 * np.random.default_rng(2).normal(size=(500, 2)))
    seen = changing.at(x)
    assert far.min() >= seen.min() * (1 - 1e-5)  # float32 sums
    assert far.max() <= seen.max() * (1 + 1e-5)


def test_constant_noise_stays_constant():
    x, members, y, _ = rows(0, 600, lambda x: 0.4)
    found = learn_noise(jax.random.key(0), x, members, y, np.ones(600)).noise
    x, members, y, _ = rows(1, 2_000, lambda x: 0.4)
    right = Calibration(1.0, 0.16, 100.0).predictive(members)
    assert metrics.nll(predictive(found, members, x), y) < metrics.nll(right, y) + 0.02


def test_no_shape_from_too_little():
    """Few rows, tokens, images and rows without residuals: the noise is a constant."""
    n = noise.MIN_SHAPE_ROWS
    x, members, y, _ = rows(0, n, deviation)
    few = [array[..., :-1] for array in (x.T, members, y, np.ones(n))]
    found = learn_noise(jax.random.key(0), few[0].T, *few[1:]).noise
    assert found.shape is None
    assert np.ptp(found.at(x)) == 0
    for inputs in (x.reshape(n, 1, 2), (10 * x).astype(int)):
        assert learn_noise(jax.random.key(0), inputs, members, y, np.ones(n)).noise.shape is None
    assert (
        learn_noise(jax.random.key(0), x, members, members.mean(axis=0), np.ones(n)).noise.shape
        is None
    )


def test_networks_that_diverge_are_not_listened_to(monkeypatch):
    monkeypatch.setattr(noise, "_RATE", 1e30)
    monkeypatch.setattr(noise, "_STEPS", 20)
    x, members, y, _ = rows(0, 200, deviation)
    found = learn_noise(jax.random.key(0), x, members, y, np.ones(200)).noise
    assert found.shape is None
    assert 0.01 < found.noise_var < 1


# The regressor

QUICK = {"n_members": 4, "epochs": 150, "prior": 5.0, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    """X [400, 2] and two outputs: noise that grows with the first input, and little noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.7, 1.7, size=(400, 2))
    y = 10 * np.sin(X[:, 0]) + 10 * deviation(X) * rng.normal(size=400)
    return X, np.stack([y, X[:, 1] + 0.05 * rng.normal(size=400)], axis=1)


@pytest.fixture(scope="module")
def fitted(table):
    return AnchoredRegressor(**QUICK).fit(*table)


def test_intervals_are_wider_where_the_noise_is(fitted):
    X = np.array([[0.0, 0.0], [1.5, 0.0]])  # deviations 1 and 8.5
    width = np.diff(fitted.predict_interval(X), axis=-1)[..., 0]
    assert width[1, 0] > 3 * width[0, 0]


def test_outputs_have_noise_of_their_own(fitted, table):
    """Average variances: 100 E[(0.1 + 0.5 u)^2] = 34, and 0.0025; each within a half or double."""
    true = np.array([100 * np.mean(deviation(table[0]) ** 2), 0.05**2])
    assert np.all(np.abs(np.log(fitted.noise_var_ / true)) < np.log(2))
    dist = fitted.predict_dist(table[0])
    assert np.shape(dist.noise_dof) == (2,)
    np.testing.assert_allclose(dist.aleatoric_var.mean(axis=0), fitted.noise_var_)
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.7, 1.7, size=(1_000, 2))
    y = 10 * np.sin(X[:, 0]) + 10 * deviation(X) * rng.normal(size=1_000)
    lower, upper = fitted.predict_dist(X).interval(0.9)
    inside = (lower[:, 0] < y) & (y < upper[:, 0])
    assert abs(inside.mean() - 0.9) < 4 * np.sqrt(0.9 * 0.1 * (1 / 400 + 1 / 1_000))


def test_known_noise_holds_nothing_out(table):
    X, y = table[0], table[1][:, 1]
    model = AnchoredRegressor(**QUICK | {"epochs": 5}, noise_var=0.0025).fit(X, y)
    assert model.model_.regression.noise is None
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.aleatoric_var, 0.0025)
    np.testing.assert_allclose(dist.epistemic_var, dist.members.var(axis=0, ddof=1))
    assert np.all(np.isinf(dist.noise_dof))


@pytest.mark.parametrize(
    ("n_rows", "n_members", "held_out"), [(9, 4, False), (10, 4, True), (40, 1, False)]
)
def test_few_rows_and_single_networks_hold_nothing_out(table, n_rows, n_members, held_out):
    X, y = table[0][:n_rows], table[1][:n_rows, 1]
    model = AnchoredRegressor(**QUICK | {"epochs": 20, "n_members": n_members}).fit(X, y)
    assert (model.model_.regression.noise is not None) == held_out
    _, std = model.predict(X, return_std=True)
    assert np.isfinite(std).all()
    # Never less than what the networks leave over on their own rows, if these are all there is.
    if not held_out:
        residual = y - model.predict(X)
        assert model.noise_var_[0] > 0.99 * np.mean(residual**2)


def test_weights_are_repetitions_in_the_noise_too(table):
    X, y = table[0][:120], table[1][:120, 0]
    weight = np.arange(120) % 3
    settings = QUICK | {"epochs": 20}
    weighted = AnchoredRegressor(**settings).fit(X, y, sample_weight=weight)
    repeated = AnchoredRegressor(**settings).fit(X.repeat(weight, 0), y.repeat(weight))
    assert weighted.model_.regression.noise is not None
    for coverage in (0.5, 0.99):
        np.testing.assert_array_equal(
            *(model.predict_interval(X, coverage) for model in (weighted, repeated))
        )


def test_layers_by_the_number_of_rows():
    auto = AnchoredRegressor()
    assert auto._widths(4_999) == (50,)
    assert auto._widths(5_000) == (50, 50)
    assert AnchoredRegressor(hidden=20)._widths(9_999) == (20,)
    assert AnchoredRegressor(hidden=())._widths(9_999) == ()
    with pytest.raises(ValueError, match='`hidden` must be "auto", a width or several'):
        AnchoredRegressor(hidden="deep")._widths(10)


def test_every_row_is_held_out_once_or_a_fifth_of_many():
    from anchored.estimators.regression import _folds

    few, many, most = (_folds(n, 5, None) for n in (4_999, 6_000, 100_000))
    assert _folds(9, 5, None) is _folds(100, 1, None) is None
    fewest = _folds(499, 5, None)
    assert np.bincount(fewest.of_member).tolist() == [3] * 10
    assert np.ptp(np.bincount(fewest.of_row)) <= 1
    assert set(few.of_row) == set(few.of_member) == set(range(5))
    assert np.bincount(few.of_member).tolist() == [4] * 5
    assert np.ptp(np.bincount(few.of_row)) <= 1
    for folds, n_held in ((many, 1_200), (most, 10_000)):
        assert np.sum(folds.of_row == 0) == n_held
        assert set(folds.of_row) == {-1, 0}
        assert set(folds.of_member) == {0}


def test_tuned_settings_fill_what_is_left_open(tmp_path):
    from anchored.tuning import Settings

    settings = Settings((7,), "erf", 0.04, 3.0, 32, 0.02, 5, 0.99)
    settings.save(tmp_path / "found.json")
    x = np.random.default_rng(0).normal(size=(50, 2))
    model = AnchoredRegressor(n_members=2, settings=str(tmp_path / "found.json"), random_state=0)
    model.fit(x, 10 * x[:, 0])
    assert (model.ensemble_.network.hidden, model.ensemble_.network.activation) == ((7,), "erf")
    assert float(model.prior_.scale[0]["bias"][0]) ** 2 == pytest.approx(3.0)
    assert model.noise_var_[0] == pytest.approx(0.04 * np.var(10 * x[:, 0]))
    assert model._schedule(50).learning_rate == 0.02
    given = AnchoredRegressor(n_members=2, settings=settings, hidden=4, epochs=3, noise_var=1.0)
    given.fit(x, x[:, 0])
    assert given.ensemble_.network.hidden == (4,)
    assert given._schedule(50).epochs == 3
    np.testing.assert_allclose(given.noise_var_, [1.0])
    with pytest.raises(ValueError, match="`settings` must be None"):
        AnchoredRegressor(settings=3).fit(x, x[:, 0])


def test_drawn_residuals_have_the_scale_they_are_scored_with():
    import jax

    from anchored.error_bars.noise import Residual

    outputs = np.full((4000, 1), np.log(3.0))
    drawn = np.asarray(Residual(0.5).sample(jax.random.key(0), outputs))
    assert not drawn[:, 1].any()  # no spread
    # A t of 5 degrees has 5 / 3 of its squared scale as variance; its kurtosis is 9.
    assert np.var(drawn[:, 0]) == pytest.approx(1.5 * 5 / 3, abs=4 * 2.5 * np.sqrt(8 / 4000))
