"""Scores that the report needs: arrays in, numbers out."""

import numpy as np
from scipy import stats

from anchored import metrics
from anchored.predictive import Predictive


def pit(dist: Predictive, y) -> np.ndarray:
    return dist.cdf(y)


def interval_score(dist: Predictive, y, level: float) -> float:
    lower, upper = dist.interval(level)
    outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * outside))


def calibration_curve(dist: Predictive, y, levels):
    shares = np.array([metrics.coverage(dist, y, float(level)) for level in levels])
    band = stats.binom.ppf([[0.025], [0.975]], len(y), levels) / len(y)
    return levels, shares, (band[0], band[1])


def accuracy(dist: Predictive, labels) -> float:
    return float(np.mean(dist.probabilities.argmax(axis=1) == labels))


def brier(dist: Predictive, labels) -> float:
    p = dist.probabilities
    return float(np.mean(np.sum(np.square(p - np.eye(p.shape[1])[labels]), axis=1)))


def reliability(dist: Predictive, labels, n_bins: int = 15):
    p = dist.probabilities
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    place = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    count, total, n_right = (np.bincount(place, w, n_bins) for w in (None, confidence, right))
    kept = count > 0
    return total[kept] / count[kept], n_right[kept] / count[kept], count[kept]


def expected_calibration_error(dist: Predictive, labels, n_bins: int = 15) -> float:
    confidence, right, count = reliability(dist, labels, n_bins)
    return float(np.average(np.abs(confidence - right), weights=count))


def confusion(dist: Predictive, labels) -> np.ndarray:
    p = dist.probabilities
    found = np.zeros((p.shape[1], p.shape[1]), int)
    np.add.at(found, (labels, p.argmax(axis=1)), 1)
    return found


def risk_coverage(dist: Predictive, labels):
    p = dist.probabilities
    _, group = np.unique(1 - p.max(axis=1), return_inverse=True)
    wrong = np.bincount(group, p.argmax(axis=1) != labels) / np.bincount(group)
    kept = np.arange(1, len(p) + 1)
    return kept / len(p), np.cumsum(wrong[np.sort(group)]) / kept
