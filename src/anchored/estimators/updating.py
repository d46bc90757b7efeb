"""Rows that come later: members continue from where they are.

An update standardises the new rows as the old ones were, appends them, and trains the members, and
those of the folds, for some more steps on all rows. The noise, the temperature and the correction
of quantiles are then learned again from held-out rows, new ones among them; the map of where the
noise is larger stays as it was. A fit to all rows chooses the prior, the noise of training and the
encoding again if there is a reason, such as 1.5 times as many rows as at the last choice, levels
that would be the first rare ones, or new rows that are less likely than held-out rows were.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_consistent_length, check_X_y
from sklearn.utils.validation import _check_sample_weight, validate_data

from anchored.core.continuing import go_on
from anchored.core.loss import Folds
from anchored.core.records import layout_of
from anchored.core.rows import Data
from anchored.core.training import Schedule
from anchored.error_bars.folds import extended, numbers_in_folds
from anchored.errors import DroppedMemberWarning, Status
from anchored.estimators.inputs import encoded_inputs
from anchored.estimators.kept import MOST_CELLS, Fit, Kept, Known, Prepared, Scores, Update
from anchored.estimators.progress import progress_bar
from anchored.estimators.rows import Rows
from anchored.estimators.validation import check_range, check_tokens
from anchored.tables.frames import as_table, is_frame
from anchored.tables.streams import Streamed

GROWTH = 1.5  # times the rows of the last tuning call for another
LEAST_LEFT = 0.5  # share of the earlier rows among those of a warm start
DRIFT_ROWS = 20  # new rows that can tell of a drift
DRIFT_NATS = 0.1  # by which new rows must be less likely ...
DRIFT_ERRORS = 4.0  # ... and standard errors
STEPS_SHARE = 1.0  # steps of an update, as a share of a fit's, times the share of new rows ...
LEAST_STEPS = 0.05  # ... but at least this share of a fit's
_IGNORED = ("verbose", "max_seconds", "warm_start", "random_state")  # settings that may change


def fit(estimator: Any, X, y, sample_weight=None, groups=None):
    """A fit, which continues an earlier one if ``warm_start`` is set."""
    kept = estimator.__dict__.get("_kept")
    if estimator.warm_start and kept is not None and _alike(estimator, kept, X, y):
        return _warm(estimator, kept, X, y, sample_weight, groups)
    return _anew(estimator, X, y, sample_weight, groups, grows=bool(estimator.warm_start))


def partial_fit(estimator: Any, X, y, sample_weight=None, groups=None, classes=None):
    """Add rows to those that were fitted."""
    if not hasattr(estimator, "model_"):
        return _anew(estimator, X, y, sample_weight, groups, grows=True, classes=classes)
    kept = estimator.__dict__.get("_kept")
    if kept is None:
        raise ValueError(_no_rows(estimator))
    if classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"`classes` must be those of the first call, {estimator.classes_.tolist()}; got "
            f"{np.unique(classes).tolist()}."
        )
    new, labels = _new_rows(estimator, kept, X, y, sample_weight, groups)
    known = kept.known.joined(Known.of(X, y, sample_weight, groups))
    kept, why = _judged(estimator, kept, new)
    if known.n_cells > MOST_CELLS:
        known, why = known.thinned(known.n_rows // 2), "more rows than are kept"
    if why:
        return _refit(estimator, known, why, len(new.y))
    prepared = _appended(kept.prepared, new.rows)
    return _went_on(estimator, kept, prepared, known, labels, len(new.rows.y))


def _no_rows(estimator: Any) -> str:
    if getattr(estimator, "augment", None) is not None:
        return "`augment` changes rows as they are read; rows cannot be added to such a fit."
    return (
        f"This model has kept no training rows to add to: it came from a file, its rows are a "
        f"memory map, or they had more than {MOST_CELLS:,} cells. Fit it in this process, with "
        "`partial_fit` or `warm_start=True` from the first rows on."
    )


# A fit from the beginning


def _anew(estimator: Any, X, y, sample_weight, groups, grows: bool, classes=None):
    stay = isinstance(X, (np.memmap, Streamed)) or estimator.augment is not None
    estimator._grows = grows and not stay
    more = {} if classes is None else {"classes": classes}
    found: Fit = estimator._fit(X, y, sample_weight, groups, **more)
    estimator._kept = None
    _note(estimator, found.ensemble, len(np.asarray(y)))
    if stay:
        return estimator
    known = Known.of(X, y, sample_weight, groups)
    if known.n_cells <= MOST_CELLS or grows:
        labels = None if groups is None else np.unique(np.asarray(groups))
        n_rows = len(found.prepared.rows.y)
        estimator._kept = Kept(
            known,
            found.prepared,
            found.ensemble,
            found.others,
            labels,
            _settings(estimator),
            n_rows,
            found.scores,
            Scores(),
        )
    return estimator


def _refit(estimator: Any, known: Known, why: str, n_new: int):
    classes = getattr(estimator, "classes_", None)
    _anew(estimator, *known, grows=True, classes=classes)
    _note(estimator, estimator._kept.ensemble, n_new, why)
    return estimator


def _note(estimator: Any, ensemble, n_new: int, why: str = "", before: int = 0) -> None:
    n_steps = int(ensemble.info.steps[-1]) - before
    estimator.update_ = Update(n_new, estimator.model_.n_rows, n_steps, why)


def _settings(estimator: Any) -> dict[str, Any]:
    given = estimator.get_params(deep=False)
    return {name: value for name, value in given.items() if name not in _IGNORED}


def _same_settings(estimator: Any, kept: Kept) -> bool:
    now = _settings(estimator)
    return all(_same(now[name], value) for name, value in kept.settings.items())


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(np.all(np.asarray(a == b)))


# New rows


class _New(NamedTuple):
    rows: Rows
    y: np.ndarray  # as it was given


def _new_rows(estimator, kept: Kept, X, y, sample_weight, groups) -> tuple[_New, Any]:
    """New rows as members are trained on them, and the labels of all groups."""
    x, y, weight = _checked(estimator, X, y, sample_weight)
    prepared = kept.prepared
    counted = weight > 0
    x, y, weight = x[counted], y[counted], weight[counted]
    targets = estimator._new_targets(prepared, y)
    labels, numbers = kept.labels, None
    if groups is not None and labels is not None:
        check_consistent_length(counted, groups)
        given = np.asarray(groups)[counted]
        labels = np.concatenate([labels, np.setdiff1d(given, labels)])
        order = np.argsort(labels, kind="stable")
        numbers = order[np.searchsorted(labels, given, sorter=order)]
    z = prepared.rows.standardiser.forward(x)
    rows = Rows(check_range(z), targets, weight, numbers, prepared.rows.standardiser)
    return _New(rows, y), labels


def _checked(estimator, X, y, sample_weight) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, targets and weights of new rows, as those of a fit are checked."""
    if isinstance(X, np.memmap):
        raise ValueError("`X` is a memory map, and only arrays can be added; give an array.")
    model = estimator.model_
    layout = layout_of(model.members.network)
    X = X if layout is None else layout.pack(X)
    rules: dict[str, Any] = estimator._x_rules() | estimator._y_rules
    x: Any
    if model.encoder is None:
        x, y = validate_data(estimator, X, y, reset=False, **rules)  # pyright: ignore
    else:
        x = encoded_inputs(estimator, X, model.encoder, model.columns, training=True)
        x, y = check_X_y(x, y, estimator=estimator, **rules)
    if model.x_mean is None:
        check_tokens(estimator.network, x)
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    return x, np.asarray(y), weight


