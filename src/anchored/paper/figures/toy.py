"""Shared code of the one-dimensional figures: the problem, its panels, distances to the truth."""

import numpy as np

from anchored import metrics
from anchored.baselines import Problem
from anchored.core.likelihoods import Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.paper.prose import number
from anchored.paper.runner import standard_error
from anchored.prediction.predictive import Predictive

NEAR = 0.05  # a grid point this near to a data point is "at the data"
REGIONS = ("at", "between", "outside")
DISTANCE_HEADER = ("KL(GP, method)", "KL(method, GP)", "W2", "at data", "between", "outside")


def line(reach: float, n_grid: int) -> np.ndarray:
    """Inputs [n_grid, 1] at which the figures predict."""
    return np.linspace(-reach, reach, n_grid)[:, None]


def problem(x, y, grid, activation: str, width: int, first_var: float, noise_var: float):
    """One hidden layer with the paper's prior, on points x [batch, 1] and y [batch]."""
    network = MLP((width,), activation=activation)
    prior = Prior.for_network(network, x, first_var=first_var)
    return Problem(network, prior, Gaussian(noise_var), Data.make(x, y), grid)


def pooled(functions: np.ndarray, noise_var: float) -> Predictive:
    """The predictive of some functions [member, batch, 1] with noise around each."""
    return Predictive.from_members(functions, np.full_like(functions, noise_var))


def panel(dist: Predictive) -> dict:
    """Mean and total deviation on the grid, for the record."""
    return {"mean": np.ravel(dist.mean), "std": np.ravel(dist.std)}


def from_panel(panel: dict) -> Predictive:
    """A predictive with the moments of a recorded panel."""
    mean = np.asarray(panel["mean"])
    return Predictive(mean, np.square(panel["std"]), np.zeros_like(mean))


def regions(grid: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """Which grid points lie at the data points, between them, and outside their range."""
    grid, x = np.ravel(grid), np.ravel(x)
    near = np.min(np.abs(grid[:, None] - x), axis=1) <= NEAR
    within = (grid >= x.min()) & (grid <= x.max())
    return {"at": near, "between": within & ~near, "outside": ~within & ~near}


def distance(exact: Predictive, dist: Predictive, where: dict[str, np.ndarray]) -> dict:
    """How far ``dist`` is from ``exact``, averaged over the grid.

    ``kl`` is KL(exact || dist) as in the paper, also by region. ``reverse_kl`` is the KL in the
    other direction. Both are in nats. ``w2`` is the 2-Wasserstein distance in the target's units.
    The ratios are geometric means of the deviation divided by the exact one.
    """
    kl, ratio = np.ravel(metrics.kl(exact, dist)), np.ravel(np.log(dist.std / exact.std))
    inside = {region: mask for region, mask in where.items() if mask.any()}
    return {
        "kl": kl.mean(),
        "reverse_kl": metrics.kl(dist, exact).mean(),
        "w2": metrics.wasserstein(exact, dist).mean(),
        **{f"ratio_{region}": np.exp(ratio[mask].mean()) for region, mask in inside.items()},
        **{f"kl_{region}": kl[mask].mean() for region, mask in inside.items()},
    }


def mean_and_error(distances: list[dict]) -> dict:
    """Mean and standard error of each number over repeats."""
    by_name = {name: [each[name] for each in distances] for name in distances[0]}
    return {
        name: {"mean": np.mean(values), "error": standard_error(values)}
        for name, values in by_name.items()
    }


def show(summary: dict, digits: int = 3) -> str:
    """Mean ± standard error, as text."""
    text = number(summary["mean"], f".{digits}f")
    return text if summary["error"] is None else f"{text} ± {summary['error']:.{digits}f}"


def gap_closed(anchored: dict, rms: dict, ideal: float) -> str:
    """A sentence on how much of the gap between exact draws and anchored target noise closes."""
    gap = anchored["mean"] - ideal
    if gap <= 2 * (anchored["error"] or 0.0):
        return "anchored is no further from the GP than its error allows"
    share = (anchored["mean"] - rms["mean"]) / gap
    change = f"closes {share:.0%} of" if share >= 0 else f"adds {-share:.0%} to"
    gap_words = "the gap between exact draws and anchored"
    return f"adding target noise (`rms`, {show(rms)}) {change} {gap_words}"


def distance_cells(summary: dict) -> list[str]:
    """A row of text below `DISTANCE_HEADER`, from the summary of `mean_and_error`."""
    numbers = [show(summary[name]) for name in ("kl", "reverse_kl", "w2")]
    return numbers + [f"{summary[f'ratio_{region}']['mean']:.2f}" for region in REGIONS]
