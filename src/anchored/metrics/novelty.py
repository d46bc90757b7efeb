"""Whether uncertainty is where it should be: on rows unlike the training data, and on errors."""

from typing import NamedTuple

import numpy as np

from anchored.metrics.inputs import (
    CLASS_FAMILIES,
    Dist,
    Samples,
    as_dist,
    classified,
    scored,
)
from anchored.prediction.predictive import Predictive


def novelty_scores(dist: Dist) -> np.ndarray:
    """A score [batch] that is larger for rows less like the training data.

    For a `Predictive` it is the epistemic deviation, in the target's units, or for classes the
    mutual information, in nats. For a pair (mean, std) or draws, which do not separate noise from
    epistemic uncertainty, it is the deviation. Only the order of the rows is meaningful.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> metrics.novelty_scores((np.zeros(2), np.array([0.5, 2.0])))
    array([0.5, 2. ])
    """
    if isinstance(dist, Predictive) and dist.family in CLASS_FAMILIES:
        return dist.mutual_information
    std = np.sqrt(dist.epistemic_var) if isinstance(dist, Predictive) else as_dist(dist).std
    _one_output(std)
    return std


def auroc(scores_in: Dist, scores_out: Dist) -> float:
    """Probability that a novel row scores higher than a familiar one; ties count half.

    The area under the receiver operating characteristic: 1 is perfect, chance gives 0.5;
    below that, novel rows look more familiar than familiar ones.

    Parameters
    ----------
    scores_in : scores of rows like the training data: an array [row] of any score that should be
        large for novel rows, or a distribution, whose `novelty_scores` are used.
    scores_out : the same for novel rows.

    >>> from anchored import metrics
    >>> metrics.auroc([0.1, 0.2, 0.3], [0.25, 0.9])
    0.8333333333333334
    """
    familiar, novel = np.sort(_scores("scores_in", scores_in)), _scores("scores_out", scores_out)
    below, up_to = (np.searchsorted(familiar, novel, side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(familiar)))


def aupr(scores_in: Dist, scores_out: Dist) -> float:
    """Average precision in finding novel rows by their score, for arguments as in `auroc`.

    The area under the curve of precision against recall: for each novel row, take the share of
    novel rows among all rows that score as high or higher, and average. 1 is perfect; chance gives
    the share of novel rows, so only compare values with the same share.

    >>> from anchored import metrics
    >>> round(metrics.aupr([0.1, 0.2, 0.3], [0.25, 0.9]), 3)
    0.833
    """
    familiar, novel = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    is_novel = np.repeat([0.0, 1.0], [len(familiar), len(novel)])
    _, group = np.unique(-np.concatenate([familiar, novel]), return_inverse=True)
    found = np.bincount(group, is_novel)  # at each score, the highest first
    precision = np.cumsum(found) / np.cumsum(np.bincount(group))
    return float(np.average(precision, weights=found))


class RiskCoverage(NamedTuple):
    """The error among the rows that are kept if the most uncertain rows are left out.

    Attributes
    ----------
    coverage : [row], shares of rows kept: 1/n, 2/n, ..., 1.
    risk : [row], the error among them: the share of wrong classes, or the root mean square
        error in the target's units. It should fall towards small coverage; if uncertainty says
        nothing about errors it stays near its last value, which is that of all rows.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> curve = metrics.risk_coverage((np.zeros(2), np.array([0.5, 2.0])), [0.1, 3.0])
    >>> curve.coverage, curve.risk.round(2)
    (array([0.5, 1. ]), array([0.1 , 2.12]))
    """

    coverage: np.ndarray
    risk: np.ndarray


def risk_coverage(dist: Dist, y) -> RiskCoverage:
    """The error among the most certain rows, by the share of rows that is kept.

    Rows are kept in the order of their deviation. For a `Predictive` of classes they are kept in
    the order of the probability of their most probable class, and ``y`` are labels as in
    `accuracy`. Rows of equal uncertainty all count as their average.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> coverage, risk = metrics.risk_coverage((np.zeros(2), np.array([0.5, 2.0])), [0.1, 3.0])
    >>> risk.round(2)
    array([0.1 , 2.12])
    """
    classes = isinstance(dist, Predictive) and dist.family in CLASS_FAMILIES
    if classes:
        p, labels = classified(dist, y)
        uncertainty, loss = 1 - p.max(axis=1), (p.argmax(axis=1) != labels).astype(float)
    else:
        found, y = scored(dist, y)
        _one_output(y)
        uncertainty, loss = found.std, np.square(found.mean - y)
    _, group = np.unique(uncertainty, return_inverse=True)
    average = np.bincount(group, loss) / np.bincount(group)
    kept = np.arange(1, len(loss) + 1)
    risk = np.cumsum(average[np.sort(group)]) / kept
    return RiskCoverage(kept / len(loss), risk if classes else np.sqrt(risk))


def aurc(dist: Dist, y) -> float:
    """Area under the curve of `risk_coverage`: its mean risk, in the same unit.

    Lower is better. Uncertainty that says nothing about errors gives the error of all rows:
    1 - `accuracy`, or about `rmse`. With a share e of wrong classes, the best possible order gives
    e + (1 - e) log(1 - e), about e^2 / 2.

    >>> import numpy as np
    >>> from anchored import metrics
    >>> round(metrics.aurc((np.zeros(2), np.array([0.5, 2.0])), [0.1, 3.0]), 3)
    1.111
    """
    return float(np.mean(risk_coverage(dist, y).risk))


def _scores(argument: str, given: Dist) -> np.ndarray:
    if isinstance(given, (Predictive, Samples, tuple)) or np.ndim(given) > 1:
        given = novelty_scores(given)
    scores = np.asarray(given, np.float64)
    if scores.ndim != 1 or not len(scores) or np.any(np.isnan(scores)):
        raise ValueError(
            f"`{argument}` must be scores [row] of at least one row, none of them nan, or a "
            f"distribution; got shape {scores.shape} with {np.isnan(scores).sum()} nan."
        )
    return scores


def _one_output(array: np.ndarray) -> None:
    if array.ndim != 1:
        raise ValueError(
            f"`dist` has shape {array.shape}; deviations of several outputs have no common "
            "order. Give one output at a time."
        )
