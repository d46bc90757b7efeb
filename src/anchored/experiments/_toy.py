"""What the one-dimensional figures share: panels of a predictive, and distances to the truth."""

import numpy as np

from anchored import metrics
from anchored.predictive import Predictive

NEAR = 0.05  # a grid point this near to a data point is "at the data"
REGIONS = ("at", "between", "outside")


def panel(dist: Predictive) -> dict:
    """Mean and total deviation on the grid, for the record."""
    return {"mean": np.ravel(dist.mean), "std": np.ravel(dist.std)}


def from_panel(panel: dict) -> Predictive:
    """A predictive with the moments of a recorded panel."""
    mean = np.asarray(panel["mean"])
    return Predictive(mean, np.square(panel["std"]), np.zeros_like(mean))


def regions(grid: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """Which grid points lie at the data, between them, and outside their range."""
    grid, x = np.ravel(grid), np.ravel(x)
    near = np.min(np.abs(grid[:, None] - x), axis=1) <= NEAR
    within = (grid >= x.min()) & (grid <= x.max())
    return {"at": near, "between": within & ~near, "outside": ~within & ~near}


def distance(exact: Predictive, dist: Predictive, where: dict[str, np.ndarray]) -> dict:
    """How far ``dist`` is from ``exact``, averaged over the grid.

    ``kl`` is KL(exact || dist) as in the paper, ``reverse_kl`` the other way round, both in
    nats; ``w2`` the 2-Wasserstein distance in the target's units; the ratios are geometric
    means of the deviation over the exact one.
    """
    ratio = np.ravel(np.log(dist.std / exact.std))
    return {
        "kl": metrics.kl(exact, dist).mean(),
        "reverse_kl": metrics.kl(dist, exact).mean(),
        "w2": metrics.wasserstein(exact, dist).mean(),
        **{
            f"ratio_{region}": np.exp(ratio[mask].mean())
            for region, mask in where.items()
            if mask.any()
        },
    }


def mean_and_error(distances: list[dict]) -> dict:
    """Mean and standard error of each number over repeats."""
    summary = {}
    for name in distances[0]:
        values = np.array([d[name] for d in distances])
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        summary[name] = {"mean": values.mean(), "error": error}
    return summary


def show(summary: dict, digits: int = 3) -> str:
    """Mean ± standard error, as text."""
    text = f"{summary['mean']:.{digits}f}"
    return text if summary["error"] is None else f"{text} ± {summary['error']:.{digits}f}"
