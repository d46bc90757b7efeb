"""The standard Student-t by SciPy, normal where there are very many degrees of freedom.

Normal scores stand for levels: the score of z is Phi^-1(F(z)), which is z itself for a normal and
keeps its digits far out in both tails.
"""

import numpy as np
from scipy import special

from anchored.prediction.special import MAX_DOF


def log_density(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    return np.where(dof >= MAX_DOF, normal_log_density(z), _log_density(z, dof))


def score(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """The normal score of ``z``."""
    tail = special.stdtr(dof, -np.abs(z))
    return np.where(dof >= MAX_DOF, z, np.copysign(special.ndtri(tail), z))


def at_score(score: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """The inverse of `score`: the quantile at the level of a normal score."""
    tail = special.stdtrit(dof, special.ndtr(-np.abs(score)))
    return np.where(dof >= MAX_DOF, score, np.copysign(tail, score))


def level(score: np.ndarray) -> np.ndarray:
    """The level of a normal score."""
    return special.ndtr(score)


def score_of(level: np.ndarray) -> np.ndarray:
    """The normal score of a level."""
    return special.ndtri(level)


def normal_log_density(z: np.ndarray) -> np.ndarray:
    return -0.5 * (np.square(z) + np.log(2 * np.pi))


def _log_density(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    return (
        special.gammaln((dof + 1) / 2)
        - special.gammaln(dof / 2)
        - 0.5 * np.log(dof * np.pi)
        - 0.5 * (dof + 1) * np.log1p(np.square(z) / dof)
    )


# Closed forms of Jordan, Krueger and Lerch (2019), "Evaluating probabilistic forecasts with
# scoringRules".


def crps(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of a target at ``z``."""
    return np.where(dof >= MAX_DOF, _normal_crps(z), _student_crps(z, dof))


def _normal_crps(z: np.ndarray) -> np.ndarray:
    density = np.exp(normal_log_density(z))
    return z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)


def _student_crps(z: np.ndarray, dof: np.ndarray) -> np.ndarray:
    # At one degree of freedom (two members and no noise) this is 0 / 0 with a finite limit.
    dof = np.maximum(dof, 1 + 1e-6)
    density = np.exp(_log_density(z, dof))
    half_spread = np.exp(special.betaln(0.5, dof - 0.5) - 2 * special.betaln(dof / 2, 0.5))
    tails = (density * (dof + np.square(z)) - np.sqrt(dof) * half_spread) / (dof - 1)
    return z * (2 * special.stdtr(dof, z) - 1) + 2 * tails
