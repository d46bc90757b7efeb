"""The classifier."""

from itertools import starmap
from typing import Any

import jax
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from anchored import tuning
from anchored.core.ensembles import Ensemble
from anchored.core.kept_values import keeping
from anchored.core.likelihoods import Categorical
from anchored.core.loss import METHODS, Folds
from anchored.core.rows import HostRows
from anchored.error_bars import health, novelty
from anchored.error_bars.calibration import fit_temperature
from anchored.error_bars.folds import plan_folds, predict_held_out
from anchored.errors import unknown_name
from anchored.estimators import trials, updating
from anchored.estimators.base import AnchoredEstimator, Model, in_asked_precision, random_key
from anchored.estimators.failures import report_fold_failures
from anchored.estimators.inputs import Inputs
from anchored.estimators.kept import Completed, Fit, Prepared, Scores
from anchored.estimators.planning import Planned
from anchored.estimators.progress import progress_bar
from anchored.estimators.rows import Rows
from anchored.estimators.streams import opened_rows
from anchored.estimators.trials import Candidate
from anchored.exact.drawn import choose_classification
from anchored.exact.evidence import (
    CLASS_RELEVANCE_ROWS,
    MAX_ROWS,
    TunedClasses,
    tune_classification,
)
from anchored.model.record import FittedModel, disagreement
from anchored.prediction.predictive import Predictive
from anchored.prediction.special import softmax, tempered
from anchored.typing import Likelihood, Network, traits

_FOLDS = (5, 3)  # folds and their members
_MANY = 5  # members of the single fold of many rows
_DEEPER = (50, 50)  # hidden layers that are tried beside one ...
_DEEPER_SHARES = (0.04, 2.0)  # ... with these shares of the prior variance of the one


