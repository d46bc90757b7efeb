"""Arithmetic of predictions, with NumPy alone: Student-t widths, erf, pooled classes.

The quantile t of a Student-t at the level of a normal score solves the equation mass(t) = mass of
the normal. The mass is that of the tail beyond t or, if smaller, that between 0 and t. Either is t
times a weighted sum of densities at multiples of t. log t is so smooth in 1 / dof that a polynomial
through a few dozen solutions serves all degrees of freedom, normal included.
"""

import functools
import math

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial, chebyshev, legendre

# From here on a Student-t is taken to be normal: log densities then differ by about 1e-6.
MAX_DOF = 1e6

_N_SOLVED = 33  # relative error below 1e-9, up to scores of 5
_LEAST_SCORE, _MOST_SCORE = 1e-12, 37.0  # double precision ends beyond the latter
_MOST_STEPS = 200
_ERF_END = 5.5  # 1 - erf is 7e-15 there
_N_ERF = 10


def combined(spread, spread_dof, noise_var, noise_dof) -> tuple[np.ndarray, np.ndarray]:
    """Squared scale and degrees of freedom of spread and noise together (Welch-Satterthwaite).

    ``spread`` is a squared scale, ``noise_var`` a variance.
    """
    total = spread + noise_var * (1 - 2 / noise_dof)
    share = np.divide(spread, total, out=np.zeros_like(total), where=total > 0)
    in_dof = share**2 / spread_dof + (1 - share) ** 2 / noise_dof
    return total, 1 / np.maximum(in_dof, 1 / MAX_DOF)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Class probabilities [..., class]."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Entropy in nats, over the last axis."""
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    return -(probabilities * logs).sum(axis=-1)


def softplus(z: np.ndarray) -> np.ndarray:
    """log(1 + exp z), without overflow."""
    small = np.exp(-np.abs(z))
    return np.maximum(z, 0) + np.log1p(small, out=small)


def tempered(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Class probabilities [..., class] to the power 1 / ``temperature``, normalised."""
    if temperature == 1:
        return probabilities
    powers = (probabilities / probabilities.max(axis=-1, keepdims=True)) ** (1 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def logit_spread(logits: np.ndarray) -> np.ndarray:
    """Deviation [row] over the members of logits [member, row, class], centred over the classes."""
    centred = logits - logits.mean(axis=-1, keepdims=True)
    if len(logits) < 2:
        return np.zeros(logits.shape[1])
    return np.sqrt(centred.var(axis=0, ddof=1).mean(axis=-1))


def unlikeness(value: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The largest of ``value / scale`` [row, measure]; 0 / 0 counts as 0."""
    unlike = np.where(value > 0, np.inf, 0.0)
    return np.divide(value, scale, out=unlike, where=scale > 0).max(axis=-1)


def quantile(score: float, dof: np.ndarray) -> np.ndarray:
    """Quantile of a standard Student-t (``dof`` of 1 or more) at the level of a normal score."""
    size = min(abs(score), _MOST_SCORE)
    if size < _LEAST_SCORE:
        return np.zeros_like(dof, np.float64)
    in_dof = np.where(dof >= MAX_DOF, 0.0, 1 / dof)
    found = np.exp(chebyshev.chebval(2 * in_dof - 1, quantile_fit(size)))
    return np.copysign(np.where(dof >= MAX_DOF, size, found), score)


@functools.lru_cache(maxsize=256)
def quantile_fit(score: float) -> np.ndarray:
    """Coefficients (Chebyshev) of the logarithm of a quantile's size, in 2 / dof - 1."""
    size = min(max(abs(score), _LEAST_SCORE), _MOST_SCORE)
    nodes = chebyshev.chebpts1(_N_SOLVED)
    return chebyshev.chebfit(nodes, _log_quantile(size, (1 + nodes) / 2), _N_SOLVED - 1)


def _log_quantile(score: float, in_dof: np.ndarray) -> np.ndarray:
    """By Newton's method, exact; every 1 / dof must be above zero."""
    central, tail = math.erf(score / math.sqrt(2)) / 2, math.erfc(score / math.sqrt(2)) / 2
    is_central = central < tail
    log_at, weight = _central_nodes() if is_central else _tail_nodes()
    goal = math.log(central if is_central else tail)
    log_constant = np.array([_log_constant(1 / u) for u in in_dof])

    def log_density(log_t: np.ndarray) -> np.ndarray:
        u = in_dof[:, None]
        power = (1 + u) / (2 * u) * np.logaddexp(0.0, np.log(u) + 2 * log_t)
        return log_constant[:, None] - power

    log_t = np.zeros_like(in_dof)
    for _ in range(_MOST_STEPS):
        mass = np.exp(log_t) * (np.exp(log_density(log_t[:, None] + log_at)) @ weight)
        slope = np.exp(log_t + log_density(log_t[:, None])[:, 0])  # of mass in log t, up to sign
        step = np.clip((np.log(mass) - goal) * mass / slope, -1, 1)
        log_t = log_t - step if is_central else log_t + step
        if np.max(np.abs(step)) < 1e-13:
            break
    return log_t


def _log_constant(dof: float) -> float:
    return math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)


