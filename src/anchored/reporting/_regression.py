"""The chapter of one continuous target."""

import numpy as np

from anchored import metrics
from anchored.reporting import _figures, _page, _verdict
from anchored.reporting._case import WORST_ROWS, Case, Chapter, columns_section, telling_columns
from anchored.reporting._importance import Importance, importance
from anchored.reporting._markup import Markup
from anchored.reporting._page import Section, key
from anchored.reporting._words import column, counted, level, number, percent

_LEVELS = np.arange(1, 20) / 20
_IDEAL = key("ideal", "where they should be")
_CHANCE = key("muted", "what chance gives 95 times in 100")


def chapter(case: Case, prefix: str = "") -> Chapter:
    """Everything about one target; ``prefix`` starts the headings if there are several."""
    found = _importance(case)
    top = (
        _page.verdict(
            _verdict.of_intervals(case.dist, case.y, case.coverage),
            _verdict.of_error(case.dist, case.y),
            _verdict.of_variance(case.dist),
        ),
        _tiles(case),
    )
    sections = (
        Section(f"{prefix}Predictions", "", (_page.figures(_predicted(case), _errors(case)),)),
        Section(
            f"{prefix}Are the intervals honest?",
            "",
            (_page.figures(_calibration(case), _pit(case)),),
        ),
        Section(
            f"{prefix}How wide they are, and why",
            "",
            (_page.figures(_sharpness(case), _sources(case)),),
        ),
        *columns_section(found, "RMSE", "", "epistemic variance", prefix),
        _worst(case, found, prefix),
    )
    return Chapter(top, sections)


def _tiles(case: Case) -> Markup:
    dist, y, nominal = case.dist, case.y, case.coverage
    lower, upper = dist.interval(nominal)
    chance = 0.33 / np.sqrt(len(y))
    return _page.tiles(
        [
            (
                "coverage",
                percent(metrics.coverage(dist, y, nominal)),
                f"should be {level(nominal)}",
            ),
            ("RMSE", number(metrics.rmse(dist, y)), f"deviation of targets {number(np.std(y))}"),
            ("CRPS", number(metrics.crps(dist, y)), "lower is better"),
            ("NLL", number(metrics.nll(dist, y)), "nats a row, lower is better"),
            ("interval score", number(metrics.interval_score(dist, y, nominal)), "lower is better"),
            ("mean width", number(np.mean(upper - lower)), f"of {level(nominal)} intervals"),
            (
                "calibration error",
                number(metrics.calibration_error(dist, y), 2),
                f"chance gives {number(chance, 2)}",
            ),
            ("epistemic", percent(dist.epistemic_var.sum() / dist.variance.sum()), "of variance"),
        ]
    )


def _predicted(case: Case) -> Markup:
    lower, upper = case.dist.interval(case.coverage)
    inside = (lower <= case.y) & (case.y <= upper)
    picture = _figures.predicted_against_observed(case.y, case.dist.mean, lower, upper, case.rows)
    shown = len(_figures.drawn_rows(len(case.y)))
    part = f"{shown} of {len(case.y):,} rows are drawn. " if shown < len(case.y) else ""
    return _page.figure(
        "Predicted against observed",
        picture,
        f"{inside.sum():,} of {counted(len(inside), 'row')} lie in their interval.",
        f"{part}Bars are {level(case.coverage)} intervals; those that hold their target cross "
        "the dashed line.",
        [key("one", "inside"), key("two ring", "outside"), key("ideal", "perfect")],
    )


