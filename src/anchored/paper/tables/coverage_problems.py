"""Problems whose true function is known: it is drawn from the prior that the methods are given.

The noise is a share of the deviation that functions of the prior have over the inputs. It depends
only on the inputs, not on the drawn function. So the noise gives no information about that
function, and the right posterior covers exactly as often as it says.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.baselines import Problem
from anchored.core.likelihoods import Categorical, Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.exact import gp
from anchored.prediction.special import softmax

NOISES = {"small": 0.05, "medium": 0.3, "large": 1.0}  # in deviations of the prior's functions
CLASSES = "classes"
KINDS = (*NOISES, CLASSES)
REGIONS = {"inside": 1.0, "outside": 3.0}  # how far out test inputs are, in those of training
_MOST_DRAWS = 1_000  # of labels, until both classes are among them


class Case(NamedTuple):
    """A kind of problem; many problems of each kind are drawn."""

    dimension: int
    n_rows: int
    kind: str  # one of KINDS

    @property
    def name(self) -> str:
        return f"{self.dimension}d-{self.n_rows}-{self.kind}"

    @property
    def has_classes(self) -> bool:
        return self.kind == CLASSES


class Posed(NamedTuple):
    """One problem with its answer, at test inputs inside the data and then as many outside."""

    problem: Problem
    latent: np.ndarray  # [batch] the true function; of classes the logit of the second
    y: np.ndarray  # [batch] new targets; of classes the true probability of the second
    seed: int  # of the method


def pose(case: Case, width: int, first_var: float, n_test: int, seed: int, truth: int) -> Posed:
    """Draw a network from the prior, rows from it, and test inputs; ``n_test`` of each region."""
    rng = np.random.default_rng([seed, truth, case.dimension, case.n_rows, KINDS.index(case.kind)])
    x = rng.standard_normal((case.n_rows, case.dimension))
    tests = [far * rng.standard_normal((n_test, case.dimension)) for far in REGIONS.values()]
    x_test = np.concatenate(tests)
    network = MLP((width,), n_outputs=2 if case.has_classes else 1)
    prior = Prior.for_network(network, x[:1], first_var)
    everywhere = jnp.asarray(np.concatenate([x, x_test]), jnp.float32)
    for _ in range(_MOST_DRAWS):
        params = prior.sample(jax.random.key(int(rng.integers(2**31))))
        outputs = np.asarray(network.apply(params, everywhere), np.float64)
        made = _with_classes if case.has_classes else _with_noise
        posed = made(rng, case, network, prior, x, x_test, outputs)
        # To choose by the labels is no harm: whatever they are, the posterior given them is right.
        if not case.has_classes or len(np.unique(posed.problem.rows.y)) == 2:
            return posed
    raise ValueError(f"`first_var` {first_var} gives labels of one class only; take a smaller one.")


def noise_var(case: Case, kernel, x: np.ndarray) -> float:
    """Square of the kind's share of the deviation that functions have over the inputs ``x``."""
    with jax.enable_x64(True):
        covariance = np.asarray(kernel.covariance(x, x))
    return NOISES[case.kind] ** 2 * float(np.mean(np.diag(covariance)) - np.mean(covariance))


def _with_noise(rng, case: Case, network, prior, x, x_test, outputs) -> Posed:
    variance = noise_var(case, gp.twin(network, prior), x)
    return with_noise(rng, network, prior, variance, x, x_test, outputs[:, 0])


def with_noise(rng, network, prior, variance: float, x, x_test, function) -> Posed:
    """A regression on noisy values of a ``function`` known at ``x`` and then at ``x_test``."""
    noisy = function + np.sqrt(variance) * rng.standard_normal(len(function))
    data = Data.make(x, noisy[: len(x), None])
    problem = Problem(network, prior, Gaussian(variance), data, x_test)
    return Posed(problem, function[len(x) :], noisy[len(x) :], int(rng.integers(2**31)))


def _with_classes(rng, case: Case, network, prior, x, x_test, outputs) -> Posed:
    second = softmax(outputs)[:, 1]
    labels = (rng.random(len(x)) < second[: len(x)]).astype(float)
    problem = Problem(network, prior, Categorical(), Data.make(x, labels), x_test)
    logit = outputs[:, 1] - outputs[:, 0]
    return Posed(problem, logit[len(x) :], second[len(x) :], int(rng.integers(2**31)))
