"""Models of an unknown function, fitted to some of its values, from which functions can be drawn.

`Twin` is the exact Gaussian process of an infinitely wide network, with a layer of cosines added.
Rectifiers have kinks and continue in straight lines. Cosines are smooth and behave alike at any
distance. A draw from the twin is a wide random network f plus a correction by the observed values
(Matheron's rule),

    f(x) + k(x, X) C^-1 (y - f(X) - e),   e ~ N(0, noise)

so it can be evaluated, and differentiated, anywhere. `Networks` are the trained members of an
ensemble; each member is one function, and they have no cosines. The prior, the relevances and the
noise of both have the highest evidence under the twin. Hyperpriors guide this choice while there
are few rows; they expect little noise, as in most optimisations. Values are first brought near a
normal distribution (`normalised`). Otherwise one value far below all others is best explained as
noise, and nothing is learned from it.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, optimize, stats

from anchored.core.ensembles import METHODS, Folds, fit_ensemble
from anchored.core.likelihoods import Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.training import Schedule
from anchored.errors import bad_value, unknown_name
from anchored.exact import gp
from anchored.exact.evidence import NOISE_RANGE, one_blas_thread
from anchored.exact.kernels import Kernel, Sum, Waves
from anchored.typing import Array, Params

_LEAST_CAPACITY = 32
_TUNED_ROWS = 512  # most rows that the evidence is computed on
_TRIALS = 40
_NO_WEIGHT = 1e-12  # of rows that only fill the room
_LEAST_NOISE = 1e-6
_POWERS = (-2.0, 4.0)  # of Yeo and Johnson's transformation
_WIDTH = 1_024  # of the random networks that draws begin with


@dataclasses.dataclass(frozen=True)
class Known:
    """Values y [row], standardised, at features x [row, feature] of some columns."""

    x: np.ndarray
    y: np.ndarray
    columns: tuple[int, ...]  # the column that each feature belongs to


@dataclasses.dataclass(frozen=True)
class Hyperpriors:
    """Log-normal hyperpriors: each is a centre, and the spread of the logarithm.

    Parameters
    ----------
    first_var : prior variance of the input layer's biases, which scales the whole function.
    steepness : variance of that layer's weights divided by that of its biases, for all columns.
    relevance : factor on the variance of the weights of a single column.
    noise_var : variance of the noise of standardised values.
    wave_var : prior variance of the sum of all cosines.
    wave_steepness : squared scale of their weights, summed over columns of relevance 1.
    """

    first_var: tuple[float, float] = (3.0, 2.0)
    steepness: tuple[float, float] = (1.0, 1.0)
    relevance: tuple[float, float] = (1.0, 0.7)
    noise_var: tuple[float, float] = (1e-4, 1.0)
    wave_var: tuple[float, float] = (1.0, 1.0)
    wave_steepness: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            pair = tuple(getattr(self, field.name))
            if len(pair) != 2 or not all(np.isfinite(pair)) or min(pair) <= 0:
                raise bad_value(field.name, pair, "a centre and a spread, both above 0")
            object.__setattr__(self, field.name, pair)

    def of(self, n_columns: int, waves: bool) -> tuple[np.ndarray, np.ndarray]:
        """Centres and spreads of all logarithms: those of cosines first, the noise last."""
        parts = [self.wave_var, self.wave_steepness] if waves else []
        parts += [self.first_var, self.steepness, *[self.relevance] * n_columns, self.noise_var]
        return np.log([centre for centre, _ in parts]), np.array([spread for _, spread in parts])


@dataclasses.dataclass(frozen=True)
class Tuned:
    """Where the evidence, with the hyperpriors, is highest."""

    first_var: float
    relevance: np.ndarray  # [feature], times the steepness
    noise_var: float
    kernel: Kernel | Sum


def normalised(values: np.ndarray) -> np.ndarray:
    """Standardised values in the same order, brought near a normal distribution by a power.

    The power is that of Yeo and Johnson with the highest likelihood. Below 1 it draws high values
    together, above 1 low ones.
    """
    standard = standardised(values)
    if len(np.unique(standard)) < 3:
        return standard
    found: Any = optimize.minimize_scalar(
        lambda power: -stats.yeojohnson_llf(power, standard), bounds=_POWERS, method="bounded"
    )
    return standardised(np.asarray(stats.yeojohnson(standard, found.x)))


def standardised(values: np.ndarray) -> np.ndarray:
    """Values scaled to mean 0 and deviation 1; all 0 if they are equal."""
    return (values - values.mean()) / (values.std() or 1.0)


def capacity(n_rows: int) -> int:
    """Rows that a compiled program has room for: a power of two."""
    return max(_LEAST_CAPACITY, 1 << (n_rows - 1).bit_length())


@dataclasses.dataclass(frozen=True)
class _Family:
    """The kernel as a function of the logarithms of `Hyperpriors.of`, without the noise."""

    columns: tuple[int, ...]
    hidden: tuple[int, ...]
    waves: bool

    def __call__(self, logs) -> Kernel | Sum:
        n_columns, of_feature = max(self.columns) + 1, np.array(self.columns)
        first_var, steepness, *_ = logs[2:] if self.waves else logs
        relevance = logs[-n_columns:][of_feature]
        network = Kernel.paper(
            jnp.exp(first_var), n_columns, self.hidden, "relu", jnp.exp(steepness + relevance)
        )
        if not self.waves:
            return network
        return Sum(network, Waves(jnp.exp(logs[0]), jnp.exp(logs[1] + relevance) / n_columns))


@one_blas_thread
def tune(known: Known, hidden: tuple[int, ...], hyper: Hyperpriors, waves: bool = False) -> Tuned:
    """Prior, relevances and noise by the evidence of the twin; of many rows, only the latest are
    used.
    """
    family, n_columns = _Family(known.columns, hidden, waves), max(known.columns) + 1
    x, y = known.x[-_TUNED_ROWS:], known.y[-_TUNED_ROWS:]
    room = capacity(len(x))
    rows, targets = _filled(x, room), _filled(y[:, None], room)
    weight = np.where(np.arange(room) < len(x), 1.0, _NO_WEIGHT)
    centre, spread = hyper.of(n_columns, waves)

    def negative(theta: np.ndarray):
        value, in_kernel, in_noise = gp.evidence_gradient(
            family, theta[:-1], rows, targets, np.exp(theta[-1:]), weight
        )
        z = (theta - centre) / spread
        return 0.5 * z @ z - value, z / spread - np.concatenate([in_kernel, in_noise])

    bounds = [(c - 4 * s, c + 4 * s) for c, s in zip(centre, spread, strict=True)]
    bounds[-1] = (np.log(_LEAST_NOISE), np.log(NOISE_RANGE[1]))
    found = optimize.minimize(
        negative, centre, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _TRIALS}
    ).x
    with jax.enable_x64(True):
        kernel = family(jnp.asarray(found[:-1]))
    network = kernel.network if isinstance(kernel, Sum) else kernel
    first_var = float(network.bias_var)
    relevance = np.asarray(network.weight_var) * n_columns / first_var
    return Tuned(first_var, relevance, float(np.exp(found[-1])), kernel)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    return np.pad(array, [(0, size - len(array)), *[(0, 0)] * (array.ndim - 1)])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TwinMoments:
    """Mean and deviation of the twin's functions at any features; rows without weight are 0."""

    kernel: Kernel | Sum
    x: Any  # [row, feature]
    alpha: Any  # [row]
    half: Any  # [row, row], inverse of the Cholesky factor
    dof: Any  # of the marginals, which are Student-t because the amplitude is estimated too

    def __call__(self, z: Array) -> tuple[Array, Array]:
        cross = self.kernel.covariance(z, self.x)
        explained = jnp.sum(jnp.square(cross @ self.half.T), axis=-1)
        variance = self.kernel.variance(z)
        return cross @ self.alpha, jnp.sqrt(jnp.maximum(variance - explained, 1e-12 * variance))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TwinFunctions:
    """Functions drawn from the twin: stacked, axis 0 is the function."""

    kernel: Kernel | Sum  # the same for all
    x: Any
    drawn: Any  # weights and biases [function, ...] of the random networks and their cosines
    alpha: Any  # [function, row]
    shared: ClassVar[tuple[str, ...]] = ("kernel", "x")

    def __call__(self, z: Array) -> Array:
        """Values of one function at z [row, feature]."""
        return _random_network(self.drawn, z) + self.kernel.covariance(z, self.x) @ self.alpha


