"""Exact Gaussian process on the kernel of the infinitely wide network: the ground truth.

Everything is computed in float64, whatever JAX's default is. With row weights w, the noise of row i
is noise_var / w_i. This is the same as seeing the row w_i times.

    evidence  log p(y) = -1/2 y' C^-1 y - 1/2 log|C| - n/2 log 2 pi,   C = K + noise
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import jax
import numpy as np
from scipy import linalg, special

from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import padded_size
from anchored.errors import unknown_name
from anchored.exact.kernels import EXACT, Kernel, Sum
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Network

_JITTER = 1e-10  # relative to the prior variance; keeps noise-free Cholesky factors finite
_MAX_NEWTON = 50
_BLOCK_ROWS = 4_096  # rows predicted at a time

(_invert,) = linalg.get_lapack_funcs(("potri",), dtype=np.float64)


def twin(network: Network, prior: Prior) -> Kernel:
    """The kernel of ``network`` with its hidden layers infinitely wide, under ``prior``.

    The prior must have zero mean and one scale in each leaf (the input layer's weights may differ
    by feature). Only then does the limit have a known kernel.
    """
    if not isinstance(network, MLP):
        raise TypeError(
            f"Only an `MLP` has a known infinite-width twin; got {type(network).__name__}."
        )
    if network.activation not in EXACT:
        raise unknown_name("activation", network.activation, EXACT)
    if any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(prior.mean)):
        raise ValueError("`prior` must have zero means for an infinite-width twin to exist.")
    if any(np.any(np.isinf(leaf)) for leaf in jax.tree.leaves(prior.scale)):
        raise ValueError("`prior` is flat in places; an infinite-width twin needs finite scales.")
    layers = [_layer_variances(i, layer) for i, layer in enumerate(prior.scale)]
    (bias_var, weight_var, _), rest = layers[0], layers[1:]
    later = tuple((bias, float(weight[0]) * n_in) for bias, weight, n_in in rest)
    return Kernel(bias_var, weight_var, later, EXACT[network.activation])


def _layer_variances(index: int, scale: dict) -> tuple[float, np.ndarray, int]:
    """Bias variance, weight variance for each input, and fan-in of one layer."""
    weight = np.square(np.asarray(scale["weight"], np.float64))
    bias = np.square(np.asarray(scale.get("bias", np.zeros(1)), np.float64))
    uniform = weight[:, :1] if index == 0 else weight[:1, :1]
    if not (np.allclose(weight, uniform, rtol=1e-5) and np.allclose(bias, bias[0], rtol=1e-5)):
        raise ValueError(
            f"`prior` has differing scales inside layer {index}; an infinite-width twin "
            "needs one scale for its weights and one for its biases."
        )
    return float(bias[0]), weight[:, 0], len(weight)


@dataclasses.dataclass(frozen=True)
class GP:
    """A Gaussian process conditioned on data; make one with `condition`."""

    kernel: Kernel | Sum
    noise_var: np.ndarray  # [out]
    x: np.ndarray  # [batch, feature]
    factors: tuple[np.ndarray, ...]  # lower Cholesky factor of C for each output
    alphas: np.ndarray  # C^-1 y, [batch, out]

    def predict(self, x: np.ndarray) -> Predictive:
        """Exact posterior mean and variance at ``x``; the noise is the aleatoric part."""
        x = np.asarray(x, np.float64)
        blocks = [x[i : i + _BLOCK_ROWS] for i in range(0, max(len(x), 1), _BLOCK_ROWS)]
        mean, epistemic = map(np.concatenate, zip(*map(self._moments, blocks), strict=True))
        return Predictive(mean, epistemic, np.broadcast_to(self.noise_var, mean.shape))

    def _moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cross, prior_var = _covariance(self.kernel, x, self.x), _variance(self.kernel, x)
        solved = [linalg.solve_triangular(f, cross.T, lower=True) for f in self.factors]
        explained = np.stack([np.sum(s * s, axis=0) for s in solved], axis=-1)
        return cross @ self.alphas, np.maximum(prior_var[:, None] - explained, 0.0)

    def sample(self, seed: int | Sequence[int], x: np.ndarray, n_samples: int) -> np.ndarray:
        """Posterior functions [sample, batch, out] at ``x``, without noise."""
        x = np.asarray(x, np.float64)
        cross, prior_cov = _covariance(self.kernel, x, self.x), _covariance(self.kernel, x, x)
        rng = np.random.default_rng(seed)
        draws = []
        for factor, alpha in zip(self.factors, self.alphas.T, strict=True):
            solved = linalg.solve_triangular(factor, cross.T, lower=True)
            values, vectors = np.linalg.eigh(prior_cov - solved.T @ solved)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            draws.append(cross @ alpha + rng.standard_normal((n_samples, len(x))) @ root.T)
        return np.stack(draws, axis=-1)


def condition(kernel: Kernel | Sum, x, y, noise_var, weight=None) -> GP:
    """The Gaussian process given inputs [batch, feature] and targets [batch, out] or [batch]."""
    x, y, noise_var, weight = _as_float64(x, y, noise_var, weight)
    prior_cov = _covariance(kernel, x, x)
    factors = tuple(_factor(prior_cov, noise / weight) for noise in noise_var)
    alphas = [linalg.cho_solve((f, True), t) for f, t in zip(factors, y.T, strict=True)]
    return GP(kernel, noise_var, x, factors, np.stack(alphas, axis=-1))


def leave_one_out(kernel: Kernel, x, y, noise_var, weight=None) -> tuple[np.ndarray, np.ndarray]:
    """Residual and variance [batch] of each target, given all other targets, with the noise
    included.

    In closed form, for one output: a_i / C^-1_ii and 1 / C^-1_ii with a = C^-1 y.
    """
    x, y, noise_var, weight = _as_float64(x, y, noise_var, weight)
    factor = _factor(_covariance(kernel, x, x), noise_var[0] / weight)
    precision = np.diag(linalg.cho_solve((factor, True), np.eye(len(x))))
    return linalg.cho_solve((factor, True), y[:, 0]) / precision, 1 / precision


def log_evidence(kernel: Kernel, x, y, noise_var, weight=None) -> float:
    """Log marginal likelihood of the targets, summed over outputs."""
    x, y, noise_var, weight = _as_float64(x, y, noise_var, weight)
    prior_cov = _covariance(kernel, x, x)
    return sum(
        _output_evidence(_factor(prior_cov, noise / weight), target, noise, weight)[0]
        for noise, target in zip(noise_var, y.T, strict=True)
    )


def evidence_of(prior_cov: np.ndarray, y: np.ndarray, noise_var, weight: np.ndarray) -> float:
    """Log marginal likelihood of one target [batch] for the covariance of the rows."""
    return _output_evidence(_factor(prior_cov, noise_var / weight), y, noise_var, weight)[0]


def evidence_gradient(
    make_kernel: Callable[[Array], Kernel | Sum], theta: np.ndarray, x, y, noise_var, weight=None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Evidence of ``make_kernel(theta)``, its gradient in theta and in log noise_var.

    In the covariance C the evidence has the gradient (a a' - C^-1) / 2 with a = C^-1 y. JAX pulls
    it back through the kernel, once for all of theta; no Cholesky factor is differentiated.
    """
    x, y, noise_var, weight = _as_float64(x, y, noise_var, weight)
    prior_cov, pull = _covariance_of(make_kernel, theta, x)
    value, in_cov, in_log_noise = 0.0, np.zeros_like(prior_cov), np.zeros(len(noise_var))
    for out, (noise, target) in enumerate(zip(noise_var, y.T, strict=True)):
        factor = _factor(prior_cov, noise / weight)
        evidence, alpha = _output_evidence(factor, target, noise, weight)
        inverse, _ = _invert(factor, lower=1, overwrite_c=1)
        inverse = np.tril(inverse)  # the lower half is all there is
        inverse += np.tril(inverse, -1).T
        in_log_noise[out] = 0.5 * (alpha**2 - np.diag(inverse)) @ (noise / weight)
        in_log_noise[out] -= 0.5 * np.sum(weight - 1)
        in_cov += 0.5 * (np.outer(alpha, alpha) - inverse)
        value += evidence
    return value, pull(in_cov), in_log_noise


