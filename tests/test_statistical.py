"""Slow checks of the claims themselves; run by ``make test-all``."""

import warnings

import jax
import numpy as np
import optax
import pytest
from scipy import linalg

from anchored import MLP, AnchoredRegressor, Data, Gaussian, Prior, Schedule, fit_ensemble, metrics
from anchored.core.priors import draw_anchors
from anchored.datasets import load_uci, six_points, standard_split
from anchored.exact import gp

pytestmark = pytest.mark.slow

NOISE_VAR, FIRST_VAR, N_MEMBERS = 1e-3, 20.0, 40
GRID = np.linspace(-1.5, 1.5, 61)[:, None]


def ensemble_and_gp(width, method, schedule, hold_hidden):
    """Predictives on the grid of an ensemble that starts at prior draws, and of its twin."""
    x, y = six_points()
    network = MLP((width,))
    prior = Prior.for_network(network, x, first_var=FIRST_VAR)
    if hold_hidden:
        labels = ({"weight": "hold", "bias": "hold"}, {"weight": "train"})
        adam = optax.adam(optax.exponential_decay(schedule.learning_rate, schedule.epochs, 0.01))
        parts = {"hold": optax.set_to_zero(), "train": adam}
        schedule = Schedule(schedule.epochs, optimiser=optax.multi_transform(parts, labels))
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(NOISE_VAR),
        Data.make(x, y),
        method=method,
        n_members=N_MEMBERS,
        schedule=schedule,
        start=draw_anchors(jax.random.key(1), prior, N_MEMBERS),
    )
    exact = gp.condition(gp.twin(network, prior), x, y, NOISE_VAR)
    return ensemble.predict(GRID), exact


def largest_excess(ours, mean, epistemic_var):
    """Largest difference from a Gaussian of known moments, in units of what is allowed.

    Allowed is the Monte-Carlo error of 40 members (3.5 standard errors, for 61 points) plus
    10 % of the deviation.
    """
    std = np.sqrt(epistemic_var + NOISE_VAR)
    mean_error = np.sqrt(epistemic_var / N_MEMBERS)
    std_error = epistemic_var / std / np.sqrt(2 * (N_MEMBERS - 1))
    in_mean = np.abs(ours.mean[:, 0] - mean) / (3.5 * mean_error + 0.1 * std)
    in_std = np.abs(ours.std[:, 0] - std) / (3.5 * std_error + 0.1 * std)
    return in_mean.max(), in_std.max()


@pytest.mark.parametrize("method", ["anchored", "rms"])
def test_wide_networks_agree_with_the_gp(method):
    """Hidden layer at a prior draw, last layer trained: exact up to the number of members."""
    ours, exact = ensemble_and_gp(1024, method, Schedule(8000, learning_rate=0.003), True)
    truth = exact.predict(GRID)
    assert max(largest_excess(ours, truth.mean[:, 0], truth.epistemic_var[:, 0])) < 1
    narrow, _ = ensemble_and_gp(16, method, Schedule(8000, learning_rate=0.02), True)
    assert max(largest_excess(narrow, truth.mean[:, 0], truth.epistemic_var[:, 0])) > 1
    gaps = [metrics.GPComparison.between(d, truth).kl for d in (ours, narrow)]
    assert gaps[0] < 0.5 * gaps[1]


def test_anchored_members_are_prior_functions_bent_to_the_data():
    """Without target noise the limit is Matheron's rule less its noise: corollary 1."""
    ours, exact = ensemble_and_gp(1024, "anchored", Schedule(8000, learning_rate=0.003), True)
    with jax.enable_x64(True):
        cov = lambda a, b: np.asarray(exact.kernel.covariance(a, b))  # noqa: E731
        k_gg, k_gx, k_xx = cov(GRID, GRID), cov(GRID, exact.x), cov(exact.x, exact.x)
    bend = linalg.cho_solve((exact.factors[0], True), k_gx.T).T
    limit = np.diag(k_gg - bend @ k_gx.T - k_gx @ bend.T + bend @ k_xx @ bend.T)
    truth = exact.predict(GRID)
    assert max(largest_excess(ours, truth.mean[:, 0], limit)) < 1
    # Beside a data point members agree far more than the exact posterior does.
    at_data = [int(np.argmin(np.abs(GRID[:, 0] - x))) for x in (-0.8, 0.6, 0.8)]
    assert np.all(ours.epistemic_var[at_data] < 0.1 * truth.epistemic_var[at_data])


def test_the_paper_s_training_comes_closer_to_the_gp_with_width():
    """All layers trained as in the paper's convergence figure: small rates, prior starts."""
    gaps = []
    for width, rate in ((4, 0.001), (64, 0.0002), (1024, 0.0002)):
        ours, exact = ensemble_and_gp(width, "anchored", Schedule(4000, 64, rate), False)
        gaps.append(metrics.GPComparison.between(ours, exact.predict(GRID)).kl)
    assert gaps[0] > gaps[1] > gaps[2]


def test_boston_at_the_paper_s_level(uci_folder):
    """First ten standard splits, 5 networks of 50 nodes, the paper's hyperparameters."""
    X, y = load_uci("boston", uci_folder)
    nll, rmse = [], []
    for split in range(10):
        train, test = standard_split(len(y), split)
        model = AnchoredRegressor(
            n_members=5,
            noise_var=0.06 * np.var(y[train]),
            prior=10.0,
            epochs=3000,
            batch_size=64,
            learning_rate=0.05,
            decay_rate=0.995,
            predictive="gaussian",
            random_state=split,  # another seed for each split: they shall not share anchors
        ).fit(X[train], y[train])
        dist = model.predict_dist(X[test])
        nll.append(metrics.nll(dist, y[test]))
        rmse.append(metrics.rmse(dist, y[test]))
    assert np.mean(nll) <= 2.50
    assert np.mean(rmse) <= 3.0


@pytest.mark.parametrize("n_rows", [20, 300, 5_000, 100_000])
def test_defaults_converge_and_cover_whatever_the_number_of_rows(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + 2000, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.3 * rng.normal(size=len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AnchoredRegressor(random_state=0).fit(X[:n_rows], y[:n_rows])
    dist = model.predict_dist(X[n_rows:])
    assert 0.78 < metrics.coverage(dist, y[n_rows:], 0.9) < 0.96