def _random_network(drawn: tuple[Params, Params], z: Array) -> Array:
    layers, waves = drawn
    total = sum(jnp.cos(z @ weight + phase) @ last for weight, phase, last in waves)
    for weight, bias in layers[:-1]:
        z = jnp.maximum(z @ weight + bias, 0.0)
    return z @ layers[-1] + total


@dataclasses.dataclass(frozen=True)
class Twin:
    """The infinitely wide twin of a network with hidden layers of widths ``hidden``.

    Parameters
    ----------
    hidden : widths, of which only the number counts.
    hyperpriors : what is believed of the function before any value. For noisy values,
        ``Hyperpriors(noise_var=(0.1, 1.0))`` starts nearer to the truth.
    normalise : whether values are brought near a normal distribution.
    waves : whether a layer of cosines is added to the network.
    """

    hidden: tuple[int, ...] = (50,)
    hyperpriors: Hyperpriors = Hyperpriors()
    normalise: bool = True
    waves: bool = True

    def fit(self, known: Known, seed: tuple[int, ...], n_functions: int) -> "FittedTwin":
        tuned = tune(known, self.hidden, self.hyperpriors, self.waves)
        return FittedTwin(known, tuned, seed, n_functions)


class FittedTwin:
    """A twin and the rows it has seen."""

    def __init__(self, known: Known, tuned: Tuned, seed, n_functions: int):
        self._known, self._seed, self._n, self.tuned = known, seed, n_functions, tuned
        self._gp = gp.condition(tuned.kernel, known.x, known.y, tuned.noise_var)
        self._room = capacity(len(known.y))

    def moments(self) -> TwinMoments:
        half = linalg.solve_triangular(self._gp.factors[0], np.eye(len(self._known.y)), lower=True)
        spare = self._room - len(half)
        return TwinMoments(
            self.tuned.kernel,
            _filled(self._known.x, self._room),
            _filled(self._gp.alphas[:, 0], self._room),
            np.pad(half, (0, spare)),
            np.float64(max(len(half) - 1, 2)),
        )

    def functions(self) -> TwinFunctions:
        """Draws of the posterior, by Matheron's rule."""
        rng, known = np.random.default_rng([*self._seed, 1]), self._known
        with jax.enable_x64(True):
            drawn = _draw_networks(rng, self.tuned.kernel, known.x.shape[1], self._n)
            prior = np.asarray(_values(drawn, _filled(known.x, self._room)))[:, : len(known.y)]
        noise = rng.normal(size=prior.shape) * np.sqrt(self.tuned.noise_var)
        alpha = linalg.cho_solve((self._gp.factors[0], True), (known.y - prior - noise).T).T
        alpha = np.pad(alpha, [(0, 0), (0, self._room - len(known.y))])
        return TwinFunctions(self.tuned.kernel, _filled(known.x, self._room), drawn, alpha)


