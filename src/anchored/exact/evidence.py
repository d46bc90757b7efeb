"""Choose the prior and the noise by the evidence of the infinite-width twin.

This is the paper's own way of tuning (appendix E), by gradient instead of a grid: the
exact GP that the network tends to has a marginal likelihood, and its maximum over the
input layer's variance and the noise needs no training and no validation data.
For classes the evidence is Laplace's approximation, one class against the rest.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import optimize

from anchored.exact import gp
from anchored.exact.kernels import Kernel

MAX_ROWS = 2_000  # most rows the evidence of a regression is computed on
_FIRST_ROWS = 500  # rows of a first, cheap search
CLASS_ROWS = 500  # most rows for classes: every evidence takes several factorisations
_MAX_CLASSES = 10  # classes whose evidence is averaged
# Separable classes have an evidence that is flat towards ever larger variances. A log-normal
# hyperprior around 10, about the middle of the paper's settings, keeps them finite.
_CLASS_SPREAD = 0.7

# Standardised units. The floor of the noise is what float32 training can resolve.
FIRST_VAR_RANGE = (1e-2, 1e4)
NOISE_RANGE = (1e-7, 2.0)
_START = (10.0, 0.1)


class Tuned(NamedTuple):
    """Where the evidence is highest, in standardised units."""

    first_var: float
    noise_var: np.ndarray  # [out]


@dataclasses.dataclass(frozen=True)
class Twin:
    """The kernel of a network under the paper's prior, as a function of log first_var."""

    n_features: int
    hidden: tuple[int, ...]
    activation: str

    def __call__(self, log_first_var) -> Kernel:
        first_var = jnp.exp(log_first_var[0])
        return Kernel.paper(first_var, self.n_features, self.hidden, self.activation)


def tune_regression(
    twin: Twin,
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    first_var: float | None = None,
    noise_var: np.ndarray | None = None,
) -> Tuned:
    """Maximise the evidence over what is not given: ``first_var``, ``noise_var`` or both.

    Rows are taken from the front, so they must come in random order. Several outputs share
    the kernel and have a noise each.
    """
    # Each output is a factorisation of its own.
    n_rows = max(_FIRST_ROWS, MAX_ROWS // int(np.ceil(np.cbrt(y.shape[1]))))
    known = _Known(first_var, noise_var)
    theta = np.log([_START[0], *[_START[1]] * y.shape[1]])
    for rows in sorted({min(_FIRST_ROWS, len(x)), min(n_rows, len(x))}):
        theta = _maximise(twin, x[:rows], y[:rows], weight[:rows], theta, known)
    return Tuned(float(np.exp(theta[0])), np.exp(theta[1:]))


class _Known(NamedTuple):
    first_var: float | None
    noise_var: np.ndarray | None


def _maximise(twin, x, y, weight, theta, known: _Known) -> np.ndarray:
    """L-BFGS over log first_var and log noise_var; known entries are held by equal bounds."""

    def negative(theta):
        value, in_first, in_noise = gp.evidence_gradient(
            twin, theta[:1], x, y, np.exp(theta[1:]), weight
        )
        return -value / len(x), -np.concatenate([in_first, in_noise]) / len(x)

    bounds = [np.log(FIRST_VAR_RANGE)] + [np.log(NOISE_RANGE)] * y.shape[1]
    if known.first_var is not None:
        bounds[0] = np.repeat(np.log(known.first_var), 2)
    if known.noise_var is not None:
        bounds[1:] = [np.repeat(np.log(noise), 2) for noise in known.noise_var]
    theta = np.clip(theta, *np.transpose(bounds))
    # 1e-6 nats a row is far below what another choice of rows would change.
    options = {"ftol": 1e-6, "gtol": 1e-4, "maxiter": 50}
    return optimize.minimize(
        negative, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).x


def tune_classification(twin: Twin, x: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> float:
    """``first_var`` of highest Laplace evidence for class numbers ``labels`` [batch].

    In a softmax over K classes one class against the rest is a difference of logits, whose
    variance is K / (K - 1) times that of one logit.
    """
    n_classes = len(np.unique(labels))
    x, labels, weight = x[:CLASS_ROWS], labels[:CLASS_ROWS], weight[:CLASS_ROWS]
    classes, counts = np.unique(labels, return_counts=True)
    shown = classes[np.argsort(-counts)][: 1 if n_classes == 2 else _MAX_CLASSES]

    def negative(log_first_var):
        kernel = twin(np.array([log_first_var]))
        values = [
            gp.laplace_log_evidence(kernel, x, np.where(labels == c, 1.0, -1.0), weight)
            for c in shown
        ]
        surprise = (log_first_var - np.log(_START[0])) / _CLASS_SPREAD
        return 0.5 * surprise**2 - np.mean(values)

    found: Any = optimize.minimize_scalar(
        negative, bounds=np.log(FIRST_VAR_RANGE), method="bounded", options={"xatol": 0.1}
    )
    return float(np.exp(found.x)) * (n_classes - 1) / n_classes
