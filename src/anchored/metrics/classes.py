"""Scores of class probabilities: accuracy, calibration, and both together.

The first argument of each is a `Predictive` of classes or an array of probabilities (`inputs`),
and the second is the labels [batch], as column numbers.
"""

from typing import NamedTuple

import numpy as np

from anchored.errors import bad_value
from anchored.metrics.inputs import Dist, classified


def accuracy(dist: Dist, labels) -> float:
    """Share of rows whose most probable class is the label; 1 is perfect.

    Always predicting the most frequent class gives the share of that class.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> p = np.array([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]])
    >>> round(metrics.accuracy(p, [0, 1, 1]), 3)
    0.667
    """
    p, labels = classified(dist, labels)
    return float(np.mean(p.argmax(axis=1) == labels))


def log_loss(dist: Dist, labels) -> float:
    """Mean negative log probability of the label, in nats; 0 is perfect, lower is better.

    K equal probabilities score log(K), which is 0.69 for two classes. A single label with a
    probability near zero can dominate the mean.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.log_loss(np.array([[0.8, 0.2], [0.4, 0.6]]), [0, 1]), 3)
    0.367
    """
    p, labels = classified(dist, labels)
    of_label = np.take_along_axis(p, labels[:, None], axis=1)
    return float(-np.mean(np.log(np.maximum(of_label, np.finfo(float).tiny))))


def brier(dist: Dist, labels) -> float:
    """Mean squared distance of the probabilities from the label as zeros and a one.

    A number without unit, summed over the classes: 0 is perfect, 2 is certain and wrong. K equal
    probabilities score 1 - 1/K. For two classes it is twice the score of one class alone.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.brier(np.array([[0.8, 0.2], [0.4, 0.6]]), [0, 1]), 3)
    0.2
    """
    p, labels = classified(dist, labels)
    return float(np.mean(np.sum(np.square(p - np.eye(p.shape[1])[labels]), axis=1)))


class Reliability(NamedTuple):
    """Rows grouped by the probability of their most probable class.

    Attributes
    ----------
    confidence : [bin], mean of that probability.
    accuracy : [bin], share of rows where that class is the label; should equal the confidence.
        Chance alone moves it by sqrt(confidence (1 - confidence) / count).
    count : [bin], rows.

    >>> import numpy as np
    >>> from anchored.metrics import Reliability
    >>> Reliability(np.array([0.9]), np.array([0.85]), np.array([40])).accuracy
    array([0.85])
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


def reliability(dist: Dist, labels, n_bins: int = 15) -> Reliability:
    """Confidence and accuracy in ``n_bins`` bins of equal width; bins without rows are left out.

    Accuracy below confidence is over-confident.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> found = metrics.reliability(np.array([[0.9, 0.1]] * 4), [0, 0, 0, 1], n_bins=5)
    >>> found.confidence.round(2), found.accuracy, found.count
    (array([0.9]), array([0.75]), array([4]))
    """
    p, labels = classified(dist, labels)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    if not (isinstance(n_bins, (int, np.integer)) and n_bins >= 1):
        raise bad_value("n_bins", n_bins, "a positive whole number")
    place = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    count, sum_of_confidence, n_right = (
        np.bincount(place, weights, n_bins) for weights in (None, confidence, right)
    )
    kept = count > 0
    return Reliability(
        sum_of_confidence[kept] / count[kept], n_right[kept] / count[kept], count[kept]
    )


def expected_calibration_error(dist: Dist, labels, n_bins: int = 15) -> float:
    """Mean gap between confidence and accuracy over the bins of `reliability`, weighted by rows.

    A difference of probabilities: 0 is perfect. By chance, correct probabilities
    still have up to 0.4 sqrt(n_bins / n) with n rows, less if the classes are easy. A good value is
    of that size, not zero. Compare only values with the same n and ``n_bins``.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> p = np.array([[0.9, 0.1]] * 4)
    >>> round(metrics.expected_calibration_error(p, [0, 0, 0, 1]), 3)
    0.15
    """
    found = reliability(dist, labels, n_bins)
    gap = np.abs(found.confidence - found.accuracy)
    return float(np.average(gap, weights=found.count))


def confusion(dist: Dist, labels) -> np.ndarray:
    """Counts of rows [label, most probable class]; all on the diagonal is perfect.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> metrics.confusion(np.array([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]), [0, 1, 1])
    array([[1, 0],
           [1, 1]])
    """
    p, labels = classified(dist, labels)
    n = p.shape[1]
    return np.bincount(labels * n + p.argmax(axis=1), minlength=n * n).reshape(n, n)
