"""The paper's tuning of a regression, on one 80/20 split of the training rows (appendix E).

First it chooses the prior and the noise, with the exact GP that the network tends to. Then it
chooses the batch size, the learning rate, the length and the decay of the training. These have the
lowest validation NLL of an anchored ensemble with its Gaussian predictive.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from anchored.core.ensembles import fit_ensemble
from anchored.core.likelihoods import Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data, Standardiser
from anchored.errors import EnsembleError, bad_value, unknown_name
from anchored.exact import gp
from anchored.exact.evidence import FIRST_VAR_RANGE, MAX_ROWS, NOISE_RANGE, Twin, tune_regression
from anchored.exact.kernels import Kernel
from anchored.metrics import nll
from anchored.prediction.predictive import Predictive
from anchored.tables.encoder import Encoder
from anchored.tables.levels import Signals
from anchored.tables.reading import as_table, is_frame
from anchored.tuning.defaults import default_schedule
from anchored.tuning.settings import Settings

SAMPLERS = ("tpe", "random")
_TRAIN_SHARE = 0.8
_MIN_ROWS = 10
_FACTORS = (0.5, 0.5**0.5, 1.0, 2.0**0.5, 2.0)  # of the grid around the highest evidence
_SLACK = 0.05  # nats a row; about the standard error of the paper's scores


@dataclasses.dataclass(frozen=True)
class Space:
    """Where schedules are searched: the lowest and the highest value of each number, both included.

    Parameters
    ----------
    batch_size : powers of two, none above the number of rows.
    learning_rate : drawn evenly on a logarithmic scale; the paper's are 0.01 to 0.2.
    steps : optimiser steps, drawn the same way; they are rounded to whole epochs.
    decay_rate : factor every 20 steps, drawn evenly in the logarithm of its distance from 1.
    max_rows : limit on the rows that a trial sees in all its steps; large batches get fewer steps.
    """

    batch_size: tuple[int, int] = (32, 8_192)
    learning_rate: tuple[float, float] = (1e-3, 0.2)
    steps: tuple[int, int] = (1_000, 30_000)
    decay_rate: tuple[float, float] = (0.99, 0.9995)
    max_rows: int = 30_000_000

    def __post_init__(self):
        for name in ("batch_size", "learning_rate", "steps", "decay_rate"):
            least, most = getattr(self, name)
            if not 0 < least <= most < (1 if name == "decay_rate" else math.inf):
                raise bad_value(name, (least, most), "two numbers above 0, the lower one first")


class Trial(NamedTuple):
    """One schedule tried."""

    settings: Settings
    score: float  # validation NLL in the target's units; infinite if a member diverged
    seconds: float


class SearchResult(NamedTuple):
    """What `tune` found."""

    settings: Settings  # of the trial of lowest score
    score: float
    gp_score: float  # validation NLL of the exact GP with the same prior and noise
    trials: tuple[Trial, ...]  # in the order they were run
    ended: str  # "trials", "seconds" or "interrupt"


def tune(
    x,
    y,
    *,
    hidden: tuple[int, ...] = (50,),
    activation: str = "relu",
    n_members: int = 5,
    sampler: str = "tpe",
    n_trials: int = 30,
    max_seconds: float = math.inf,
    random_state: int = 0,
    space: Space = Space(),
    on_trial: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Tune the settings of an anchored ensemble on training rows x [batch, feature], y [batch].

    ``x`` may be a data frame, which is encoded as in the estimators.

    80 % of the rows train, the rest validate. The prior and the noise are chosen from a grid around
    the highest evidence, which reaches a factor of 2 to either side. Among the points whose
    evidence is within 0.05 nats per row of the best, the one whose exact GP has the lowest
    validation NLL is taken. Schedules are searched next. The first one tried is the default of
    `AnchoredRegressor`, with the batch size rounded to a power of two. A schedule under which a
    member diverges scores infinity. The same ``random_state`` repeats the search exactly, unless
    ``max_seconds`` ends it early. Finally, a single network is trained with the best schedule; its
    mean squared validation error becomes ``single_var``. Ctrl-C ends the search and keeps its
    finished trials, without that variance.

    Parameters
    ----------
    hidden, activation : the network.
    n_members : networks in the ensemble that scores a schedule.
    sampler : "tpe" (tree-structured Parzen estimator) or "random", the paper's way.
    n_trials, max_seconds : schedules to try, and seconds after which no new one starts; at least
        one is tried.
    random_state : seed of the split, the search and the ensembles; all ensembles share their
        anchors.
    space : where to search.
    on_trial : called with each finished `Trial`.
    """
    optuna = _optuna()
    started = time.perf_counter()
    _check_numbers(n_members, sampler, n_trials, max_seconds, random_state)
    seed, network = random_state, MLP(hidden, 1, activation)
    split = _Split.make(*_checked_rows(x, y), seed)
    prior = _tune_prior(split, network)
    study = _make_study(optuna, sampler, seed)
    study.enqueue_trial(_default_schedule(space, len(split.x)))
    trials, ended, single_var = [], "trials", None
    try:
        while len(trials) < n_trials:
            asked = study.ask()
            settings = _asked_settings(asked, network, prior, space, len(split.x))
            trial = _run(split, settings, n_members, seed)
            study.tell(asked, trial.score)
            trials.append(trial)
            if on_trial is not None:
                on_trial(trial)
            if len(trials) < n_trials and time.perf_counter() - started > max_seconds:
                ended = "seconds"
                break
        single_var = _single_var(split, _best(trials).settings, seed)
    except KeyboardInterrupt:
        if not trials:
            raise
        ended = "interrupt"
    best = _best(trials)
    if not math.isfinite(best.score):
        raise EnsembleError(
            f"Members diverged in all {len(trials)} trials. Search lower rates with "
            "`space=Space(learning_rate=...)`, or check the data for extreme values."
        )
    settings = dataclasses.replace(best.settings, single_var=single_var)
    return SearchResult(settings, best.score, prior.score, tuple(trials), ended)


