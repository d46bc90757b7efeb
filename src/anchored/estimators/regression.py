"""The regressor."""

import numpy as np
from sklearn.base import RegressorMixin

from anchored import gp, tuning
from anchored._errors import bad_value, unknown_name
from anchored.data import Standardiser, merge_rows
from anchored.ensembles import METHODS
from anchored.estimators._base import AnchoredEstimator
from anchored.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.metrics import GPComparison
from anchored.predictive import CONTINUOUS, Predictive

GP_MAX_ROWS = 5_000  # most training rows `compare_to_gp` solves exactly
_RESIDUAL_ROWS = 20_000  # training rows the noise is checked against after training


class AnchoredRegressor(RegressorMixin, AnchoredEstimator):
    """Regression with an anchored ensemble of neural networks.

    Nothing needs tuning. Inputs and targets are standardised inside. The prior variance and
    the noise are those of highest evidence of the infinitely wide network, an exact Gaussian
    process, on at most 2,000 rows; after training the noise is raised to the mean squared
    residual on the training rows where that is more. Training takes 30,000 steps of Adam in
    batches of 64 rows (1 % of the rows where that is more, at most 1,024) at a rate of 0.03
    that falls to 1 % of that, and stops early once the objective of every member has settled.
    That is 300 passes over 20,000 rows and 62 over 500,000.

    Parameters
    ----------
    hidden : width of each hidden layer; ``()`` is a linear model.
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
    random_state : seed of anchors, initial draws and batch order.
    verbose : 1 shows a progress bar.

    Attributes
    ----------
    ensemble_ : the trained `Ensemble`, in standardised units.
    prior_ : its `Prior`.
    noise_var_ : noise variance in squared units of the target, [out]; None if it is learned.

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
        hidden=(50,),
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
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fit to inputs X [row, feature] and targets y [row] or [row, output].

        A row of weight w counts as w rows; rows of weight zero are left out.
        """
        if self.method not in METHODS:
            raise unknown_name("method", self.method, METHODS)
        if self.predictive not in CONTINUOUS:
            raise unknown_name("predictive", self.predictive, CONTINUOUS)
        X, y, weight = self._check_fit_input(X, y, sample_weight, multi_output=True, y_numeric=True)
        self._one_target = y.ndim == 1
        y = np.asarray(y, np.float64).reshape(len(y), -1)
        x, y, weight = merge_rows(X, y, weight) if X.ndim == 2 else (X, y, weight)
        x = self._standardise_inputs(x, weight)
        self.y_standardiser_ = Standardiser.fit(y, weight)
        y = self.y_standardiser_.forward(y)
        first_var, noise_var = self._tune(x, y, weight)
        likelihood = HeteroskedasticGaussian() if noise_var is None else Gaussian(noise_var)
        n_outputs = y.shape[1] * (2 if noise_var is None else 1)
        self._training_noise_var = noise_var
        self._train_rows = (x, y, weight) if len(x) <= GP_MAX_ROWS else None
        self.ensemble_ = self._train(x, y, weight, likelihood, n_outputs, first_var)
        if noise_var is not None and isinstance(self.noise_var, str):
            noise_var = np.maximum(noise_var, self._unexplained(x, y, weight))
        self.noise_var_ = None if noise_var is None else noise_var * self.y_standardiser_.scale**2
        return self

    def _tune(self, x, y, weight) -> tuple[float, np.ndarray | None]:
        """Prior variance of the input layer, and noise variance unless it is learned."""
        first_var = self._given_first_var()
        if METHODS[self.method].variance_head:
            return first_var or 1.0, None
        noise_var = self._given_noise_var(y.shape[1])
        if first_var is None or noise_var is None:
            flat = x.reshape(len(x), -1)
            tuned = tuning.tune_regression(self._twin(flat), flat, y, weight, first_var, noise_var)
            return tuned.first_var, tuned.noise_var
        return first_var, noise_var

    def _unexplained(self, x, y, weight) -> np.ndarray:
        """Mean squared residual [out] of the pooled mean on training rows, standardised.

        The kernel may explain noise away that finite networks cannot; the noise is never
        less than what they leave over on the very rows they were trained on.
        """
        x, y, weight = x[:_RESIDUAL_ROWS], y[:_RESIDUAL_ROWS], weight[:_RESIDUAL_ROWS]
        residual = y - self.ensemble_.moments(x)[0].mean(axis=0)
        return weight @ np.square(residual) / weight.sum()

    def _given_noise_var(self, n_outputs: int) -> np.ndarray | None:
        """The noise in standardised units if it was given."""
        if isinstance(self.noise_var, str):
            if self.noise_var != "auto":
                raise bad_value("noise_var", self.noise_var, '"auto" or positive')
            return None
        noise = np.asarray(self.noise_var, np.float64)
        if noise.shape not in ((), (1,), (n_outputs,)):
            raise bad_value("noise_var", self.noise_var, f"one number or {n_outputs} of them")
        if not np.all((noise > 0) & np.isfinite(noise)):
            raise bad_value("noise_var", self.noise_var, "positive and finite")
        return np.broadcast_to(noise, (n_outputs,)) / self.y_standardiser_.scale**2

    def predict(self, X, return_std=False):
        """Mean prediction, and its total deviation in the target's units if asked for."""
        dist = self.predict_dist(X)
        return (dist.mean, dist.std) if return_std else dist.mean

    def predict_interval(self, X, coverage=0.9) -> np.ndarray:
        """Lower and upper ends [row, 2] of intervals that should hold ``coverage`` of targets."""
        return np.stack(self.predict_dist(X).interval(coverage), axis=-1)

    def predict_quantiles(self, X, levels=(0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles [row, level] of the predictive distribution."""
        return np.moveaxis(self.predict_dist(X).quantiles(levels), 0, -1)

    def _to_target_units(self, mean: np.ndarray, var: np.ndarray) -> Predictive:
        """Pool members' standardised moments [member, row, output]."""
        scaler = self.y_standardiser_
        mean = np.asarray(mean, np.float64) * scaler.scale + scaler.mean
        if self.noise_var_ is None:
            var = np.asarray(var, np.float64) * scaler.scale**2
        else:
            var = np.broadcast_to(self.noise_var_, mean.shape)
        if self._one_target:
            mean, var = mean[..., 0], var[..., 0]
        return Predictive.from_members(mean, var, self.predictive)

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
