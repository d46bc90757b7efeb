"""What the regressor and the classifier share: input checks, defaults, training, sampling."""

import copy
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from anchored import tuning
from anchored.core.ensembles import METHODS, Ensemble, Folds, fit_ensemble, model_shapes
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data, HostRows, Standardiser, merge_rows
from anchored.core.training import Schedule, decay_over
from anchored.errors import DroppedMemberWarning, EnsembleError, Status, bad_value
from anchored.estimators.progress import progress_bar
from anchored.estimators.validation import (
    check_columns,
    check_network,
    check_range,
    check_tokens,
    positive,
    whole,
)
from anchored.prediction.predictive import Predictive
from anchored.prediction.special import unlikeness
from anchored.tuning import Settings
from anchored.typing import Likelihood, Network

_LOADED = ("encoder_", "provenance_", "held_out_")
_SCHEDULE = ("batch_size", "epochs", "decay_rate", "learning_rate")
LEAST_HELD_OUT = 30  # rows below which none are held out
_MOST_HELD_OUT = 10_000
_NOVELTY_ROWS = 20_000  # training rows whose disagreement is looked at
_USUAL = 0.99  # share of rows that count as usual
_WIDTHS, _MANY_WIDTHS = (50,), (50, 50)


class Model(NamedTuple):
    """What `fit_ensemble` trains."""

    network: Network
    prior: Prior
    likelihood: Likelihood
    data: Data


