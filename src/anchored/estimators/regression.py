"""The regressor."""

import warnings
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from sklearn.base import RegressorMixin

from anchored import tuning
from anchored.core.ensembles import METHODS, Folds
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.priors import Prior
from anchored.core.rows import Standardiser
from anchored.error_bars import health
from anchored.error_bars.noise import NoiseModel, learn_noise
from anchored.errors import bad_value, unknown_name
from anchored.estimators.base import (
    LEAST_HELD_OUT,
    AnchoredEstimator,
    held_out_folds,
    held_out_outputs,
    merged_rows,
    random_key,
    usual_quantile,
)
from anchored.estimators.validation import check_range
from anchored.exact import gp
from anchored.metrics import GPComparison
from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import CONTINUOUS, Predictive
from anchored.tuning import Settings

GP_MAX_ROWS = 5_000  # most training rows `compare_to_gp` solves exactly
_SCALES = (1e-100, 1e100)  # of the target; its variances are squares of them
_RESIDUAL_ROWS = 20_000  # training rows the noise is averaged or checked on after training
_FEW_FOLDS = (10, 3)  # folds and their members: of few rows, a fifth would be missed
_FOLDS = (5, 4)
_MANY = 8  # members of a single fold, which is enough for many rows


class AnchoredRegressor(RegressorMixin, AnchoredEstimator):
    """Regression with an anchored ensemble of neural networks.

    Nothing needs tuning. Inputs and targets are standardised inside. The prior variance and
    the noise of training are those of highest evidence of the infinitely wide network, an exact
    Gaussian process, on at most 2,000 rows. Training takes 30,000 steps of Adam in batches of
    64 rows (32 below 500 rows; 1 % of the rows where that is more, at most 1,024) at a rate of
    0.03 (0.01 with two hidden layers) that falls to 1 % of that, and stops early once the
    objective of every member has settled.

    The noise that predictions carry, its tails, where it is larger and how far the members'
    spread can be trusted are learned from rows that other members were trained without: five
    folds of four members, ten of three below 500 rows, one of eight from 5,000 rows on. The same
    rows say how wide intervals must be (`Predictive.interval`). With ``noise_var`` given, or fewer
    than 30 rows, none of this is done.

    Parameters
    ----------
    hidden : width of each hidden layer; ``()`` is a linear model. "auto" is one layer of 50, two
        from 5,000 rows on.
    activation : relu, leaky_relu, erf, tanh, gelu or softplus.
    n_members : networks in the ensemble; one is a single regularised network.
    method : anchored, regularised, unconstrained, deep (Deep Ensembles) or rms.
    network : your own `Network` in place of ``hidden`` and ``activation``.
    noise_var : variance of the data noise in squared units of the target, one number or one
        for each output, or "auto".
    prior : variance of the input layer's biases (the paper's scales elsewhere), a whole
        `Prior`, or "auto".
    epochs, batch_size, learning_rate : of the training, or "auto".
    decay_rate : factor on the learning rate every 20 steps, or "auto".
    predictive : "student-t" widens intervals for the few members; "gaussian" is the paper's.
    settings : `Settings`, or the file of them that ``anchored tune`` wrote, for the activation
        and whatever is left at "auto".
    max_seconds : training is cut short to take about this long at most, if given.
    random_state : seed of anchors, initial draws and batch order.
    verbose : 1 shows a progress bar.

    Attributes
    ----------
    ensemble_ : the trained `Ensemble`, in standardised units.
    prior_ : its `Prior`.
    noise_var_ : noise variance in squared units of the target, averaged over the training rows,
        [out]; None if the networks themselves predict it.
    novelty_scale_ : epistemic deviation [out] that one held-out row in a hundred exceeds.

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

    def __init__(
        self,
        hidden="auto",
        activation="relu",
        n_members=10,
        method="anchored",
        network=None,
        noise_var="auto",
        prior="auto",
        epochs="auto",
        batch_size="auto",
        learning_rate="auto",
        decay_rate="auto",
        predictive="student-t",
        settings=None,
        max_seconds=None,
        random_state=None,
        verbose=0,
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
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit to inputs X [row, feature] and targets y [row] or [row, output].

        A row of weight w counts as w rows; rows of weight zero are left out. Rows of one of
        ``groups`` [row] (a patient, a site) are held out together.
        """
        if self.method not in METHODS:
            raise unknown_name("method", self.method, METHODS)
        if self.predictive not in CONTINUOUS:
            raise unknown_name("predictive", self.predictive, CONTINUOUS)
        self._tuned = _as_settings(self.settings)
        X, y, weight = self._check_fit_input(X, y, sample_weight, multi_output=True, y_numeric=True)
        one_target = y.ndim == 1
        y = np.asarray(y, np.float64).reshape(len(y), -1)
        x, y, weight, groups = merged_rows(X, y, weight, groups)
        x_standardiser = self._input_standardiser(x, weight)
        y_standardiser = _target_standardiser(y, weight)
        x, y = check_range(x_standardiser.forward(x)), y_standardiser.forward(y)
        given = self._given_noise_var(y_standardiser)
        first_var, noise_var = self._tune(x, y, weight, given)
        likelihood = HeteroskedasticGaussian() if noise_var is None else Gaussian(noise_var)
        n_outputs = y.shape[1] * (2 if noise_var is None else 1)
        model = self._model(x, y, weight, likelihood, n_outputs, first_var)
        key = random_key(self.random_state)
        folds = None
        # Networks that run one by one are slow: they get no others beside them.
        if given is None and noise_var is not None and getattr(model.network, "vmappable", True):
            folds = _held_out(len(x), self.n_members, groups)
        ensemble, others = self._train(key, model, folds)
        noise = usual = None
        if folds is not None and others is not None and others.n_members == len(folds.of_member):
            rows, means = held_out_outputs(others, folds, x)
            noise = _learn_noise(key, x[rows], means, y[rows], weight[rows], self.predictive)
            noise_var = _average_noise(noise, x, weight)
            usual = _usual_spread(noise, means, weight[rows])
        elif given is None and noise_var is not None:
            means = ensemble.moments(x[:_RESIDUAL_ROWS])[0]
            noise_var = np.maximum(noise_var, _unexplained(means, y, weight))
        # Only now, so that a fit that fails leaves an earlier one as it was.
        self.ensemble_, self.prior_ = ensemble, model.prior
        self.x_standardiser_, self.y_standardiser_ = x_standardiser, y_standardiser
        self._one_target = one_target
        self._noise = noise
        self._training_noise_var = getattr(model.likelihood, "noise_var", None)
        self._train_rows = (x, y, weight) if len(x) <= GP_MAX_ROWS else None
        self.noise_var_ = None if noise_var is None else noise_var * y_standardiser.scale**2
        if usual is None:
            self.novelty_scale_ = self._usual_disagreement(x, weight)
        else:
            self.novelty_scale_ = usual * y_standardiser.scale
        self._check_health(x, y, weight, first_var, given)
        return self

    def _check_health(self, x, y, weight, first_var: float, given) -> None:
        """Warn of what training does not show; the fit is complete by now."""
        ensemble, noise_var = self.ensemble_, self._training_noise_var
        means = ensemble.moments(x[:_RESIDUAL_ROWS])[0]
        health.report(health.collapsed_members(means, ensemble.member_ids))
        if noise_var is None or not METHODS[self.method].penalised:
            return
        if given is None:
            left = _unexplained(means, y, weight)
            health.report(health.penalty_dominates(left, np.asarray(noise_var)))
        if self._needs_first_var():
            health.report(health.prior_at_the_end(first_var))
        elif not isinstance(self.prior, Prior) and self._has_twin():
            x = x.reshape(len(x), -1)
            rows = self._twin(x), x, y, weight
            health.report(health.prior_conflict(*rows, first_var, noise_var))

    def _disagreement(self, x: np.ndarray) -> np.ndarray:
        """Epistemic deviation [row, out] in the units of the target."""
        dist = self._to_target_units(x, *self.ensemble_.moments(x))
        return np.sqrt(dist.epistemic_var).reshape(len(x), -1)

    def _tune(self, x, y, weight, given) -> tuple[float, np.ndarray | None]:
        """Prior variance of the input layer, and noise variance unless it is learned."""
        first_var = self._given_first_var()
        learned = METHODS[self.method].variance_head
        if self._needs_first_var() or (given is None and not learned):
            flat = x.reshape(len(x), -1)
            tuned = tuning.tune_regression(self._twin(flat), flat, y, weight, first_var, given)
            if self._needs_first_var():
                first_var = tuned.first_var
            given = tuned.noise_var
        return first_var or 1.0, None if learned else given

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
        """Mean prediction, and its total deviation in the target's units if asked for."""
        dist = self.predict_dist(X)
        return (dist.mean, dist.std) if return_std else dist.mean

    def predict_interval(self, X, coverage=0.9) -> np.ndarray:
        """Lower and upper ends of intervals that should hold ``coverage`` of the targets.

        Shape [row, 2], or [row, output, 2] for several outputs.
        """
        return np.stack(self.predict_dist(X).interval(coverage), axis=-1)

    def predict_quantiles(self, X, levels=(0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles [row, level], or [row, output, level], of the predictive distribution."""
        return np.moveaxis(self.predict_dist(X).quantiles(levels), 0, -1)

    def _to_target_units(self, x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Predictive:
        """Pool members' standardised moments [member, row, output] at inputs ``x``."""
        scaler = self.y_standardiser_
        if self._noise is not None:
            var = np.stack([noise.at(x) for noise in self._noise], axis=-1)
        elif self.noise_var_ is not None:
            var = self.noise_var_ / scaler.scale**2
        dist = Predictive.from_members(mean, np.broadcast_to(var, mean.shape), self.predictive)
        if self._noise is not None:
            found = [noise.calibration for noise in self._noise]
            factor, dof = np.transpose([(c.factor, c.noise_dof) for c in found])
            dist = replace(
                dist,
                epistemic_var=factor * dist.epistemic_var,
                noise_dof=dof,
                conformal=Conformal.stacked([noise.conformal for noise in self._noise]),
            )
        dist = dist.rescaled(scaler.scale, scaler.mean)
        return dist.output(0) if self._one_target else dist

    def compare_to_gp(self, X) -> GPComparison:
        """How far the ensemble is from its own exact limit, the infinitely wide network.

        Conditions a Gaussian process with the ensemble's prior and noise on all training
        rows, which must be at most 5,000, and compares the two predictives at ``X``.
        """
        x = self._checked_inputs(X)
        if self.noise_var_ is None:
            raise ValueError(
                f"`method` {self.method!r} learns its noise; an exact GP needs it known. "
                'Fit with method="anchored" to compare.'
            )
        if not hasattr(self, "_train_rows"):
            raise ValueError(
                "This model came from a file, and files do not keep the training rows that an "
                "exact GP needs. Fit again to compare."
            )
        if self._train_rows is None:
            raise ValueError(
                f"An exact GP on all training rows is too large: there are more than "
                f"{GP_MAX_ROWS:,}. Fit on a random part of the rows to compare."
            )
        kernel = gp.twin(self.ensemble_.network, self.prior_)
        noise_var = self._training_noise_var
        rows, targets, weight = self._train_rows
        exact = gp.condition(kernel, rows, targets, noise_var, weight).predict(x)
        mean, var = self.ensemble_.moments(x)
        return GPComparison.between(Predictive.from_members(mean, var), exact)


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


def _held_out(n_rows: int, n_members: int, groups) -> Folds | None:
    """None if there are too few rows, or one member only, which has no spread."""
    if n_members < 2 or n_rows < LEAST_HELD_OUT:
        return None
    n_folds, n_each = _FEW_FOLDS if n_rows < tuning.FEW_ROWS else _FOLDS
    return held_out_folds(n_rows, groups, n_folds, n_each, _MANY)


def _learn_noise(key, x, means, y, weight, family: str) -> list[NoiseModel]:
    """A noise model for each output, by means [member, row, out] of held-out rows."""
    keys = jax.random.split(jax.random.fold_in(key, 1), y.shape[1])
    return [
        learn_noise(keys[i], x, means[..., i], y[:, i], weight, family) for i in range(y.shape[1])
    ]


def _usual_spread(noise: list[NoiseModel], means, weight) -> np.ndarray:
    """Epistemic deviation [out] that few held-out rows exceed, standardised."""
    factor = np.array([model.calibration.factor for model in noise])
    return np.sqrt(factor * usual_quantile(means.var(axis=0, ddof=1), weight))


def _average_noise(noise: list[NoiseModel], x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Variance of the noise [out] averaged over training rows, standardised."""
    x, weight = x[:_RESIDUAL_ROWS], weight[:_RESIDUAL_ROWS]
    return np.array([np.average(model.at(x), weights=weight) for model in noise])


def _unexplained(means: np.ndarray, y, weight) -> np.ndarray:
    """Mean squared residual [out] of pooled ``means`` of the first rows, standardised.

    The kernel may explain noise away that finite networks cannot; the noise is never less than
    what they leave over on the very rows they were trained on.
    """
    y, weight = y[: means.shape[1]], weight[: means.shape[1]]
    residual = y - means.mean(axis=0)
    return weight @ np.square(residual) / weight.sum()
