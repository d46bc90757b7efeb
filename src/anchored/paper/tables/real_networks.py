"""Networks of others on real tables: RealMLP and TabM with their tuned defaults, from pytabkit.

Both stop early, by the error on a fifth of the training rows. As for CatBoost, the residuals of
these rows turn a point forecast into a distribution.

References: Holzmuller, Grinsztajn and Steinwart 2024 (RealMLP); Gorishniy, Kotelnikov and Babenko
2025 (TabM).
"""

from typing import Any

import numpy as np

from anchored.paper.tables.real_features import Features, Filled
from anchored.paper.tables.real_rivals import Forecast, Held, Predict, Task, conformal
from anchored.paper.tables.uci_outsiders import package
from anchored.tables.table import Table


def realmlp(task: Task) -> Predict:
    return _network(task, "RealMLP_TD")


def tabm(task: Task) -> Predict:
    return _network(task, "TabM_D")


def _network(task: Task, name: str) -> Predict:
    kind = "Classifier" if task.n_classes else "Regressor"
    make = getattr(package("pytabkit", "pytabkit"), f"{name}_{kind}")
    held = Held.of(task)
    filled = Filled.fit(held.whole, len(task.y))

    def columns(found: Features) -> np.ndarray:
        return np.hstack([filled.numbers(found), filled.categories(found)])

    x = columns(held.whole)
    is_category = np.arange(x.shape[1]) >= x.shape[1] - held.whole.categories.shape[1]
    model: Any = make(device="cpu", random_state=task.seed, n_threads=1, verbosity=0)
    model.fit(x, task.y, val_idxs=held.out, cat_indicator=is_category)
    if task.n_classes:
        return lambda inputs: Forecast(model.predict_proba(columns(held.reader.read(inputs))))
    residuals = task.y[held.out] - _point(model, x[held.out])

    def predict(inputs: Table) -> Forecast:
        return conformal(_point(model, columns(held.reader.read(inputs))), residuals)

    return predict


def _point(model: Any, x: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(x), float).ravel()
