"""What the regressor and the classifier share: training, and the fitted model."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from anchored import __version__, tuning
from anchored.cluster import as_executor
from anchored.core.checkpoints import Checkpoint
from anchored.core.drawing import model_shapes
from anchored.core.ensembles import Ensemble, fit_ensemble
from anchored.core.loss import METHODS, Folds
from anchored.core.precision import as_real, doubled, is_double
from anchored.core.priors import Prior
from anchored.core.records import (
    as_leaves,
    as_tree,
    members_record,
    restored_ensemble,
    restored_network,
)
from anchored.core.rows import Data, HostRows, padded_size
from anchored.core.training import Schedule
from anchored.error_bars import novelty
from anchored.error_bars.folds import numbers_in_folds, starts, without_rows
from anchored.errors import unknown_name
from anchored.estimators import explaining
from anchored.estimators.explanation import Explanation
from anchored.estimators.failures import report_failures
from anchored.estimators.inputs import Encoded, Inputs, encoded_inputs
from anchored.estimators.kept import Update
from anchored.estimators.planning import FitPlan, Planned, make_plan
from anchored.estimators.progress import progress_bar
from anchored.estimators.rows import Rows
from anchored.estimators.taking import TakesRows
from anchored.estimators.targets import LOOKED_AT
from anchored.estimators.validation import (
    whole,
)
from anchored.model import file
from anchored.model.forward import type_of
from anchored.model.record import FittedModel, disagreement
from anchored.model.runtime import COVERAGE
from anchored.prediction.predictive import Predictive
from anchored.tables import memory
from anchored.typing import Likelihood, Network

IN_FILE = "in this file"  # in place of a parameter that the model holds as arrays


class Model(NamedTuple):
    """What `fit_ensemble` trains."""

    network: Network
    prior: Prior
    likelihood: Likelihood
    data: Data


_in_own_precision = doubled(lambda self, *given, **named: is_double(self.model_.members.params))
in_asked_precision = doubled(lambda self, *given, **named: self.dtype == "float64")


class AnchoredEstimator(TakesRows):
    """What both estimators share. ``model_`` contains everything needed to predict."""

    checkpoint: Checkpoint | str | Path | None
    random_state: Any
    verbose: int
    update_: Update
    _grows: bool = False  # whether rows are expected to come in parts
    _likelihood: Callable[[FittedModel], Likelihood]  # of the members, in training

    # The fitted model

    @property
    @_in_own_precision
    def ensemble_(self) -> Ensemble:
        """The members as an `Ensemble`, in standardised units."""
        found = self.__dict__.get("_ensemble")
        if found is None or found[0] is not self.model_:
            record = self.model_.members
            network = restored_network(record.network, self.network)
            likelihood = self._likelihood(self.model_)
            ensemble = restored_ensemble(record, network, likelihood, self._input_type())
            self._ensemble = found = (self.model_, ensemble)
        return found[1]

    @property
    @_in_own_precision
    def prior_(self) -> Prior:
        """The `Prior` of a member's parameters."""
        record, network = self.model_.members.network, self.ensemble_.network
        return Prior(
            *(
                as_tree(leaves, record, network, self._input_type())
                for leaves in (self.model_.prior_mean, self.model_.prior_scale)
            )
        )

    @property
    def novelty_scale_(self) -> np.ndarray | None:
        """The disagreement of members that one held-out row in a hundred exceeds."""
        return self.model_.novelty_scale

    @property
    def encoder_(self):
        """How a table becomes features; None if the model was fitted on an array."""
        return self.model_.encoder

    @property
    def provenance_(self) -> dict:
        """What was saved with the model."""
        return self.model_.provenance

    @property
    def knows_rows_(self) -> bool:
        """Whether training rows are in memory, for `partial_fit` and `explain`."""
        return self.__dict__.get("_kept") is not None

    @property
    def held_out_(self) -> tuple[Any, np.ndarray] | None:
        """Inputs and targets that were saved with the model, for a report."""
        if self.model_.held_out is None:
            return None
        x, y = self.model_.held_out
        return Encoded.of(x, self.model_.encoder), y

    def _input_type(self) -> Any:
        return np.int32 if self.model_.x_mean is None else type_of(self.model_.members.params).type

    # Training

    def plan(self, X, y, sample_weight=None, groups=None) -> FitPlan:
        """What `fit` would need for these rows: memory, time, steps, and where it runs.

        Nothing is fitted. The training steps are compiled, and some of them are timed. Print the
        returned record to see everything.
        """
        fresh: Any = clone(self)
        planned = fresh._planned(X, y, sample_weight, groups)
        return make_plan(fresh, planned, random_key(0))

    _planned: Callable[..., Planned]  # what would be trained

    def _model(
        self, rows: Rows, likelihood: Likelihood, n_outputs: int, first_var, relevance=None
    ) -> Model:
        """What is trained on standardised rows."""
        data = Data.make(rows.x, rows.y, rows.weight, dtype=self.dtype)
        if self._grows:  # room for as many again, so that updates compile nothing
            data = data.with_capacity(padded_size(2 * len(rows.y)))
        network = self._make_network(n_outputs, len(rows.y))
        prior = self._made_prior(network, data.x[:1], first_var)
        if not isinstance(self.prior, Prior) and relevance is not None:
            prior = prior.with_relevance(relevance)
        prior = as_real(prior, self.dtype)
        _, outputs = model_shapes(network, data.x.shape[1:], data.x.dtype)
        if outputs.shape[-1] != n_outputs:
            raise ValueError(
                f"`network` must have {n_outputs} outputs for this `y` and `method`; it has "
                f"{outputs.shape[-1]}."
            )
        return Model(network, prior, likelihood, data)

    def _outputs_of_network(self, rows: Rows) -> int:
        """Number of outputs of the user's own network."""
        dtype = np.int32 if np.issubdtype(rows.x.dtype, np.integer) else np.float32
        network = self._make_network(1, len(rows.y))
        return model_shapes(network, tuple(rows.x.shape[1:]), dtype)[1].shape[-1]

    def _train(
        self, key, model: Model, folds: Folds | None = None
    ) -> tuple[Ensemble, Ensemble | None]:
        """The members, and those of ``folds``; what went wrong becomes warnings."""
        if isinstance(model.data.x, HostRows):  # more of them than memory holds, it may be
            memory.give_back()
        n_members = whole("n_members", self.n_members)
        schedule = self._schedule(model.data.n_rows, model.likelihood)
        may_be_short = self._may_be_short(schedule)
        if folds is None:
            ensemble = self._members(key, model, n_members, schedule)
            report_failures(ensemble, schedule, may_be_short)
            return ensemble, None
        # No member is in a fold; said so, for one program to train all.
        every = folds._replace(of_member=np.full(n_members, Folds.SEES_ALL))
        if schedule.rule == "adam":
            ensemble = self._members(key, model, n_members, schedule, folds=every)
            report_failures(ensemble, schedule, may_be_short)
            return ensemble, self._others(key, model, ensemble.member_ids, folds, schedule)
        # Of many rows, all members leave out the same ones first, and then continue with all.
        others = self._others(key, model, range(n_members), folds, schedule)
        start = starts(others, range(n_members), folds)
        if start is not None:
            n_steps = -(-schedule.n_steps(model.data.n_rows) // tuning.WITH_ALL_ROWS)
            shorter = schedule.continued(n_steps, model.data.n_rows)
            shorter = shorter.slower(1 / tuning.WITH_ALL_ROWS)  # that of the last third
            how = {"place": self._place("continued"), "start": start}
            ensemble = self._members(key, model, n_members, shorter, folds=every, **how)
            if not ensemble.retrained:  # a third of the steps is too few for a new draw
                numbers = numbers_in_folds(range(n_members), folds)
                report_failures(ensemble, schedule, may_be_short, others, numbers)
                return ensemble, others
        ensemble = self._members(key, model, n_members, schedule, folds=every)
        report_failures(ensemble, schedule, may_be_short)
        return ensemble, others

    def _members(
        self, key, model: Model, n_members: int, schedule: Schedule, place=None, **how
    ) -> Ensemble:
        with progress_bar(self.verbose, "Training") as on_check:
            return fit_ensemble(
                jax.random.clone(key),
                *model,
                method=self.method,
                n_members=n_members,
                schedule=schedule,
                on_check=on_check,
                checkpoint=Checkpoint.of(self.checkpoint) if place is None else place,
                executor=as_executor(self.executor),
                **how,
            )

    def _others(self, key, model: Model, members, folds: Folds, schedule: Schedule) -> Ensemble:
        """Members that do not see the rows of a fold."""
        with progress_bar(self.verbose, "Holding out rows") as on_check:
            return without_rows(
                jax.random.clone(key),
                model,
                members,
                folds,
                method=self.method,
                schedule=schedule,
                on_check=on_check,
                checkpoint=self._place("folds"),
                executor=as_executor(self.executor),
            )

    def _place(self, name: str) -> Checkpoint | None:
        """Where one of the trainings is kept."""
        place = Checkpoint.of(self.checkpoint)
        return None if place is None else place.part(name)

    def _fitted(self, inputs: Inputs, model: Model, rows: Rows, ensemble, **parts) -> FittedModel:
        """The record of a fit, without a scale of novelty."""
        names = getattr(self, "feature_names_in_", None)
        if inputs.encoder is not None:
            names = inputs.encoder.feature_names
        x, scaler = rows.x, rows.standardiser
        dtype = model.data.x.dtype
        return FittedModel(
            package=__version__,
            parameters=self._plain_parameters(),
            n_rows=int(np.count_nonzero(rows.weight)),
            n_features=x.shape[1] - scaler.n_ramps,
            feature_names=None if names is None else tuple(map(str, names)),
            columns=inputs.columns,
            members=members_record(ensemble, tuple(x.shape[1:]), dtype),
            prior_mean=as_leaves(model.prior.mean),
            prior_scale=as_leaves(model.prior.scale),
            x_mean=None if scaler.keeps_type else np.asarray(scaler.mean, np.float64),
            x_scale=None if scaler.keeps_type else np.asarray(scaler.scale, np.float64),
            x_reach=scaler.reach,
            x_limit=scaler.limit,
            x_ramps=scaler.ramps,
            encoder=inputs.encoder,
            **parts,
        )

    def _finish(self, fitted: FittedModel, rows: Rows, usual: np.ndarray | None) -> np.ndarray:
        """Take the fitted model; the outputs of some training rows are returned.

        Called last, so that a fit that fails leaves an earlier one as it was.
        """
        self.model_ = fitted
        x = rows.unread(LOOKED_AT)
        outputs = self.ensemble_.outputs(x)
        if usual is None:
            weight = rows.weight[: novelty.ROWS]
            apart = disagreement(outputs, self._pooled(outputs, x))
            usual = novelty.usual(apart[: len(weight)], weight)
        self.model_ = dataclasses.replace(fitted, novelty_scale=np.atleast_1d(usual))
        self._ensemble = (self.model_, self._ensemble[1])
        place = Checkpoint.of(self.checkpoint)
        if place is not None and place is not self.checkpoint:  # its own: nothing is left to train
            place.clear_all()
        return outputs

    def _plain_parameters(self) -> dict:
        """The constructor's arguments as JSON can say them."""
        given = dict(self.get_params(deep=False))
        for name in ("augment", "checkpoint", "executor"):  # of no use to what is trained
            del given[name]
        for name in ("network", "prior", "likelihood"):
            if name in given and not isinstance(
                given[name], (type(None), str, int, float, np.number)
            ):
                given[name] = IN_FILE
        if given.get("settings") is not None and self._tuned is not None:
            given["settings"] = dataclasses.asdict(self._tuned)
        if not isinstance(given["optimiser"], str):
            given["optimiser"] = None  # functions, and of no use to what is trained
        if not isinstance(given["random_state"], (int, np.integer)):
            given["random_state"] = None  # a generator's state has moved on in any case
        plain = (np.generic, np.ndarray)
        return {k: v.tolist() if isinstance(v, plain) else v for k, v in given.items()}

    # Predictions

    def predict_dist(self, X) -> Predictive:
        """The whole predictive distribution of each row, in the target's units."""
        return self._predictive(self._standardised(X))[1]

    def _predictive(self, z) -> tuple[np.ndarray, Predictive]:
        """Outputs and predictive at standardised rows."""
        outputs = self.ensemble_.outputs(z)
        return outputs, self._pooled(outputs, z)

    def _pooled(self, outputs: np.ndarray, z) -> Predictive:
        """The predictive of outputs [member, row, out] at standardised rows."""
        return self.model_.predictive(outputs, z)

    def novelty(self, X) -> np.ndarray:
        """How unlike the training rows each row is [row]; nearly all rows like them have less than
        1.

        It is the disagreement of the members, divided by the value that one held-out row in a
        hundred exceeds (or one training row, if none were held out). Disagreement is the epistemic
        deviation of an output; for classes, the mutual information or the spread of the logits. The
        largest ratio counts.
        """
        return self.model_.novelty(*self._predictive(self._standardised(X)))

    def explain(self, X, background=None, n_paths: int = explaining.N_PATHS) -> Explanation:
        """Which columns drive the predictions of some rows, and which drive their uncertainty.

        The result has Shapley values of the mean and of the epistemic and aleatoric parts of the
        variance (for classes, of the entropy). It also has the known rows nearest to each row, and
        cells unlike any known cell. Known rows are the training rows. A model from a file uses its
        test rows instead, or rows like the training rows that you give as ``background``. A larger
        ``n_paths`` makes values more precise.
        """
        return explaining.explain(self, X, background, n_paths)

    def sample_functions(self, k: int = 1, random_state=None) -> list[Callable]:
        """Draw ``k`` functions from the posterior: callables X -> mean of the target.

        Each function is one member, so its values at different inputs belong together, as Thompson
        sampling needs. For a classifier it gives class probabilities. No member is used twice
        before every member has been used once.
        """
        check_is_fitted(self, "model_")
        n = self.model_.members.n_members
        rng = check_random_state(random_state)
        rounds = [rng.permutation(n) for _ in range(-(-whole("k", k) // n))]
        return [self._member_function(int(j)) for j in np.concatenate(rounds)[:k]]

    def _member_function(self, index: int) -> Callable:
        member = self.ensemble_.member(index)
        fitted = copy.copy(self)  # a later fit of this estimator does not change the function

        def function(X):
            z = fitted._standardised(X)
            return fitted._pooled(member.outputs(z), z).mean

        return function

    # Files

    def save(
        self,
        path: str | Path,
        *,
        provenance: dict | None = None,
        held_out: tuple[Any, Any] | None = None,
    ) -> None:
        """Write everything that predicts to one file; `anchored.load` reads it again.

        The file also keeps ``provenance`` (anything that JSON can represent; its ``coverage`` sets
        the intervals of `anchored.runtime`) and ``held_out`` (inputs and targets for a report). By
        default these are the ones that the model was loaded with. Training rows are not kept. The
        file is written whole or not at all, and `anchored.runtime` predicts from it without JAX.
        """
        check_is_fitted(self, "model_")
        model = self.model_
        if provenance is not None:
            model = dataclasses.replace(model, provenance=provenance)
        if held_out is not None:
            model = dataclasses.replace(model, held_out=self._checked_held_out(*held_out))
        file.save(model, path)

    @_in_own_precision
    def export_onnx(self, path: str | Path, coverage: float = COVERAGE) -> None:
        """Write the model as an ONNX graph, with intervals of ``coverage`` (`anchored.onnx`).

        Any network works: its JAX program is translated. If an operation cannot be translated, the
        error names it. Needs ``pip install 'anchored[onnx]'``.
        """
        check_is_fitted(self, "model_")
        from anchored.core.onnx_programs import networks
        from anchored.model import onnx

        ensemble, record = self.ensemble_, self.model_.members.network
        if record.row_shape is None:
            raise ValueError(
                "This model is from a file of version 0.1.0, which does not say the shape of its "
                "inputs. Fit it again to export it."
            )
        made = networks(ensemble.network, ensemble.params, record.row_shape, self._input_type())
        onnx.write(self.model_, path, coverage, made)

    def _checked_held_out(self, X, y) -> tuple[np.ndarray, np.ndarray]:
        encoder = self.model_.encoder
        x = (
            np.asarray(X)
            if encoder is None
            else encoded_inputs(self, X, encoder, self.model_.columns)
        )
        y = np.asarray(y)
        n_features = self.model_.n_features
        if len(x) != len(y) or x.ndim < 2 or x.shape[1] != n_features:
            raise ValueError(
                f"`held_out` must be inputs [row, {n_features}] and a target for each; got shapes "
                f"{x.shape} and {y.shape}."
            )
        targets = self.model_.regression or self.model_.sampled
        if targets is not None:
            n_targets = len(targets.scale)
            one = targets.one_target
            return x, y.astype(np.float64).reshape((-1,) if one else (-1, n_targets))
        unknown = ~np.isin(y, np.asarray(self.model_.classes))
        if unknown.any():
            raise ValueError(
                f"`held_out` has the label {y[unknown].tolist()[0]!r}, which was not in training. "
                "Leave such rows out."
            )
        return x, y


def check_method(method: str) -> None:
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)


def random_key(random_state) -> jax.Array:
    """The one place where a ``random_state`` becomes a key."""
    return jax.random.key(check_random_state(random_state).randint(2**31 - 1))
