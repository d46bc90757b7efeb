"""What went wrong in training, as warnings and exceptions that name the repair."""

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from anchored.core.ensembles import Ensemble
from anchored.core.loss import Folds
from anchored.core.training import Schedule
from anchored.errors import DroppedMemberWarning, EnsembleError, HealthWarning, Status


def report_fold_failures(others: Ensemble, folds: Folds, what: str, used: bool) -> None:
    """Warn of networks that diverged among those that check the error bars."""
    n_lost = len(folds.of_member) - others.n_members
    if n_lost and used:
        warnings.warn(
            f"{n_lost} of the {len(folds.of_member)} networks trained on parts of the rows "
            f"diverged twice; {what} from the others. With a lower "
            "`learning_rate`, all may survive.",
            DroppedMemberWarning,
            stacklevel=4,
        )
    elif n_lost:
        warnings.warn(
            f"{n_lost} of the {len(folds.of_member)} networks trained on parts of the rows "
            f"diverged twice. Too few remain to predict held-out rows, so {what} from the "
            "training rows alone. Lower `learning_rate`, or check the data for extreme values.",
            HealthWarning,
            stacklevel=4,
        )


def report_failures(
    ensemble: Ensemble,
    schedule: Schedule,
    may_be_short: bool,
    others: Ensemble | None = None,
    numbers: Sequence[int] = (),
) -> None:
    """Warn of members that diverged and, if the schedule ``may_be_short``, were still improving.

    If the ensemble continued from ``others`` (its members with these ``numbers``), the ``others``
    are the ones that took the whole ``schedule``.
    """
    judged = ensemble if others is None else others
    n_trained = len(ensemble.info.status)
    if ensemble.n_members < min(2, n_trained):
        raise EnsembleError(
            f"{len(ensemble.dropped)} of {n_trained} members diverged even at a tenth of the "
            "learning rate. Lower `learning_rate`, or check the data for extreme values."
        )
    if ensemble.dropped:
        warnings.warn(
            f"Members {list(ensemble.dropped)} diverged twice and were dropped; "
            f"{ensemble.n_members} of {n_trained} remain. With a lower `learning_rate`, all may "
            "survive.",
            DroppedMemberWarning,
            stacklevel=4,
        )
    late = [j for j in judged.member_ids if judged.info.status[j] == Status.STEP_LIMIT]
    if others is not None:
        late = sorted(numbers[j] for j in late)
    if late and may_be_short:
        more = f"Raise `epochs` (it was {schedule.epochs:,})"
        if np.isfinite(schedule.max_seconds):
            more = f"Raise `max_seconds` (it was {schedule.max_seconds:g})"
        warnings.warn(
            f"Members {late} were still improving when training stopped after "
            f"{judged.info.steps[-1]:,} steps. {more} for a closer fit; predictions are usable.",
            ConvergenceWarning,
            stacklevel=4,
        )