@dataclasses.dataclass(frozen=True)
class _Split:
    """Training and validation rows, standardised with the training rows' statistics."""

    x: np.ndarray
    y: np.ndarray
    valid_x: np.ndarray
    valid_y: np.ndarray
    y_scale: float

    @classmethod
    def make(cls, x: np.ndarray, y: np.ndarray, seed: int) -> "_Split":
        order = np.random.default_rng(seed).permutation(len(x))
        train, valid = np.split(order, [round(_TRAIN_SHARE * len(x))])
        weight = np.ones(len(train))
        of_x, of_y = Standardiser.fit(x[train], weight), Standardiser.fit(y[train], weight)
        x, y = of_x.forward(x), of_y.forward(y)
        return cls(x[train], y[train], x[valid], y[valid], float(of_y.scale[0]))

    def score(self, dist: Predictive) -> float:
        """NLL of the validation rows in the target's units."""
        return nll(dist, self.valid_y) + math.log(self.y_scale)


class _TunedPrior(NamedTuple):
    first_var: float
    noise_var: float
    score: float  # validation NLL of the exact GP


def _tune_prior(split: _Split, network: MLP) -> _TunedPrior:
    """The prior and the noise; `tune` says the rule."""
    x, y = split.x[:MAX_ROWS], split.y[:MAX_ROWS]
    twin = Twin(x.shape[1], network.hidden, network.activation)
    top = tune_regression(twin, x, y, np.ones(len(x)))
    grid = [
        (gp.log_evidence(_kernel(twin, first_var), x, y, noise_var), first_var, noise_var)
        for first_var in _around(top.first_var, FIRST_VAR_RANGE)
        for noise_var in _around(float(top.noise_var[0]), NOISE_RANGE)
    ]
    good = max(grid)[0] - _SLACK * len(x)
    tuned = []
    for evidence, first_var, noise_var in grid:
        if evidence >= good:
            exact = gp.condition(_kernel(twin, first_var), x, y, noise_var)
            score = split.score(exact.predict(split.valid_x))
            tuned.append(_TunedPrior(first_var, noise_var, score))
    return min(tuned, key=lambda prior: prior.score)


def _around(value: float, bounds: tuple[float, float]) -> list[float]:
    return sorted({float(np.clip(value * factor, *bounds)) for factor in _FACTORS})


def _kernel(twin: Twin, first_var: float) -> Kernel:
    return twin(np.log([first_var]))


def _run(split: _Split, settings: Settings, n_members: int, seed: int) -> Trial:
    started = time.perf_counter()
    dist = _predict(split, settings, "anchored", n_members, seed)
    score = math.inf if dist is None else split.score(dist)
    score = score if math.isfinite(score) else math.inf
    return Trial(settings, score, time.perf_counter() - started)


