"""Chooses a model for classes by short trials, judged on held-out rows.

The evidence of a regression is exact. The evidence for classes is an approximation on few rows. It
tends to choose too wide a prior, and it may not show that another number of layers helps. So
members of each candidate are trained for half of the usual steps without a fifth of the rows, and
those rows decide. The first candidate has the prior of highest evidence. Another candidate must be
clearly better, because held-out rows judge only probabilities, and under a tight prior members are
too similar. The fit then takes as many steps as a trial. With more steps, a wide prior may fit more
closely than the trial has shown to be useful.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from anchored.core.checkpoints import Checkpoint
from anchored.core.loss import Folds
from anchored.core.training import OnCheck, Schedule, decay_over
from anchored.error_bars.calibration import fit_temperature, log_losses
from anchored.error_bars.folds import plan_folds, predict_held_out, without_rows
from anchored.estimators.rows import Rows
from anchored.prediction.special import softmax
from anchored.typing import Array

LEAST_ROWS = 500  # fewer cannot decide
TIGHTER = 0.2  # share of the prior variance of highest evidence that is tried beside it
_N_MEMBERS = 5
_SHORTER = 2  # times fewer steps than usual; at three times a second layer is not seen to pay
STEPS = 1 / _SHORTER  # share of the usual steps: what is fitted is what the trials have judged
_STANDARD_ERRORS = 1.0  # by which another candidate must be better


class Candidate(NamedTuple):
    """A candidate model, and the rows in the form that it takes."""

    model: Any  # network, prior, likelihood, data
    rows: Rows
    schedule: Schedule
    widths: tuple[int, ...] | None  # of its hidden layers; None for the usual ones
    share: float  # of the prior variance of highest evidence


def plan(rows: Rows) -> Folds | None:
    """The rows that decide; None if there are too few, or if all are of one group."""
    if len(rows.y) < LEAST_ROWS:
        return None
    n_folds = n_each = 2  # of fewer rows, of which there are none
    units = len(rows.y), rows.groups
    return plan_folds(*units, n_folds, n_each, _N_MEMBERS, LEAST_ROWS, labels=rows.y[:, 0])


def best(
    key: Array,
    first: Candidate,
    others: Iterable[Candidate],
    folds: Folds,
    method: str,
    on_check: OnCheck | None = None,
    place: Callable[[str], Checkpoint | None] = lambda name: None,
) -> Candidate:
    """The first candidate, or a later one that is clearly better than the best one before it.

    The rows of ``folds`` decide; ``place`` says where a training of this name is kept.
    """
    how = {"method": method, "on_check": on_check}
    chosen, losses = first, _losses(key, first, folds, **how, checkpoint=place("trial-0"))
    for i, other in enumerate(others, 1):
        found = _losses(key, other, folds, **how, checkpoint=place(f"trial-{i}"))
        if found is not None and (losses is None or _clearly_less(found, losses, folds, other)):
            chosen, losses = other, found
    return chosen


def _losses(key: Array, candidate: Candidate, folds: Folds, **how: Any) -> np.ndarray | None:
    """The log loss of each row that is held out, at the temperature that suits all; NaN of others.

    None if too many members diverged.
    """
    rows, schedule = candidate.rows, shorter(candidate.schedule, len(candidate.rows.y))
    key = jax.random.clone(key)  # the same members for every candidate
    others = without_rows(key, candidate.model, range(_N_MEMBERS), folds, schedule=schedule, **how)
    held = predict_held_out(others, folds, rows.x, least=1)
    if held is None or len(held.rows) < np.sum(folds.of_row != Folds.IN_NONE):
        return None
    labels, weight = rows.y[held.rows, 0].astype(int), rows.weight[held.rows]
    probabilities = softmax(held.outputs).mean(axis=0)
    temperature = fit_temperature(probabilities, labels, weight)
    losses = np.full(len(rows.y), np.nan)
    losses[held.rows] = log_losses(probabilities, labels, temperature)
    return losses


def _clearly_less(found: np.ndarray, losses: np.ndarray, folds: Folds, other: Candidate) -> bool:
    """Whether losses are less by more than a standard error of their difference."""
    held = folds.of_row != Folds.IN_NONE
    gain, weight = (losses - found)[held], other.rows.weight[held]
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.average(np.square(gain - mean), weights=weight) / weight.sum())
    return bool(mean > _STANDARD_ERRORS * error)


def shorter(schedule: Schedule, n_rows: int) -> Schedule:
    """A schedule of half the steps whose learning rate ends at the same low value."""
    epochs = -(-schedule.epochs // _SHORTER)
    n_steps = epochs * max(1, n_rows // schedule.batch_size)
    decay = decay_over(n_steps) if schedule.decay_rate < 1 else schedule.decay_rate
    seconds = schedule.max_seconds / _SHORTER
    return dataclasses.replace(schedule, epochs=epochs, decay_rate=decay, max_seconds=seconds)
