"""Methods that are given the true prior and noise, and estimators that are given neither."""

import dataclasses
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from anchored import tuning
from anchored.baselines import NUTS, EnsembleOf, Inference, InfiniteWidthGP, Laplace, MCDropout
from anchored.core.training import Schedule
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.paper.tables.coverage_problems import Case, Posed
from anchored.prediction.predictive import Predictive


@dataclasses.dataclass(frozen=True)
class MethodSettings:
    """How the methods are run; ensembles, dropout and Laplace's network train as estimators do.

    Attributes
    ----------
    n_steps : of that training, at most.
    deep_steps, deep_rate : of Deep Ensembles, which have no prior and are stopped early instead.
    dropout_rate : share of hidden nodes left out.
    nuts_chains, nuts_warmup, nuts_samples : of NUTS; draws are for each chain.
    max_seconds : of an estimator; None for no limit.
    """

    n_members: int = 10
    n_steps: int = 10_000
    deep_steps: int = 1_000
    deep_rate: float = 0.01
    dropout_rate: float = 0.1
    nuts_chains: int = 4
    nuts_warmup: int = 300
    nuts_samples: int = 300
    max_seconds: float | None = None

    def schedule(self, n_rows: int) -> Schedule:
        usual = tuning.default_schedule(n_rows)
        size, rate = usual.batch_size, usual.learning_rate
        schedule = Schedule.of_steps(self.n_steps, n_rows, size, rate, usual.tolerance)
        return dataclasses.replace(schedule, in_prior_units=usual.in_prior_units)

    def deep_schedule(self, n_rows: int) -> Schedule:
        usual = tuning.default_schedule(n_rows)
        return Schedule.of_steps(self.deep_steps, n_rows, usual.batch_size, self.deep_rate)


class Answer(NamedTuple):
    """A predictive at the test inputs, and further facts about it."""

    predictive: Predictive
    more: dict


Fit = Callable[[MethodSettings, Posed], Answer]


class Method(NamedTuple):
    """How a method answers a problem that it ``takes``.

    Attributes
    ----------
    uses : names of the settings it depends on.
    cost : rough seconds of a problem of 100 rows.
    side_by_side : it leaves cores idle, so several problems are fitted at a time.
    """

    words: str
    fit: Fit
    uses: tuple[str, ...]
    cost: float
    takes: Callable[[Case], bool] = lambda case: True
    side_by_side: bool = True


def _infer(
    make: Callable[[MethodSettings, int], Inference], s: MethodSettings, posed: Posed
) -> Answer:
    method = make(s, posed.problem.data.n_rows)
    dist = method(jax.random.key(posed.seed), posed.problem)
    return Answer(dist if dist.family == "categorical" else dist.output(0), {})


def _ensemble(name: str, s: MethodSettings, n_rows: int) -> Inference:
    schedule = s.deep_schedule(n_rows) if name == "deep" else s.schedule(n_rows)
    return EnsembleOf(name, s.n_members, schedule, prior_start=False)


def _dropout(s: MethodSettings, n_rows: int) -> Inference:
    return MCDropout(s.dropout_rate, s.schedule(n_rows), n_gradient_samples=1)


def _nuts(s: MethodSettings, posed: Posed) -> Answer:
    """Draws of all chains, mixed or not: R-hat goes into the record."""
    chains = NUTS(s.nuts_chains, s.nuts_warmup, s.nuts_samples).sample(
        jax.random.key(posed.seed), posed.problem
    )
    dist = chains.predictive
    dist = dist if dist.family == "categorical" else dist.output(0)
    return Answer(dist, {"rhat": chains.rhat})


def _estimator(choice: dict, s: MethodSettings, posed: Posed) -> Answer:
    """With nothing set but ``choice``; its warnings are for those who can act on them."""
    rows = posed.problem.data
    classes = posed.problem.likelihood.family == "categorical"
    make = AnchoredClassifier if classes else AnchoredRegressor
    model = make(random_state=posed.seed, max_seconds=s.max_seconds, **choice)
    n = rows.n_rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.asarray(rows.x[:n], float), np.asarray(rows.y[:n, 0], float))
    return Answer(model.predict_dist(posed.problem.x), {})


def _is_regression(case: Case) -> bool:
    return not case.has_classes


def _suits_chains(case: Case) -> bool:
    """Few parameters and rows, and noise that does not make the posterior a needle."""
    return case.dimension <= 3 and case.n_rows <= 100 and case.kind != "small"


GP, CHAINS = "gp", "nuts"
_TRAINED = ("n_members", "n_steps")
METHODS = {
    GP: Method(
        "exact GP", partial(_infer, lambda s, n: InfiniteWidthGP()), (), 0.1, _is_regression
    ),
    "estimator": Method(
        "estimator, defaults", partial(_estimator, {}), ("max_seconds",), 4.0, side_by_side=False
    ),
    "rms": Method("rms", partial(_infer, partial(_ensemble, "rms")), _TRAINED, 1.0),
    "anchored": Method("anchored", partial(_infer, partial(_ensemble, "anchored")), _TRAINED, 1.0),
    "estimator-anchored": Method(
        "estimator, anchored",
        partial(_estimator, {"method": "anchored"}),
        ("max_seconds",),
        4.0,
        side_by_side=False,
    ),
    CHAINS: Method(
        "NUTS",
        _nuts,
        ("nuts_chains", "nuts_warmup", "nuts_samples"),
        8.0,
        _suits_chains,
        side_by_side=False,
    ),
    "laplace": Method(
        "Laplace",
        partial(_infer, lambda s, n: Laplace(schedule=s.schedule(n))),
        ("n_steps",),
        0.5,
    ),
    "unconstrained": Method(
        "unconstrained", partial(_infer, partial(_ensemble, "unconstrained")), _TRAINED, 1.0
    ),
    "deep": Method(
        "deep",
        partial(_infer, partial(_ensemble, "deep")),
        ("n_members", "deep_steps", "deep_rate"),
        0.2,
    ),
    "dropout": Method("dropout", partial(_infer, _dropout), ("n_steps", "dropout_rate"), 0.5),
}


def settings_of(s: MethodSettings, name: str, case: Case) -> dict:
    """Everything that the answers of a method depend on; for the default estimator, its `method`
    too.
    """
    used = {field: getattr(s, field) for field in METHODS[name].uses}
    if name == "estimator":
        used["method"] = (AnchoredClassifier() if case.has_classes else AnchoredRegressor()).method
    return used
