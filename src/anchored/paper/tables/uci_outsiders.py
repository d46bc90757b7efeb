"""Boosted trees with error bars, for comparison: NGBoost and an ensemble of CatBoost models.

Both take the number of trees with the best likelihood on a fifth of the training rows, and are then
fitted to all training rows. All other settings are their defaults. CatBoost's data noise comes from
its ``RMSEWithUncertainty`` loss; its epistemic variance is the spread of five models drawn by
stochastic gradient Langevin boosting.

References: Duan et al. 2020 (NGBoost); Malinin, Prokhorenkova and Ustimenko 2021 (CatBoost).
"""

import copy
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from anchored.prediction.predictive import Predictive

_MAX_TREES = 2000  # of NGBoost's own benchmark
_PATIENCE = 100  # trees without a better likelihood before the search stops
_MODELS = 5
_THREADS = 2


class _Held(NamedTuple):
    """Training rows, with a fifth of them held out."""

    x: np.ndarray
    y: np.ndarray
    x_held: np.ndarray
    y_held: np.ndarray


def ngboost(x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, seed: int) -> Predictive:
    """NGBoost with a normal distribution; it has no epistemic part."""
    mean, std = fit_ngboost(x_train, y_train, seed)(x_test)
    return Predictive(mean, np.zeros_like(mean), np.square(std))


def fit_ngboost(x: np.ndarray, y: np.ndarray, seed: int, n_classes: int = 0) -> Callable:
    """A function from inputs to (mean, std) [row] or, of classes from 0, to probabilities."""
    ngb = package("ngboost", "NGBoost")
    # Its own seed does not reach the trees, which break ties at random.
    tree = copy.deepcopy(ngb.learners.default_tree_learner).set_params(random_state=seed)
    family = {"Dist": ngb.distns.k_categorical(n_classes)} if n_classes else {}
    kind = ngb.NGBClassifier if n_classes else ngb.NGBRegressor

    def model(n_trees: int) -> Any:
        return kind(Base=tree, n_estimators=n_trees, random_state=seed, verbose=False, **family)

    location, scale = (0, 1) if n_classes else (y.mean(), y.std())
    z = y if n_classes else (y - location) / scale
    held = _held(x, z, seed)
    search = model(_MAX_TREES)
    search.fit(held.x, held.y, held.x_held, held.y_held, early_stopping_rounds=_PATIENCE)
    final = model(search.best_val_loss_itr + 1).fit(x, z)

    def predict(x_new: np.ndarray) -> Any:
        dist = final.pred_dist(x_new)
        return dist.probs.T if n_classes else (location + scale * dist.loc, scale * dist.scale)

    return predict


def catboost(x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, seed: int) -> Predictive:
    """Five CatBoost models with a variance each."""
    boosting = package("catboost", "CatBoost")

    def model(n_trees: int, member: int) -> Any:
        return boosting.CatBoostRegressor(
            iterations=n_trees,
            loss_function="RMSEWithUncertainty",
            posterior_sampling=True,
            random_seed=seed * (_MODELS + 1) + member,
            thread_count=_THREADS,
            allow_writing_files=False,
            verbose=False,
        )

    def fit_predict(x: np.ndarray, y: np.ndarray, held: _Held) -> tuple[np.ndarray, np.ndarray]:
        search = model(_MAX_TREES, _MODELS).fit(
            held.x,
            held.y,
            eval_set=(held.x_held, held.y_held),
            early_stopping_rounds=_PATIENCE,
        )
        models = [model(search.tree_count_, member).fit(x, y) for member in range(_MODELS)]
        moments = np.stack([m.predict(x_test) for m in models])  # [member, batch, 2]
        return moments[..., 0], moments[..., 1]

    return _in_own_units(fit_predict, x_train, y_train, seed)


def package(name: str, title: str) -> Any:
    """The module of that name, or an error that says how to install it."""
    if find_spec(name) is None:
        raise ModuleNotFoundError(f"{title} is not installed: pip install 'anchored[outsiders]'")
    return import_module(name)


def _in_own_units(
    fit_predict: Callable[[np.ndarray, np.ndarray, _Held], tuple[np.ndarray, np.ndarray]],
    x: np.ndarray,
    y: np.ndarray,
    seed: int,
) -> Predictive:
    """Fit to the standardised target and pool the members' moments in the target's units."""
    location, scale = y.mean(), y.std()
    z = (y - location) / scale
    mean, variance = fit_predict(x, z, _held(x, z, seed))
    pooled = Predictive.from_members(location + scale * mean, scale**2 * variance)
    return Predictive(pooled.mean, pooled.epistemic_var, pooled.aleatoric_var)


def _held(x: np.ndarray, y: np.ndarray, seed: int) -> _Held:
    order = np.random.default_rng(seed).permutation(len(y))
    kept, out = order[len(y) // 5 :], order[: len(y) // 5]
    return _Held(x[kept], y[kept], x[out], y[out])
