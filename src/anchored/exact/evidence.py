"""Choose the prior and the noise by the evidence of the infinite-width twin.

This is the paper's own way of tuning (appendix E), by gradient instead of a grid: the exact GP that
the network tends to has a marginal likelihood. Its maximum over the input layer's variance and the
noise needs no training and no validation data. The relevance of each column of a table, a factor on
the variance of its weights, is chosen in the same way. Columns without information get a small
relevance. If the rows say little about a column, its relevance stays near one. For classes the
evidence is Laplace's approximation, one class against the rest; their relevances are those of a
regression of the labels.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import optimize
from threadpoolctl import threadpool_limits

from anchored.core.kept_values import kept
from anchored.exact import gp
from anchored.exact.kernels import Kernel

MAX_ROWS = 1_000  # most rows the evidence of a regression is computed on
_FIRST_ROWS = 500  # rows of a first, cheap search
_MOST_TRIALS, _LAST_TRIALS = 50, 10  # steps of the first search, and of the last
CLASS_ROWS = 500  # most rows for classes: every evidence takes several factorisations
MAX_CLASSES = 10  # classes whose evidence is averaged
_SHOWN_CLASSES = 3  # the largest ones, whose labels tell what is relevant
RELEVANCE_ROWS = 50  # fewer rows, or fewer than columns, would make relevances out of chance
CLASS_RELEVANCE_ROWS = 1_000  # of labels, which say less than numbers
# Deviation of the hyperprior of a relevance around one, in logs: of few rows, and of many.
_RELEVANCE_SPREADS = (0.7, 1.5)
# Nats by which ramps must raise the evidence: of few rows, of the many that are compared on, and of
# labels, which say less than numbers.
_LEAST_GAINS, _LEAST_GAIN_OF_LABELS = (2.0, 5.0), 0.0
_NO_RIVAL = 5.0  # nats on the rows of the first search, by which a twin is beaten for good
_LEAST_RELEVANCE, _MOST_RELEVANCE = 1e-4, 1e4
# Separable classes have an evidence that is flat towards ever larger variances. A log-normal
# hyperprior around 10, about the middle of the paper's settings, keeps them finite.
_CLASS_SPREAD = 0.7

# Standardised units. The floor of the noise is what float32 training can resolve.
FIRST_VAR_RANGE = (1e-2, 1e4)
NOISE_RANGE = (1e-7, 2.0)
_START = (10.0, 0.1)


class Tuned(NamedTuple):
    """The values of highest evidence, in standardised units."""

    first_var: float
    noise_var: np.ndarray  # [out]
    relevance: np.ndarray  # [feature], one for all of a column; of ramps only if they help
    hidden: tuple[int, ...]  # layers of the twin that it was found with


class TunedClasses(NamedTuple):
    """The values of highest evidence for classes, averaged over one class against the rest."""

    first_var: float
    relevance: np.ndarray  # [feature], as in `Tuned`
    log_evidence: float  # there, less what the hyperprior says against it


@dataclasses.dataclass(frozen=True)
class Twin:
    """The kernel of a network under the paper's prior, as a function of logarithms.

    The logarithms are those of first_var and, if there are any, of the relevances of the columns.

    Attributes
    ----------
    n_features, hidden, activation : the network.
    columns : number of the column that each feature comes from; None if each is its own column.
    n_ramps : number of features at the end that are ramps of others; they do not lower the prior
        variance of the others.
    """

    n_features: int
    hidden: tuple[int, ...]
    activation: str
    columns: tuple[int, ...] | None = None
    n_ramps: int = 0

    @property
    def n_columns(self) -> int:
        """Number of columns that have a relevance of their own."""
        return self.n_features if self.columns is None else max(self.columns) + 1

    def __call__(self, logs) -> Kernel:
        first_var = jnp.exp(logs[0])
        relevance = self.relevance(jnp.exp(logs[1:])) if len(logs) > 1 else 1.0
        return Kernel.paper(first_var, self.n_features, self.hidden, self.activation, relevance)

    def without_ramps(self) -> "Twin":
        """The same twin for inputs without ramps."""
        n_features = self.n_features - self.n_ramps
        columns = None if self.columns is None else self.columns[:n_features]
        return dataclasses.replace(self, n_features=n_features, columns=columns, n_ramps=0)

    def straight(self) -> "Twin":
        """The twin of a network without hidden layers: linear, or a sum of ramps of columns."""
        return dataclasses.replace(self, hidden=())

    def relevance(self, by_column):
        """The relevance of each feature, which is that of its column."""
        of_feature = by_column if self.columns is None else by_column[np.array(self.columns)]
        return of_feature * (self.n_features / (self.n_features - self.n_ramps))


# Matrices of this size are slower on many threads than on one, and a hundred times slower where
# other programs keep the cores busy.
one_blas_thread = threadpool_limits.wrap(limits=1, user_api="blas")


@one_blas_thread
def tune_regression(
    twin: Twin,
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    first_var: float | None = None,
    noise_var: np.ndarray | None = None,
    relevances: bool = False,
    may_be_straight: bool = False,
) -> Tuned:
    """Maximise the evidence over the values that are not given: ``first_var``, ``noise_var`` or
    both.

    With ``relevances``, also over the relevances of the columns, if there are enough rows. If it
    ``may_be_straight``, also over the twin without hidden layers. Ramps are left out, and have no
    relevance, unless they raise the evidence. Twins that come close on the first rows are compared
    on more of them. Only the first rows are used, so rows must be in random order. Several outputs
    share the kernel, and each has its own noise.
    """
    known, least_gain = _Known(first_var, noise_var), _LEAST_GAINS[len(x) >= MAX_ROWS]
    return _tune(twin, x, y, weight, known, relevances, may_be_straight, least_gain)


def _tune(twin: Twin, x, y, weight, known, relevances, may_be_straight, least_gain) -> Tuned:
    # Each output is a factorisation of its own.
    n_rows = max(_FIRST_ROWS, MAX_ROWS // int(np.ceil(np.cbrt(y.shape[1]))))

    def searched(twin: Twin) -> _Found:
        n_relevances = twin.n_columns if relevances and _are_told(twin, len(x)) else 0
        theta = np.log([_START[0], *[1.0] * n_relevances, *[_START[1]] * y.shape[1]])
        return _maximise(_Found(0.0, theta, twin), x, y, weight, known, _FIRST_ROWS, _MOST_TRIALS)

    def worth(found: _Found) -> float:
        return found.value - (least_gain if found.twin.n_ramps else 0.0)

    twins = [twin, twin.straight()] if may_be_straight else [twin]
    if twin.n_ramps:
        twins += [each.without_ramps() for each in twins]
    rivals = [searched(each) for each in twins]
    if len(x) > _FIRST_ROWS:
        least = max(found.value for found in rivals) - _NO_RIVAL
        rivals = [
            _maximise(found, x, y, weight, known, n_rows, _LAST_TRIALS)
            for found in rivals
            if found.value >= least
        ]
    found = max(rivals, key=worth)
    first, by_column, noise = _parts(found.theta, y.shape[1])
    relevance = np.ones(found.twin.n_features)
    if len(by_column):
        relevance = found.twin.relevance(np.exp(by_column))
    return Tuned(float(np.exp(first)), np.exp(noise), relevance, found.twin.hidden)


class _Found(NamedTuple):
    """The evidence, less what the hyperprior says against it, and where it was found."""

    value: float
    theta: np.ndarray
    twin: Twin


class _Known(NamedTuple):
    first_var: float | None
    noise_var: np.ndarray | None


def _are_told(twin: Twin, n_rows: int, least: int = RELEVANCE_ROWS) -> bool:
    """Whether there are rows enough for relevances."""
    return twin.n_columns > 1 and n_rows >= max(least, twin.without_ramps().n_columns)


def _parts(theta: np.ndarray, n_outputs: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Logarithms of first_var, of the relevances and of the noise."""
    return theta[0], theta[1:-n_outputs], theta[-n_outputs:]


