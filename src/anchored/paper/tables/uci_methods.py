"""The methods of the UCI benchmark: each turns one split into a predictive distribution.

All of the paper's methods work in units standardised by the training part, and share one row of
hyperparameters. `Predictive`s are returned in the units of the target.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from anchored import tuning
from anchored.baselines import EnsembleOf, Inference, InfiniteWidthGP, MCDropout, Problem
from anchored.core.likelihoods import Gaussian
from anchored.core.priors import Prior
from anchored.core.rows import Data, Standardiser
from anchored.core.training import Schedule
from anchored.estimators import AnchoredRegressor
from anchored.paper.tables import uci_outsiders as outsiders
from anchored.paper.tables.uci_settings import STARTED_AS_NETWORKS
from anchored.prediction.predictive import Predictive
from anchored.tuning import Settings
from anchored.typing import Array

GP_ROWS = {"protein": 10_000, "song": 20_000}  # most training rows of the exact GP, as published


class Task(NamedTuple):
    """One standard split of one data set."""

    dataset: str
    split: int
    x: np.ndarray  # training rows
    y: np.ndarray
    x_test: np.ndarray
    seed: int

    @property
    def key(self) -> Array:
        return jax.random.fold_in(jax.random.key(self.seed), self.split)


Fit = Callable[[Task, Settings], Predictive]
Training = Callable[[str, int, Settings, Task], EnsembleOf]  # method, members, settings


@dataclasses.dataclass(frozen=True)
class Method:
    """How a method fits one task, given the paper's (or tuned) settings.

    ``side_by_side`` methods leave cores idle, so several splits are fitted at a time.
    """

    fit: Fit
    side_by_side: bool = True


def infer(method: Inference, task: Task, settings: Settings) -> Predictive:
    """Give ``method`` the task in standardised units; return its answer in the target's."""
    ones = np.ones(len(task.x))
    inputs, target = Standardiser.fit(task.x, ones), Standardiser.fit(task.y[:, None], ones)
    network = settings.network
    data = Data.make(inputs.forward(task.x), target.forward(task.y[:, None]))
    prior = Prior.for_network(network, data.x[:1], settings.first_var)
    x_test = inputs.forward(task.x_test)
    problem = Problem(network, prior, Gaussian(settings.noise_var), data, x_test)
    return method(task.key, problem).rescaled(target.scale, target.mean).output(0)


def _as_published(method: str, n_members: int, settings: Settings, task: Task) -> EnsembleOf:
    """With the steps of the authors' scripts, started where validation said."""
    schedule = as_many_steps(settings.schedule, len(task.x))
    prior_start = task.dataset not in STARTED_AS_NETWORKS
    return EnsembleOf(method, n_members, schedule, prior_start)


def _as_tuned(method: str, n_members: int, settings: Settings, task: Task) -> EnsembleOf:
    """Trained as `anchored tune` does."""
    del task
    return EnsembleOf(method, n_members, settings.schedule, prior_start=False)


def as_many_steps(schedule: Schedule, n_rows: int) -> Schedule:
    """The paper's epochs end with a smaller batch. Ours do not, so we take more epochs."""
    n_full, n_all = n_rows // schedule.batch_size, -(-n_rows // schedule.batch_size)
    return dataclasses.replace(schedule, epochs=round(schedule.epochs * n_all / max(1, n_full)))


def _ensemble(training: Training, method: str, n: int, task: Task, s: Settings) -> Predictive:
    return infer(training(method, n, s, task), task, s)


def _two_layers(training: Training, task: Task, s: Settings) -> Predictive:
    """The paper's rule: a quarter of the rate, half as many epochs again."""
    rate, epochs = s.learning_rate / 4, round(1.5 * s.epochs)
    s = dataclasses.replace(s, hidden=s.hidden * 2, learning_rate=rate, epochs=epochs)
    return _ensemble(training, "anchored", 5, task, s)


def _single(training: Training, task: Task, s: Settings) -> Predictive:
    """One regularised network and a constant variance."""
    if s.single_var is None:
        raise ValueError("`settings` lack `single_var`, which a single network needs.")
    dist = _ensemble(training, "regularised", 1, task, s)
    constant = np.full_like(dist.mean, s.single_var * np.var(task.y))
    return dataclasses.replace(dist, aleatoric_var=constant)


def _exact(activation: str, task: Task, s: Settings) -> Predictive:
    n_rows = GP_ROWS.get(task.dataset, len(task.x))
    task = task._replace(x=task.x[:n_rows], y=task.y[:n_rows])
    if activation != s.activation:  # its prior is tuned apart, by evidence
        s = _with_own_prior(task, s, activation)
    return infer(InfiniteWidthGP(), task, s)


def _with_own_prior(task: Task, settings: Settings, activation: str) -> Settings:
    ones = np.ones(len(task.x))
    x, y = (Standardiser.fit(a, ones).forward(a) for a in (task.x, task.y[:, None]))
    twin = tuning.Twin(x.shape[1], settings.hidden, activation)
    noise = np.array([settings.noise_var])
    tuned = tuning.tune_regression(twin, x, y, ones, noise_var=noise)
    return dataclasses.replace(settings, activation=activation, first_var=tuned.first_var)


def _deep(task: Task, settings: Settings) -> Predictive:
    """Lakshminarayanan et al. 2017: 40 epochs in batches of 100; no adversarial examples."""
    schedule = Schedule(epochs=40, batch_size=100, learning_rate=0.01)
    return infer(EnsembleOf("deep", 5, schedule, prior_start=False), task, settings)


def _dropout(task: Task, settings: Settings) -> Predictive:
    """Gal and Ghahramani 2016, a twentieth of the nodes dropped, with the paper's noise."""
    dropout = MCDropout(0.05, settings.schedule, n_gradient_samples=1)
    return infer(dropout, task, settings)


def _defaults(task: Task, settings: Settings) -> Predictive:
    """`AnchoredRegressor` with nothing set."""
    del settings
    model = AnchoredRegressor(random_state=1000 * task.seed + task.split)
    return model.fit(task.x, task.y).predict_dist(task.x_test)


def _outsider(function, task: Task, settings: Settings) -> Predictive:
    del settings
    return function(task.x, task.y, task.x_test, 1000 * task.seed + task.split)


DEFAULTS = "anchored-defaults"
OUTSIDERS = {
    "ngboost": Method(partial(_outsider, outsiders.ngboost)),
    "catboost": Method(partial(_outsider, outsiders.catboost), side_by_side=False),
}


def _methods(training: Training) -> dict[str, Method]:
    """Every method of the paper, and the outsiders."""
    return {
        "anchored-5x50": Method(partial(_ensemble, training, "anchored", 5)),
        "anchored-10x50": Method(partial(_ensemble, training, "anchored", 10)),
        "anchored-5x50-50": Method(partial(_two_layers, training)),
        "single-50": Method(partial(_single, training)),
        "relu-gp": Method(partial(_exact, "relu"), side_by_side=False),
        "erf-gp": Method(partial(_exact, "erf"), side_by_side=False),
        "deep-ensemble": Method(_deep),
        "mc-dropout": Method(_dropout),
        "unconstrained": Method(partial(_ensemble, training, "unconstrained", 5)),
        "regularised": Method(partial(_ensemble, training, "regularised", 5)),
        **OUTSIDERS,
    }


PAPER = _methods(_as_published)
METHODS: dict[str, dict[str, Method]] = {
    "paper": PAPER,
    "tuned": _methods(_as_tuned),
    "defaults": {DEFAULTS: Method(_defaults, side_by_side=False), **OUTSIDERS},
}
