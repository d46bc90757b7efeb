"""One function for each picture; each takes numbers and returns SVG."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from scipy import stats

from anchored.reporting import svg
from anchored.reporting.svg import Frame
from anchored.reporting.words import counted, level, number, percent, plain

MOST_DOTS = 400
MOST_BARS = 15
_TAILS = (0.025, 0.975)


def drawn_rows(n_rows: int) -> np.ndarray:
    """Rows that get a dot of their own: all, or a random part of many."""
    if n_rows <= MOST_DOTS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:MOST_DOTS])


def predicted_against_observed(y, mean, lower, upper, rows: Sequence[str]) -> Markup:
    """Each target against its prediction with an interval; targets outside it are rings."""
    kept = drawn_rows(len(y))
    y, mean, lower, upper = (np.asarray(a)[kept] for a in (y, mean, lower, upper))
    inside = (lower <= y) & (y <= upper)
    ends = np.percentile(lower, 2), np.percentile(upper, 98)  # a few very long ones are cut
    frame = Frame(svg.linear(y), svg.linear(y, mean, ends), "observed", "predicted", height=300)
    titles = [
        f"row {rows[i]}: observed {number(y[k], 4)}, predicted {number(mean[k], 4)}, "
        f"interval {number(lower[k], 4)} to {number(upper[k], 4)}"
        for k, i in enumerate(kept)
    ]
    low, high = frame.x.low, frame.x.high
    marks = [frame.line([low, high], [low, high], "ideal")]
    for mask, kind in ((inside, "one"), (~inside, "two")):
        chosen = np.flatnonzero(mask)
        marks.append(frame.strokes(y[mask], lower[mask], y[mask], upper[mask], f"{kind} thin"))
        shape = f"{kind} ring" if kind == "two" else kind
        marks.append(frame.dots(y[mask], mean[mask], shape, [titles[k] for k in chosen]))
    about = f"Predicted against observed; {inside.sum()} of {len(y)} drawn rows in their interval"
    return frame.picture(*marks, about=about)


def calibration(levels, shares, band, nominal: float, covered: float) -> Markup:
    """Share of targets inside intervals of every level, the diagonal and its band."""
    frame = Frame(svg.shares(), svg.shares(), "level of the interval", "targets inside", height=300)
    x, low, high = ([0.0, *values, 1.0] for values in (levels, *band))
    return frame.picture(
        frame.band(x, low, high, "muted"),
        frame.line([0, 1], [0, 1], "ideal"),
        frame.line([0.0, *levels, 1.0], [0.0, *shares, 1.0], "one"),
        frame.dots([nominal], [covered], "one", size=4.5),
        about=f"Calibration curve; at {level(nominal)} the share is {percent(covered)}",
    )


def pit_histogram(values: np.ndarray) -> Markup:
    """How often targets fall into each part of their predictive, and what chance alone gives."""
    n_bins = int(np.clip(len(values) // 10, 4, 10))
    count, edges = np.histogram(values, n_bins, (0.0, 1.0))
    low, high = stats.binom.ppf(_TAILS, len(values), 1 / n_bins)
    frame = Frame(svg.shares(), svg.counts(count, high), "probability of a target below", "rows")
    expected = len(values) / n_bins
    return frame.picture(
        frame.band([0, 1], [low, low], [high, high], "muted"),
        _histogram(frame, edges, count, "one clear"),
        frame.line([0, 1], [low, low], "ink edge"),
        frame.line([0, 1], [high, high], "ink edge"),
        frame.line([0, 1], [expected, expected], "ideal"),
        about=f"Histogram of the PIT in {n_bins} bins: {', '.join(map(str, count))}",
    )


def sharpness(width: np.ndarray, reference: float | None) -> Markup:
    """How wide the intervals are, compared with an interval that uses no columns."""
    top = [] if reference is None else [reference]
    x = svg.linear(width, top, zero=True)
    count, edges = np.histogram(width, _bins(len(width)), (float(width.min()), x.high))
    frame = Frame(x, svg.counts(count), "width of the interval", "rows")
    marks = [_histogram(frame, edges, count, "one")]
    if reference is not None:
        marks.append(frame.line([reference] * 2, [0, frame.y.high], "ideal"))
    about = f"Histogram of interval widths, median {number(np.median(width))}"
    return frame.picture(*marks, about=about)


def error_against_deviation(std: np.ndarray, error: np.ndarray) -> Markup:
    """Errors of rows grouped by their predicted deviation: they should grow alike."""
    groups = by_size(std, 10)
    x = np.array([np.sqrt(np.mean(np.square(std[g]))) for g in groups])
    square = [np.square(error[g]) for g in groups]
    mean = np.array([s.mean() for s in square])
    spread = np.array([2 * s.std(ddof=1) / np.sqrt(len(s)) if len(s) > 1 else 0 for s in square])
    low, high = np.sqrt(np.maximum(mean - spread, 0)), np.sqrt(mean + spread)
    frame = Frame(
        svg.linear(x, room=0.1),
        svg.linear(low, high, x, zero=True),
        "predicted deviation",
        "error (root mean square)",
    )
    ends = [frame.x.low, frame.x.high]
    return frame.picture(
        frame.line(ends, ends, "ideal"),
        frame.strokes(x, low, x, high, "one"),
        frame.dots(x, np.sqrt(mean), "one", size=3.5),
        about=f"Error against predicted deviation in {len(groups)} groups of rows",
    )


def variance_shares(total: np.ndarray, epistemic: np.ndarray, x_title: str) -> Markup:
    """The epistemic share among rows from the most to the least certain."""
    groups = by_size(total, 10)
    share = np.array(
        [epistemic[g].sum() / max(total[g].sum(), np.finfo(float).tiny) for g in groups]
    )
    share = np.clip(share, 0, 1)
    place = np.arange(len(groups), dtype=float)
    ends = ((0.0, "most certain"), (len(groups) - 1.0, "least")) if len(groups) > 2 else ()
    x = svg.Scale(-0.6, len(groups) - 0.4, ends, grid=False)
    frame = Frame(x, svg.shares(), x_title, "share")
    left, right = place - 0.4, place + 0.4
    return frame.picture(
        frame.bars(left, right, 0 * share, share, "two"),
        frame.bars(left, right, share, 0 * share + 1, "faint"),
        about="Epistemic share from certain to uncertain rows: "
        + ", ".join(percent(s) for s in share),
    )


def importances(
    names: Sequence[str], values: np.ndarray, x_title: str, shares: bool = False
) -> Markup:
    """A bar for each of the columns that matter most; whiskers are the spread of shuffles."""
    mean, spread = values.mean(axis=1), values.std(axis=1)
    order = np.argsort(-mean, kind="stable")[:MOST_BARS]
    mean, spread = mean[order], spread[order]
    x = svg.linear(mean - spread, mean + spread, zero=True)
    if shares:
        x = svg.shares(0.0, max(x.high, 0.01))
    place = np.arange(len(order), dtype=float)
    frame = Frame(
        x, svg.names([plain(names[i]) for i in order]), x_title, height=60 + 22.0 * len(order)
    )
    return frame.picture(
        frame.bars(np.zeros_like(mean), mean, place - 0.34, place + 0.34, "one"),
        frame.strokes(mean - spread, place, mean + spread, place, "ink"),
        about=f"{x_title}: " + ", ".join(f"{plain(names[i], 40)}" for i in order),
    )


def loss_curves(steps: np.ndarray, objective: np.ndarray, kept: Sequence[int]) -> Markup:
    """The objective of each member [check, member] as it trained, without its steep start."""
    later = objective[len(objective) // 10 + 1 :]
    frame = Frame(
        svg.linear(steps, zero=True),
        svg.linear(later if len(later) else objective),
        "steps",
        "objective (nats a row)",
    )
    marks = [
        frame.line(steps, objective[:, j], "one thin" if j in kept else "two thin")
        for j in range(objective.shape[1])
    ]
    about = f"Objective of {objective.shape[1]} members over {steps[-1]:,} steps"
    return frame.picture(*marks, about=about)


# Classes


def reliability(confidence, right, count, n_classes: int) -> Markup:
    """How often each confidence is right; bars show what chance gives for that many rows."""
    low, high = stats.binom.ppf([[_TAILS[0]], [_TAILS[1]]], count, np.minimum(confidence, 1.0))
    x = svg.shares(_least_confidence(n_classes), 1.0)
    frame = Frame(x, svg.shares(), "confidence", "right", height=300)
    size = 2.5 + 4.0 * np.sqrt(count / count.max())
    said = [
        f"{percent(c)} sure, {percent(r)} right" for c, r in zip(confidence, right, strict=True)
    ]
    dots = [
        frame.dots([c], [r], "one", [f"{counted(int(n), 'row')}: {words}"], s)
        for c, r, n, s, words in zip(confidence, right, count, size, said, strict=True)
    ]
    return frame.picture(
        frame.line([x.low, 1], [x.low, 1], "ideal"),
        frame.strokes(confidence, low / count, confidence, high / count, "muted wide"),
        frame.line(confidence, right, "one thin"),
        *dots,
        about="Reliability: " + "; ".join(said),
    )


def confidences(confidence: np.ndarray, right: np.ndarray, n_classes: int) -> Markup:
    """How sure the classifier is, where it is right and where it is wrong."""
    low = _least_confidence(n_classes)
    edges = np.linspace(low, 1.0, round((1 - low) * 20) + 1)
    whole, _ = np.histogram(confidence, edges)
    wrong, _ = np.histogram(confidence[~right], edges)
    frame = Frame(svg.shares(low, 1.0), svg.counts(whole), "confidence", "rows")
    return frame.picture(
        _histogram(frame, edges, whole, "one"),
        _histogram(frame, edges, wrong, "two"),
        about=f"Histogram of confidence; {int((~right).sum())} of {len(right)} rows are wrong",
    )


def accuracy_above(confidence: np.ndarray, right: np.ndarray) -> Markup:
    """Accuracy of the rows with at least a given confidence."""
    order = np.argsort(-confidence, kind="stable")
    kept = np.arange(1, len(order) + 1)
    accuracy, at = np.cumsum(right[order]) / kept, confidence[order]
    last = np.append(at[1:] != at[:-1], True)  # of rows that are equally sure
    accuracy, at, kept = accuracy[last], at[last], kept[last]
    n_right = accuracy * kept
    least = np.nan_to_num(stats.beta.ppf(_TAILS[0], n_right, kept - n_right + 1), nan=0.0)
    most = np.nan_to_num(stats.beta.ppf(_TAILS[1], n_right + 1, kept - n_right), nan=1.0)
    low = float(np.floor(min(accuracy.min(), 0.9) * 10) / 10)
    frame = Frame(
        svg.shares(float(np.floor(at.min() * 10) / 10), 1.0),
        svg.shares(low, 1.0),
        "at least this sure",
        "right among them",
    )
    thin = _thinned(len(at))
    return frame.picture(
        frame.band(at[thin], least[thin], most[thin], "one"),
        frame.line(at[thin], accuracy[thin], "one"),
        about=f"Accuracy by confidence, from {percent(accuracy[-1])} of all rows",
    )


def risk_coverage(coverage: np.ndarray, risk: np.ndarray) -> Markup:
    """The share of errors among the most certain rows, as more rows are included."""
    frame = Frame(
        svg.shares(),
        svg.shares(0.0, max(float(risk.max()) * 1.1, 0.02)),
        "rows answered, surest first",
        "wrong among them",
    )
    thin = _thinned(len(risk))
    return frame.picture(
        frame.line([0, 1], [risk[-1]] * 2, "ideal"),
        frame.line(coverage[thin], risk[thin], "one"),
        about=f"Risk against coverage, up to {percent(risk[-1])} wrong of all rows",
    )


def by_size(values: np.ndarray, most: int) -> list[np.ndarray]:
    """Rows in groups of about equal number, small values first; at least eight rows a group."""
    n_groups = int(np.clip(len(values) // 8, 1, most))
    return np.array_split(np.argsort(values, kind="stable"), n_groups)


def _least_confidence(n_classes: int) -> float:
    """The probability of the most probable of so many classes is above this."""
    return float(np.floor(10 / n_classes) / 10)


def _histogram(frame: Frame, edges: np.ndarray, count: np.ndarray, kind: str) -> Markup:
    return frame.bars(edges[:-1], edges[1:], np.zeros(len(count)), count, kind)


def _bins(n_rows: int) -> int:
    return int(np.clip(np.sqrt(n_rows) * 1.5, 5, 24))


def _thinned(n: int) -> np.ndarray:
    """Places of a long line that are drawn."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_DOTS)).astype(int))
