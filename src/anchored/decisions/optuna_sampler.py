"""An Optuna sampler: `study = optuna.create_study(sampler=AnchoredSampler(seed=0))`.

Parameters that all finished trials have are chosen together by an `Optimiser`. Those that only
some trials have (define-by-run spaces), and those of the first trials, are drawn at random.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from anchored.decisions.optimise import Optimiser
from anchored.decisions.space import Category, Dimension, Float, Integer
from anchored.decisions.surrogate import Surrogate

try:
    import optuna
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "`AnchoredSampler` needs Optuna: pip install 'anchored[tune]'"
    ) from error

_CONSTRAINTS = "anchored:constraints"
_States = optuna.trial.TrialState


class AnchoredSampler(optuna.samplers.BaseSampler):
    """Suggests parameters by expected improvement, and by Thompson sampling for parallel trials.

    Parameters
    ----------
    n_startup_trials : trials at random before a model is fitted.
    surrogate : as for `Optimiser`.
    constraints_func : a function of a finished trial that returns numbers, none of which may be
        above 0. They are
        modelled.
    seed : of all that is random.
    """

    def __init__(
        self,
        *,
        n_startup_trials: int = 10,
        surrogate: str | Surrogate = "twin",
        constraints_func: Callable[[Any], Sequence[float]] | None = None,
        seed: int = 0,
    ):
        self._n_startup, self._surrogate, self._seed = n_startup_trials, surrogate, seed
        self._constraints_func = constraints_func
        self._random = optuna.samplers.RandomSampler(seed=seed)
        self._search_space = optuna.search_space.IntersectionSearchSpace()

    def reseed_rng(self) -> None:
        self._random.reseed_rng()

    def infer_relative_search_space(self, study, trial) -> dict[str, Any]:
        found = self._search_space.calculate(study)
        return {name: d for name, d in found.items() if not d.single()}

    def sample_relative(self, study, trial, search_space) -> dict[str, Any]:
        if len(study.directions) > 1:
            raise ValueError(
                f"`study` has {len(study.directions)} objectives and AnchoredSampler takes one: "
                "combine them into one number."
            )
        finished = study.get_trials(deepcopy=False, states=(_States.COMPLETE, _States.FAIL))
        told = [t for t in finished if _has(t, search_space)]
        complete = sum(t.state == _States.COMPLETE for t in told)
        if not search_space or complete < max(self._n_startup, 2):
            return {}
        limits = [t.system_attrs.get(_CONSTRAINTS) for t in told]
        n_constraints = max((len(c) for c in limits if c is not None), default=0)
        optimiser = Optimiser(
            {name: _dimension(d) for name, d in search_space.items()},
            maximise=study.direction == optuna.study.StudyDirection.MAXIMIZE,
            surrogate=self._surrogate,
            n_initial=2,
            n_constraints=n_constraints,
            random_state=self._seed + trial.number,
        )
        for one, limit in zip(told, limits, strict=True):
            y = one.value if one.state == _States.COMPLETE else math.nan
            if n_constraints == 0 or limit is not None:
                optimiser.tell(
                    _point(one.params, search_space), y, limit if n_constraints else None
                )
        running = study.get_trials(deepcopy=False, states=(_States.RUNNING,))
        open_ones = [t for t in running if t.number != trial.number and _has(t, search_space)]
        optimiser.pending = [_point(t.params, search_space) for t in open_ones]
        (point,) = optimiser.ask()
        return {name: _value(point[name], d) for name, d in search_space.items()}

    def sample_independent(self, study, trial, param_name, param_distribution) -> Any:
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study, trial, state, values) -> None:
        if self._constraints_func is not None and state == _States.COMPLETE:
            found = [float(c) for c in self._constraints_func(trial)]
            study._storage.set_trial_system_attr(trial._trial_id, _CONSTRAINTS, found)


def _has(trial, search_space) -> bool:
    return set(search_space) <= set(trial.params)


def _dimension(distribution: Any) -> Dimension:
    """Numbers with a step are counted in steps."""
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return Category(tuple(range(len(distribution.choices))))  # choices may be any objects
    low, high, step = distribution.low, distribution.high, distribution.step
    if isinstance(distribution, optuna.distributions.IntDistribution) and step == 1:
        return Integer(low, high, distribution.log)
    if step is not None:
        return Integer(0, round((high - low) / step))
    return Float(low, high, distribution.log)


def _counted(distribution: Any) -> bool:
    categorical = isinstance(distribution, optuna.distributions.CategoricalDistribution)
    whole = isinstance(distribution, optuna.distributions.IntDistribution)
    return not categorical and distribution.step not in ((None, 1) if whole else (None,))


def _point(params: dict[str, Any], search_space) -> dict[str, Any]:
    point = {}
    for name, distribution in search_space.items():
        value = params[name]
        if isinstance(distribution, optuna.distributions.CategoricalDistribution):
            value = int(distribution.to_internal_repr(value))
        elif _counted(distribution):
            value = round((value - distribution.low) / distribution.step)
        point[name] = value
    return point


def _value(value: Any, distribution: Any) -> Any:
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return distribution.choices[value]
    if _counted(distribution):
        return distribution.low + value * distribution.step
    return value