# Whether it is time to tune again


def _judged(estimator, kept: Kept, new: _New) -> tuple[Kept, str]:
    """With the scores of the new rows, and why all rows are to be fitted anew, if they are."""
    n_rows = len(kept.prepared.rows.y) + len(new.rows.y)
    if not _same_settings(estimator, kept):
        return kept, "settings changed"
    if n_rows >= GROWTH * kept.n_tuned:
        return kept, "rows grew"
    if _beyond_scale(kept.prepared.targets, new.y):
        return kept, "targets beyond the scale"
    if _has_new_levels(kept.prepared, new.rows):
        return kept, "new levels"
    if not len(new.y) or kept.held_out is None:
        return kept, ""
    dist = estimator._predictive(new.rows.x)[1]
    scores = Scores.of(estimator._new_scores(dist, new.y))
    since, held_out = kept.since.joined(scores), kept.held_out
    kept = Kept(**{**vars(kept), "since": since})
    return kept, "drift" if _drifted(held_out, since) else ""


def _drifted(held_out: Scores, since: Scores) -> bool:
    """Whether new rows are less likely than held-out rows were, by more than chance."""
    if since.n < DRIFT_ROWS:
        return False
    fall = held_out.mean - since.mean
    var = max(held_out.var, since.var)
    error = np.sqrt(var / since.n + held_out.var / held_out.n)
    return bool(fall > max(DRIFT_NATS, DRIFT_ERRORS * error))


