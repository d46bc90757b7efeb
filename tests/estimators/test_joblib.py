"""scikit-learn's searches spread over processes, and every process keeps to its share of cores."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV, cross_val_score

from anchored import AnchoredRegressor

QUICK = {"epochs": 3, "batch_size": 32, "n_members": 4, "random_state": 0}


@pytest.mark.slow
def test_searches_spread_over_processes_give_the_same_scores():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=90)
    model = AnchoredRegressor(**QUICK)
    alone = cross_val_score(model, x, y, cv=2)
    with parallel_config("loky", inner_max_num_threads=1):
        spread = cross_val_score(model, x, y, cv=2, n_jobs=2)
        search = GridSearchCV(model, {"prior": [0.5, 2.0]}, cv=2, n_jobs=2).fit(x, y)
    np.testing.assert_array_equal(alone, spread)
    assert search.best_params_["prior"] in (0.5, 2.0)
    with parallel_config("threading"):
        np.testing.assert_array_equal(cross_val_score(model, x, y, cv=2, n_jobs=2), alone)
