"""How much more rows would help: the fall of the error and of the width of intervals.

The variance of a regressor's twin, a Gaussian process, does not depend on the targets. So the
twin's variance after more rows is known before their targets are. One Cholesky factor of rows in a
random order holds the variance after each of the first m of them, for every m: an exact learning
curve. Other models are fitted again on parts of the rows. A law fitted to the end of either curve
extends it. The error bar shows how far such a law, fitted to the first half, missed the second
half.
"""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from scipy import linalg
from sklearn.base import clone, is_classifier

from anchored.core.networks import MLP
from anchored.decisions.acquire import features
from anchored.errors import bad_value
from anchored.estimators import AnchoredRegressor
from anchored.exact import gp
from anchored.exact.evidence import one_blas_thread
from anchored.exact.kernels import EXACT
from anchored.metrics import log_loss
from anchored.tables.frames import as_table, is_frame

TWIN_ROWS = 3_000  # most rows whose curve is computed exactly
_HELD_OUT = 0.2
_ORDERS = 8  # random orders of the rows, of the exact curve
_SIZES = (0.25, 0.5, 1.0)  # shares of the rows that models are fitted to
_LEAST_ROWS = 20
_WIDTH = 2 * 1.6448536269514722  # deviations of a normal in an interval of 90 %


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number now, with more rows, and the standard error of the latter."""

    now: float
    then: float
    error: float

    @property
    def fall(self) -> float:
        """Share by which it falls."""
        return 1 - self.then / self.now

    def __str__(self) -> str:
        return f"{self.now:.4g} -> {self.then:.4g} +- {self.error:.2g} ({self.fall:.1%} less)"


@dataclasses.dataclass(frozen=True)
class MoreRows:
    """How much ``n_more`` rows would help.

    Attributes
    ----------
    n_rows, n_more : present rows, and additional rows.
    error : root mean squared error; for classes, the log loss.
    width : mean width of 90 % intervals; None for classes.
    source : "twin" if the curve is exact, otherwise "subsamples".
    sizes, errors : [size] and [size, repeat], the curve itself.
    """

    n_rows: int
    n_more: int
    error: Estimate
    width: Estimate | None
    source: str
    sizes: np.ndarray
    errors: np.ndarray

    def __str__(self) -> str:
        lines = [f"{self.n_rows} rows and {self.n_more} more, by {self.source}:"]
        lines.append(f"  error {self.error}")
        if self.width is not None:
            lines.append(f"  width {self.width}")
        return "\n".join(lines)


def what_would_more_rows_buy(
    model: Any, X, y, n: int, *, source: str = "auto", n_repeats: int = 3, random_state: int = 0
) -> MoreRows:
    """The expected error and width of intervals with ``n`` more rows like those of ``X``.

    Parameters
    ----------
    model : a fitted `AnchoredRegressor` or `AnchoredClassifier`.
    X, y : the rows that it was fitted to.
    n : number of additional rows.
    source : "twin" for the exact curve of the infinitely wide network, which exists for a regressor
        of one target on a linear scale and up to 3,000 rows; "subsamples" for fits on parts of the
        rows; "auto" for the first if it exists.
    n_repeats : fits on parts of each size.
    random_state : seed.
    """
    table = as_table(X) if is_frame(X) else np.asarray(X)
    n_rows = len(y)
    if not (isinstance(n, (int, np.integer)) and n >= 1):
        raise bad_value("n", n, "a positive whole number")
    if n_rows < _LEAST_ROWS:
        raise bad_value("y", f"{n_rows} rows", f"at least {_LEAST_ROWS} rows")
    if source not in ("auto", "twin", "subsamples"):
        raise bad_value("source", source, '"auto", "twin" or "subsamples"')
    may = has_twin(model) and n_rows <= TWIN_ROWS
    if source == "twin" and not may:
        raise bad_value(
            "source",
            source,
            f'"subsamples": only a regressor of one target on its own scale and '
            f"at most {TWIN_ROWS} rows has an exact curve",
        )
    rng = np.random.default_rng(random_state)
    if may and source != "subsamples":
        return _by_twin(model, X, n_rows, n, rng)
    return _by_subsamples(model, table, np.asarray(y), n, n_repeats, rng)


def has_twin(model: Any) -> bool:
    """Whether a fitted model has a twin whose variance is that of one target."""
    regression = model.model_.regression
    if not isinstance(model, AnchoredRegressor) or regression is None:
        return False
    if regression.warp is not None or regression.noise_var is None or len(regression.scale) > 1:
        return False
    network = model.ensemble_.network
    return isinstance(network, MLP) and network.activation in EXACT


@one_blas_thread
def _by_twin(model: Any, X, n_rows: int, n: int, rng: np.random.Generator) -> MoreRows:
    z = features(model, X)
    regression = model.model_.regression
    scale = float(regression.scale[0])
    noise = float(regression.noise_var[0]) / scale**2
    kernel = gp.twin(model.ensemble_.network, model.prior_)
    n_fitted = n_rows - max(int(_HELD_OUT * n_rows), 4)
    sizes = np.unique(np.geomspace(max(n_fitted // 8, 4), n_fitted, 24).astype(int))
    curves = []
    for _ in range(_ORDERS):
        order = rng.permutation(n_rows)
        curves.append(epistemic_curve(kernel, z[order], n_fitted, noise)[sizes - 1])
    curve = np.array(curves).T  # [size, order]
    now, then, error = _carried_on(sizes, curve, n_rows, n_rows + n)

    def estimate(factor: float) -> Estimate:
        first, last = (factor * scale * math.sqrt(v + noise) for v in (now, then))
        return Estimate(first, last, factor * scale * error / (2 * math.sqrt(then + noise)))

    errors = scale * np.sqrt(curve + noise)
    return MoreRows(n_rows, n, estimate(1.0), estimate(_WIDTH), "twin", sizes, errors)


def epistemic_curve(kernel, z: np.ndarray, n_fitted: int, noise_var: float) -> np.ndarray:
    """Mean variance [size] at the rows after the first ``n_fitted``, when 1, 2, ... of the first
    ``n_fitted`` rows are known.

    Let L be the Cholesky factor of the covariance of all rows. Each row of L^-1 k(X, t) is what
    that row adds to the rows before it, so the squares are summed one by one.
    """
    fitted, rest = z[:n_fitted], z[n_fitted:]
    gp_of = gp.condition(kernel, fitted, np.zeros(n_fitted), noise_var)
    with jax.enable_x64(True):
        cross = np.asarray(kernel.covariance(fitted, rest))
        before = np.mean(np.asarray(kernel.variance(rest)))
    solved = linalg.solve_triangular(gp_of.factors[0], cross, lower=True)
    return before - np.cumsum(np.square(solved).mean(axis=1))


def _carried_on(sizes, curve, n_now: int, n_then: int) -> tuple[float, float, float]:
    """Values at two sizes by power laws fitted to each column's end, and an error of the latter."""
    log_size, log_value = np.log(sizes), np.log(np.maximum(curve, 1e-300))
    late = sizes >= sizes[-1] / 4
    half = (sizes <= sizes[-1] / 2) & (sizes >= sizes[-1] / 8)

    def laws(rows) -> np.ndarray:
        return np.polyfit(log_size[rows], log_value[rows], 1)  # [2, column]

    slope, level = laws(late)
    now, then = (np.exp(level + slope * np.log(m)) for m in (n_now, n_then))
    # What the law of the first half missed at twice its rows, for as many doublings as asked.
    slope, level = laws(half)
    missed = level + slope * log_size[-1] - log_value[-1]
    doublings = np.log(n_then / sizes[-1]) / np.log(2)
    spread = then.std(ddof=1) / math.sqrt(len(then))
    return now.mean(), then.mean(), math.hypot(spread, then.mean() * missed.mean() * doublings)


