"""Predictives of samples, moved by held-out rows, against those in closed form."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive
from anchored.prediction.samples import SamplePredictive

N_DRAWS, N_ROWS = 4_000, 50
LOCATION = np.linspace(-1, 1, N_ROWS)


def normal_samples() -> SamplePredictive:
    """Standard normals around a location, by evenly spaced quantiles."""
    levels = (np.arange(N_DRAWS) + 0.5) / N_DRAWS
    draws = LOCATION + stats.norm.ppf(levels)[:, None]
    return SamplePredictive(
        LOCATION,
        np.zeros(N_ROWS),
        np.ones(N_ROWS),
        None,
        "samples",
        draws=draws,
        log_prob=lambda y: stats.norm.logpdf(y, LOCATION),
    )


@pytest.fixture(scope="module")
def conformal():
    """What 3,000 targets say that are wider, and lie to one side."""
    rng = np.random.default_rng(0)
    return Conformal.fit(0.3 + 1.5 * rng.normal(size=3_000), np.ones(3_000))


def test_moved_samples_are_the_moved_normal(conformal):
    exact = Predictive(LOCATION, np.zeros(N_ROWS), np.ones(N_ROWS), conformal=conformal)
    found = normal_samples().corrected(conformal)
    levels = [0.01, 0.05, 0.3, 0.5, 0.9, 0.975]
    np.testing.assert_allclose(found.quantiles(levels), exact.quantiles(levels), atol=0.02)
    np.testing.assert_allclose(found.interval(0.9), found.quantiles([0.05, 0.95]), rtol=1e-12)
    y = LOCATION + np.linspace(-2.5, 2.5, N_ROWS)
    np.testing.assert_allclose(found.cdf(y), exact.cdf(y), atol=1e-3)
    np.testing.assert_allclose(found.log_density(y), exact.log_density(y), atol=0.01)
    np.testing.assert_allclose(found.crps(y), exact.crps(y), atol=5e-3)
    np.testing.assert_array_equal(found.mean, LOCATION)  # the members' own


def test_each_target_has_a_map_of_its_own(conformal):
    """Two targets, of which one is well as it is: both as if they were alone."""
    plain = normal_samples()
    levels = conformal.levels
    none = Conformal(levels, stats.norm.ppf(levels))
    two = dataclasses.replace(
        plain,
        mean=np.stack([LOCATION] * 2, axis=1),
        draws=np.stack([plain.draws] * 2, axis=2),
        log_prob=lambda y: stats.norm.logpdf(y, LOCATION[:, None]).sum(axis=1),
    )
    found = two.corrected(Conformal.stacked([conformal, none]))
    alone = plain.corrected(conformal)
    np.testing.assert_allclose(found.draws[..., 0], alone.draws)
    np.testing.assert_allclose(found.draws[..., 1], plain.draws, atol=1e-9)
    y = np.stack([LOCATION + 0.4] * 2, axis=1)
    expected = alone.log_density(y[:, 0]) + stats.norm.logpdf(0.4)
    np.testing.assert_allclose(found.log_density(y), expected, atol=1e-6)


def test_probability_at_a_limit_moves_too(conformal):
    """A normal cut off at zero: what lies at the limit is the corrected probability below it."""
    plain = normal_samples()
    cut = dataclasses.replace(
        plain,
        draws=np.maximum(plain.draws, 0.0),
        log_prob=lambda y: np.where(
            y <= 0, stats.norm.logcdf(-LOCATION), stats.norm.logpdf(y, LOCATION)
        ),
    )
    found = cut.corrected(conformal)
    exact = Predictive(LOCATION, np.zeros(N_ROWS), np.ones(N_ROWS), conformal=conformal)
    at_limit = np.zeros(N_ROWS)
    np.testing.assert_allclose(np.mean(found.draws == 0, axis=0), exact.cdf(at_limit), atol=2e-3)
    np.testing.assert_allclose(np.exp(found.log_density(at_limit)), exact.cdf(at_limit), atol=2e-3)


def test_scores_of_targets_are_normal_if_all_is_well():
    y = LOCATION + stats.norm.ppf((np.arange(N_ROWS) + 0.5) / N_ROWS)
    expected = stats.norm.ppf((np.arange(N_ROWS) + 0.5) / N_ROWS)
    np.testing.assert_allclose(normal_samples().scores(y), expected, atol=2e-3)
