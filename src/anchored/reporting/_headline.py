"""The first sentence of a report, alone."""

import numpy as np

from anchored.reporting import _verdict


def headline(estimator, X, y, coverage: float = 0.9) -> str:
    """Whether error bars (or probabilities) hold on these rows, in one sentence."""
    dist = estimator.predict_dist(X)
    if not hasattr(estimator, "classes_"):
        return _verdict.of_intervals(dist, dist.observed(y), coverage).headline
    labels = np.searchsorted(estimator.classes_, np.asarray(y))
    return _verdict.of_confidence(dist.probabilities, labels).headline
