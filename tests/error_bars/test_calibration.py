"""Targets drawn as the fitted model says, so its numbers must come back."""

import numpy as np
import pytest
from scipy import special

from anchored import metrics
from anchored.error_bars.calibration import Calibration, calibrate, fit_temperature
from anchored.prediction.special import tempered

N_ROWS = 1500


def draw(rng, truth: Calibration, n_members=4, n_rows=N_ROWS, shape=1.0):
    """Members [member, row] and truths drawn around the same centre, and targets with noise.

    True variances are scaled inverse chi-squares of 6 degrees of freedom.
    """
    deviation = np.sqrt(6 / rng.chisquare(6, n_rows))
    centre = rng.normal(size=n_rows)
    members = centre + deviation * rng.normal(size=(n_members, n_rows))
    true = centre + np.sqrt(truth.factor) * deviation * rng.normal(size=n_rows)
    scale = np.sqrt(truth.noise_var * shape * (1 - 2 / truth.noise_dof))
    return members, true + scale * rng.standard_t(truth.noise_dof, n_rows)


def numbers(calibration: Calibration) -> np.ndarray:
    return np.array([calibration.factor, calibration.noise_var, calibration.noise_dof])


@pytest.mark.parametrize("n_members", [4, 10])
@pytest.mark.parametrize("truth", [Calibration(1.0, 1.0, 10.0), Calibration(0.4, 2.0, 4.0)])
def test_the_truth_is_recovered(rng, truth, n_members):
    fits = [calibrate(*draw(rng, truth, n_members), np.ones(N_ROWS)) for _ in range(10)]
    factor = np.log([fit.factor / truth.factor for fit in fits])
    scale2 = [c.noise_var * (1 - 2 / c.noise_dof) for c in (*fits, truth)]
    noise = np.log(np.divide(scale2[:-1], scale2[-1]))
    # 4.8 standard errors of ten: a t of 9 degrees is beyond them once in a thousand times. The
    # sum of normal spread and Student-t noise is not quite a Student-t: hence the constants.
    for logs, least, most in ((factor, 0.1, 0.35), (noise, 0.2, 0.5)):
        deviation = logs.std(ddof=1)
        assert deviation < most  # one fit says something
        assert abs(logs.mean()) < 4.8 * deviation / np.sqrt(10) + least


def test_few_members_do_not_make_the_spread_look_too_large(rng):
    """Members and truth alike: the factor is 1, and coverage holds far away from the rows seen."""
    truth = Calibration(1.0, 0.25, 10.0)
    found = calibrate(*draw(rng, truth), np.ones(N_ROWS))
    assert 0.6 < found.factor < 1.6  # 0.3 if variances of four members were taken as they are
    far, true = 10 * rng.normal(size=(10, 5000)), 10 * rng.normal(size=5000)
    covered = metrics.coverage(found.predictive(far), true, 0.9)
    assert 0.82 < covered < 0.95


@pytest.mark.parametrize("truth", [Calibration(1.0, 1.0, 10.0), Calibration(3.0, 0.3, 4.0)])
def test_fresh_rows_are_covered(rng, truth):
    found = calibrate(*draw(rng, truth), np.ones(N_ROWS))
    members, y = draw(rng, truth)
    covered = metrics.coverage(found.predictive(members), y, 0.9)
    error = np.sqrt(2 * 0.9 * 0.1 / N_ROWS)  # of the fitted rows and of the fresh ones
    assert abs(covered - 0.9) < 4 * error


def test_the_shape_of_the_noise_is_kept_apart_from_its_level(rng):
    truth, shape = Calibration(1.0, 0.5, 6.0), np.exp(rng.normal(size=N_ROWS))
    members, y = draw(rng, truth, n_members=10, shape=shape)
    found = calibrate(members, y, np.ones(N_ROWS), shape)
    assert found.noise_var == pytest.approx(0.5, rel=0.5)
    scores = [
        metrics.nll(found.predictive(members, shape), y),
        metrics.nll(calibrate(members, y, np.ones(N_ROWS)).predictive(members), y),
    ]
    assert scores[0] < scores[1] - 0.01


@pytest.mark.parametrize("unit", [1e-6, 7.0, 1e6])
def test_units_do_not_matter(rng, unit):
    members, y = draw(rng, Calibration(1.0, 1.0, 5.0), n_rows=300)
    one, two = (calibrate(c * members, c * y, np.ones(300)) for c in (1.0, unit))
    np.testing.assert_allclose(numbers(two) / [1, unit**2, 1], numbers(one), rtol=2e-3)


def test_weights_are_repetitions(rng):
    members, y = draw(rng, Calibration(1.0, 1.0, 5.0), n_rows=300)
    weight = 1 + np.arange(300) % 3
    rows = np.repeat(np.arange(300), weight)
    one, two = calibrate(members, y, weight), calibrate(members[:, rows], y[rows], np.ones(600))
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_stay_near_the_prior(seed):
    rng = np.random.default_rng(seed)
    found = calibrate(*draw(rng, Calibration(1.0, 1.0, 5.0), n_rows=5), np.ones(5))
    assert 0.1 < found.factor < 10
    assert 0 < found.noise_var < 100
    assert 2.1 < found.noise_dof < 100


