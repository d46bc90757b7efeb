"""Compares a fitted regressor with its own exact limit."""

from typing import Any

import numpy as np

from anchored.exact import gp
from anchored.metrics import GPComparison
from anchored.prediction.predictive import Predictive

MAX_ROWS = 5_000  # most training rows that are solved exactly
_OUTSIDE = 3.0  # times as far from the mean of the training rows is far from the data


def with_gp(estimator: Any, X, dist: Predictive | None = None) -> GPComparison:
    """The predictives of the regressor and of its Gaussian process, at ``X`` and further out."""
    x = estimator._standardised(X)
    if estimator.noise_var_ is None:
        raise ValueError(
            f"An exact GP needs a known noise, and `method` {estimator.method!r} or a `likelihood` "
            'learns it. To compare, fit with method="rms" and no `likelihood`.'
        )
    if not hasattr(estimator, "_train_rows"):
        raise ValueError(
            "This model came from a file, and files do not keep the training rows that an "
            "exact GP needs. To compare, fit again."
        )
    if estimator._train_rows is None:
        raise ValueError(
            f"There are more than {MAX_ROWS:,} training rows, too many for an exact GP. To "
            "compare, fit on a random part of the rows."
        )
    kernel = gp.twin(estimator.ensemble_.network, estimator.prior_)
    part = estimator.model_.regression
    assert part is not None
    noise_var = np.asarray(part.training_noise_var)
    rows, targets, weight = estimator._train_rows
    exact = gp.condition(kernel, rows, targets, noise_var, weight)

    def standardised(dist: Predictive) -> Predictive:
        members = dist.on_own_scale.members
        assert members is not None
        members = members.reshape(*members.shape[:2], -1)
        members = (members - part.mean) / part.scale
        return Predictive.from_members(members, np.broadcast_to(noise_var, members.shape))

    inside = standardised(estimator._predictive(x)[1] if dist is None else dist)
    far = estimator.model_.further_out(x, _OUTSIDE)
    outside = standardised(estimator._predictive(far)[1]), exact.predict(far)
    return GPComparison.between(inside, exact.predict(x), outside)
