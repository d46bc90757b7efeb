"""What held-out rows say, in plain words and with the play of chance in mind."""

import dataclasses

import numpy as np
from scipy import stats

from anchored import metrics
from anchored.prediction.predictive import Predictive
from anchored.reporting.words import counted, level, number, percent

FEW_ROWS = 20  # below this many, agreement says nothing
TOO_FEW = "Too few rows to tell."
_WIDE = 0.3  # nor if chance moves the share by that much
_TAILS = (0.025, 0.975)

_NARROW = (
    "Likely reasons: these rows are from another time or place than the training rows; rows of "
    "one group are in both parts; or `noise_var` was set too small. Leave `noise_var` at "
    '"auto", keep groups together when splitting, and train on rows like those to come.'
)
_TOO_WIDE = (
    "The intervals are safe but say less than they could. Likely reasons: `noise_var` was set too "
    "large; these rows are easier than those of the training; or they were among them."
)
_TOO_SURE = (
    "Look at the worst rows for wrong labels, train on more rows or with more members, and until "
    "then read its probabilities as less certain than they look."
)
_NOT_SURE = (
    "Its probabilities are more cautious than they need be, or these rows were among those that it "
    "was trained on."
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One finding: ``kind`` is good, bad or unsure; ``advice`` may be empty."""

    kind: str
    headline: str
    advice: str


def of_intervals(dist: Predictive, y: np.ndarray, nominal: float) -> Verdict:
    """Whether intervals hold as many targets as they should, up to chance."""
    n, share = len(y), metrics.coverage(dist, y, nominal)
    low, high = stats.binom.ppf(_TAILS, n, nominal) / n
    chance = f"Chance alone would give between {percent(low)} and {percent(high)}."
    named, rows = f"{level(nominal)} intervals", counted(n, "held-out row")
    if share < low:
        said = f"{named} cover only {percent(share)} of {rows}: they are too narrow."
        return Verdict("bad", said, f"{chance} {_instead(dist, y, nominal)}{_NARROW}")
    if share > high:
        said = f"{named} cover {percent(share)} of {rows}: they are wider than they need be."
        return Verdict("bad", said, f"{chance} {_instead(dist, y, nominal)}{_TOO_WIDE}")
    if n < FEW_ROWS or high - low > _WIDE:
        return Verdict(
            "unsure",
            f"{named} cover {percent(share)} of {rows}: too few rows to tell.",
            f"{chance} Hold out a hundred rows or more to know.",
        )
    return Verdict("good", f"{named} cover {percent(share)} of {rows}, as they should.", chance)


def _instead(dist: Predictive, y: np.ndarray, nominal: float) -> str:
    """The level to ask for meanwhile, if there is one."""
    for asked in np.arange(1, 100) / 100:
        if metrics.coverage(dist, y, float(asked)) >= nominal:
            return f"On these rows {level(asked)} intervals cover {level(nominal)}. "
    return ""


def of_confidence(p: np.ndarray, labels: np.ndarray) -> Verdict:
    """Whether a classifier is as often right as it says, up to chance."""
    n, confidence = len(p), p.max(axis=1)
    n_right = int(np.sum(p.argmax(axis=1) == labels))
    low, high = right_band(confidence)
    right, sure = percent(n_right / n), percent(confidence.mean())
    chance = (
        f"If its probabilities are true, chance alone gives between {percent(low / n)} and "
        f"{percent(high / n)} right."
    )
    said = f"Right on {right} of {counted(n, 'held-out row')}"
    if n_right < low:
        return Verdict(
            "bad", f"{said}, but {sure} sure on average: it is over-confident.",
            f"{chance} {_TOO_SURE}",
        )  # fmt: skip
    if n_right > high:
        return Verdict(
            "bad", f"{said}, but only {sure} sure on average: it is under-confident.",
            f"{chance} {_NOT_SURE}",
        )  # fmt: skip
    if n < FEW_ROWS or (high - low) / n > _WIDE:
        return Verdict(
            "unsure",
            f"{said} and {sure} sure on average: too few rows to tell.",
            f"{chance} Hold out a hundred rows or more to know.",
        )
    return Verdict("good", f"{said} and {sure} sure on average, as it should be.", chance)


def right_band(confidence: np.ndarray) -> tuple[int, int]:
    """Least and most rows that are right in 95 of 100 cases if each is with its confidence.

    Counts the wrong ones, whose distribution is a product of one factor for each row.
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


def of_error(dist: Predictive, y: np.ndarray) -> str:
    """How good the means are, beside always predicting the average."""
    rmse, spread = metrics.rmse(dist, y), float(np.std(y))
    if len(y) < 2 or spread == 0:
        return f"Predictions are off by {number(rmse)} (root mean square)."
    if rmse >= spread:
        return (
            f"Predictions are off by {number(rmse)} (root mean square), no better than the "
            f"average of these targets ({number(spread)}): the columns say little about the "
            "target, or these rows are unlike the training rows."
        )
    return (
        f"Predictions are off by {number(rmse)} (root mean square); always predicting the "
        f"average of these targets would be off by {number(spread)}. The model explains "
        f"{percent(1 - (rmse / spread) ** 2)} of their variance."
    )


def of_variance(dist: Predictive) -> str:
    """How much of the uncertainty more data would remove."""
    share = float(dist.epistemic_var.sum() / max(dist.variance.sum(), np.finfo(float).tiny))
    return (
        f"{percent(share)} of the predicted variance is epistemic, which more training rows would "
        "remove; the rest is noise, which only better columns can."
    )


def of_accuracy(p: np.ndarray, labels: np.ndarray) -> str:
    """How good the choices are, beside always naming the commonest class."""
    right = float(np.mean(p.argmax(axis=1) == labels))
    commonest = float(np.bincount(labels).max() / len(labels))
    said = f"Always naming the commonest class of these rows would be right on {percent(commonest)}"
    return f"{said}." if right > commonest else f"{said}: the columns help little."
