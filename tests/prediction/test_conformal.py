"""Widths of intervals against the order statistics they are defined by, and against simulation."""

import numpy as np
import pytest
from scipy import stats

from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive


def exact(mean, std):
    return Predictive(np.asarray(mean), np.square(std) * 0.3, np.square(std) * 0.7)


def half_width(coverage, dof):
    return np.ones_like(dof)


def conformal(distance, weight=None):
    distance = np.asarray(distance, float)
    weight = np.ones(len(distance)) if weight is None else np.asarray(weight, float)
    return Conformal(distance, np.ones_like(distance), weight)


def test_factor_is_the_order_statistic_of_one_more_row(rng):
    distance = rng.permutation(np.arange(1.0, 20.0))  # 19 rows: the k-th of 20
    for coverage, k in ((0.05, 1), (0.5, 10), (0.9, 18), (0.95, 19)):
        assert conformal(distance).factor(coverage, half_width) == k


def test_too_few_rows_never_narrow_the_interval():
    assert conformal([0.2, 0.5]).factor(0.9, half_width) == 1.0
    assert conformal([0.2, 3.0]).factor(0.9, half_width) == 3.0


def test_a_weight_counts_as_rows(rng):
    distance, weight = rng.exponential(size=40), rng.integers(1, 5, 40)
    repeated = conformal(np.repeat(distance, weight))
    for coverage in (0.1, 0.5, 0.9):
        weighted = conformal(distance, weight).factor(coverage, half_width)
        assert weighted == repeated.factor(coverage, half_width)


def test_each_output_has_its_own_factor(rng):
    parts = [conformal(rng.exponential(scale, 50)) for scale in (1.0, 4.0)]
    both = Conformal.stacked(parts).factor(0.8, half_width)
    np.testing.assert_array_equal(both, [p.factor(0.8, half_width) for p in parts])
    assert Conformal.stacked(parts).output(0).factor(0.8, half_width) == both[0]


@pytest.mark.parametrize("overstated", [0.4, 1.0, 2.5])
def test_covers_what_it_says_whatever_the_stated_deviation(rng, overstated):
    """Over many draws of 60 held-out rows the share covered is at least 90 % and not much more."""
    n_held, n_new, n_repeats = 60, 50, 300
    shares = []
    for _ in range(n_repeats):
        std = rng.uniform(0.5, 2.0, n_held + n_new)
        y = std * rng.standard_t(4, n_held + n_new)
        held = exact(np.zeros(n_held), overstated * std[:n_held])
        rows = held.held_out(y[:n_held], np.ones(n_held))
        new = Predictive(
            np.zeros(n_new), np.zeros(n_new), (overstated * std[n_held:]) ** 2, conformal=rows
        )
        lower, upper = new.interval(0.9)
        shares.append(np.mean((lower <= y[n_held:]) & (y[n_held:] <= upper)))
    error = np.std(shares) / np.sqrt(n_repeats)
    assert 0.9 - 3 * error < np.mean(shares) < 0.9 + 1 / (n_held + 1) + 3 * error


def test_interval_keeps_rows_in_proportion_and_quantiles_as_they_are():
    dist = exact([0.0, 5.0], [1.0, 3.0])
    wide = Predictive(
        dist.mean, dist.epistemic_var, dist.aleatoric_var, conformal=conformal([2.0] * 99)
    )
    np.testing.assert_array_equal(wide.quantiles([0.05]), dist.quantiles([0.05]))
    lower, upper = wide.interval(0.9)
    np.testing.assert_allclose(upper - wide.mean, wide.mean - lower)
    # Every held-out row lay at two deviations of a t with one degree of freedom.
    np.testing.assert_allclose(
        upper - wide.mean, dist.std * stats.norm.ppf(0.95) * 2 / stats.t.ppf(0.95, 1), rtol=1e-6
    )
    scaled = wide.rescaled(10.0, 3.0)
    np.testing.assert_allclose(scaled.interval(0.9)[1], 10 * upper + 3)
