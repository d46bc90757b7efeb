"""Other methods on real tables: boosted trees, and a linear model as the floor.

Each is fitted to one task and gives a function from inputs to a forecast. The number of trees, the
penalty and the residuals come from a held-out fifth of the training rows. A point forecast becomes
a distribution by split conformal prediction: quantiles (`_LEVELS`) of the held-out residuals are
added to it. The quantiles at 5 and 95 % are the ends of the conformal interval. Each quantile of
HistGradientBoosting is corrected separately by the held-out rows (CQR; Romano, Patterson and Candes
2019).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

from anchored import metrics
from anchored.metrics.inputs import Dist
from anchored.paper.tables.real_features import Codes, Features, Filled, Reader
from anchored.paper.tables.uci_outsiders import fit_ngboost, package
from anchored.tables.table import Table

MAX_TREES, PATIENCE = 2000, 100
HELD_SHARE = 5  # one row of so many is held out
_LEVELS = np.arange(1, 200) / 200
_FITTED_LEVELS = np.arange(1, 20) / 20  # of HistGradientBoosting
_MOST_CODES = 254  # levels of a category, of HistGradientBoosting
_MOST_COLUMNS = 300  # levels of a category with a column of their own, of the linear models
_ALPHAS = np.logspace(-2, 5, 15)
_INVERSE_PENALTIES = np.logspace(-3, 2, 6)


class Task(NamedTuple):
    """Training rows; classes are numbers from 0, regression has ``n_classes`` 0."""

    inputs: Table
    y: np.ndarray
    n_classes: int
    seed: int


class Forecast(NamedTuple):
    """What `metrics` take: a distribution, or class probabilities [row, class].

    ``point`` is the point forecast, if it is not the distribution's mean. ``factor`` is the factor
    on the epistemic variance, if held-out rows chose one.
    """

    dist: Dist
    point: np.ndarray | None = None
    has_density: bool = True
    factor: float | None = None


Predict = Callable[[Table], Forecast]
Fit = Callable[[Task], Predict]


def on_one_thread(fit: Fit) -> Fit:
    """The same fit on one thread, so that seconds can be compared.

    On busy cores, threads would also wait long for each other.
    """

    def fitted(task: Task) -> Predict:
        with threadpool_limits(1):
            predict = fit(task)

        def predicted(inputs: Table) -> Forecast:
            with threadpool_limits(1):
                return predict(inputs)

        return predicted

    return fitted


class Held(NamedTuple):
    """Training rows as features, with a fifth of them held out."""

    reader: Reader
    whole: Features
    kept: np.ndarray
    out: np.ndarray

    @classmethod
    def of(cls, task: Task) -> "Held":
        """If only held-out rows would have a class, its rows are kept for training."""
        order = np.random.default_rng(task.seed).permutation(len(task.y))
        kept, out = np.split(order, [len(order) - len(order) // HELD_SHARE])
        if task.n_classes:
            known = np.isin(task.y[out], task.y[kept])
            kept, out = np.concatenate([kept, out[~known]]), out[known]
        reader = Reader.fit(task.inputs)
        return cls(reader, reader.read(task.inputs), kept, out)


def conformal(point: np.ndarray, residuals: np.ndarray) -> Forecast:
    """A point forecast with the distribution of held-out residuals around it."""
    around = np.quantile(residuals, _LEVELS, method="weibull")
    return Forecast(point + around[:, None], point, has_density=False)


# CatBoost


def catboost(task: Task, patience: int | None = PATIENCE) -> Predict:
    """A normal of its own for each row, or class probabilities.

    Without ``patience`` all trees are grown.
    """
    if task.n_classes:
        loss = "Logloss" if task.n_classes == 2 else "MultiClass"
        held, model = _catboost(task, "CatBoostClassifier", loss, task.y, patience)
        return lambda inputs: Forecast(model.predict_proba(_pool(held.reader.read(inputs))))
    location, scale = task.y.mean(), task.y.std()
    z = (task.y - location) / scale
    held, model = _catboost(task, "CatBoostRegressor", "RMSEWithUncertainty", z, patience)

    def predict(inputs: Table) -> Forecast:
        mean, variance = model.predict(_pool(held.reader.read(inputs))).T
        return Forecast((location + scale * mean, scale * np.sqrt(variance)))

    return predict


def catboost_conformal(task: Task) -> Predict:
    """The squared error and held-out residuals; regression only."""
    held, model = _catboost(task, "CatBoostRegressor", "RMSE", task.y, PATIENCE)
    residuals = task.y[held.out] - model.predict(_pool(held.whole.take(held.out)))
    return lambda inputs: conformal(model.predict(_pool(held.reader.read(inputs))), residuals)


def _catboost(
    task: Task, kind: str, loss: str, y: np.ndarray, patience: int | None
) -> tuple[Held, Any]:
    model = getattr(package("catboost", "CatBoost"), kind)(
        iterations=MAX_TREES,
        loss_function=loss,
        early_stopping_rounds=patience,
        random_seed=task.seed,
        thread_count=1,
        allow_writing_files=False,
        verbose=False,
    )
    held = Held.of(task)
    train, stop = (_pool(held.whole.take(rows), y[rows]) for rows in (held.kept, held.out))
    return held, model.fit(train, eval_set=stop)


def _pool(features: Features, y: np.ndarray | None = None) -> Any:
    """Numbers with NaN and categories as text, as CatBoost takes them."""
    catboost = package("catboost", "CatBoost")
    words = [[word.encode() for word in row] for row in features.categories.tolist()]
    data = catboost.FeaturesData(
        num_feature_data=np.float32(features.numbers),
        cat_feature_data=np.array(words, object).reshape(features.categories.shape),
    )
    return catboost.Pool(data, y)


# HistGradientBoosting


def hgb(task: Task) -> Predict:
    """Classes as they are; else a squared error, and quantiles moved by held-out rows."""
    held = Held.of(task)
    codes = Codes.fit(held.whole.categories, _MOST_CODES)

    def features(found: Features) -> np.ndarray:
        return np.hstack([found.numbers, codes.encode(found.categories)])

    x = features(held.whole)
    common: dict[str, Any] = {
        "categorical_features": np.arange(x.shape[1]) >= held.whole.numbers.shape[1],
        "random_state": task.seed,
    }
    if task.n_classes:
        model = HistGradientBoostingClassifier(**common).fit(x, task.y)
        return lambda inputs: Forecast(model.predict_proba(features(held.reader.read(inputs))))
    point = HistGradientBoostingRegressor(**common).fit(x, task.y)
    models, shifts = [], []
    for level in _FITTED_LEVELS:
        model = HistGradientBoostingRegressor(loss="quantile", quantile=level, **common)
        models.append(model.fit(x[held.kept], task.y[held.kept]))
        scores = task.y[held.out] - model.predict(x[held.out])
        shifts.append(np.quantile(scores, level, method="weibull"))

    def predict(inputs: Table) -> Forecast:
        x_new = features(held.reader.read(inputs))
        found = np.array([m.predict(x_new) + s for m, s in zip(models, shifts, strict=True)])
        # Levels that cross are put in order, but never beyond the ends of the 90 % interval.
        inside = np.sort(np.clip(found, found[0], np.maximum(found[0], found[-1])), axis=0)
        return Forecast(between(inside), point.predict(x_new), has_density=False)

    return predict


def between(quantiles: np.ndarray) -> np.ndarray:
    """Quantiles at `_LEVELS` [level, row] from those fitted: linear in the normal score.

    So are those beyond the first and the last one.
    """
    known, asked = special.ndtri(_FITTED_LEVELS), special.ndtri(_LEVELS)
    place = np.clip(np.searchsorted(known, asked, "right") - 1, 0, len(known) - 2)
    share = (asked - known[place]) / (known[place + 1] - known[place])
    return quantiles[place] + share[:, None] * (quantiles[place + 1] - quantiles[place])


# NGBoost


def ngboost(task: Task) -> Predict:
    """Categories are numbered by frequency; a normal for each row, or class probabilities."""
    reader = Reader.fit(task.inputs)
    whole = reader.read(task.inputs)
    filled = Filled.fit(whole, len(task.y))

    def columns(found: Features) -> np.ndarray:
        return np.hstack([filled.numbers(found), filled.categories(found)])

    predict = fit_ngboost(columns(whole), task.y, task.seed, task.n_classes)
    return lambda inputs: Forecast(predict(columns(reader.read(inputs))))


# Linear models


def linear(task: Task) -> Predict:
    """Ridge with the normal of its leave-one-out residuals, or logistic regression."""
    held = Held.of(task)
    design = Design.fit(held.whole)
    x = design.columns(held.whole)
    if task.n_classes:
        classifier = _logistic(x, task.y, held)
        return lambda inputs: Forecast(
            classifier.predict_proba(design.columns(held.reader.read(inputs)))
        )
    model: Any = RidgeCV(_ALPHAS).fit(x.toarray(), task.y)
    std = np.sqrt(-model.best_score_)

    def predict(inputs: Table) -> Forecast:
        return Forecast((model.predict(design.columns(held.reader.read(inputs)).toarray()), std))

    return predict


def _logistic(x: sparse.csr_array, y: np.ndarray, held: Held) -> LogisticRegression:
    """With the penalty of the least log loss on the held-out rows, fitted to all rows."""

    def fitted(penalty: float, rows: np.ndarray) -> LogisticRegression:
        return LogisticRegression(C=penalty, max_iter=500).fit(x[rows], y[rows])

    def loss(penalty: float) -> float:
        p = fitted(penalty, held.kept).predict_proba(x[held.out])
        return metrics.log_loss(p, y[held.out])

    return fitted(min(_INVERSE_PENALTIES, key=loss), np.arange(len(y)))


class Design(NamedTuple):
    """Columns of a linear model: standardised numbers, and levels as columns of 0 and 1."""

    filled: Filled
    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, features: Features) -> "Design":
        filled = Filled.fit(features, _MOST_COLUMNS)
        numbers = filled.numbers(features)
        scale = numbers.std(axis=0)
        return cls(filled, numbers.mean(axis=0), np.where(scale > 0, scale, 1.0))

    def columns(self, features: Features) -> sparse.csr_array:
        parts = [sparse.csr_array((self.filled.numbers(features) - self.centre) / self.scale)]
        codes, levels = self.filled.categories(features), self.filled.codes.levels
        rows, ones = np.arange(len(features)), np.ones(len(features))
        for column, known in zip(codes.T.astype(int), levels, strict=True):
            shape = (len(rows), len(known) + 2)  # also all other levels, and missing
            parts.append(sparse.csr_array((ones, (rows, column)), shape=shape))
        return sparse.csr_array(sparse.hstack(parts))