def _by_subsamples(model, rows, y: np.ndarray, n: int, n_repeats: int, rng) -> MoreRows:
    """Errors and widths of fits on parts, each law a straight line in one over the root of size."""
    n_rows = len(y)
    n_fitted = n_rows - max(int(_HELD_OUT * n_rows), 4)
    sizes = np.array([max(int(share * n_fitted), 10) for share in _SIZES])
    errors, widths = (np.zeros((len(sizes), n_repeats)) for _ in range(2))
    for repeat in range(n_repeats):
        order = rng.permutation(n_rows)
        test = order[n_fitted:]
        for place, size in enumerate(sizes):
            part = clone(model).fit(_take(rows, order[:size]), y[order[:size]])
            dist = part.predict_dist(_take(rows, test))
            errors[place, repeat], widths[place, repeat] = _scores(part, dist, y[test])
    error = _straight(sizes, errors, n_rows, n_rows + n)
    width = None if is_classifier(model) else _straight(sizes, widths, n_rows, n_rows + n)
    return MoreRows(n_rows, n, error, width, "subsamples", sizes, errors)


def _take(rows, index: np.ndarray):
    return rows.take(index) if hasattr(rows, "n_rows") else rows[index]


def _scores(model, dist, y: np.ndarray) -> tuple[float, float]:
    if is_classifier(model):
        known = np.isin(y, model.classes_)  # a part may lack a class
        labels = np.searchsorted(model.classes_, y[known])
        p = dist.mean[known]
        return log_loss(p, labels), math.nan
    low, high = dist.interval(0.9)
    return float(np.sqrt(np.mean(np.square(dist.mean - y)))), float(np.mean(high - low))


def _straight(sizes, values: np.ndarray, n_now: int, n_then: int) -> Estimate:
    """Least squares of values [size, repeat] on 1 and m^-1/2, which may only fall."""
    root = np.repeat(1 / np.sqrt(sizes), values.shape[1])
    design, y = np.stack([np.ones_like(root), root], axis=1), values.ravel()
    found, *_ = np.linalg.lstsq(design, y, rcond=None)
    if found[1] < 0:
        found = np.array([y.mean(), 0.0])
    residual = y - design @ found
    noise = residual @ residual / max(len(y) - 2, 1)
    at = np.array([[1.0, 1 / math.sqrt(m)] for m in (n_now, n_then)])
    cov = noise * np.linalg.inv(design.T @ design)
    now, then = at @ found
    return Estimate(float(now), float(then), float(np.sqrt(at[1] @ cov @ at[1])))
