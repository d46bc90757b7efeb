"""Markov chains: NUTS and Hamiltonian Monte Carlo, exact given time, and stochastic-gradient HMC.

Chains start at draws from the prior. NUTS and HMC tune their step size and a diagonal mass
matrix in a warm-up (Stan's windows). R-hat and effective sample size are those of the
*predictions*: hidden nodes can change places, so single parameters have no meaning of
their own and need not mix.

References: Neal 1996; Hoffman and Gelman 2014; Chen, Fox and Guestrin 2014 (SGHMC);
Vehtari et al. 2021 (R-hat, rank-normalised and split).
"""

import dataclasses
import warnings
from abc import ABC, abstractmethod
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.baselines.problem import Model, Problem, Whitened, predict_draws
from anchored.core.members import in_threads
from anchored.errors import bad_value
from anchored.prediction.predictive import Predictive
from anchored.typing import Array

MAX_RHAT, MIN_ESS = 1.01, 100
_FIRST_STEP = 0.01  # of the warm-up, in units of the prior's scale
_DIAGNOSED_ROWS = 200  # most rows whose predictions are diagnosed
_MIN_SAMPLES = 4  # of a chain, for R-hat
_STIFFNESS = 0.1  # SGHMC with all rows: step size times the highest frequency of the posterior
_FRICTION = 0.1  # SGHMC: friction times the step size


class ConvergenceDoubt(UserWarning):
    """Chains have not mixed: their predictions may differ from the posterior."""


@dataclasses.dataclass(frozen=True)
class Chains:
    """Draws from several chains, and how far to trust them.

    Attributes
    ----------
    predictive : all draws pooled, chain after chain.
    rhat, ess : worst R-hat and smallest effective sample size of predictions and of their
        distances from the median, at up to 200 rows.
    n_divergent : transitions whose energy error was huge.
    n_gradients : leapfrog steps taken after the warm-up, all chains together.
    """

    predictive: Predictive
    rhat: float
    ess: float
    n_divergent: int
    n_gradients: int

    def warn(self) -> None:
        """Warn if R-hat is above 1.01, the effective sample size is below 100, or steps
        diverged.
        """
        mixed = self.rhat <= MAX_RHAT and self.ess >= MIN_ESS  # nan is neither
        if not mixed or self.n_divergent:
            warnings.warn(
                f"Chains may not have converged: R-hat {self.rhat:.3f} (should be below "
                f"{MAX_RHAT}), effective sample size {self.ess:.0f} (above {MIN_ESS}), "
                f"{self.n_divergent} divergent transitions. Raise `n_warmup` and `n_samples`.",
                ConvergenceDoubt,
                stacklevel=3,
            )


@dataclasses.dataclass(frozen=True)
class _Sampler(ABC):
    """Several chains, of which a warning is given if they have not mixed."""

    n_chains: int = 4
    n_warmup: int = 500
    n_samples: int = 500  # of each chain

    @abstractmethod
    def sample(self, key: Array, problem: Problem) -> Chains:
        """Draws of all chains, mixed or not."""

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        chains = self.sample(key, problem)
        chains.warn()
        return chains.predictive


@dataclasses.dataclass(frozen=True)
class NUTS(_Sampler):
    """The No-U-Turn sampler: the gold standard for networks of finite width."""

    max_doublings: int = 10

    def sample(self, key: Array, problem: Problem) -> Chains:
        return _run(key, problem, self, (("max_num_doublings", self.max_doublings),))


@dataclasses.dataclass(frozen=True)
class HMC(_Sampler):
    """Hamiltonian Monte Carlo with ``n_steps`` leapfrog steps for each draw, as in the paper."""

    n_steps: int = 150

    def sample(self, key: Array, problem: Problem) -> Chains:
        return _run(key, problem, self, (("num_integration_steps", self.n_steps),))


@dataclasses.dataclass(frozen=True)
class SGHMC(_Sampler):
    """Stochastic-gradient HMC: a new batch at every step, for data too large to use in every step.

    Unlike the others it is biased. The discretisation adds up to a tenth to the variance in the
    stiffest direction, and the noise of the batches adds some more; smaller batches take smaller
    steps to limit this. Directions that the data do not inform move very little in a run. They stay
    near the prior draw that each chain starts from, so there are many chains.
    """

    n_chains: int = 20
    n_warmup: int = 2000  # draws thrown away
    n_samples: int = 100  # of each chain
    n_steps: int = 20  # between two draws
    batch_size: int = 64

    def sample(self, key: Array, problem: Problem) -> Chains:
        _check_counts(self)
        whitened, model = Whitened.of(problem)
        size = min(self.batch_size, model.data.n_rows)
        program = _StochasticChain(whitened, self.n_warmup, self.n_samples, self.n_steps, size)
        draws = in_threads(program, _chain_keys(key, self.n_chains), model)
        nothing = np.zeros(draws.shape[:2])
        return _chains(problem, whitened, model, draws, nothing, nothing + self.n_steps)


@dataclasses.dataclass(frozen=True)
class _Chain:
    """Warm-up and draws of one chain: (key, model) -> z, divergences, leapfrog steps."""

    whitened: Whitened
    algorithm: str  # blackjax's name
    options: tuple[tuple[str, int], ...]
    n_warmup: int
    n_samples: int

    def __call__(self, key: Array, model: Model) -> tuple[Array, Array, Array]:
        import blackjax

        key_start, key_warm, key_draw = jax.random.split(key, 3)
        log_density = partial(self.whitened.log_posterior, model=model)
        algorithm: Any = getattr(blackjax, self.algorithm)
        options: dict[str, Any] = dict(self.options)
        warmup = blackjax.window_adaptation(
            algorithm, log_density, initial_step_size=_FIRST_STEP, **options
        )
        start = jax.random.normal(key_start, (self.whitened.size,))
        (state, tuned), _ = warmup.run(key_warm, start, self.n_warmup)  # pyright: ignore
        step = algorithm(log_density, **tuned).step

        def draw(state, key):
            state, info = step(key, state)
            return state, (state.position, info.is_divergent, info.num_integration_steps)

        return jax.lax.scan(draw, state, jax.random.split(key_draw, self.n_samples))[1]


