"""How often a truth is covered, its rank among draws, and how wide the spread is.

The band of the function is the method's own predictive without noise: with M members a Student-t
of M - 1 degrees of freedom around their mean, of variance epistemic (1 + 1 / M).
"""

import dataclasses

import numpy as np
from scipy import stats

from anchored.paper.tables.coverage_problems import REGIONS
from anchored.prediction.predictive import Predictive

LEVELS = (0.5, 0.9, 0.95)
N_RANKED = 10  # draws among which a truth is ranked


def scores(
    dist: Predictive, latent: np.ndarray, y: np.ndarray, seed: int, exact: Predictive | None = None
) -> dict[str, dict]:
    """For each region: shares covered at `LEVELS`, ranks, and the log of the usual spread.

    With the ``exact`` posterior of the function, also the log of the spread that is needed.
    """
    band = function_band(dist)
    covered = np.stack([_within(band, latent, level) for level in LEVELS])
    new = np.stack([_new_covered(dist, y, level) for level in LEVELS])
    ranks = np.sum(_draws(band, seed) < latent, axis=0)
    variance = band.epistemic_var / _usual_share(band)
    found = {}
    for region, rows in zip(REGIONS, np.split(np.arange(len(latent)), len(REGIONS)), strict=True):
        found[region] = {
            "function": covered[:, rows].mean(axis=1),
            "target": new[:, rows].mean(axis=1),
            "ranks": np.bincount(ranks[rows], minlength=N_RANKED + 1),
            "log_var": np.log(max(np.median(variance[rows]), np.finfo(float).tiny)),
        }
        if exact is not None:
            found[region]["log_needed"] = np.log(_needed(band, exact, rows))
    return found


def _needed(band: Predictive, exact: Predictive, rows: np.ndarray) -> float:
    """How many times the exact variance the members' must be for the band to be right.

    Given the data, the function's mean square distance from any mean m is the exact variance v plus
    the square of m's distance from the exact mean. On average over inputs that is 1 + d^2 times v,
    and the band of M members is (1 + 1 / M) times as wide as they are.
    """
    apart = np.square(band.mean - exact.mean)[rows] / exact.epistemic_var[rows]
    one_more = 0.0 if band.members is None else 1 / len(band.members)
    return float(1 + np.mean(apart)) / (1 + one_more)


def function_band(dist: Predictive) -> Predictive:
    """The predictive of the function [batch] without noise; for two classes, of the difference of
    logits.
    """
    if dist.family == "categorical":
        assert dist.members is not None
        logs = np.log(np.maximum(dist.members, np.finfo(np.float32).tiny))
        members = logs[..., 1] - logs[..., 0]
        return Predictive.from_members(members, np.zeros_like(members), "student-t")
    nothing = np.zeros_like(dist.mean)
    return dataclasses.replace(
        dist, aleatoric_var=nothing, family="student-t", noise_dof=np.inf, conformal=None
    )


def _within(dist: Predictive, value: np.ndarray, level: float) -> np.ndarray:
    lower, upper = dist.interval(level)
    return (lower <= value) & (value <= upper)


def _new_covered(dist: Predictive, y: np.ndarray, level: float) -> np.ndarray:
    """Whether the interval holds the new target; of classes, the chance that a set does.

    The set has the likelier class, and the other as often as brings its stated chance to ``level``;
    if that class alone has more, it is left out as often as brings it back.
    """
    if dist.family != "categorical":
        return _within(dist.of_family("student-t"), y, level)
    stated = np.max(dist.probabilities, axis=1)
    true = np.where(np.argmax(dist.probabilities, axis=1) == 1, y, 1 - y)
    other = np.divide(level - stated, 1 - stated, out=np.zeros_like(stated), where=stated < level)
    return np.where(stated < level, true + (1 - true) * other, true * level / stated)


def _draws(band: Predictive, seed: int) -> np.ndarray:
    """Functions [draw, batch]: members, as far apart as the band says; without any, draws of it."""
    if band.members is None:
        return dataclasses.replace(band, family="gaussian").sample(N_RANKED, seed)
    picked = np.linspace(0, len(band.members) - 1, N_RANKED).round().astype(int)
    spread = band.members.var(axis=0, ddof=1)
    factor = np.divide(band.epistemic_var, spread, out=np.ones_like(spread), where=spread > 0)
    return band.mean + np.sqrt(factor) * (band.members[picked] - band.members.mean(axis=0))


def _usual_share(band: Predictive) -> float:
    """Median of the variance of M normal members, as a share of the true one."""
    if band.members is None:
        return 1.0
    dof = len(band.members) - 1
    return float(stats.chi2(dof).median() / dof)