def _beyond_scale(targets: Any, y: np.ndarray) -> bool:
    warp = getattr(targets, "warp", None)
    return warp is not None and bool(np.any((y < warp.least) | (y > warp.most)))


def _has_new_levels(prepared: Prepared, new: Rows) -> bool:
    """Whether rows would be the first to train the feature of levels that no row has.

    New levels count as rare ones, but not every column had some.
    """
    encoder = prepared.inputs.encoder
    if encoder is None:
        return False
    places = np.flatnonzero(encoder.new)
    old, came = prepared.rows.x[:, places], new.x[:, places]
    return bool(np.any((came != old[0]) & (np.ptp(old, axis=0) == 0)))


# Going on


def _appended(prepared: Prepared, new: Rows) -> Prepared:
    """With new rows behind the others."""
    old = prepared.rows
    groups = None
    if old.groups is not None and new.groups is not None:
        groups = np.concatenate([old.groups, new.groups])
    x, y, weight = (np.concatenate(pair) for pair in zip(old[:3], new[:3], strict=True))
    return _with_rows(prepared, Rows(x, y, weight, groups, old.standardiser))


def _with_rows(prepared: Prepared, rows: Rows) -> Prepared:
    """With the same rows first, at other weights maybe, and others behind them."""
    folds, n_new = prepared.folds, len(rows.y) - len(prepared.rows.y)
    if folds is not None and n_new:
        folds = extended(folds, n_new, rows.groups)
    data = Data.make(rows.x, rows.y, rows.weight)
    data = data.with_capacity(max(len(prepared.model.data.weight), len(data.weight)))
    model = prepared.model._replace(data=data)
    return prepared._replace(rows=rows, model=model, folds=folds)


def _went_on(estimator, kept: Kept, prepared: Prepared, known: Known, labels, n_new: int):
    """The estimator after members went on, on the rows of ``prepared``."""
    _, prior, likelihood, data = prepared.model
    schedule = _schedule(estimator, kept, n_new, data.n_rows)
    how = {"method": estimator.method, "schedule": schedule}
    n_trained, folds, others = len(kept.ensemble.info.status), prepared.folds, kept.others
    every = None  # as members of folds are, so that one program trains all
    if folds is not None:
        every = folds._replace(of_member=np.full(n_trained, Folds.SEES_ALL))
    with progress_bar(estimator.verbose, "Continuing") as on_check:
        ensemble = go_on(
            prepared.random, kept.ensemble, prior, likelihood, data,
            folds=every, on_check=on_check, **how,
        )  # fmt: skip
    if folds is not None and others is not None:
        numbers = numbers_in_folds(kept.ensemble.member_ids, folds)
        with progress_bar(estimator.verbose, "Holding out rows") as on_check:
            others = go_on(
                prepared.random, others, prior, likelihood, data,
                numbers=numbers, folds=folds, on_check=on_check, **how,
            )  # fmt: skip
    _report(kept.ensemble, ensemble)
    found = estimator._complete(prepared, ensemble, others)
    _note(estimator, ensemble, n_new, before=int(kept.ensemble.info.steps[-1]))
    changed = {"known": known, "prepared": found.prepared, "ensemble": ensemble}
    estimator._kept = Kept(**{**vars(kept), **changed, "others": others, "labels": labels})
    return estimator


