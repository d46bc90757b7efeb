"""Turns inputs and targets of users into rows for networks, in training and later."""

import dataclasses
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from anchored.cluster import as_executor
from anchored.core.adapters import as_network
from anchored.core.checkpoints import Checkpoint
from anchored.core.checks import takes_tokens
from anchored.core.mapped import taken
from anchored.core.packing import input_layout
from anchored.core.precision import checked_dtype
from anchored.core.records import (
    layout_of,
)
from anchored.core.rows import (
    Augment,
    HostRows,
    Standardiser,
    merge_rows,
    same_weights,
)
from anchored.errors import bad_value
from anchored.estimators.defaults import Defaults
from anchored.estimators.inputs import Inputs, encoded_inputs, fit_inputs
from anchored.estimators.planning import check_memory
from anchored.estimators.rows import Rows, standardiser_of
from anchored.estimators.validation import (
    check_finite,
    check_range,
    check_tokens,
    whole,
)
from anchored.model.record import FittedModel

_SCALE_ROWS = 200_000  # whose scales stand for those of more rows than memory holds


class TakesRows(Defaults):
    """Checks the user's inputs and targets, and standardises them."""

    n_members: int
    dtype: str
    executor: Any
    checkpoint: Any
    augment: Augment | None
    model_: FittedModel

    def _check_fit_input(self, X, y, sample_weight, **kwargs) -> tuple[Inputs, Any, np.ndarray]:
        """Features, targets and weights; names and counts are noted as scikit-learn does."""
        # Settings first: a typing error shall not cost the time of tuning.
        self._layout = input_layout(X) if self.network is not None else None
        self._make_network(1, n_rows=1)
        self._given_first_var()
        self._schedule(1)
        whole("n_members", self.n_members)
        checked_dtype(self.dtype)
        as_executor(self.executor)
        Checkpoint.of(self.checkpoint)
        if self.augment is not None and not callable(self.augment):
            raise bad_value("augment", self.augment, "a function of a generator and a batch")
        X = X if self._layout is None else self._layout.pack(X)
        inputs = fit_inputs(self, X, y, sample_weight)
        rules: dict[str, Any] = self._x_rules() | {"ensure_min_samples": 2} | kwargs
        if isinstance(inputs.x, np.memmap):  # scikit-learn would hold all of it
            rules |= {"ensure_all_finite": False}
            if inputs.encoder is None:
                check_finite(inputs.x)
        if inputs.encoder is None:
            x, y = validate_data(self, inputs.x, y, **rules)  # pyright: ignore
        else:
            x, y = check_X_y(inputs.x, y, estimator=self, **rules)
        if isinstance(inputs.x, np.memmap) and np.may_share_memory(x, inputs.x):
            x = inputs.x  # scikit-learn hands a plain view back
        if sample_weight is None:
            return inputs._replace(x=x), y, same_weights(len(x))
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():  # scikit-learn says so from 1.8 on
            raise ValueError("Sample weights must contain at least one non-zero number.")
        return inputs._replace(x=x), y, weight

    def _x_rules(self) -> dict:
        """A network of the user's own takes arrays of any rank and whole numbers (tokens)."""
        own = self.network is not None
        return {"allow_nd": own, "dtype": "numeric" if own else [np.float64, np.float32]}

    def _rows(self, inputs: Inputs, y: np.ndarray, weight: np.ndarray, groups) -> Rows:
        """Rows to train on; those of a memory map, or to be augmented, stay where they are."""
        X = inputs.x
        if groups is not None:
            check_consistent_length(X, groups)
            groups = np.unique(np.asarray(groups), return_inverse=True)[1]
        if isinstance(X, np.memmap) or self.augment is not None:
            return self._rows_that_stay(X, y, weight, groups, inputs.encoder)
        check_memory(len(X), int(np.prod(X.shape[1:])), self._takes_ramps(X))
        if groups is None:
            x, y, weight = merge_rows(X, y, weight)
        else:  # equal rows of different groups stay apart
            x, y, weight = merge_rows(X, np.column_stack([y, groups]), weight)
            y, groups = y[:, :-1], y[:, -1].astype(int)
        standardiser = self._input_standardiser(x, weight, inputs.encoder)
        if self._takes_ramps(x):
            columns, dated = np.arange(x.shape[1]), None
            if inputs.encoder is not None:  # later days have no ramps that could tell of them
                columns = columns[~(inputs.encoder.indicators | inputs.encoder.days)]
                dated = inputs.encoder.dated
            standardiser = standardiser.with_ramps(x, weight, columns, dated)
        return Rows(check_range(standardiser.forward(x)), y, weight, groups, standardiser)

    def _rows_that_stay(self, X, y: np.ndarray, weight: np.ndarray, groups, encoder=None) -> Rows:
        """Rows of positive weight in random order, unread; equal ones are not merged."""
        kind = np.int32 if len(X) <= np.iinfo(np.int32).max else np.int64
        kept = np.arange(len(X), dtype=kind)
        if not np.all(weight > 0):
            kept = kept[weight > 0]
        order = np.random.default_rng(0).permutation(kept)
        rows = HostRows(X, order, Standardiser.identity())
        weight = weight[order] if weight.strides[0] else weight[: len(order)]
        if self._takes_tokens(X):
            for piece in rows.pieces():
                check_tokens(self.network, piece)
        elif encoder is not None:  # scales of a sample, as robust as those of all rows in memory
            some = np.sort(order[:_SCALE_ROWS])
            scaler = self._input_standardiser(taken(X, some), np.ones(len(some)), encoder)
            rows = dataclasses.replace(rows, standardiser=scaler)
        else:
            rows = dataclasses.replace(rows, standardiser=Standardiser.of_rows(rows, weight))
        rows = dataclasses.replace(rows, augment=self.augment)
        groups = None if groups is None else groups[order]
        return Rows(rows, taken(y, order), weight, groups, rows.standardiser)

    def _takes_tokens(self, x) -> bool:
        """Whether inputs are numbers of words; a module of another framework is asked."""
        return self.network is not None and takes_tokens(as_network(self.network), x)

    def _input_standardiser(self, x: np.ndarray, weight: np.ndarray, encoder) -> Standardiser:
        if self._takes_tokens(x):
            check_tokens(self.network, x)
            return Standardiser.identity()
        x = x.astype(np.float64, copy=False)
        found, flags = Standardiser.fit(x, weight), None
        if encoder is not None:  # a rare level shall not weigh more than a frequent one
            flags = encoder.indicators
            found = dataclasses.replace(found, scale=np.where(flags, 1.0, found.scale))
        if x.ndim > 2:
            return found
        found = found.robust(x, weight).within_reach(x, flags)
        return found if self._layout is None else found.of_columns(self._layout.standardised)

    def _takes_ramps(self, x: np.ndarray) -> bool:
        """Whether columns have ramps, whose relevance the evidence must be able to tell."""
        default = self.network is None and self._needs_first_var() and self._widths(len(x))
        return bool(default) and x.ndim == 2 and len(x) >= max(self._relevance_rows, x.shape[1])

    def _standardised(self, X) -> Any:
        """Inputs of a fitted estimator as the networks take them; memory maps stay unread."""
        check_is_fitted(self, "model_")
        layout = layout_of(self.model_.members.network)
        if layout is not None:
            X = layout.pack(X)
        if self.model_.encoder is not None:
            x: Any = encoded_inputs(self, X, self.model_.encoder, self.model_.columns)
        else:
            x = validate_data(self, X, reset=False, **self._x_rules())  # pyright: ignore
        if self.model_.x_mean is None:
            check_tokens(self.network, x)
        if isinstance(X, np.memmap):
            return HostRows(x, np.arange(len(x)), standardiser_of(self.model_))
        return check_range(self.model_.standardised(x))
