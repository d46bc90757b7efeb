"""The regressor."""

import warnings
from pathlib import Path

import jax
import numpy as np
from sklearn.base import RegressorMixin

from anchored import tuning
from anchored.core.kept_values import keeping
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.loss import METHODS, Folds
from anchored.core.priors import Prior
from anchored.core.rows import Standardiser, in_blocks
from anchored.error_bars import health
from anchored.error_bars.folds import plan_folds, predict_held_out
from anchored.errors import bad_value, unknown_name
from anchored.estimators import comparison, own_likelihood, updating
from anchored.estimators.base import (
    AnchoredEstimator,
    check_method,
    in_asked_precision,
    random_key,
)
from anchored.estimators.failures import report_fold_failures
from anchored.estimators.kept import Completed, Fit, Prepared
from anchored.estimators.planning import Planned
from anchored.estimators.rows import Rows
from anchored.estimators.streams import opened_rows
from anchored.estimators.targets import Targets, mean_square
from anchored.exact import scales
from anchored.exact.drawn import choose_regression
from anchored.exact.evidence import MAX_ROWS, tune_regression
from anchored.metrics import GPComparison
from anchored.model.record import FittedModel, Sampled
from anchored.prediction.predictive import CONTINUOUS, Predictive
from anchored.prediction.warp import Warp
from anchored.tuning import Settings
from anchored.typing import Likelihood, traits

_SCALES = (1e-100, 1e100)  # of the target; its variances are squares of them
_FEW_FOLDS = (10, 3)  # folds and their members: of few rows, a fifth would be missed
_FOLDS = (5, 4)
_LEAST_SPREAD = 2  # members of a fold that have one
TARGET_SCALES = ("auto", "linear", "log")


