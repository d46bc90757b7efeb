"""Whether error bars and probabilities hold on held-out rows, with chance in mind."""

import dataclasses

import numpy as np
from scipy import stats

from anchored import metrics
from anchored.prediction.predictive import Predictive
from anchored.reporting.words import counted, level, percent

FEW_ROWS = 20  # below this many, agreement says nothing
_WIDE = 0.3  # nor if chance moves the share by that much
_TAILS = (0.025, 0.975)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One finding.

    Attributes
    ----------
    kind : good, low (less often right than promised), high, or unsure.
    headline : the finding in a sentence.
    low, high : range of shares that chance alone would give.
    instead : level of intervals that cover what was asked for on these rows, if there is one.
    """

    kind: str
    headline: str
    low: float
    high: float
    instead: float | None = None


def of_intervals(dist: Predictive, y: np.ndarray, nominal: float) -> Verdict:
    """Whether intervals contain as many targets as they should, up to chance."""
    n, share = len(y), metrics.coverage(dist, y, nominal)
    low, high = stats.binom.ppf(_TAILS, n, nominal) / n
    kind = _kind(share, low, high, n)
    only = "only " if kind == "low" else ""
    end = {
        "low": ": they are too narrow.",
        "high": ": they are wider than necessary.",
        "unsure": ": too few rows to tell.",
        "good": ", as they should.",
    }[kind]
    covered = f"cover {only}{percent(share)} of {counted(n, 'held-out row')}"
    instead = _instead(dist, y, nominal) if kind in ("low", "high") else None
    return Verdict(kind, f"{level(nominal)} intervals {covered}{end}", low, high, instead)


def _instead(dist: Predictive, y: np.ndarray, nominal: float) -> float | None:
    levels, needed = np.arange(1, 100) / 100, np.abs(2 * dist.cdf(y) - 1)
    enough = levels[[np.mean(needed <= level) >= nominal for level in levels]]
    return float(enough[0]) if len(enough) else None


def of_confidence(p: np.ndarray, labels: np.ndarray) -> Verdict:
    """Whether a classifier is as often right as it says, up to chance."""
    n, confidence = len(p), p.max(axis=1)
    right = float(np.mean(p.argmax(axis=1) == labels))
    low, high = (count / n for count in right_band(confidence))
    kind = _kind(right, low, high, n)
    join = {"low": ", but", "high": ", but only"}.get(kind, " and")
    end = {
        "low": ": it is over-confident.",
        "high": ": it is under-confident.",
        "unsure": ": too few rows to tell.",
        "good": ", as it should be.",
    }[kind]
    said = f"Right on {percent(right)} of {counted(n, 'held-out row')}{join} "
    return Verdict(kind, f"{said}{percent(confidence.mean())} sure on average{end}", low, high)


def _kind(share: float, low: float, high: float, n: int) -> str:
    if share < low or share > high:
        return "low" if share < low else "high"
    return "unsure" if n < FEW_ROWS or high - low > _WIDE else "good"


def right_band(confidence: np.ndarray) -> tuple[int, int]:
    """Range of the number of right rows in 95 of 100 cases, if each row is right with its
    confidence.

    The number of wrong rows is counted: its distribution has one factor for each row.
    """
    wrong = 1 - np.asarray(confidence, np.float64)
    deviation = np.sqrt(np.sum(wrong * (1 - wrong)))
    most = min(len(wrong), int(wrong.sum() + 10 * deviation) + 20)  # more happens never
    chance = np.zeros(most + 1)
    chance[0] = 1.0
    for share in wrong:
        chance[1:] = chance[1:] * (1 - share) + chance[:-1] * share
        chance[0] *= 1 - share
    few, many = np.searchsorted(np.cumsum(chance), _TAILS)
    return len(wrong) - int(min(many, most)), len(wrong) - int(few)
