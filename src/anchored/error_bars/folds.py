"""Rows held out of some members, and what those members predict for them.

A member of a fold is one of the ensemble's members, trained without the rows of the fold. It has
the same anchor, noise and initial draw.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anchored.core.ensembles import Ensemble, fit_ensemble
from anchored.core.loss import Folds
from anchored.core.rows import HostRows
from anchored.core.tree import take_members
from anchored.typing import Array, Params

LEAST_ROWS = 10  # below which none are held out
_MOST_ROWS = 10_000  # held out of many
_SHARE = 5  # of many rows, one in five is held out


class HeldOut(NamedTuple):
    """Rows, and outputs [member, row, out] of members that did not see them."""

    rows: np.ndarray
    outputs: np.ndarray


def plan_folds(
    n_rows: int,
    groups: np.ndarray | None,
    n_folds: int,
    n_each: int,
    n_many: int,
    many_rows: int,
    labels: np.ndarray | None = None,
) -> Folds | None:
    """Folds that hold out every row once, with ``n_each`` members each; of many rows, one fold of a
    fifth, with ``n_many`` members.

    Rows must come in random order. A group is held out as a whole; if there is only one group, no
    row is held out. The rows of each label in ``labels`` [row] are spread evenly over the folds,
    unless there are groups.
    """
    if n_rows < LEAST_ROWS:
        return None
    if groups is None and n_rows >= many_rows:
        return _of_many(n_rows, np.arange(min(n_rows // _SHARE, _MOST_ROWS)), n_many)
    unit = np.arange(n_rows)
    if groups is not None:
        unit = np.unique(groups, return_inverse=True)[1]
    elif labels is not None:  # rows of one label are in folds one after another
        unit[np.argsort(labels, kind="stable")] = np.arange(n_rows)
    n_folds = min(n_folds, int(unit.max()) + 1)
    if n_folds < 2:
        return None
    if n_rows < many_rows:
        return Folds(unit % n_folds, np.repeat(np.arange(n_folds), n_each))
    return _of_many(n_rows, np.flatnonzero(unit % min(_SHARE, n_folds) == 0)[:_MOST_ROWS], n_many)


def _of_many(n_rows: int, held: np.ndarray, n_members: int) -> Folds:
    """One fold of the rows ``held``, in as little memory as many rows call for."""
    of_row = np.full(n_rows, Folds.IN_NONE, np.int8)
    of_row[held] = 0
    return Folds(of_row, np.zeros(n_members, int))


def without_rows(key: Array, model: Any, members: Sequence[int], folds: Folds, **how) -> Ensemble:
    """The ensemble's ``members`` (numbers) as they would be without the rows of ``folds``.

    ``key`` and ``model`` (network, prior, likelihood, data) are those that they were trained with;
    ``how`` are other arguments of `fit_ensemble`.
    """
    numbers = numbers_in_folds(members, folds)
    return fit_ensemble(key, *model, members=numbers, folds=folds, **how)


def numbers_in_folds(members: Sequence[int], folds: Folds) -> list[int]:
    """For each member of ``folds``, the one of the ensemble's ``members`` that it repeats.

    Members come in pairs of opposite noise. A fold takes one member of each pair before it takes a
    second one.
    """
    order = sorted(members, key=lambda j: (j % 2, j))
    of_member = folds.of_member
    nth = [int(np.sum(of_member[:i] == of_member[i])) for i in range(len(of_member))]
    return [order[n % len(order)] for n in nth]


def starts(others: Ensemble, members: Sequence[int], folds: Folds) -> Params | None:
    """Parameters [member, ...] of ``members`` trained without the rows of the only fold.

    None if one of them diverged.
    """
    if others.dropped:
        return None
    return take_members(others.params, np.argsort(numbers_in_folds(members, folds)))


def extended(folds: Folds, n_new: int, groups: np.ndarray | None = None) -> Folds:
    """The folds with ``n_new`` more rows; ``groups`` [row] are of all rows, old and new.

    New rows are spread over the folds as the old ones were. New rows of a known group join the fold
    of that group.
    """
    n_old, n_folds = len(folds.of_row), int(np.max(folds.of_member)) + 1
    unit = n_old + np.arange(n_new)
    if groups is not None:
        unit = groups[n_old:]
    if n_folds > 1:
        of_new = unit % n_folds
    else:
        spare = max(0, _MOST_ROWS - int(np.sum(folds.of_row == 0)))
        held = np.flatnonzero(unit % _SHARE == 0)[:spare]
        of_new = np.full(n_new, Folds.IN_NONE)
        of_new[held] = 0
    if groups is not None:
        before = dict(zip(groups[:n_old].tolist(), folds.of_row.tolist(), strict=True))
        of_new = np.array([before.get(g, f) for g, f in zip(unit.tolist(), of_new, strict=True)])
    return folds._replace(of_row=np.concatenate([folds.of_row, of_new.astype(int)]))


def predict_held_out(
    others: Ensemble, folds: Folds, x: np.ndarray | HostRows, least: int
) -> HeldOut | None:
    """What the members of each fold predict for its rows.

    Members that diverged are missing from ``others``; folds left with fewer than ``least`` are
    passed over, and all others speak with as many members as the smallest. None if none is left.
    """
    fold_of = folds.of_member[np.array(others.member_ids, int)]
    members = [np.flatnonzero(fold_of == fold) for fold in np.unique(folds.of_member)]
    enough = [index for index in members if len(index) >= least]
    if not enough:
        return None
    n_each = min(len(index) for index in enough)
    rows, outputs = [], []
    for index in enough:
        here = np.flatnonzero(folds.of_row == fold_of[index[0]])
        seen = x.take(here) if isinstance(x, HostRows) else x[here]
        rows.append(here)
        outputs.append(others.take(index[:n_each]).outputs(seen))
    return HeldOut(np.concatenate(rows), np.concatenate(outputs, axis=1).astype(np.float64))