@pytest.mark.parametrize("n_rows", [5, 20, 200])
def test_a_level_learned_from_few_rows_makes_a_student_t(rng, n_rows):
    """Normal noise of mean square s^2 in n rows: a new target is s times a Student-t of n."""
    found = Calibration(1.0, 0.49, np.inf).learned_from(n_rows)
    dist = found.predictive(np.zeros((4, 1)))
    for level in (0.5, 0.9, 0.99):
        width = 0.7 * special.stdtrit(n_rows, (1 + level) / 2)
        np.testing.assert_allclose(dist.interval(level), [[-width], [width]], rtol=1e-6)
    levels = np.sqrt(np.square(rng.normal(size=(20_000, n_rows))).mean(axis=1))
    upper = dist.interval(0.9)[1][0] / 0.7
    covered = np.mean(np.abs(rng.normal(size=20_000)) < upper * levels)
    assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 20_000)


def test_rows_that_numbers_were_tuned_to_look_too_easy(rng):
    """Residuals of a regression with p parameters: new targets are a Student-t of n - p."""
    n_rows, n_tuned = 15, 4
    x = rng.normal(size=(20_000, n_rows, n_tuned))
    y = rng.normal(size=(20_000, n_rows, 1))
    left = y - x @ np.linalg.solve(np.swapaxes(x, 1, 2) @ x, np.swapaxes(x, 1, 2) @ y)
    levels = np.sqrt(np.square(left).mean(axis=(1, 2)))
    found = Calibration(1.0, 1.0, np.inf).learned_from(n_rows, n_tuned)
    upper = found.predictive(np.zeros((4, 1))).interval(0.9)[1][0]
    covered = np.mean(np.abs(rng.normal(size=20_000)) < upper * levels)
    assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 20_000)


def test_calibrated_noise_is_no_surer_than_its_rows(rng):
    """Whatever its tails: rows and noise together are below either; many rows change nothing."""
    for n_rows in (10, 40):
        members, y = draw(rng, Calibration(1.0, 1.0, 300.0), n_rows=n_rows)
        found = calibrate(members, y, np.ones(n_rows)).learned_from(n_rows)
        assert 2.1 <= found.noise_dof < n_rows
    heavy = Calibration(1.0, 1.0, 2.1 + 1e-9).learned_from(10)
    assert heavy.noise_dof == pytest.approx(2.1)
    usual = Calibration(2.0, 3.0, 8.0)
    np.testing.assert_allclose(numbers(usual.learned_from(5_000)), numbers(usual), rtol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_do_not_make_the_noise_vanish(seed):
    """Ten rows may fit without any noise; that does not prove that there is none."""
    rng = np.random.default_rng(seed)
    members, y = draw(rng, Calibration(1.0, 1e-9, 10.0), n_rows=10)
    square = np.square(y - members.mean(axis=0)).mean()
    assert 0.003 < calibrate(members, y, np.ones(10)).noise_var / square < 0.6


def test_rows_without_residuals(rng):
    """Whether members differ or not: finite numbers, and the noise next to nothing."""
    spread = rng.normal(size=(4, 60))
    for members in (spread, np.zeros((4, 60))):
        found = calibrate(members, members.mean(axis=0), np.ones(60))
        assert np.isfinite(numbers(found)).all()
        assert 0 < found.noise_var < 1e-100
        assert np.isfinite(found.predictive(members).interval(0.9)).all()


def test_more_rows_than_needed_are_left_out(rng):
    members, y = draw(rng, Calibration(1.0, 1.0, 10.0), n_rows=5_200)
    y[5_000:] = 1e6
    found = calibrate(members, y, np.ones(5_200), np.ones(5_200))
    assert found == calibrate(members[:, :5_000], y[:5_000], np.ones(5_000))


def test_temperature_finds_what_the_logits_were_divided_by(rng):
    """Labels drawn at a known temperature; the deviation is that of a likelihood of 4,000 rows."""
    logits = 3 * rng.normal(size=(4_000, 3))
    for true in (0.5, 1.0, 2.5):
        cold = special.softmax(logits / true, axis=1)
        labels = (rng.uniform(size=(len(cold), 1)) > np.cumsum(cold, axis=1)[:, :2]).sum(axis=1)
        given = special.softmax(logits, axis=1)
        found = fit_temperature(given, labels, np.ones(len(given)))
        score = cold * (logits - (cold * logits).sum(axis=1, keepdims=True)) ** 2 / true**2
        error = true / np.sqrt(score.sum())  # 1 / sqrt(information about log temperature), times T
        assert abs(found - true) < 4 * error
        np.testing.assert_allclose(tempered(given, true), cold, rtol=1e-9)


def test_few_rows_hardly_move_the_temperature():
    """Four rows that were right beyond doubt would alone ask for a temperature of zero."""
    sure = np.array([[0.9, 0.1]] * 4)
    assert 0.5 < fit_temperature(sure, np.zeros(4, int), np.ones(4)) < 1.0
    assert fit_temperature(sure, np.ones(4, int), np.ones(4)) > 1.0
    # A weight is so many rows.
    twice = fit_temperature(sure, np.array([0, 0, 0, 1]), np.array([2.0, 2, 2, 2]))
    again = fit_temperature(np.repeat(sure, 2, axis=0), np.repeat([0, 0, 0, 1], 2), np.ones(8))
    assert twice == pytest.approx(again, rel=1e-3)


def test_tempering_keeps_the_order_and_the_sum(rng):
    p = rng.dirichlet([0.1] * 5, 50)
    for temperature in (0.1, 3.0):
        q = tempered(p, temperature)
        np.testing.assert_allclose(q.sum(axis=1), 1)
        np.testing.assert_array_equal(np.argmax(q, axis=1), np.argmax(p, axis=1))
        assert np.isfinite(tempered(np.array([[1.0, 0.0]]), temperature)).all()