class AnchoredClassifier(ClassifierMixin, AnchoredEstimator):
    """Classification with an anchored ensemble of neural networks.

    Class probabilities are the average of the members' softmax outputs. Held-out rows set the
    temperature that corrects them: five folds of three members (one fold of five members from 5,000
    rows on, no fold below 10 rows). The evidence of the infinitely wide network chooses the prior
    variance (Laplace's approximation, one class against the rest, at most 500 rows). From 500 rows
    on, short trials on held-out rows compare five models: one hidden layer with this variance or a
    fifth of it, no hidden layer, and two hidden layers with 4 % of it or twice as much. With fewer
    rows, or if all are of one group, the evidence decides between one hidden layer and none. (A
    network that is given keeps its layers; only the variance is chosen.) Training takes 3,000 steps
    of Adam. From 6,000 rows on, it takes half as many steps as there are rows, but at most 5,000.
    From 500 rows on, it takes twice as many if no models were compared. Below 50 rows it takes up
    to 30,000 steps, in the units of the parameters, and stops early when no member improves any
    more.

    Parameters
    ----------
    hidden, activation, n_members, network, prior : as in `AnchoredRegressor`.
    method : rms, anchored, random-features, regularised, unconstrained or deep (which means
        unconstrained here).
    epochs, batch_size, learning_rate, decay_rate : as in `AnchoredRegressor`.
    max_seconds, random_state, verbose, optimiser, dtype, warm_start : as in `AnchoredRegressor`.
    checkpoint, executor : as in `AnchoredRegressor`.
    augment : a function ``augment(rng, x)`` that changes each training batch at random; it gets a
        NumPy generator and inputs [row, ...] as the user gave them.

    Attributes
    ----------
    model_ : the `FittedModel`, which contains everything needed to predict.
    classes_ : the labels, in the order of the columns of `predict_proba`.
    ensemble_ : the trained `Ensemble`.
    prior_ : its `Prior`.
    temperature_ : temperature of the averaged probabilities; above 1, the members would be too sure
        without it.
    novelty_scale_ : mutual information and spread of the logits [2] that one held-out row in a
        hundred exceeds.
    update_ : what the last `fit` or `partial_fit` did, an `Update`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from anchored import AnchoredClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AnchoredClassifier(n_members=4, random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[5.1, 3.5, 1.4, 0.2], [0.0, 9.0, 0.0, 9.0]])
    >>> bool(dist.mutual_information[1] > dist.mutual_information[0])  # unlike any iris
    True
    """

    _relevance_rows = CLASS_RELEVANCE_ROWS
    _y_rules = {}

    def __init__(
        self,
        hidden="auto",
        activation="relu",
        n_members=10,
        method="rms",
        network=None,
        prior="auto",
        epochs="auto",
        batch_size="auto",
        learning_rate="auto",
        decay_rate="auto",
        max_seconds=None,
        augment=None,
        random_state=None,
        verbose=0,
        optimiser=None,
        dtype="float32",
        warm_start=False,
        checkpoint=None,
        executor=None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.n_members = n_members
        self.method = method
        self.network = network
        self.prior = prior
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay_rate = decay_rate
        self.max_seconds = max_seconds
        self.augment = augment
        self.random_state = random_state
        self.verbose = verbose
        self.optimiser = optimiser
        self.dtype = dtype
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.executor = executor

    @in_asked_precision
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit to inputs X [row, feature] and labels y [row] of any type.

        X may also name Parquet files; y is then the name of the target column, as in
        `AnchoredRegressor.fit`.

        X may be a data frame (pandas, polars or Arrow) with text, categories, booleans, dates and
        missing cells. With a ``network`` of your own it may have any rank: images [row, height,
        width, channel], token numbers [row, position]. A `numpy.memmap` is read batch by batch
        and never as a whole. A row of weight w counts as w rows; rows of weight zero are left
        out. Rows of the same group (a patient, a site) in ``groups`` [row] are held out together.
        """
        with opened_rows(self, X, y) as (X, y):
            return updating.fit(self, X, y, sample_weight, groups)

    @in_asked_precision
    def partial_fit(self, X, y, classes=None, sample_weight=None, groups=None):
        """Add rows to a fitted model; the first call is a `fit`.

        Parameters
        ----------
        X, y, sample_weight, groups : as in `fit`.
        classes : all labels that may occur. Give them in the first call if its ``y`` does not
            contain all of them; later labels must be among them.

        As in `AnchoredRegressor.partial_fit`, members continue from where they are. All rows are
        fitted again from the start when there are half as many again or when new rows are much
        less probable.
        """
        return updating.partial_fit(self, X, y, sample_weight, groups, classes)

    def _fit(self, X, y, sample_weight=None, groups=None, classes=None) -> Fit:
        """Everything from the beginning; ``classes`` may have more labels than ``y``."""
        if self.method not in METHODS:
            raise unknown_name("method", self.method, METHODS)
        self._chosen_widths, self._chosen_steps = None, 1.0  # before rows ask for ramps
        inputs, rows, classes = self._labelled(X, y, sample_weight, groups, classes)
        key = random_key(self.random_state)
        words = np.asarray(jax.random.key_data(key))
        model, rows = self._chosen_model(key, rows, inputs.encoder, len(classes))
        folds = _folds(model.network, rows)
        ensemble, others = self._train(key, model, folds)
        prepared = Prepared(inputs._replace(x=None), rows, model, folds, words, classes)
        prepared, scores, outputs = self._complete(prepared, ensemble, others)
        health.report(health.collapsed_members(softmax(outputs), ensemble.member_ids))
        return Fit(prepared, ensemble, others, scores)

    def _complete(self, prepared: Prepared, ensemble, others) -> Completed:
        """From trained members to the fitted model; also after an update."""
        rows, temperature, usual, scores = prepared.rows, 1.0, None, None
        if prepared.folds is not None and others is not None:
            temperature, usual, scores = _held_out(others, prepared.folds, rows)
        parts = {"regression": None, "classes": prepared.targets, "temperature": temperature}
        fitted = self._fitted(prepared.inputs, prepared.model, rows, ensemble, **parts)
        return Completed(prepared, scores, self._finish(fitted, rows, usual))

    def _new_targets(self, prepared: Prepared, y: np.ndarray) -> np.ndarray:
        """Labels of new rows as class numbers [row, 1]."""
        check_classification_targets(y)
        return _numbers(prepared.targets, y)

    def _new_scores(self, dist: Predictive, y: np.ndarray) -> np.ndarray:
        """Log probabilities [row] of new labels."""
        return dist.log_density(_numbers(self.classes_, y))

    def _chosen_model(self, key, rows: Rows, encoder, n_classes: int) -> tuple[Model, Rows]:
        """What is trained, and the rows as it takes them."""
        tunes = self._needs_first_var() and bool(np.ptp(rows.y))  # of one class, nothing is told
        if not (tunes and self._has_twin()):
            first_var = self._given_first_var() or 1.0
            if tunes:
                own, some = self._drawn_prior(rows, n_classes), rows.first(MAX_ROWS)
                with keeping(self._place("evidence")):
                    first_var = choose_classification(*own, some, rows.y[:, 0], rows.weight)
            return self._model(rows, Categorical(), n_classes, first_var), rows
        tuned: dict[Any, TunedClasses] = {}

        def tuned_with(widths: tuple[int, ...] | None) -> TunedClasses:
            self._chosen_widths = widths
            if widths not in tuned:
                twin, some = self._twin(rows, encoder), rows.first(MAX_ROWS)
                with keeping(self._place("evidence" if widths is None else "evidence-straight")):
                    tuned[widths] = tune_classification(twin, some, rows.y[:, 0], rows.weight)
            return tuned[widths]

        def made(widths: tuple[int, ...] | None, share: float) -> Candidate:
            # What suits one layer suits two better than the evidence of two.
            first_var, relevance, _ = tuned_with(widths if widths == () else None)
            self._chosen_widths, taken = widths, rows.with_inputs(len(relevance))
            model = self._model(taken, Categorical(), n_classes, share * first_var, relevance)
            schedule = self._schedule(model.data.n_rows, model.likelihood)
            return Candidate(model, taken, schedule, widths, share)

        free, folds = self._widths_are_free(), trials.plan(rows)
        if folds is None and free:
            with_layer, straight = (tuned_with(widths).log_evidence for widths in (None, ()))
            found = made(() if straight > with_layer else None, 1.0)
            return found.model, found.rows
        if folds is None or isinstance(rows.x, HostRows):
            found = made(None, 1.0)
            return found.model, found.rows
        others: list[tuple[tuple[int, ...] | None, float]] = [(None, trials.TIGHTER)]
        if free:
            others += [((), 1.0), *((_DEEPER, share) for share in _DEEPER_SHARES)]
        with progress_bar(self.verbose, "Choosing the prior") as on_check:
            first, every = made(None, 1.0), starmap(made, others)
            found = trials.best(key, first, every, folds, self.method, on_check, self._place)
        self._chosen_widths = found.widths
        self._chosen_steps = trials.STEPS
        return found.model, found.rows

    def _labelled(
        self, X, y, sample_weight, groups, classes=None
    ) -> tuple[Inputs, Rows, np.ndarray]:
        """Rows with the numbers of their classes, and the classes."""
        inputs, y, weight = self._check_fit_input(X, y, sample_weight)
        check_classification_targets(y)
        classes = _classes(y, weight, classes)
        return inputs, self._rows(inputs, _numbers(classes, y), weight, groups), classes

    def _planned(self, X, y, sample_weight, groups) -> Planned:
        _, rows, classes = self._labelled(X, y, sample_weight, groups)
        network = self._make_network(len(classes), len(rows.y))
        return Planned(rows, Categorical(), len(classes), _folds(network, rows))

    @property
    def classes_(self) -> np.ndarray:
        """The labels, in the order of the columns of `predict_proba`."""
        assert self.model_.classes is not None
        return self.model_.classes

    @property
    def temperature_(self) -> float:
        """The temperature of the averaged probabilities."""
        return self.model_.temperature

    def _likelihood(self, model: FittedModel) -> Likelihood:
        return Categorical()

    def predict(self, X) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities [row, class], averaged over the members and then tempered."""
        return self.predict_dist(X).probabilities


def _classes(y: np.ndarray, weight: np.ndarray, given) -> np.ndarray:
    """The labels in order: those given, or those of rows that count."""
    classes = np.unique(y[weight > 0] if given is None else np.asarray(given))
    if len(classes) < 2:
        where = "`classes`" if given is not None else "`y`"
        raise ValueError(
            f"{where} must have at least 2 classes among rows of positive weight; got one "
            f"class, {classes[0]!r}."
        )
    return classes


def _numbers(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Class numbers [row, 1] of labels."""
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = np.flatnonzero(classes[places] != y)
    if len(unknown):
        raise ValueError(
            f"`y` has the label {y[unknown].tolist()[0]!r}, which is not among the classes "
            f"{classes.tolist()}. Give all labels as `classes` in the first `partial_fit`, or fit "
            "again."
        )
    return places.astype(np.float64)[:, None]


def _folds(network: Network, rows: Rows) -> Folds | None:
    if not traits(network).vmappable:  # networks that run one by one are slow
        return None
    few, many = (*_FOLDS, _MANY), tuning.MANY_ROWS
    return plan_folds(len(rows.y), rows.groups, *few, many, labels=rows.y[:, 0])


def _held_out(
    others: Ensemble, folds: Folds, rows: Rows
) -> tuple[float, np.ndarray | None, Scores | None]:
    """The temperature that suits held-out rows, their usual disagreement and their scores."""
    held = predict_held_out(others, folds, rows.x, least=1)
    report_fold_failures(others, folds, "the temperature is learned", held is not None)
    if held is None:
        return 1.0, None, None
    members = softmax(held.outputs)
    dist = Predictive.from_members(members, np.zeros_like(members), "categorical")
    labels, weight = rows.y[held.rows, 0].astype(int), rows.weight[held.rows]
    temperature = fit_temperature(dist.probabilities, labels, weight)
    apart, n = disagreement(held.outputs, dist), len(held.outputs)
    apart[:, 0] *= n / max(n - 1, 1)  # of the mutual information few members show a part
    p = tempered(dist.probabilities, temperature)[np.arange(len(labels)), labels]
    scores = np.log(np.maximum(p, np.finfo(np.float64).tiny))[weight > 0]
    return temperature, novelty.usual(apart, weight), Scores.of(scores)
