"""Functions to minimise, for the benchmarks of `anchored.decisions`.

The surrogate was chosen on `DEVELOP`, its hyperpriors on `SETTLE`, its cosines on `WAVES`; what is
reported is measured on `REPORTED`.
"""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from anchored.datasets.uci import load_uci
from anchored.decisions import Category, Float, Integer, Space
from benchmarks.thompson import OPTIMUM as HARTMANN_OPTIMUM
from benchmarks.thompson import hartmann


@dataclasses.dataclass(frozen=True)
class Problem:
    """A function of points of a space, low values good, and its optimum if it is known."""

    space: Space
    value: Callable[[dict[str, Any]], float]
    optimum: float | None
    n_first: int
    n_evaluations: int


def _cube(function: Callable, dim: int, optimum: float | None, n: int) -> Problem:
    """Of a function of rows [row, dim] of the unit cube."""
    names = [f"x{i}" for i in range(dim)]

    def value(point: dict[str, Any]) -> float:
        return float(function(np.array([[point[name] for name in names]]))[0])

    return Problem(Space({name: Float(0.0, 1.0) for name in names}), value, optimum, 10, n)


def branin(u: np.ndarray) -> np.ndarray:
    x, y = 15 * u[:, 0] - 5, 15 * u[:, 1]
    bowl = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return bowl**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def ackley(u: np.ndarray) -> np.ndarray:
    x = 65.536 * u - 32.768
    far = np.exp(-0.2 * np.sqrt(np.mean(x**2, axis=1)))
    return 20 + np.e - 20 * far - np.exp(np.mean(np.cos(2 * np.pi * x), axis=1))


def levy(u: np.ndarray) -> np.ndarray:
    w = 1 + (20 * u - 11) / 4
    middle = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)
    end = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return np.sin(np.pi * w[:, 0]) ** 2 + middle.sum(axis=1) + end


def rosenbrock(u: np.ndarray) -> np.ndarray:
    x = 15 * u - 5
    return np.sum(100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2, axis=1)


def styblinski(u: np.ndarray) -> np.ndarray:
    x = 10 * u - 5
    return 0.5 * np.sum(x**4 - 16 * x**2 + 5 * x, axis=1)


def goldstein_price(u: np.ndarray) -> np.ndarray:
    x, y = 4 * u[:, 0] - 2, 4 * u[:, 1] - 2
    valley = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    other = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * valley) * (30 + (2 * x - 3 * y) ** 2 * other)


def camel(u: np.ndarray) -> np.ndarray:
    x, y = 6 * u[:, 0] - 3, 4 * u[:, 1] - 2
    return (4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (4 * y**2 - 4) * y**2


_rng = np.random.default_rng(5)
_BOTTOM = _rng.uniform(0.25, 0.75, 8)


def moved_ackley(u: np.ndarray) -> np.ndarray:
    """Ackley's function of eight inputs with its bottom elsewhere than in the middle."""
    return ackley(u - _BOTTOM + 0.5)


def bumps(rng: np.random.Generator, dim: int) -> Callable:
    """Four random bumps, alike Hartmann's."""
    narrow, tops = 10 ** rng.uniform(-1, 1.2, (4, dim)), rng.uniform(0.1, 0.9, (4, dim))

    def function(u: np.ndarray) -> np.ndarray:
        far = np.sum(narrow * (u[:, None] - tops) ** 2, axis=-1)
        return -np.exp(-far) @ np.array([1.0, 1.2, 3.0, 3.2])

    return function


_UCI = ("boston", "yacht")
_STYBLINSKI = -39.16616570377142  # of each dimension


def boosted_trees(table: str, n_rows: int) -> Problem:
    """Settings of HistGradientBoosting on a table of scikit-learn or UCI: error in 3 folds."""
    space = Space(
        {
            "learning_rate": Float(0.005, 1.0, log=True),
            "max_iter": Integer(10, 120, log=True),
            "max_leaf_nodes": Integer(2, 64, log=True),
            "min_samples_leaf": Integer(1, 60, log=True),
            "l2_regularization": Float(1e-6, 100.0, log=True),
            "max_features": Float(0.1, 1.0),
            "growth": Category(("leaves", "depth 2", "depth 4")),
        }
    )
    return Problem(space, partial(_trees_error, table, n_rows), None, 10, 40)


@cache
def _table(table: str, n_rows: int):
    from sklearn import datasets

    if table in _UCI:
        x, y = load_uci(table)
    else:
        x, y = getattr(datasets, f"load_{table}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return x[order], y[order]


def _trees_error(table: str, n_rows: int, point: dict[str, Any]) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_score

    x, y = _table(table, n_rows)
    settings = dict(point)
    growth = settings.pop("growth")
    settings["max_depth"] = None if growth == "leaves" else int(growth[-1])
    classes = table not in ("diabetes", *_UCI)
    make = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    scoring = "neg_log_loss" if classes else "neg_root_mean_squared_error"
    model = make(**settings, early_stopping=False, random_state=0)
    return float(-cross_val_score(model, x, y, cv=3, scoring=scoring).mean())


DEVELOP = {
    "Styblinski-Tang-2": _cube(styblinski, 2, 2 * _STYBLINSKI, 30),
    "Levy-4": _cube(levy, 4, 0.0, 40),
    "Styblinski-Tang-6": _cube(styblinski, 6, 6 * _STYBLINSKI, 50),
    "Rosenbrock-6": _cube(rosenbrock, 6, 0.0, 50),
    "Levy-10": _cube(levy, 10, 0.0, 60),
}
SETTLE = DEVELOP | {
    "Ackley-8, moved": _cube(moved_ackley, 8, 0.0, 60),
    "Bumps-5": _cube(bumps(_rng, 5), 5, None, 50),
    "trees, wine": boosted_trees("wine", 178),
}
WAVES = SETTLE | {
    "Goldstein-Price-2": _cube(goldstein_price, 2, 3.0, 40),
    "Camel-2": _cube(camel, 2, -1.0316284534898774, 30),
    "Bumps-6, a": _cube(bumps(np.random.default_rng(11), 6), 6, None, 60),
    "Bumps-6, b": _cube(bumps(np.random.default_rng(12), 6), 6, None, 60),
    "Bumps-6, c": _cube(bumps(np.random.default_rng(13), 6), 6, None, 60),
    "trees, boston": boosted_trees("boston", 250),
    "trees, yacht": boosted_trees("yacht", 200),
}
REPORTED = {
    "Branin": _cube(branin, 2, 0.39788735772973816, 40),
    "Hartmann-6": _cube(hartmann, 6, HARTMANN_OPTIMUM, 60),
    "Ackley-10": _cube(ackley, 10, 0.0, 80),
    "trees, diabetes": boosted_trees("diabetes", 442),
    "trees, breast cancer": boosted_trees("breast_cancer", 569),
}
