"""Members that continue from where they are, on more rows.

Anchors, score noise and the rows of a fold member stay as they were, because they follow from the
key, the members' numbers and the rows' numbers. The penalty is divided by the new number of rows.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored.core.closed_form import is_quadratic, with_best_last_layer
from anchored.core.ensembles import Ensemble, init_ensemble
from anchored.core.loss import Folds
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.training import OnCheck, Schedule, TrainInfo, train
from anchored.core.tree import put_members, take_members
from anchored.errors import Status
from anchored.typing import Array, Likelihood

_LOOK_STEPS = 200  # between two looks at the objective, which cost more than a few steps do


def go_on(
    key: Array,
    ensemble: Ensemble,
    prior: Prior,
    likelihood: Likelihood,
    data: Data,
    *,
    method: str,
    schedule: Schedule,
    numbers: Sequence[int] | None = None,
    folds: Folds | None = None,
    on_check: OnCheck | None = None,
) -> Ensemble:
    """The ensemble after more training, on ``data`` that may have more rows than before.

    ``key``, ``prior``, ``method``, ``folds`` and the ``numbers`` of the members (by default their
    own) are those that it was trained with. New rows come after the old ones. A member that
    diverges stays as it was. Where the last layer has a closed form, it is solved at the end. If
    the time is limited, the objective and the clock are checked more often.
    """
    kept = list(ensemble.member_ids)
    numbers = kept if numbers is None else [numbers[j] for j in kept]
    if folds is not None:
        folds = folds._replace(of_member=np.asarray(folds.of_member)[kept])
    state = init_ensemble(
        key,
        ensemble.network,
        prior,
        likelihood,
        data,
        method=method,
        members=numbers,
        schedule=schedule,
        start=ensemble.params,
        folds=folds,
    )
    look_steps = None if np.isfinite(schedule.max_seconds) else _LOOK_STEPS
    state, info = train(state, data, schedule, on_check, look_steps=look_steps)
    if is_quadratic(state, prior, data):
        state = with_best_last_layer(state, prior, data)
    diverged, params = np.flatnonzero(info.status == Status.DIVERGED), state.params
    if len(diverged):
        params = put_members(params, diverged, take_members(ensemble.params, diverged))
    return dataclasses.replace(
        ensemble, likelihood=likelihood, params=params, info=_joined(ensemble, info)
    )


def _joined(ensemble: Ensemble, later: TrainInfo) -> TrainInfo:
    """What is known of all members, dropped ones included, after more training of those kept."""
    before, kept = ensemble.info, list(ensemble.member_ids)
    status: Any = np.array(before.status)
    # Few steps can show that a member has settled, not that one that had settled no longer has.
    status[kept] = np.where(later.status == Status.CONVERGED, later.status, status[kept])
    objective = np.tile(np.asarray(before.objective[-1], np.float64), (len(later.objective), 1))
    objective[:, kept] = later.objective
    return TrainInfo(status, objective, before.steps[-1] + later.steps)