class AnchoredRegressor(RegressorMixin, AnchoredEstimator):
    """Regression with an anchored ensemble of neural networks.

    Nothing needs tuning. Inputs and targets are standardised, and extreme values of a column are
    pulled in. The evidence of the infinitely wide network, an exact Gaussian process, chooses the
    prior variance, the relevance of each column and the noise used in training, on at most 1,000
    rows. From 50 rows on, a column with many values also gets ramps between its quantiles, so that
    the networks can bend along it if the evidence supports that: 8 ramps, and with more than 1,800
    rows up to 64. If straight lines (or sums of ramps) have a higher evidence than a hidden layer,
    the networks have no hidden layer. This is not tried if you give ``likelihood``, ``settings``,
    or ``prior`` as a number or a `Prior`.

    Training takes 3,000 steps of Adam below 500 rows, and 6,000 with more. Steps are in units of
    the prior's scale, and the learning rate falls evenly from 0.03 to zero. Below 50 rows or with
    little noise, training takes up to 30,000 steps in the units of the parameters; the rate then
    falls from 0.03 (0.01 with two hidden layers) to 1 % of that, and training stops early when no
    member improves any more. Batches have 64 rows, or 32 below 500 rows.
    From 5,000 rows on, Muon takes the place of Adam. It takes a tenth as many steps as there are
    rows, but at least 2,000 and at most 4,000. Its batches have 1 % of the rows, but at least 200
    and at most 1,024. With hardly any noise it takes 6,000 steps, in the units of the parameters.

    Held-out rows set the noise of predictions, its tails, where it is larger, a factor on the
    members' spread, and the width that intervals need (`Predictive.interval`). There are five folds
    of four members (ten of three below 500 rows), each trained without the rows of its fold. From
    5,000 rows on, all members are trained without a fifth of the rows; then they continue with all
    rows, for a third of the steps at a third of the rate. This step is skipped if ``noise_var`` is
    given or if there are fewer than 10 rows.

    Parameters
    ----------
    hidden : width of each hidden layer; ``()`` is a linear model. "auto" is one layer of 50, two
        from 5,000 rows on, or none where that has the higher evidence.
    activation : relu, leaky_relu, erf, tanh, gelu or softplus.
    n_members : number of networks; 1 gives a single regularised network.
    method : rms (each member is a draw from the posterior), anchored (the paper's method, whose
        spread leaves out the effect of noise in the data), random-features, regularised,
        unconstrained or deep (Deep Ensembles).
    network : your own network, which replaces ``hidden`` and ``activation``.
    noise_var : variance of the data noise in squared units of the target, one number or one
        for each output, or "auto".
    prior : variance of the input layer's biases (the paper's scales elsewhere), a whole
        `Prior`, or "auto".
    epochs, batch_size, learning_rate : how to train, or "auto".
    decay_rate : factor on the learning rate every 20 steps, or "auto".
    predictive : "student-t" widens intervals to allow for few members; "gaussian" is the paper's.
    settings : `Settings`, or a file that ``anchored tune`` wrote. They set the activation and
        everything left at "auto".
    target_scale : "log" predicts log(target + median), for positive targets whose noise grows with
        the target; quantiles then are never negative. "linear" predicts the target itself. "auto"
        takes the scale under which rows held out one at a time are more probable.
    max_seconds : if given, training is shortened to take at most about this long.
    augment : a function ``augment(rng, x)`` that changes each training batch at random; it gets a
        NumPy generator and inputs [row, ...] as they were given.
    random_state : seed for the anchors, the initial draws and the order of the batches.
    verbose : 1 shows a progress bar.
    likelihood : in place of a Gaussian, any object with ``log_prob(outputs, y)`` and
        ``sample(key, outputs)``, such as ``StudentT()`` or ``NegativeBinomial()``. The predictive
        distribution then consists of samples. None means a Gaussian whose noise is learned.
    optimiser : replaces Adam with a falling rate: "constant", "cosine" or "warmup-cosine", or an
        optax transformation, which has its own rate.
    dtype : number type of training: float32, float64 (double precision) or bfloat16 (networks run
        in 16 bits).
    warm_start : if True, a later `fit` continues from the trained members, on the rows it is given.
        `partial_fit` does the same with additional rows.
    checkpoint : folder, or its URL (``s3://...``, whatever `pyarrow.fs` or fsspec reads), that
        keeps the state of training while it runs. If the process is killed, the same fit (with a
        number as ``random_state``) continues from there and ends with the same model, to the last
        bit. The files are removed when the fit ends.
    executor : where the members are trained instead of in this process: "ray" (the Ray cluster of
        this process, or a new one on this machine), "ray://host:port", or a `RayExecutor`.

    Attributes
    ----------
    model_ : the `FittedModel`, which contains everything needed to predict.
    ensemble_ : the trained `Ensemble`, in standardised units.
    prior_ : its `Prior`.
    noise_var_ : noise variance in squared units of the target (of its logarithm, if that is
        predicted), averaged over the training rows, [out]; None if the networks predict it.
    novelty_scale_ : epistemic deviation [out] that one held-out row in a hundred exceeds.
    update_ : what the last `fit` or `partial_fit` did, an `Update`.

    Examples
    --------
    >>> import numpy as np
    >>> from anchored import AnchoredRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = AnchoredRegressor(n_members=4, random_state=0)
    >>> mean, std = model.fit(X, X[:, 0] ** 2).predict([[0.5], [3.0]], return_std=True)
    >>> bool(std[1] > 10 * std[0])  # far from the data
    True
    """

    _many_widths = (50, 50)
    _matrix_rows = tuning.MANY_ROWS
    _y_rules = {"multi_output": True, "y_numeric": True}

    def __init__(
        self,
        hidden="auto",
        activation="relu",
        n_members=10,
        method="rms",
        network=None,
        noise_var="auto",
        prior="auto",
        epochs="auto",
        batch_size="auto",
        learning_rate="auto",
        decay_rate="auto",
        predictive="student-t",
        settings=None,
        target_scale="auto",
        max_seconds=None,
        augment=None,
        random_state=None,
        verbose=0,
        likelihood=None,
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
        self.noise_var = noise_var
        self.prior = prior
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay_rate = decay_rate
        self.predictive = predictive
        self.settings = settings
        self.target_scale = target_scale
        self.max_seconds = max_seconds
        self.augment = augment
        self.random_state = random_state
        self.verbose = verbose
        self.likelihood = likelihood
        self.optimiser = optimiser
        self.dtype = dtype
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.executor = executor

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @in_asked_precision
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit to inputs X [row, feature] and targets y [row] or [row, output].

        X may also be the path of a Parquet file or of a folder of Parquet files, a pattern such as
        ``"big/*.parquet"``, or an Arrow dataset; y is then the name of the target column. A table
        that needs more than a third of the memory is encoded once, into a temporary file, and read
        batch by batch.

        X may be a data frame (pandas, polars or Arrow) with text, categories, booleans, dates and
        missing cells. With a ``network`` of your own it may be an array of any rank; a
        `numpy.memmap` is read batch by batch and never as a whole. A row of weight w counts as w
        rows; rows of weight zero are left out. Rows of the same group (a patient, a site) in
        ``groups`` [row] are held out together.
        """
        with opened_rows(self, X, y) as (X, y):
            return updating.fit(self, X, y, sample_weight, groups)

    @in_asked_precision
    def partial_fit(self, X, y, sample_weight=None, groups=None):
        """Add rows to a fitted model; the first call is a `fit`.

        Members continue from where they are and keep their anchors; so do the members that learn
        the noise. The prior, the noise of training and the encoding of columns stay as they are.
        When there are half as many rows again as when they were chosen, or when new rows are much
        less probable than held-out rows were, all rows are fitted again from the start. All rows
        are kept in memory.
        """
        return updating.partial_fit(self, X, y, sample_weight, groups)

    def _fit(self, X, y, sample_weight=None, groups=None) -> Fit:
        """Everything from the beginning."""
        check_method(self.method)
        self._chosen_widths = None
        if self.predictive not in CONTINUOUS:
            raise unknown_name("predictive", self.predictive, CONTINUOUS)
        if self.target_scale not in TARGET_SCALES:
            raise unknown_name("target_scale", self.target_scale, TARGET_SCALES)
        self._tuned = _as_settings(self.settings)
        if self.likelihood is not None:
            own_likelihood.check(self)
        inputs, y, weight = self._check_fit_input(X, y, sample_weight, **self._y_rules)
        one_target = y.ndim == 1
        y = np.asarray(y, np.float64).reshape(len(y), -1)
        rows = self._rows(inputs, y, weight, groups)
        if self.likelihood is not None:
            return self._fit_likelihood(inputs, rows, one_target)
        with keeping(self._place("evidence")):
            warp = self._choose_scale(rows, inputs.encoder)
            if warp is not None:
                rows = rows._replace(y=in_blocks(warp.forward, rows.y))
            scaler = _target_standardiser(rows.y, rows.weight)
            rows = rows._replace(y=in_blocks(scaler.forward, rows.y))
            given = self._given_noise_var(scaler)
            first_var, noise_var, relevance = self._tune(rows, given, inputs.encoder)
        if relevance is not None:
            rows = rows.with_inputs(len(relevance))
        likelihood = HeteroskedasticGaussian() if noise_var is None else Gaussian(noise_var)
        n_outputs = rows.y.shape[1] * (2 if noise_var is None else 1)
        model = self._model(rows, likelihood, n_outputs, first_var, relevance)
        key, folds = random_key(self.random_state), None
        # Networks that run one by one are slow: they get no others beside them.
        if given is None and noise_var is not None and traits(model.network).vmappable:
            folds = _folds(len(rows.y), self.n_members, rows.groups)
        targets = Targets(one_target, warp, scaler, given is not None, _n_tuned(relevance))
        words = np.asarray(jax.random.key_data(key))
        ensemble, others = self._train(key, model, folds)
        prepared = Prepared(inputs._replace(x=None), rows, model, folds, words, targets)
        prepared, scores, outputs = self._complete(prepared, ensemble, others)
        self._check_health(outputs, prepared.rows, first_var, given)
        return Fit(prepared, ensemble, others, scores)

    def _complete(self, prepared: Prepared, ensemble, others) -> Completed:
        """From trained members to the fitted model; also after an update."""
        targets, rows = prepared.targets, prepared.rows
        if isinstance(targets, Sampled):
            parts = {"regression": None, "classes": None, "sampled": targets}
            fitted = self._fitted(prepared.inputs, prepared.model, rows, ensemble, **parts)
            self._train_rows = None
            return Completed(prepared, None, self._finish(fitted, rows, None))
        held = None
        if prepared.folds is not None and others is not None:
            held = predict_held_out(others, prepared.folds, rows.x, _LEAST_SPREAD)
            report_fold_failures(others, prepared.folds, "the noise is learned", held is not None)
        found = targets.learned_from(prepared, ensemble, held, self.predictive, self._place)
        parts = {"regression": found.regression, "classes": None}
        fitted = self._fitted(prepared.inputs, prepared.model, rows, ensemble, **parts)
        usual = None if found.usual is None else found.usual * targets.scaler.scale
        outputs = self._finish(fitted, rows, usual)
        self._train_rows = None
        if len(rows.y) <= comparison.MAX_ROWS:
            self._train_rows = (rows.x[:], rows.y, rows.weight)
        return Completed(prepared._replace(targets=found.targets), found.scores, outputs)

    def _planned(self, X, y, sample_weight, groups) -> Planned:
        """With the widest inputs, and a noise that only the fit will know."""
        check_method(self.method)
        self._tuned = _as_settings(self.settings)
        if self.likelihood is not None:
            own_likelihood.check(self)
        rules = {"multi_output": True, "y_numeric": True}
        inputs, y, weight = self._check_fit_input(X, y, sample_weight, **rules)
        one_target, y = y.ndim == 1, np.asarray(y, np.float64).reshape(len(y), -1)
        rows = self._rows(inputs, y, weight, groups)
        if self.likelihood is not None:
            rows, _, sampled = own_likelihood.targets(self, rows, one_target)
            n_outputs = own_likelihood.n_outputs(self, rows.y.shape[1], rows)
            return Planned(
                rows, own_likelihood.trained_on(self.likelihood, sampled), n_outputs, None
            )
        scaler = _target_standardiser(rows.y, rows.weight)
        rows, given = rows._replace(y=scaler.forward(rows.y)), self._given_noise_var(scaler)
        if METHODS[self.method].variance_head:
            return Planned(rows, HeteroskedasticGaussian(), 2 * y.shape[1], None)
        likelihood = Gaussian(np.full(y.shape[1], 0.1) if given is None else given)
        vmappable = traits(self._make_network(y.shape[1], len(y))).vmappable
        folds = None
        if given is None and vmappable:
            folds = _folds(len(rows.y), self.n_members, rows.groups)
        return Planned(rows, likelihood, y.shape[1], folds)

    def _new_targets(self, prepared: Prepared, y: np.ndarray) -> np.ndarray:
        """Targets of new rows as members are trained on them [row, out]."""
        targets, n_outputs = prepared.targets, prepared.rows.y.shape[1]
        shape = (len(y),) if targets.one_target else (len(y), n_outputs)
        if y.shape != shape:
            raise ValueError(f"`y` must have the shape {shape}, as before; got {y.shape}.")
        y = np.asarray(y, np.float64).reshape(len(y), n_outputs)
        return targets.forward(y)

    def _new_scores(self, dist: Predictive, y: np.ndarray) -> np.ndarray:
        """Log densities [row] of new targets as they were given."""
        return dist.log_density(y)

    def _fit_likelihood(self, inputs, rows: Rows, one_target: bool) -> Fit:
        rows, ordinary, sampled = own_likelihood.targets(self, rows, one_target)
        n_outputs = own_likelihood.n_outputs(self, rows.y.shape[1], rows)
        first_var, relevance = self._given_first_var() or 1.0, None
        if self._needs_first_var():
            with keeping(self._place("evidence")):
                first_var, _, relevance = self._tune(ordinary, None, inputs.encoder, n_outputs)
        likelihood = own_likelihood.trained_on(self.likelihood, sampled)
        if relevance is not None:
            rows = rows.with_inputs(len(relevance))
        model = self._model(rows, likelihood, n_outputs, first_var, relevance)
        key = random_key(self.random_state)
        words = np.asarray(jax.random.key_data(key))
        ensemble, _ = self._train(key, model)
        prepared = Prepared(inputs._replace(x=None), rows, model, None, words, sampled)
        return Fit(self._complete(prepared, ensemble, None).prepared, ensemble, None, None)

    def _pooled(self, outputs, z) -> Predictive:
        if self.model_.sampled is None:
            return super()._pooled(outputs, z)
        return own_likelihood.predictive(self.likelihood, self.model_, outputs)

    @property
    def noise_var_(self) -> np.ndarray | None:
        """Noise variance [out] in squared units of the target; None if the networks predict it."""
        return None if self.model_.regression is None else self.model_.regression.noise_var

    def _likelihood(self, model: FittedModel) -> Likelihood:
        if model.sampled is not None:
            return own_likelihood.trained_on(self.likelihood, model.sampled)
        assert model.regression is not None
        if model.regression.floor is not None:
            return HeteroskedasticGaussian(model.regression.floor)
        return Gaussian(model.regression.training_noise_var)

    def _choose_scale(self, rows: Rows, encoder) -> Warp | None:
        """The scale on which to predict; the target's own where the noise is given on it."""
        y = rows.y[:, 0]
        may = rows.y.shape[1] == 1 and isinstance(self.noise_var, str) and self._tuned is None
        told = self._has_twin() and not METHODS[self.method].variance_head
        if self.target_scale == "log":
            if not may or METHODS[self.method].variance_head or not (y.min() >= 0 < y.max()):
                raise bad_value(
                    "target_scale",
                    "log",
                    '"linear" unless there is one target, none of it '
                    "negative, and its noise is to be learned from held-out rows",
                )
            return scales.soft(y)
        if self.target_scale == "linear" or not may or not told:
            return None
        twin = self._twin(rows, encoder, with_ramps=False)
        x = rows.first(scales.MOST_ROWS)
        return scales.choose(twin, x.reshape(len(x), -1)[:, : twin.n_features], y, rows.weight)

    def _check_health(self, outputs, rows: Rows, first_var: float, given) -> None:
        """Warn of what training does not show; the fit is complete by now."""
        regression = self.model_.regression
        assert regression is not None
        noise_var = regression.training_noise_var
        means = outputs[..., : len(regression.scale)]
        health.report(health.collapsed_members(means, self.model_.members.member_ids))
        if noise_var is None or not METHODS[self.method].penalised:
            return
        if given is None:
            left = mean_square(means, rows)
            health.report(health.penalty_dominates(left, np.asarray(noise_var)))
        if self._needs_first_var():
            health.report(health.prior_at_the_end(first_var))
        elif not isinstance(self.prior, Prior) and self._has_twin():
            x = rows.first(MAX_ROWS)
            x = x.reshape(len(x), -1)
            twin = self._twin(rows)
            seen = x, rows.y[: len(x)], rows.weight[: len(x)]
            health.report(health.prior_conflict(twin, *seen, first_var, noise_var))

    def _tune(self, rows: Rows, given, encoder, n_outputs: int | None = None):
        """Prior variance of the input layer, noise variance unless it is learned, relevances."""
        first_var, relevance = self._given_first_var(), None
        learned = METHODS[self.method].variance_head
        if self._needs_first_var() or (given is None and not learned):
            x = rows.first(MAX_ROWS)
            flat, y, weight = x.reshape(len(x), -1), rows.y[: len(x)], rows.weight[: len(x)]
            if not self._has_twin():
                own = self._drawn_prior(rows, n_outputs or y.shape[1] * (2 if learned else 1))
                known = 1.0 if isinstance(self.prior, Prior) else first_var
                chosen = choose_regression(*own, x, y, weight, known, given)
                return chosen.first_var, None if learned else chosen.noise_var, None
            twin = self._twin(rows, encoder)
            several = self._needs_first_var()
            straight = several and n_outputs is None and self._widths_are_free()
            tuned = tune_regression(twin, flat, y, weight, first_var, given, several, straight)
            if straight and not tuned.hidden:
                self._chosen_widths = ()
            if self._needs_first_var():
                first_var, relevance = tuned.first_var, tuned.relevance
            given = tuned.noise_var
        return first_var or 1.0, None if learned else given, relevance

    def _given_noise_var(self, y_standardiser: Standardiser) -> np.ndarray | None:
        """The noise in standardised units if it was given."""
        if isinstance(self.noise_var, str):
            if self.noise_var != "auto":
                raise bad_value("noise_var", self.noise_var, '"auto" or positive')
            if self._tuned is None or METHODS[self.method].variance_head:
                return None
            return np.full(y_standardiser.scale.shape, self._tuned.noise_var)
        if METHODS[self.method].variance_head:
            raise bad_value(
                "noise_var", self.noise_var, f'"auto": {self.method!r} learns the noise'
            )
        scale = y_standardiser.scale
        noise = np.asarray(self.noise_var, np.float64)
        if noise.shape not in ((), (1,), scale.shape):
            raise bad_value("noise_var", self.noise_var, f"one number or {len(scale)} of them")
        if not np.all((noise > 0) & np.isfinite(noise)):
            raise bad_value("noise_var", self.noise_var, "positive and finite")
        return np.broadcast_to(noise, scale.shape) / scale**2

    def predict(self, X, return_std=False):
        """Mean prediction and, with ``return_std``, its total deviation, in the target's units."""
        dist = self.predict_dist(X)
        return (dist.mean, dist.std) if return_std else dist.mean

    def predict_interval(self, X, coverage=0.9) -> np.ndarray:
        """Lower and upper ends of intervals that should contain a share ``coverage`` of the
        targets.

        Shape [row, 2], or [row, output, 2] for several outputs.
        """
        return np.stack(self.predict_dist(X).interval(coverage), axis=-1)

    def predict_quantiles(self, X, levels=(0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles [row, level], or [row, output, level], of the predictive distribution."""
        return np.moveaxis(self.predict_dist(X).quantiles(levels), 0, -1)

    def compare_to_gp(self, X, dist: Predictive | None = None) -> GPComparison:
        """How far the ensemble is from its exact limit, the infinitely wide network.

        A Gaussian process with the ensemble's prior and noise is conditioned on all training rows
        (at most 5,000), and the two predictive distributions are compared at ``X``. If you already
        have ``predict_dist(X)``, pass it as ``dist``. Epistemic variances are also compared far
        from the data: at the same rows, moved three times as far from the mean of the training
        rows.
        """
        return comparison.with_gp(self, X, dist)


def _as_settings(settings) -> Settings | None:
    if settings is None or isinstance(settings, Settings):
        return settings
    if not isinstance(settings, (str, Path)):
        raise bad_value("settings", settings, "None, `Settings` or the path of a file of them")
    return Settings.load(settings)


def _target_standardiser(y: np.ndarray, weight: np.ndarray) -> Standardiser:
    standardiser = Standardiser.fit(y, weight)
    if np.all(y == y[0]):
        warnings.warn(
            f"`y` is constant ({', '.join(f'{v:g}' for v in y[0])}): there is nothing to learn, "
            "and predictions will repeat it. Check that this is the target you meant.",
            UserWarning,
            stacklevel=3,
        )
    if not np.all((standardiser.scale > _SCALES[0]) & (standardiser.scale < _SCALES[1])):
        raise ValueError(
            f"`y` has a deviation of {standardiser.scale.max():.3g}, too extreme for variances in "
            "double precision; give it in other units."
        )
    return standardiser


def _folds(n_rows: int, n_members: int, groups) -> Folds | None:
    """None if there are too few rows, or one member only, which has no spread.

    Of many rows there is one fold, which all members leave out.
    """
    if n_members < 2:
        return None
    n_folds, n_each = _FEW_FOLDS if n_rows < tuning.FEW_ROWS else _FOLDS
    return plan_folds(n_rows, groups, n_folds, n_each, n_members, tuning.MANY_ROWS)


def _n_tuned(relevance: np.ndarray | None) -> int:
    """Numbers chosen with all rows in sight: the target's mean, the prior, other relevances."""
    return 1 if relevance is None else 1 + len(np.unique([1.0, *relevance]))