def _errors(case: Case) -> Markup:
    dist, error = case.dist, case.dist.mean - case.y
    rank = _rank_correlation(dist.std, np.abs(error))
    if len(error) < _verdict.FEW_ROWS:
        finding = "Too few rows to tell."
    elif rank > 2 / np.sqrt(len(error)):
        finding = "Larger errors come where they were expected."
    elif np.ptp(dist.std) < 0.2 * dist.std.mean():
        finding = "The model thinks all rows about equally uncertain."
    else:
        finding = "Predicted deviations hardly tell large errors from small ones."
    return _page.figure(
        "Error against predicted deviation",
        _figures.error_against_deviation(dist.std, error),
        finding,
        "Each dot is a group of rows of about equal predicted deviation, with two standard errors. "
        "Dots above the dashed line are rows that are less certain than predicted.",
        [key("one", "groups of rows"), _IDEAL],
    )


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) < 3 or not np.ptp(a) > 0 or not np.ptp(b) > 0:
        return 0.0
    first, second = (np.argsort(np.argsort(values)) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def _calibration(case: Case) -> Markup:
    levels, shares, band = metrics.calibration_curve(case.dist, case.y, _LEVELS)
    covered = metrics.coverage(case.dist, case.y, case.coverage)
    outside = int(np.sum((shares < band[0]) | (shares > band[1])))
    finding = (
        f"{outside} of {len(levels)} levels {'is' if outside == 1 else 'are'} outside the band."
    )
    if len(case.y) < _verdict.FEW_ROWS:
        finding = "Too few rows to tell."
    elif not outside:
        finding = "Every level is within chance."
    return _page.figure(
        "Calibration",
        _figures.calibration(levels, shares, band, case.coverage, covered),
        finding,
        "Share of targets inside intervals of every level. Below the dashed line intervals are "
        f"too narrow, above it too wide; the large dot is the {level(case.coverage)} level.",
        [key("one", "these rows"), _IDEAL, _CHANCE],
    )


def _pit(case: Case) -> Markup:
    values = metrics.pit(case.dist, case.y)
    lean = (values.mean() - 0.5) * np.sqrt(12 * len(values))  # standard normal if all is well
    finding = "Predictions are neither too high nor too low on the whole."
    if len(values) < _verdict.FEW_ROWS:
        finding = "Too few rows to tell."
    elif abs(lean) > 3:
        finding = f"Predictions are too {'low' if lean > 0 else 'high'} on the whole."
    return _page.figure(
        "Where targets fall in their predictive (PIT)",
        _figures.pit_histogram(values),
        finding,
        "Bars should be level. A hollow says too narrow, a hump too wide, a slope that "
        "predictions are too low or too high.",
        [key("one", "these rows"), _IDEAL, _CHANCE],
    )


def _sharpness(case: Case) -> Markup:
    lower, upper = case.dist.interval(case.coverage)
    width, tail = upper - lower, (1 - case.coverage) / 2
    finding, reference, keys = "", None, [key("one", "these rows")]
    if len(case.y) >= _verdict.FEW_ROWS and np.ptp(case.y) > 0:
        reference = float(np.diff(np.quantile(case.y, [tail, 1 - tail]))[0])
        keys.append(key("ideal", "the same for all rows, without columns"))
        finding = (
            f"The median interval is {number(np.median(width) / reference, 2)} times as wide as "
            "one that knows no columns."
        )
    return _page.figure(
        "Sharpness",
        _figures.sharpness(width, reference),
        finding,
        f"Widths of {level(case.coverage)} intervals: the narrower the better, as long as they "
        "are honest.",
        keys,
    )


def _importance(case: Case) -> Importance | None:
    if case.x is None or len(case.y) < 2:
        return None

    def error(dist, rows):
        return float(np.sqrt(np.mean(np.square(dist.mean - case.y[rows]))))

    return importance(case.predict, case.x, case.columns, error, lambda dist: dist.epistemic_var)


def _sources(case: Case) -> Markup:
    dist = case.dist
    share = dist.epistemic_var.sum() / dist.variance.sum()
    return _page.figure(
        "Epistemic and aleatoric",
        _figures.variance_shares(dist.variance, dist.epistemic_var, "rows by their variance"),
        f"{percent(share)} of the variance is epistemic.",
        "Epistemic variance is what members disagree on, and goes away with more rows like "
        "these; aleatoric variance is noise, and stays.",
        [key("two", "epistemic"), key("faint", "aleatoric")],
    )


def _worst(case: Case, found: Importance | None, prefix: str) -> Section:
    dist, y = case.dist, case.y
    lower, upper = dist.interval(case.coverage)
    off = np.divide(y - dist.mean, dist.std, out=np.zeros(len(y)), where=dist.std > 0)
    order = np.argsort(-np.abs(off), kind="stable")[:WORST_ROWS]
    low, high = column(lower[order]), column(upper[order])
    columns = [
        ("row", [case.rows[i] for i in order]),
        ("observed", column(y[order])),
        ("predicted", column(dist.mean[order])),
        (f"{level(case.coverage)} interval", [" to ".join(e) for e in zip(low, high, strict=True)]),
        ("deviations off", [f"{abs(v):.1f} {'above' if v > 0 else 'below'}" for v in off[order]]),
    ]
    table = _page.table(columns + telling_columns(case, found, order))
    lead = (
        "The rows that surprised the model most: wrong entries, or kinds of rows that it has seen "
        "too few of. Of 100 rows about five should be more than two deviations off."
    )
    return Section(f"{prefix}Worst rows", lead, (table,))
