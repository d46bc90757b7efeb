"""Chooses the prior variance and the noise of a network without a twin, by draws from its own
prior.

Such a network has no known infinitely wide twin, but it has a prior. Functions f_d whose parameters
are drawn from this prior have the covariance

    K = average of f_d f_d' over draws

at some rows. The chosen prior variance of the input layer and the chosen noise have the highest
evidence of a Gaussian process with this covariance. The evidence of another network is never used.
Draws use the same random numbers for all variances, so differences of the evidence are not due to
the draws. Slow networks get fewer draws, at fewer rows. Very slow ones keep variance 1, and only
their noise is chosen.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from anchored.core.fingerprints import digest, program_mark
from anchored.core.kept_values import kept
from anchored.core.priors import Prior
from anchored.exact import gp
from anchored.exact.evidence import (
    MAX_CLASSES,
    NOISE_RANGE,
    class_surprise,
    largest_classes,
    one_blas_thread,
)
from anchored.typing import Array, Network, Params

_EFFORTS = ((1_000, 200, 50), (300, 100, 10), (100, 100, 5), (60, 60, 5))  # see `Effort`
_MOST_FLOPS = 2e11  # of all draws: some seconds
_FIRST_VARS = np.geomspace(0.1, 1_000, 9)  # within what a twin may choose


class Chosen(NamedTuple):
    """The prior variance and the noise that suit the rows best, in standardised units."""

    first_var: float
    noise_var: np.ndarray  # [out]


class Effort(NamedTuple):
    """How many draws, at how many rows, how many draws at once, and whether variances are tried."""

    n_draws: int
    n_rows: int
    at_once: int
    searches: bool


def effort_of(network: Network, prior: Prior, x: np.ndarray) -> Effort:
    """The number of draws and rows that a network is fast enough for, on rows like ``x``."""
    row = jax.ShapeDtypeStruct((1, *x.shape[1:]), _held_as(x))
    cost: Any = jax.jit(network.apply).lower(prior.mean, row).cost_analysis()
    flops = float((cost or {}).get("flops", 0.0))
    for n_draws, n_rows, at_once in _EFFORTS:
        if len(_FIRST_VARS) * n_draws * n_rows * flops <= _MOST_FLOPS:
            return Effort(n_draws, n_rows, at_once, True)
    return Effort(*_EFFORTS[-1], False)


@dataclasses.dataclass(frozen=True)
class PriorFamily:
    """The prior of a network as a function of first_var, which scales its input layer."""

    unit: Prior  # at first_var = 1
    is_first: Params  # 1 for parameters of the input layer, else 0

    @classmethod
    def of(cls, unit: Prior, four: Prior) -> "PriorFamily":
        """Made from the priors at first_var = 1 and at 4."""
        ratio = jax.tree.map(lambda a, b: jnp.log2(b / a), unit.scale, four.scale)
        return cls(unit, ratio)

    def __call__(self, first_var: Any) -> Prior:
        root = jnp.sqrt(jnp.asarray(first_var, jnp.float32))
        scale = jax.tree.map(lambda s, first: s * root**first, self.unit.scale, self.is_first)
        return Prior(self.unit.mean, scale)


@one_blas_thread
def choose_regression(
    network: Network,
    family: PriorFamily,
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    first_var: float | None = None,
    noise_var: np.ndarray | None = None,
) -> Chosen:
    """The choice of highest evidence for standardised rows, which must be in random order.

    A ``first_var`` or ``noise_var`` that is given stays as it is.
    """
    effort = effort_of(network, family.unit, x)
    x, y, weight = (a[: effort.n_rows] for a in (x, y, weight))
    if first_var is None and not effort.searches:
        first_var = 1.0

    def found(first: float) -> list[tuple[float, float]]:  # evidence and noise of each output
        cov = _covariance(network, family(first), x, effort)
        return [_best_noise(cov, y[:, o], weight, noise_var, o) for o in range(y.shape[1])]

    mark, given = _mark(network, family, x, effort), 0.0 if noise_var is None else noise_var
    found_at = kept(found, mark, x, y, weight, given)
    firsts = _FIRST_VARS if first_var is None else [first_var]
    values = [found_at(first) for first in firsts]
    best = int(np.argmax([value[:, 0].sum() for value in values]))
    return Chosen(float(firsts[best]), values[best][:, 1])


@one_blas_thread
def choose_classification(
    network: Network, family: PriorFamily, x: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> float:
    """The ``first_var`` with the highest Laplace evidence, one class against the rest.

    A difference of logits in a softmax over K classes has K / (K - 1) times the variance of one.
    """
    effort = effort_of(network, family.unit, x)
    if not effort.searches:
        return 1.0
    n_classes = len(np.unique(labels))
    x, labels, weight = (a[: effort.n_rows] for a in (x, labels, weight))
    shown = largest_classes(labels)[: 1 if n_classes == 2 else MAX_CLASSES]
    raised = n_classes / (n_classes - 1)

    def value(first: float) -> float:
        cov = raised * _covariance(network, family(first), x, effort)
        values = [
            gp.laplace_evidence_of(cov, np.where(labels == c, 1.0, -1.0), weight) for c in shown
        ]
        return float(np.mean(values)) - class_surprise(np.log(first))

    mark = _mark(network, family, x, effort)
    return float(max(_FIRST_VARS, key=kept(value, mark, x, labels, weight)))


def _best_noise(cov: np.ndarray, y: np.ndarray, weight: np.ndarray, given, out: int):
    """Highest evidence of one output, and the noise that has it."""
    if given is not None:
        return gp.evidence_of(cov, y, given[out], weight), float(given[out])
    found: Any = optimize.minimize_scalar(
        lambda log: -gp.evidence_of(cov, y, np.exp(log), weight),
        bounds=np.log(NOISE_RANGE),
        method="bounded",
        options={"xatol": 0.05},
    )
    return -float(found.fun), float(np.exp(found.x))


def _mark(network: Network, family: PriorFamily, x: np.ndarray, effort: Effort) -> str:
    """All that decides draws of the network beside the rows."""
    row = jax.ShapeDtypeStruct((1, *x.shape[1:]), _held_as(x))
    program = program_mark(network.apply, family.unit.mean, row)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((family.unit, family.is_first))]
    return digest(f"{program} {effort}", leaves)


def _held_as(x: np.ndarray) -> Any:
    return np.int32 if np.issubdtype(x.dtype, np.integer) else np.float32


def _covariance(network: Network, prior: Prior, x: np.ndarray, effort: Effort) -> np.ndarray:
    """Covariance of the network's functions [row, row], averaged over draws and outputs."""
    rows = np.zeros((effort.n_rows, *x.shape[1:]), _held_as(x))
    rows[: len(x)] = x
    total = np.zeros((len(x), len(x)))
    for start in range(0, effort.n_draws, effort.at_once):
        drawn = np.asarray(_functions(network, effort.at_once, prior, rows, start), np.float64)
        drawn = drawn[:, : len(x)]
        total += np.einsum("dio,djo->ij", drawn, drawn) / drawn.shape[2]
    return total / effort.n_draws


@partial(jax.jit, static_argnums=(0, 1))
def _functions(network: Network, n: int, prior: Prior, x: Array, first: int) -> Array:
    """Outputs [draw, row, out] of draws from the prior, by their numbers from ``first`` on."""
    key = jax.random.key(0)

    def function(number: Array) -> Array:
        return network.apply(prior.sample(jax.random.fold_in(key, number)), x)

    return jax.vmap(function)(first + jnp.arange(n))