def _best(trials: list[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.score)


def _single_var(split: _Split, settings: Settings, seed: int) -> float | None:
    """Mean squared validation error of one regularised network; None if it diverges."""
    dist = _predict(split, settings, "regularised", 1, seed)
    return None if dist is None else float(np.mean(np.square(dist.mean - split.valid_y)))


def _predict(
    split: _Split, settings: Settings, method: str, n_members: int, seed: int
) -> Predictive | None:
    """The predictive of the validation rows, or None if a member diverged."""
    data = Data.make(split.x, split.y)
    ensemble = fit_ensemble(
        jax.random.key(seed),
        settings.network,
        Prior.for_network(settings.network, data.x[:1], settings.first_var),
        Gaussian(settings.noise_var),
        data,
        method=method,
        n_members=n_members,
        schedule=settings.schedule,
    )
    return None if ensemble.retrained else ensemble.predict(split.valid_x)


# The search. Batch sizes are searched by their exponent and decays by 1 - decay_rate.


def _asked_settings(trial, network: MLP, prior: _TunedPrior, space: Space, n_rows: int) -> Settings:
    """The settings with the schedule that the search asks for."""
    batch_size = 2 ** trial.suggest_int("exponent", *_exponents(space, n_rows))
    learning_rate = trial.suggest_float("learning_rate", *space.learning_rate, log=True)
    steps = trial.suggest_int("steps", *space.steps, log=True)
    decay = trial.suggest_float("decay", *_decays(space), log=True)
    steps = max(1, min(steps, space.max_rows // batch_size))
    return Settings(
        hidden=network.hidden,
        activation=network.activation,
        noise_var=prior.noise_var,
        first_var=prior.first_var,
        batch_size=batch_size,
        learning_rate=learning_rate,
        epochs=-(-steps // max(1, n_rows // batch_size)),
        decay_rate=1 - decay,
    )


def _default_schedule(space: Space, n_rows: int) -> dict[str, float]:
    """What the search is told to ask for first; clipped, because it asks for nothing outside."""
    schedule = default_schedule(n_rows, noise_var=0.0)
    exponent = round(math.log2(schedule.batch_size))
    return {
        "exponent": int(np.clip(exponent, *_exponents(space, n_rows))),
        "learning_rate": float(np.clip(schedule.learning_rate, *space.learning_rate)),
        "steps": space.steps[1],
        "decay": float(np.clip(1 - schedule.decay_rate, *_decays(space))),
    }


def _exponents(space: Space, n_rows: int) -> tuple[int, int]:
    least, most = (int(size).bit_length() - 1 for size in space.batch_size)
    return least, max(least, min(most, n_rows.bit_length() - 1))


def _decays(space: Space) -> tuple[float, float]:
    least, most = space.decay_rate
    return 1 - most, 1 - least


def _optuna():
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Tuning needs Optuna: pip install 'anchored[tune]'") from error
    return optuna


def _make_study(optuna, sampler: str, seed: int):
    makers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would tell of every new study
    try:
        return optuna.create_study(sampler=makers[sampler](seed=seed))
    finally:
        optuna.logging.set_verbosity(level)


def _check_numbers(n_members, sampler, n_trials, max_seconds, seed) -> None:
    if not (isinstance(n_members, int) and n_members >= 2):
        raise bad_value("n_members", n_members, "at least 2, or there is no spread to score")
    if sampler not in SAMPLERS:
        raise unknown_name("sampler", sampler, SAMPLERS)
    if not (isinstance(n_trials, int) and n_trials >= 1):
        raise bad_value("n_trials", n_trials, "a positive whole number")
    if not max_seconds > 0:
        raise bad_value("max_seconds", max_seconds, "a positive number")
    if not (isinstance(seed, int) and 0 <= seed < 2**32):
        raise bad_value("random_state", seed, "a whole number from 0 to 2**32 - 1")


def _checked_rows(x, y) -> tuple[np.ndarray, np.ndarray]:
    """Arrays x [batch, feature] and y [batch, 1]."""
    if is_frame(x):
        table = as_table(x)
        signals = Signals.of_numbers(np.asarray(y, np.float64))
        x = Encoder.fit_transform(table, signals)[1]
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.ndim != 2 or y.shape != x.shape[:1] or len(y) < _MIN_ROWS:
        raise ValueError(
            f"`x` must be [batch, feature] and `y` [batch], with at least {_MIN_ROWS} rows; got "
            f"shapes {x.shape} and {y.shape}."
        )
    for name, values in (("x", x), ("y", y)):
        if not np.isfinite(values).all():
            raise ValueError(f"`{name}` has values that are missing or infinite; drop those rows.")
    if np.all(y == y[0]):
        raise ValueError(f"`y` is constant ({y[0]:g}): there is nothing to tune.")
    return x, y[:, None]