_values = jax.jit(jax.vmap(_random_network, in_axes=(0, None)))


def _draw_networks(
    rng: np.random.Generator, kernel: Kernel | Sum, n_features: int, n: int
) -> tuple[Params, Params]:
    """Random networks whose covariance is the kernel, as wide as time allows."""
    if isinstance(kernel, Sum):
        layers, _ = _draw_networks(rng, kernel.network, n_features, n)
        return layers, (_draw_waves(rng, kernel.waves, n_features, n),)
    variances = [(kernel.bias_var, kernel.weight_var), *kernel.later]
    width = _WIDTH if len(variances) == 2 else _WIDTH // 4
    layers, n_in = [], n_features
    for bias_var, weight_var in variances[:-1]:
        share = n_in if layers else 1  # of the input layer the variance is that of each weight
        scale = np.sqrt(np.asarray(weight_var) / share)
        weight = rng.normal(size=(n, n_in, width)) * np.reshape(scale, (-1, 1))
        bias = rng.normal(size=(n, width)) * np.sqrt(np.asarray(bias_var))
        layers.append((weight, bias[:, None]))
        n_in = width
    scale = np.sqrt(np.asarray(variances[-1][1]) / n_in)
    return (*layers, rng.normal(size=(n, n_in)) * scale), ()