@dataclasses.dataclass(frozen=True)
class _StochasticChain:
    """Draws of z of one SGHMC chain: (key, model) -> z [draw, parameter]."""

    whitened: Whitened
    n_warmup: int
    n_samples: int
    n_steps: int
    batch_size: int

    def __call__(self, key: Array, model: Model) -> Array:
        from blackjax.sgmcmc import diffusions

        sghmc: Any = diffusions.sghmc
        key_start, key_momentum, key_power, key_chain = jax.random.split(key, 4)
        n_rows = len(model.data.weight)
        share = n_rows / self.batch_size
        step_size = _STIFFNESS / jnp.sqrt(share * self._curvature(key_power, model))
        integrate = sghmc(alpha=_FRICTION / step_size)

        def log_density(z, rows):
            x, y, weight = (a[rows] for a in (model.data.x, model.data.y, model.data.weight))
            fit = self.whitened.log_likelihood(z, model, x, y, weight)
            return share * fit - 0.5 * jnp.sum(z * z)

        def step(state, key):
            key_rows, key_noise = jax.random.split(key)
            if self.batch_size < n_rows:
                rows = jax.random.randint(key_rows, (self.batch_size,), 0, n_rows)
            else:
                rows = jnp.arange(n_rows)
            z, momentum = state
            slope = jax.grad(log_density)(z, rows)
            return integrate(key_noise, z, momentum, slope, step_size), None

        def draw(state, key):
            state, _ = jax.lax.scan(step, state, jax.random.split(key, self.n_steps))
            return state, state[0]

        start = tuple(
            jax.random.normal(k, (self.whitened.size,)) for k in (key_start, key_momentum)
        )
        keys = jax.random.split(key_chain, self.n_warmup + self.n_samples)
        return jax.lax.scan(draw, start, keys)[1][self.n_warmup :]

    def _curvature(self, key: Array, model: Model) -> Array:
        """Largest curvature of the negative log posterior over ten prior draws, roughly."""

        def largest(key):
            key_z, key_v = jax.random.split(key)
            z = jax.random.normal(key_z, (self.whitened.size,))
            slope = jax.grad(partial(self.whitened.log_posterior, model=model))

            def power(v, _):
                v = jax.jvp(slope, (z,), (v,))[1]
                size = jnp.linalg.norm(v)
                return v / size, size

            v = jax.random.normal(key_v, z.shape)
            return jax.lax.scan(power, v / jnp.linalg.norm(v), length=20)[1][-1]

        return jnp.max(jax.vmap(largest)(jax.random.split(key, 10)))


def _run(key: Array, problem: Problem, method: NUTS | HMC, options) -> Chains:
    _check_counts(method)
    whitened, model = Whitened.of(problem)
    algorithm = type(method).__name__.lower()
    program = _Chain(whitened, algorithm, options, method.n_warmup, method.n_samples)
    draws, divergent, n_steps = in_threads(program, _chain_keys(key, method.n_chains), model)
    return _chains(problem, whitened, model, draws, divergent, n_steps)


def _check_counts(method) -> None:
    """Refuse numbers that cannot be diagnosed; say what to install if BlackJAX is missing."""
    for name, least in (("n_chains", 2), ("n_warmup", 2), ("n_samples", _MIN_SAMPLES)):
        if getattr(method, name) < least:
            raise bad_value(name, getattr(method, name), f"at least {least}")
    if find_spec("blackjax") is None:
        raise ModuleNotFoundError(
            f"{type(method).__name__} needs BlackJAX: pip install 'anchored[baselines]'"
        )


def _chain_keys(key: Array, n_chains: int) -> Array:
    """One key for each chain, as plain numbers: BlackJAX's loops carry keys along, which JAX's
    check for reused keys takes for reuse.
    """
    return jax.random.key_data(jax.random.split(key, n_chains))


def _chains(problem, whitened, model, draws, divergent, n_steps) -> Chains:
    """Predictions and diagnostics of draws [chain, sample, parameter]."""
    n_chains, n_samples = draws.shape[:2]
    pooled = whitened.all_params(draws.reshape(n_chains * n_samples, -1), model)
    predictive = predict_draws(problem, pooled)
    assert predictive.members is not None
    rows = np.linspace(0, len(problem.x) - 1, min(len(problem.x), _DIAGNOSED_ROWS)).astype(int)
    values = predictive.members[:, rows].reshape(n_chains, n_samples, -1)
    rhat, ess = _worst(jnp.asarray(values, jnp.float32))
    return Chains(predictive, float(rhat), float(ess), int(np.sum(divergent)), int(np.sum(n_steps)))


@jax.jit
def _worst(values: Array) -> tuple[Array, Array]:
    """Largest R-hat and smallest effective sample size of values [chain, sample, value].

    Distances from the median count as values too: chains may agree on a mean, or even
    alternate about it, and still know little of the spread.
    """
    import blackjax

    folded = jnp.abs(values - jnp.median(values, axis=(0, 1)))
    both = jnp.concatenate([values, folded], axis=-1)
    return jnp.max(blackjax.rhat(both)), jnp.min(blackjax.ess_bulk(both))
