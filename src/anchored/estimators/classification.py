"""The classifier."""

from dataclasses import replace

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from anchored import tuning
from anchored.core.ensembles import METHODS, Folds
from anchored.core.likelihoods import Categorical
from anchored.core.rows import HostRows, Standardiser
from anchored.error_bars import health
from anchored.error_bars.calibration import fit_temperature
from anchored.errors import bad_value, unknown_name
from anchored.estimators.base import (
    LEAST_HELD_OUT,
    AnchoredEstimator,
    Model,
    first_rows,
    held_out_folds,
    held_out_outputs,
    merged_rows,
    random_key,
    usual_quantile,
)
from anchored.estimators.validation import check_range, check_tokens
from anchored.prediction.predictive import Predictive
from anchored.prediction.special import logit_spread, tempered

_FOLDS = (5, 3)  # folds and their members
_HEALTH_ROWS = 2_000  # training rows on which members are looked at
_MANY = 5  # members of the single fold of many rows


class AnchoredClassifier(ClassifierMixin, AnchoredEstimator):
    """Classification with an anchored ensemble of neural networks.

    Class probabilities are the average of the members' softmax outputs, at the temperature
    that suits rows which other members were trained without: five folds of three members, one
    of five from 5,000 rows on, none below 30 rows. The prior variance
    is that of highest evidence of the infinitely wide network (Laplace's approximation, one
    class against the rest, at most 500 rows); the schedule is `AnchoredRegressor`'s.

    Parameters
    ----------
    hidden, activation, n_members, network, prior : as in `AnchoredRegressor`.
    method : anchored, regularised, unconstrained, or deep (here the same as unconstrained).
    epochs, batch_size, learning_rate, decay_rate : as in `AnchoredRegressor`.
    max_seconds, random_state, verbose : as in `AnchoredRegressor`.
    augment : changes each batch of inputs at random before it is trained on, a function
        ``augment(rng, x)`` of a NumPy generator and inputs [row, ...] as they were given.

    Attributes
    ----------
    classes_ : the labels, in the order of the columns of `predict_proba`.
    ensemble_ : the trained `Ensemble`.
    prior_ : its `Prior`.
    temperature_ : of the averaged probabilities; above one, members alone would be too sure.
    novelty_scale_ : mutual information and spread of the logits [2] that one held-out row in a
        hundred exceeds.

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

    def __init__(
        self,
        hidden=(50,),
        activation="relu",
        n_members=10,
        method="anchored",
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

    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit to inputs X [row, feature] and labels y [row] of any type.

        With a ``network`` of your own, X may have any rank: images [row, height, width, channel],
        token numbers [row, position]. A `numpy.memmap` is read batch by batch and never as a
        whole. A row of weight w counts as w rows; rows of weight zero are left out. Rows of one of
        ``groups`` [row] (a patient, a site) are held out together.
        """
        names = [name for name, row in METHODS.items() if not row.target_noise]
        if self.method not in names:
            raise unknown_name("method", self.method, names)
        if self.augment is not None and not callable(self.augment):
            raise bad_value("augment", self.augment, "a function of a generator and a batch")
        stays = isinstance(X, np.memmap) or self.augment is not None
        X, y, weight = self._check_fit_input(X, y, sample_weight)
        check_classification_targets(y)
        classes = np.unique(y[weight > 0])
        if len(classes) < 2:
            raise ValueError(
                f"`y` must have at least 2 classes among rows of positive weight; got one "
                f"class, {classes[0]!r}."
            )
        kept = weight > 0
        labels = np.asarray(np.searchsorted(classes, y[kept]), np.float64)[:, None]
        if groups is not None:
            check_consistent_length(X, groups)
            groups = np.asarray(groups)[kept]
        if stays:
            x, labels, weight, groups = self._rows_that_stay(X, labels, weight, groups)
            x_standardiser = x.standardiser
        else:
            x, labels, weight, groups = merged_rows(X[kept], labels, weight[kept], groups)
            x_standardiser = self._input_standardiser(x, weight)
            x = check_range(x_standardiser.forward(x))
        first_var = self._given_first_var() or 1.0
        if self._needs_first_var():
            some = x[: tuning.CLASS_ROWS]
            first_var = tuning.tune_classification(self._twin(x), some, labels[:, 0], weight)
        model = self._model(x, labels, weight, Categorical(), len(classes), first_var)
        folds = self._held_out(model, groups)
        ensemble, others = self._train(random_key(self.random_state), model, folds)
        temperature, usual = 1.0, None
        if folds is not None and others is not None and others.n_members == len(folds.of_member):
            rows, logits = held_out_outputs(others, folds, x)
            probabilities = special.softmax(logits, axis=-1).mean(axis=0)
            temperature = fit_temperature(probabilities, labels[rows, 0].astype(int), weight[rows])
            usual = usual_quantile(_apart(logits), weight[rows])
        # Only now, so that a fit that fails leaves an earlier one as it was.
        self.ensemble_, self.prior_ = ensemble, model.prior
        self.x_standardiser_, self.classes_ = x_standardiser, classes
        self.temperature_ = temperature
        self.novelty_scale_ = usual if usual is not None else self._usual_disagreement(x, weight)
        means = ensemble.moments(first_rows(x, _HEALTH_ROWS))[0]
        health.report(health.collapsed_members(means, ensemble.member_ids))
        return self

    def _rows_that_stay(self, X, labels: np.ndarray, weight: np.ndarray, groups):
        """Rows of positive weight in random order, unread; equal ones are not merged."""
        kept = np.flatnonzero(weight > 0)
        order = np.random.default_rng(0).permutation(len(kept))
        rows, weight = HostRows(X, kept[order], Standardiser.identity()), weight[kept[order]]
        if getattr(self.network, "takes_tokens", False):
            for piece in rows.pieces():
                check_tokens(self.network, piece)
        else:
            rows = replace(rows, standardiser=Standardiser.of_rows(rows, weight))
        rows = replace(rows, augment=self.augment)
        return rows, labels[order], weight, None if groups is None else groups[order]

    def _checked_inputs(self, X) -> np.ndarray | HostRows:
        """Those of a memory-mapped file stay there until they are predicted."""
        if not isinstance(X, np.memmap):
            return super()._checked_inputs(X)
        x = self._validated(X)
        return HostRows(x, np.arange(len(x)), self.x_standardiser_)

    def _held_out(self, model: Model, groups) -> Folds | None:
        """Other members for the temperature; slow networks and few rows go without."""
        n_rows = model.data.n_rows
        if n_rows < LEAST_HELD_OUT or not getattr(model.network, "vmappable", True):
            return None
        return held_out_folds(n_rows, groups, *_FOLDS, _MANY)

    def _disagreement(self, x: np.ndarray | HostRows) -> np.ndarray:
        return _apart(self.ensemble_.outputs(x))

    def predict(self, X) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities [row, class], averaged over the members and then tempered."""
        return self.predict_dist(X).probabilities

    def _to_target_units(self, x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Predictive:
        """Pool members' probabilities; float32 sums are made exactly one."""
        mean = np.asarray(mean, np.float64)
        mean /= mean.sum(axis=-1, keepdims=True)
        dist = Predictive.from_members(mean, var, "categorical")
        return replace(dist, mean=tempered(dist.mean, self.temperature_))


def _apart(logits: np.ndarray) -> np.ndarray:
    """How far members are apart [row, 2]: mutual information, and spread of the logits.

    Softmax saturates: far from the data all members may be sure of the same class, though
    their logits differ by much.
    """
    members = special.softmax(logits.astype(np.float64), axis=-1)
    dist = Predictive.from_members(members, np.zeros_like(members), "categorical")
    return np.stack([dist.mutual_information, logit_spread(logits)], axis=1)