def _maximise(start: _Found, x, y, weight, known: _Known, n_rows: int, n_trials: int) -> _Found:
    """L-BFGS over logarithms; known entries are held by equal bounds."""
    twin, theta, spread = start.twin, start.theta, _RELEVANCE_SPREADS[len(x) >= MAX_ROWS]
    x, y, weight = x[:n_rows, : twin.n_features], y[:n_rows], weight[:n_rows]
    n_outputs = y.shape[1]

    def negative(theta):  # and its gradient, in one array
        _, logs, log_noise = _parts(theta, n_outputs)
        value, in_kernel, in_noise = gp.evidence_gradient(
            twin, theta[:-n_outputs], x, y, np.exp(log_noise), weight
        )
        surprise = logs / spread
        in_kernel[1:] -= surprise / spread
        value -= 0.5 * np.sum(np.square(surprise))
        return -np.concatenate([[value], in_kernel, in_noise]) / len(x)

    known_negative = kept(negative, twin, x, y, weight, spread)

    def parts(theta):
        value, *gradient = known_negative(theta)
        return value, np.array(gradient)

    n_relevances = len(theta) - 1 - n_outputs
    bounds = [np.log(FIRST_VAR_RANGE)]
    bounds += [np.log((_LEAST_RELEVANCE, _MOST_RELEVANCE))] * n_relevances
    bounds += [np.log(NOISE_RANGE)] * n_outputs
    if known.first_var is not None:
        bounds[0] = np.repeat(np.log(known.first_var), 2)
    if known.noise_var is not None:
        bounds[-n_outputs:] = [np.repeat(np.log(noise), 2) for noise in known.noise_var]
    theta = np.clip(theta, *np.transpose(bounds))
    # 1e-6 nats a row is far below what another choice of rows would change.
    options = {"ftol": 1e-6, "gtol": 1e-4, "maxiter": n_trials}
    found = optimize.minimize(
        parts, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return _Found(-found.fun * len(x), found.x, twin)


@one_blas_thread
def tune_classification(
    twin: Twin, x: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> TunedClasses:
    """The ``first_var`` with the highest Laplace evidence, for class numbers ``labels`` and rows
    ``x``.

    There may be more labels than rows of ``x``, to show how many classes there are. In a softmax
    over K classes, one class against the rest is a difference of logits, whose variance is
    K / (K - 1) times that of one logit.
    """
    n_classes = len(np.unique(labels))
    labels, weight = labels[: len(x)], weight[: len(x)]
    relevance = _class_relevance(twin, x, labels, weight)
    x = x[:CLASS_ROWS, : len(relevance)]
    labels, weight = labels[:CLASS_ROWS], weight[:CLASS_ROWS]
    shown = largest_classes(labels)[: 1 if n_classes == 2 else MAX_CLASSES]

    def negative(log_first_var):
        kernel = Kernel.paper(
            np.exp(log_first_var), len(relevance), twin.hidden, twin.activation, relevance
        )
        values = [
            gp.laplace_log_evidence(kernel, x, np.where(labels == c, 1.0, -1.0), weight)
            for c in shown
        ]
        return class_surprise(log_first_var) - np.mean(values)

    known_negative = kept(negative, (twin, shown.tolist()), x, labels, weight, relevance)
    found: Any = optimize.minimize_scalar(
        lambda log: float(known_negative(log)),
        bounds=np.log(FIRST_VAR_RANGE),
        method="bounded",
        options={"xatol": 0.1},
    )
    first_var = float(np.exp(found.x)) * (n_classes - 1) / n_classes
    return TunedClasses(first_var, relevance, -float(found.fun))


def class_surprise(log_first_var: float) -> float:
    """Minus the log density of the hyperprior that keeps separable classes finite."""
    return 0.5 * ((log_first_var - np.log(_START[0])) / _CLASS_SPREAD) ** 2


def largest_classes(labels: np.ndarray) -> np.ndarray:
    """Classes in the order of their number of rows, the largest first."""
    classes, counts = np.unique(labels, return_counts=True)
    return classes[np.argsort(-counts)]


def _class_relevance(twin, x, labels, weight) -> np.ndarray:
    """By the regression of whether a row is of each of the largest classes."""
    if not _are_told(twin, len(x), CLASS_RELEVANCE_ROWS):
        return np.ones(twin.without_ramps().n_features)
    shown = largest_classes(labels)
    is_class = np.equal(labels[:, None], shown[: 1 if len(shown) == 2 else _SHOWN_CLASSES])
    is_class = is_class.astype(float)
    share = np.average(is_class, axis=0, weights=weight)
    y = (is_class - share) / np.sqrt(share * (1 - share))
    unknown = _Known(None, None)
    return _tune(twin, x, y, weight, unknown, True, False, _LEAST_GAIN_OF_LABELS).relevance