def laplace_log_evidence(kernel: Kernel, x, labels, weight=None) -> float:
    """Laplace's log evidence of GP classification with a logistic likelihood.

    ``labels`` [batch] are +1 or -1. Newton's iterations for the mode and the evidence at it
    follow Rasmussen and Williams (2006), algorithm 3.1.
    """
    x, labels, _, weight = _as_float64(x, labels, 1.0, weight)
    return laplace_evidence_of(_covariance(kernel, x, x), labels[:, 0], weight)


def laplace_evidence_of(prior_cov: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> float:
    """Laplace's log evidence for a given covariance of the rows."""
    latent, previous = np.zeros(len(labels)), -np.inf
    for _ in range(_MAX_NEWTON):
        p = special.expit(latent)
        curvature = weight * np.maximum(p * (1 - p), 1e-12)
        root = np.sqrt(curvature)
        factor = _factor(root[:, None] * prior_cov * root, np.ones(len(labels)))
        b = curvature * latent + weight * ((labels + 1) / 2 - p)
        solved = linalg.cho_solve((factor, True), root * (prior_cov @ b))
        alpha = b - root * solved
        latent = prior_cov @ alpha
        log_lik = weight @ special.log_expit(labels * latent)
        value = log_lik - 0.5 * alpha @ latent - np.sum(np.log(np.diag(factor)))
        if abs(value - previous) < 1e-6 * max(1.0, abs(value)):
            break
        previous = value
    return float(value)


def _output_evidence(factor, target, noise, weight) -> tuple[float, np.ndarray]:
    """Log evidence of one output, and C^-1 y."""
    alpha = linalg.cho_solve((factor, True), target)
    value = -0.5 * target @ alpha - np.sum(np.log(np.diag(factor)))
    value -= 0.5 * len(target) * np.log(2 * np.pi)
    # A row of weight w stands for w rows; this is what the other w - 1 add.
    value -= 0.5 * np.sum((weight - 1) * np.log(2 * np.pi * noise) + np.log(weight))
    return float(value), alpha


def _factor(prior_cov: np.ndarray, noise: np.ndarray) -> np.ndarray:
    cov = prior_cov.copy()
    cov[np.diag_indices_from(cov)] += noise + _JITTER * np.mean(np.diag(prior_cov))
    return linalg.cholesky(cov, lower=True, overwrite_a=True, check_finite=False)


def _as_float64(x, y, noise_var, weight):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    y = y[:, None] if y.ndim == 1 else y
    noise_var = np.broadcast_to(np.asarray(noise_var, np.float64), y.shape[1:])
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
    return x, y, noise_var, weight


# Kernels are computed for one of a few numbers of rows, so that few programs serve any number.


def _covariance(kernel: Kernel | Sum, x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        found = np.asarray(_compiled_covariance(kernel, _filled(x1), _filled(x2)))
    return found[: len(x1), : len(x2)]


def _variance(kernel: Kernel | Sum, x: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(_compiled_variance(kernel, _filled(x)))[: len(x)]


def _covariance_of(make_kernel, theta, x: np.ndarray) -> tuple[np.ndarray, Callable]:
    """Prior covariance for the parameters theta of a kernel.

    And a function that turns the gradient of a number in this covariance into that in theta.
    """
    filled = _filled(x)
    spare = len(filled) - len(x)
    with jax.enable_x64(True):
        found, pull = _compiled_covariance_of(make_kernel, theta, filled)

    def pulled_back(in_cov: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.array(_compiled_pull_back(pull, np.pad(in_cov, (0, spare))))

    return np.array(found)[: len(x), : len(x)], pulled_back


def _filled(x: np.ndarray) -> np.ndarray:
    """The last row repeated up to a length that others have too."""
    spare = padded_size(len(x)) - len(x)
    return np.concatenate([x, np.repeat(x[-1:], spare, axis=0)]) if len(x) else x


@jax.jit
def _compiled_covariance(kernel: Kernel | Sum, x1, x2):
    return kernel.covariance(x1, x2)


@jax.jit
def _compiled_variance(kernel: Kernel | Sum, x):
    return kernel.variance(x)


@partial(jax.jit, static_argnums=0)
def _compiled_covariance_of(make_kernel, theta, x):
    return jax.vjp(lambda t: make_kernel(t).covariance(x, x), theta)


@jax.jit
def _compiled_pull_back(pull, in_cov):
    return pull(in_cov)[0]