def _central_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of nodes, and weights, of the integral from 0 to 1 (Gauss-Legendre)."""
    at, weight = legendre.leggauss(32)
    return np.log((1 + at) / 2), weight / 2


def _tail_nodes() -> tuple[np.ndarray, np.ndarray]:
    """The same from 1 to infinity, at exp(y) for y = exp(pi / 2 sinh k) (double exponential)."""
    step = 1 / 32
    k = step * np.arange(-112, 57)
    y = np.exp(np.pi / 2 * np.sinh(k))
    return y, y * np.exp(y) * np.pi / 2 * np.cosh(k) * step


def erf(z: np.ndarray) -> np.ndarray:
    """The error function: to 1e-8 in double, to 5e-7 in single precision.

    1 - erf(z) is exp(-z^2) times a polynomial in 1 / (1 + z / 2), for z above zero.
    """
    size = np.minimum(np.abs(z), _ERF_END)
    at = 1 / (1 + 0.5 * size)
    rest = np.zeros_like(at)
    for coefficient in _erf_fit():
        rest *= at
        rest += coefficient
    size *= -size
    rest *= np.exp(size, out=size)
    return np.copysign(np.subtract(1, rest, out=rest), z, out=rest)


@functools.cache
def _erf_fit() -> list[float]:
    """Coefficients, that of the highest power first."""
    least = 1 / (1 + 0.5 * _ERF_END)
    nodes = chebyshev.chebpts1(_N_ERF)
    z = 2 / (least + (1 - least) * (1 + nodes) / 2) - 2
    values = [math.erfc(v) * math.exp(v * v) for v in z]
    fit = Chebyshev(chebyshev.chebfit(nodes, values, _N_ERF - 1), domain=[least, 1])
    return fit.convert(kind=Polynomial).coef[::-1].tolist()


def limited(z: np.ndarray, reach: np.ndarray | None, limit: np.ndarray | None = None) -> np.ndarray:
    """Values [batch, column] brought within their ``reach`` [2, column], then within a ``limit``.

    The reach cuts them off; the limit, which may be infinite, bends them smoothly.
    """
    if reach is not None:
        z = np.clip(z, *reach)
    return z if limit is None else z / np.hypot(1.0, z / limit)


def with_ramps(z: np.ndarray, ramps: np.ndarray | None) -> np.ndarray:
    """Values [batch, column] followed by the value of each of ``ramps`` [4, ramp] there.

    A ramp is the number of its column, where it starts and ends, and its height. Before its start
    it is at minus half its height, after its end at half of it.
    """
    if ramps is None:
        return z
    column, start, end, height = ramps
    share = np.clip((z[:, column.astype(int)] - start) / (end - start), 0.0, 1.0)
    return np.concatenate([z, height * (share - 0.5)], axis=1)