def _report(before, after) -> None:
    stayed = [j for j in after.member_ids if after.info.status[j] == Status.DIVERGED]
    if stayed:
        warnings.warn(
            f"Members {stayed} diverged on the new rows and were left unchanged. Check the new "
            "rows "
            "for extreme values, or lower `learning_rate`.",
            DroppedMemberWarning,
            stacklevel=5,
        )


def _schedule(estimator, kept: Kept, n_new: int, n_rows: int) -> Schedule:
    """A short one: as many steps as new rows ask for, at a rate that falls as that of a fit."""
    likelihood = kept.prepared.model.likelihood
    usual = estimator._schedule(kept.n_tuned, likelihood)
    share = min(1.0, max(LEAST_STEPS, STEPS_SHARE * n_new / n_rows))
    n_steps = max(1, round(share * usual.n_steps(kept.n_tuned)))
    return usual.continued(n_steps, n_rows)


# warm_start


def _alike(estimator, kept: Kept, X, y) -> bool:
    """Whether a warm start makes sense: the same settings, columns and kind of targets."""
    if not _same_settings(estimator, kept) or isinstance(X, np.memmap):
        return False
    frame = is_frame(X)
    if frame != (estimator.model_.encoder is not None):
        return False
    if frame:
        return set(as_table(X).columns) == set(kept.known.x.columns)
    if isinstance(X, (dict, tuple)) or isinstance(kept.known.x, (dict, tuple)):
        return type(X) is type(kept.known.x)
    y, known = np.asarray(y), np.asarray(X)
    if known.shape[1:] != kept.known.x.shape[1:] or y.shape[1:] != kept.known.y.shape[1:]:
        return False
    classes = estimator.model_.classes
    return classes is None or bool(np.isin(y, classes).all())


def _warm(estimator, kept: Kept, X, y, sample_weight, groups):
    """Members go on, on these rows alone: old ones keep their places, missing ones weigh nothing.

    So a row that a member of a fold has seen is never held out from it later.
    """
    known = Known.of(X, y, sample_weight, groups)
    new, labels = _new_rows(estimator, kept, X, y, sample_weight, groups)
    old, rows = kept.prepared.rows, new.rows
    if (rows.groups is None) != (old.groups is None):
        return _refit(estimator, known, "groups changed", len(new.y))
    places = {key: place for place, key in enumerate(_row_keys(old))}
    at = np.array([places.get(key, -1) for key in _row_keys(rows)])
    came = at < 0
    weight = np.zeros(len(old.y))
    np.add.at(weight, at[~came], rows.weight[~came])
    groups = None if rows.groups is None else rows.groups[came]
    unseen = Rows(rows.x[came], rows.y[came], rows.weight[came], groups, rows.standardiser)
    kept, why = _judged(estimator, kept, _New(unseen, new.y[came]))
    if not why and np.count_nonzero(weight) < LEAST_LEFT * len(old.y):
        why = "few of the earlier rows are left"
    if why:
        return _refit(estimator, known, why, int(came.sum()))
    prepared = _with_rows(kept.prepared, _appended(
        kept.prepared._replace(rows=old._replace(weight=weight)), unseen).rows)  # fmt: skip
    return _went_on(estimator, kept, prepared, known, labels, int(came.sum()))


def _row_keys(rows: Rows) -> list[bytes]:
    """Inputs, targets and group of each row, as bytes that equal rows share."""
    parts = [np.asarray(rows.x, np.float64).reshape(len(rows.y), -1), rows.y]
    if rows.groups is not None:
        parts.append(rows.groups[:, None].astype(np.float64))
    return [row.tobytes() for row in np.concatenate(parts, axis=1) + 0.0]