class AnchoredEstimator(BaseEstimator):
    """What the regressor and the classifier share."""

    hidden: Any
    activation: str
    n_members: int
    method: str
    network: Any
    prior: Any
    epochs: Any
    batch_size: Any
    learning_rate: Any
    decay_rate: Any
    max_seconds: Any
    random_state: Any
    verbose: int
    ensemble_: Ensemble
    x_standardiser_: Standardiser
    novelty_scale_: np.ndarray
    _tuned: Settings | None = None  # settings of a search, for what is left at "auto"
    # Pools members' moments [member, row, output] at inputs x in the units of the target.
    _to_target_units: Callable[[np.ndarray, np.ndarray, np.ndarray], Predictive]
    # How far the members are apart [row, measure] at standardised inputs.
    _disagreement: Callable[[Any], np.ndarray]

    def _check_fit_input(self, X, y, sample_weight, **kwargs) -> tuple[Any, Any, np.ndarray]:
        """Arrays X, y and weight; feature names and counts are noted by scikit-learn."""
        for name in _LOADED:  # of another fit, in a file
            self.__dict__.pop(name, None)
        # Settings first: a typing error shall not cost the time of tuning.
        self._make_network(1, n_rows=1)
        self._given_first_var()
        self._schedule(1)
        whole("n_members", self.n_members)
        check_columns(X)
        X, y = validate_data(self, X, y, ensure_min_samples=2, **self._x_rules(), **kwargs)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return X, y, weight

    def _x_rules(self) -> dict:
        """A network of the user's own takes arrays of any rank and whole numbers (tokens)."""
        own = self.network is not None
        return {"allow_nd": own, "dtype": "numeric" if own else [np.float64, np.float32]}

    def _input_standardiser(self, x: np.ndarray, weight: np.ndarray) -> Standardiser:
        if getattr(self.network, "takes_tokens", False):
            check_tokens(self.network, x)
            return Standardiser.identity()
        return Standardiser.fit(x.astype(np.float64, copy=False), weight)

    def _checked_inputs(self, X) -> Any:
        """Inputs of a fitted estimator, standardised."""
        x = self._validated(X)
        return check_range(self.x_standardiser_.forward(x))

    def _validated(self, X) -> np.ndarray:
        """Inputs of a fitted estimator, as they are."""
        check_is_fitted(self, "ensemble_")
        check_columns(X)
        x: Any = validate_data(self, X, reset=False, **self._x_rules())
        return check_tokens(self.network, x) if getattr(self.network, "takes_tokens", False) else x

    def _make_network(self, n_outputs: int, n_rows: int) -> Network:
        if self.network is not None:
            check_network(self.network)
            return self.network
        activation = self.activation if self._tuned is None else self._tuned.activation
        return MLP(self._widths(n_rows), n_outputs, activation)

    def _given(self, name: str) -> Any:
        """A parameter; if it is left at "auto", what a search found for it."""
        value = getattr(self, name)
        left = _is_auto(value) and self._tuned is not None
        return getattr(self._tuned, name) if left else value

    def _widths(self, n_rows: int) -> tuple[int, ...]:
        """Hidden layers: as given, or by the number of rows."""
        hidden = self._given("hidden")
        if isinstance(hidden, str):
            if hidden != "auto":
                raise bad_value("hidden", hidden, '"auto", a width or several')
            return _WIDTHS if n_rows < tuning.MANY_ROWS else _MANY_WIDTHS
        widths = np.atleast_1d(np.asarray(hidden, dtype=object)).tolist()
        return tuple(whole("hidden", w) for w in widths)

    def _twin(self, x: np.ndarray | HostRows) -> tuning.Twin:
        """Kernel whose evidence tunes; networks that have none borrow one ReLU layer's."""
        network = self._make_network(1, len(x))
        if isinstance(network, MLP):
            return tuning.Twin(x.shape[1], network.hidden, network.activation)
        return tuning.Twin(x.shape[1], (1,), "relu")

    def _given_first_var(self) -> float | None:
        """The input layer's prior variance if it was given as a number."""
        if isinstance(self.prior, Prior):
            return None
        if _is_auto(self.prior):
            return None if self._tuned is None else self._tuned.first_var
        return positive("prior", self.prior, '"auto", a positive number or a `Prior`')

    def _needs_first_var(self) -> bool:
        """Whether training depends on a first_var that nobody gave and a twin can tell."""
        return self._given_first_var() is None and (
            self._has_twin()
            and METHODS[self.method].penalised
            and not isinstance(self.prior, Prior)
        )

    def _has_twin(self) -> bool:
        """Whether the network's own infinite width is known."""
        return self.network is None or isinstance(self.network, MLP)

    def _schedule(self, n_rows: int) -> Schedule:
        """Fill in everything left at "auto"."""
        n_layers = len(self._widths(n_rows)) if self.network is None else 1
        usual = tuning.default_schedule(n_rows, n_layers)
        given = {name: self._given(name) for name in _SCHEDULE}
        given = {name: value for name, value in given.items() if not _is_auto(value)}
        batch_size = whole("batch_size", given.get("batch_size", usual.batch_size))
        rate = positive("learning_rate", given.get("learning_rate", usual.learning_rate))
        schedule = Schedule.of_steps(
            tuning.N_STEPS, n_rows, batch_size, rate, tolerance=tuning.TOLERANCE
        )
        if "epochs" in given:
            epochs = whole("epochs", given["epochs"])
            decay = decay_over(epochs * max(1, n_rows // batch_size))
            schedule = Schedule(epochs, batch_size, rate, decay)
        if "decay_rate" in given:
            decay = positive("decay_rate", given["decay_rate"])
            schedule = dataclasses.replace(schedule, decay_rate=decay)
        if self.max_seconds is None:
            return schedule
        most = positive("max_seconds", self.max_seconds, "a positive number of seconds or None")
        return dataclasses.replace(schedule, max_seconds=most)

    def _model(
        self, x, y, weight, likelihood: Likelihood, n_outputs: int, first_var: float
    ) -> Model:
        """What is trained on standardised rows."""
        data = Data.make(x, y, weight)
        network = self._make_network(n_outputs, len(x))
        prior = self.prior
        if not isinstance(prior, Prior):
            prior = Prior.for_network(network, data.x[:1], first_var)
        _, outputs = model_shapes(network, data.x.shape[1:], data.x.dtype)
        if outputs.shape[-1] != n_outputs:
            raise ValueError(
                f"`network` must have {n_outputs} outputs for this `y` and `method`; it has "
                f"{outputs.shape[-1]}."
            )
        return Model(network, prior, likelihood, data)

    def _train(
        self, key, model: Model, folds: Folds | None = None
    ) -> tuple[Ensemble, Ensemble | None]:
        """The members, and those of ``folds``; what went wrong becomes warnings."""
        n_members = n_trained = whole("n_members", self.n_members)
        if folds is not None:  # all in one program: compiled once, and better shared out
            folds = folds.joined(n_members)
            n_trained = len(folds.of_member)
        schedule = self._schedule(model.data.n_rows)
        with progress_bar(self.verbose, type(self).__name__) as on_check:
            trained = fit_ensemble(
                key,
                *model,
                method=self.method,
                n_members=n_trained,
                schedule=schedule,
                folds=folds,
                on_check=on_check,
            )
        ensemble, others = (trained, None) if folds is None else trained.split(n_members)
        _report_failures(ensemble, schedule)
        return ensemble, others

    def predict_dist(self, X) -> Predictive:
        """The whole predictive distribution of each row, in the target's units."""
        x = self._checked_inputs(X)
        return self._to_target_units(x, *self.ensemble_.moments(x))

    def novelty(self, X) -> np.ndarray:
        """How unlike the training rows each row is [row]; nearly all rows like them are below 1.

        The members' disagreement in units of what one held-out row in a hundred exceeds (or one
        training row, if none were held out): epistemic deviation of each output, or mutual
        information and spread of the logits of classes, whichever is largest.
        """
        return unlikeness(self._disagreement(self._checked_inputs(X)), self.novelty_scale_)

    def _usual_disagreement(self, x, weight: np.ndarray) -> np.ndarray:
        """What one standardised training row in a hundred exceeds; the fit is complete by now."""
        disagreement = self._disagreement(first_rows(x, _NOVELTY_ROWS))
        return usual_quantile(disagreement, weight[:_NOVELTY_ROWS])

    def save(
        self,
        path: str | Path,
        *,
        encoder=None,
        provenance: dict | None = None,
        held_out: tuple[Any, Any] | None = None,
    ) -> None:
        """Write everything that predicts to one file; `anchored.load` reads it again.

        ``encoder``, ``provenance`` (anything JSON can hold) and ``held_out`` (inputs and targets
        for a report) are kept with it, by default those it was loaded with; training rows are
        not. The file is written whole or not at all, and `anchored.model.runtime` predicts from it
        without JAX.
        """
        check_is_fitted(self, "ensemble_")
        from anchored.estimators import persistence  # it knows the estimators, so only now

        kept = {"encoder": encoder, "provenance": provenance, "held_out": held_out}
        for name, value in kept.items():
            kept[name] = getattr(self, f"{name}_", None) if value is None else value
        persistence.save(self, path, **kept)

    def sample_functions(self, k: int = 1, random_state=None) -> list[Callable]:
        """Draw ``k`` functions from the posterior: callables X -> mean of the target.

        Each is one member, so its values at different inputs belong together, as Thompson
        sampling needs; for a classifier it gives class probabilities. No member comes a
        second time before every member has come once.
        """
        check_is_fitted(self, "ensemble_")
        n = self.ensemble_.n_members
        rng = check_random_state(random_state)
        rounds = [rng.permutation(n) for _ in range(-(-whole("k", k) // n))]
        return [self._member_function(int(j)) for j in np.concatenate(rounds)[:k]]

    def _member_function(self, index: int) -> Callable:
        member = self.ensemble_.member(index)
        fitted = copy.copy(self)  # a later fit of this estimator does not change the function

        def function(X):
            x = fitted._checked_inputs(X)
            return fitted._to_target_units(x, *member.moments(x)).mean

        return function


def first_rows(x: np.ndarray | HostRows, n: int) -> np.ndarray | HostRows:
    """At most ``n`` rows; those that stay elsewhere are not read yet."""
    return x.take(slice(n)) if isinstance(x, HostRows) else x[:n]


def usual_quantile(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What one row in a hundred exceeds, column by column of ``values`` [row, column]."""
    return np.quantile(values, _USUAL, axis=0, weights=weight, method="inverted_cdf")


def merged_rows(x, y, weight, groups):
    """`merge_rows` that keeps groups apart; their numbers [row] come last, None without them."""
    if groups is None:
        return (*merge_rows(x, y, weight), None)
    check_consistent_length(x, groups)
    _, numbers = np.unique(np.asarray(groups), return_inverse=True)
    x, y, weight = merge_rows(x, np.column_stack([y, numbers]), weight)
    return x, y[:, :-1], weight, y[:, -1].astype(int)


def held_out_folds(n_rows: int, groups, n_folds: int, n_each: int, n_many: int) -> Folds | None:
    """Every row once, in folds of ``n_each`` members, or a fifth of many rows for ``n_many``.

    Rows must come in random order. A group is held out as a whole; of one group, nothing is.
    """
    unit = np.arange(n_rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_folds = min(n_folds, int(unit.max()) + 1)
    if n_folds < 2:
        return None
    if n_rows < tuning.MANY_ROWS:
        return Folds(unit % n_folds, np.repeat(np.arange(n_folds), n_each))
    of_row = np.full(n_rows, Folds.IN_NONE)
    held = np.arange(n_rows // 5) if groups is None else np.flatnonzero(unit % min(5, n_folds) == 0)
    of_row[held[:_MOST_HELD_OUT]] = 0
    return Folds(of_row, np.zeros(n_many, int))


def held_out_outputs(
    others: Ensemble, folds: Folds, x: np.ndarray | HostRows
) -> tuple[np.ndarray, np.ndarray]:
    """Rows held out, and the outputs [member, row, out] of members that did not see them."""
    parts = []
    for fold in np.unique(folds.of_member):
        rows, members = np.flatnonzero(folds.of_row == fold), folds.of_member == fold
        seen = x.take(rows) if isinstance(x, HostRows) else x[rows]
        parts.append((rows, others.take(np.flatnonzero(members)).outputs(seen)))
    rows = np.concatenate([rows for rows, _ in parts])
    return rows, np.concatenate([outputs for _, outputs in parts], axis=1).astype(np.float64)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def random_key(random_state) -> jax.Array:
    """The one place where a ``random_state`` becomes a key."""
    return jax.random.key(check_random_state(random_state).randint(2**31 - 1))


def _report_failures(ensemble: Ensemble, schedule: Schedule) -> None:
    n_trained = len(ensemble.info.status)
    if ensemble.n_members < min(2, n_trained):
        raise EnsembleError(
            f"{len(ensemble.dropped)} of {n_trained} members diverged even at a tenth of the "
            "learning rate. Lower `learning_rate`, or check the data for extreme values."
        )
    if ensemble.dropped:
        warnings.warn(
            f"Members {list(ensemble.dropped)} diverged twice and were dropped; "
            f"{ensemble.n_members} of {n_trained} remain. A lower `learning_rate` may keep all.",
            DroppedMemberWarning,
            stacklevel=4,
        )
    late = [j for j in ensemble.member_ids if ensemble.info.status[j] == Status.STEP_LIMIT]
    if late:
        more = f"Raise `epochs` (it was {schedule.epochs:,})"
        if np.isfinite(schedule.max_seconds):
            more = f"Raise `max_seconds` (it was {schedule.max_seconds:g})"
        warnings.warn(
            f"Members {late} were still improving when training stopped after "
            f"{ensemble.info.steps[-1]:,} steps. {more} for a closer fit; predictions are usable.",
            ConvergenceWarning,
            stacklevel=4,
        )