def _draw_waves(rng: np.random.Generator, kernel: Waves, n_features: int, n: int) -> Params:
    """Weights, phases and output weights of random cosines."""
    tails = np.sqrt(rng.chisquare(kernel.dof, size=(n, 1, _WIDTH)) / kernel.dof)
    scale = np.sqrt(np.asarray(kernel.weight_var))[:, None]
    weight = scale * rng.normal(size=(n, n_features, _WIDTH)) / tails
    phase = rng.uniform(0, 2 * np.pi, size=(n, 1, _WIDTH))
    last = rng.normal(size=(n, _WIDTH)) * np.sqrt(2 * np.asarray(kernel.output_var) / _WIDTH)
    return weight, phase, last


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MemberFunctions:
    """Trained members: stacked, axis 0 is the member."""

    params: Params
    network: MLP = dataclasses.field(metadata={"static": True})
    shared: ClassVar[tuple[str, ...]] = ()

    def __call__(self, z: Array) -> Array:
        return self.network.apply(self.params, z)[:, 0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MemberMoments:
    """Mean and deviation over members, whose number gives the degrees of freedom."""

    members: MemberFunctions

    @property
    def dof(self) -> float:
        return float(max(len(jax.tree.leaves(self.members)[0]) - 1, 2))

    def __call__(self, z: Array) -> tuple[Array, Array]:
        values = jax.vmap(lambda member: member(z))(self.members)
        n = len(values)
        spread = jnp.var(values, axis=0) * n / max(n - 1, 1) * (1 + 1 / n)
        return jnp.mean(values, axis=0), jnp.sqrt(spread + 1e-12)


@dataclasses.dataclass(frozen=True)
class Networks:
    """Members trained by one of `anchored.core.ensembles.METHODS`.

    Parameters
    ----------
    method : how members differ.
    n_members : how many; a larger batch of suggestions trains as many as it needs.
    hidden : widths of hidden layers.
    n_steps, rate : of the training.
    seen : share of the rows that each member sees, at random; 1 is all of them.
    hyperpriors, normalise : as those of `Twin`.
    """

    method: str = "rms"
    n_members: int = 10
    hidden: tuple[int, ...] = (50,)
    n_steps: int = 3_000
    rate: float = 0.03
    seen: float = 1.0
    hyperpriors: Hyperpriors = Hyperpriors()
    normalise: bool = True

    def __post_init__(self):
        if self.method not in METHODS or METHODS[self.method].variance_head:
            raise unknown_name("method", self.method, sorted(set(METHODS) - {"deep"}))
        if not 0.5 <= self.seen <= 1:
            raise bad_value("seen", self.seen, "a share from 0.5 to 1")

    def fit(self, known: Known, seed: tuple[int, ...], n_functions: int) -> "FittedNetworks":
        tuned = tune(known, self.hidden, self.hyperpriors)
        n_members = max(self.n_members, n_functions)
        network = MLP(self.hidden)
        raised = known.x.shape[1] / (max(known.columns) + 1)
        prior = Prior.for_network(network, known.x[:1], tuned.first_var)
        rng = np.random.default_rng([*seed, 2])
        ensemble = fit_ensemble(
            jax.random.key(int(rng.integers(2**31))),
            network,
            prior.with_relevance(tuned.relevance * raised),
            Gaussian(tuned.noise_var),
            Data.make(known.x, known.y).with_capacity(capacity(len(known.y))),
            method=self.method,
            n_members=n_members,
            schedule=self._schedule(len(known.y)),
            folds=self._folds(rng, len(known.y), n_members),
        )
        order = np.resize(rng.permutation(ensemble.n_members), n_functions)
        return FittedNetworks(tuned, MemberFunctions(ensemble.params, network), order)

    def _schedule(self, n_rows: int) -> Schedule:
        schedule = Schedule.of_steps(self.n_steps, n_rows, capacity(n_rows), self.rate)
        return dataclasses.replace(schedule, in_prior_units=True)

    def _folds(self, rng: np.random.Generator, n_rows: int, n_members: int) -> Folds | None:
        if self.seen == 1:
            return None
        n_folds = round(1 / (1 - self.seen))
        of_row = rng.permutation(np.arange(n_rows) % n_folds)
        return Folds(of_row, np.arange(n_members) % n_folds)


@dataclasses.dataclass(frozen=True)
class FittedNetworks:
    """Trained members, and which of them to use."""

    tuned: Tuned
    members: MemberFunctions
    order: np.ndarray

    def moments(self) -> MemberMoments:
        return MemberMoments(self.members)

    def functions(self) -> MemberFunctions:
        return jax.tree.map(lambda leaf: leaf[self.order], self.members)


Surrogate = Twin | Networks
