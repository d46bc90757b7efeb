"""The wrapper's bins are the predictive distribution: masses, densities, CRPS and mean agree."""

import numpy as np
import pytest
from examples.scoringbench import FURTHEST, N_BINS, AnchoredWrapper

from anchored import metrics


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(90, 2))
    y = 50 + 10 * (x[:, 0] + 0.3 * rng.normal(size=90))
    short = {"n_members": 3, "hidden": (8,), "epochs": 40}
    return AnchoredWrapper(random_state=1, **short).fit(x[:60], y[:60]), x[60:], y[60:]


def test_bins_are_a_distribution(fitted):
    wrapper, x, _ = fitted
    bins = wrapper.predict_distribution(x)
    assert bins.probas.shape == bins.bin_midpoints.shape == (30, N_BINS)
    assert bins.bin_edges.shape == (30, N_BINS + 1)
    assert np.all(np.diff(bins.bin_edges) > 0)
    np.testing.assert_allclose(bins.probas.sum(axis=1), 1)
    np.testing.assert_array_equal(bins.mean, wrapper.predict(x))


def test_bins_are_the_predictive_distribution(fitted):
    """To the first order in the width of a bin, 0.05 deviations of a normal."""
    wrapper, x, y = fitted
    bins, dist = wrapper.predict_distribution(x), wrapper.model.predict_dist(x)
    step = 2 * FURTHEST / N_BINS
    below = np.cumsum(bins.probas, axis=1)
    for place in (40, 100, 160):
        np.testing.assert_allclose(
            below[:, place - 1], dist.cdf(bins.bin_edges[:, place]), atol=1e-3
        )
    place = (bins.bin_edges[:, 1:-1] < y[:, None]).sum(axis=1)
    rows = np.arange(len(y))
    density = bins.probas[rows, place] / np.diff(bins.bin_edges)[rows, place]
    # The score of a density changes by at most FURTHEST * step within a bin.
    np.testing.assert_allclose(np.log(density), dist.log_density(y), atol=FURTHEST * step)
    middle = bins.bin_midpoints[:, :, None]
    pairs = np.abs(middle - np.swapaxes(middle, 1, 2))
    crps = (bins.probas * np.abs(bins.bin_midpoints - y[:, None])).sum(axis=1)
    crps -= 0.5 * np.einsum("ri,rij,rj->r", bins.probas, pairs, bins.probas)
    assert crps.mean() == pytest.approx(metrics.crps(dist, y), rel=step)


def test_it_takes_a_frame(fitted):
    pandas = pytest.importorskip("pandas")
    _, x, y = fitted
    frame = pandas.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "high", "low")})
    own = AnchoredWrapper(n_members=2, hidden=(4,), epochs=5)
    bins = own.fit(frame, pandas.Series(y)).predict_distribution(frame)
    assert np.all(np.isfinite(bins.bin_edges))
