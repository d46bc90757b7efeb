"""Sentences, tables and rank histograms from the record of the coverage."""

from collections.abc import Callable

import numpy as np

from anchored.paper.plotting import BLUE, GREY, ORANGE
from anchored.paper.prose import sentences
from anchored.paper.runner import Record, Table
from anchored.paper.tables.coverage_methods import METHODS
from anchored.paper.tables.coverage_problems import REGIONS, Case
from anchored.paper.tables.coverage_results import (
    BY_CHANCE,
    CLOSE,
    LEVEL,
    MAIN_KINDS,
    MAIN_ROWS,
    VERDICTS,
    Mean,
    Results,
    Score,
    beyond,
    covered,
    is_main,
    log_needed,
    log_var,
    reference,
    verdict,
)
from anchored.paper.tables.coverage_scores import LEVELS, N_RANKED

_WHAT = {"function": "the true function", "target": "new targets"}
_ENOUGH = 10  # truths; a cell of the tables says how many there are if fewer
_NONE = "-"
_LEVEL = f"{100 * LEVEL:.0f} %"


def findings(record: Record) -> list[str]:
    results = Results(record)
    halves = [_summed_up(results, title, cases) for title, cases in results.halves]
    known = {"level": _LEVEL, "close": CLOSE, "by_chance": BY_CHANCE, "n_ranked": N_RANKED}
    return sentences(
        "table-coverage", halves=halves, n_failed=results.n_failed, show=percent, **known
    )


def _summed_up(results: Results, title: str, cases: list[Case]) -> dict:
    """Each method on the main problems, and counts over all of them."""
    main = main_of(cases)
    lines = [
        {"words": METHODS[name].words}
        | {region: _in_region(results, name, region, main, cases) for region in REGIONS}
        for name in results.methods(cases)
    ]
    defaults = [
        {"problem": case.name}
        | {r: results.mean(case, "estimator", covered("function", r)) for r in REGIONS}
        for case in cases
        if case.n_rows >= MAIN_ROWS
        and case.kind in MAIN_KINDS
        and (case, "estimator") in results.runs
    ]
    names = [case.name for case in main]
    told = {"reference": METHODS[reference(cases[0])].words, "main": names}
    return {"title": title, "lines": lines, "defaults": defaults} | told


def _in_region(
    results: Results, name: str, region: str, main: list[Case], cases: list[Case]
) -> dict:
    held = covered("function", region)
    each = [mean for case in cases if (mean := results.mean(case, name, held))]
    ratios = [results.less_reference(case, name, log_var(region)) for case in cases]
    logs = [ratio.value for ratio in ratios if ratio]
    needed = [results.needed(case, name, log_needed(region)) for case in cases]
    asked = [mean.value for mean in needed if mean]
    return {
        "held": Mean.of(results.mean(case, name, held) for case in main),
        "beyond": Mean.of(results.mean(case, name, beyond(region)) for case in main),
        "less": Mean.of(results.less_reference(case, name, held) for case in cases),
        "verdicts": {word: sum(verdict(mean) == word for mean in each) for word in VERDICTS},
        "ratio": float(np.exp(np.median(logs))) if logs else None,
        "needed": float(np.exp(np.median(asked))) if asked else None,
    }


def main_of(cases: list[Case]) -> list[Case]:
    """The main problems among some, or all of them if there is none."""
    return [case for case in cases if is_main(case)] or cases


def percent(mean: Mean | None, spec: str = ".0f") -> str:
    """In percent, with its standard error."""
    if mean is None:
        return _NONE
    return f"{100 * mean.value:{spec}}" + _plus_minus(mean.error, 100.0, ".0f")


def _plus_minus(error: float | None, unit: float, spec: str) -> str:
    return "" if error is None else f" ± {unit * error:{spec}}"


# Tables


def tables(record: Record) -> list[Table]:
    results, made = Results(record), []
    for title, cases in results.halves:
        made.append(_levels(results, title, main_of(cases)))
        for what, words in _WHAT.items():
            for region in REGIONS:
                held = f"{title}: {words} covered by {_LEVEL} bands, {region} the data, %"
                score = covered(what, region)
                made.append(_by_problem(held, results, cases, results.mean, score, percent))
        for region in REGIONS:
            beside = METHODS[reference(cases[0])].words
            wide = f"{title}: epistemic variance divided by that of {beside}, {region} the data"
            score = log_var(region)
            made.append(_by_problem(wide, results, cases, results.less_reference, score, _ratio))
            asked = f"{title}: quotient that the distance of the means asks for, {region} the data"
            score = log_needed(region)
            made.append(_by_problem(asked, results, cases, results.needed, score, _ratio))
    return [table for table in made if len(table.header) > 1]


def _levels(results: Results, title: str, main: list[Case]) -> Table:
    """All levels, averaged over the main problems."""
    columns = [(what, region) for what in _WHAT for region in REGIONS]

    def shown(name: str, score: Score) -> str:
        return percent(Mean.of(results.mean(case, name, score) for case in main))

    rows = []
    for name in results.methods(main):
        cells = [
            " / ".join(shown(name, covered(*column, level)) for level in LEVELS)
            for column in columns
        ]
        outer = " / ".join(shown(name, beyond(region)) for region in REGIONS)
        rows.append([METHODS[name].words, *cells, outer])
    header = [f"{_WHAT[what]}, {region}" for what, region in columns]
    last = f"beyond all draws, inside / outside ({100 * BY_CHANCE:.0f} % by chance)"
    levels = " / ".join(f"{100 * level:.0f}" for level in LEVELS)
    names = ", ".join(case.name for case in main)
    title = f"{title}: share covered at {levels} %, mean over {names}"
    return Table(title, ["method", *header, last], rows)


def _by_problem(
    title: str,
    results: Results,
    cases: list[Case],
    mean: Callable[[Case, str, Score], Mean | None],
    score: Score,
    show: Callable[[Mean | None], str],
) -> Table:
    """A score of every method on every problem, where there is one."""
    found = {name: [mean(case, name, score) for case in cases] for name in results.methods(cases)}
    shown = {name: means for name, means in found.items() if any(means)}
    rows = [
        [case.name, *(show(means[i]) + _few(means[i]) for means in shown.values())]
        for i, case in enumerate(cases)
    ]
    return Table(title, ["problem", *(METHODS[name].words for name in shown)], rows)


def _few(mean: Mean | None) -> str:
    return f" ({mean.n})" if mean is not None and mean.n < _ENOUGH else ""


def _ratio(log: Mean | None) -> str:
    """The ratio from a mean logarithm; the error of the logarithm is a share of the ratio."""
    if log is None:
        return _NONE
    ratio = float(np.exp(log.value))
    return f"{ratio:.2f}" + _plus_minus(log.error, ratio, ".2f")


# Picture


def draw(figure, record: Record) -> None:
    """Ranks of the truth among the draws: methods are columns, regions rows."""
    results = Results(record)
    title, cases = results.halves[0]
    main = main_of(cases)
    names = results.methods(main)
    axes = figure.subplots(len(REGIONS), len(names), sharex=True, sharey=True, squeeze=False)
    for row, region in zip(axes, REGIONS, strict=True):
        for ax, name in zip(row, names, strict=True):
            _histogram(ax, *ranks(results, main, name, region))
        row[0].set_ylabel(f"{region} the data\nshare of test inputs")
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(METHODS[name].words)
    axes[0][0].set_ylim(bottom=0)
    figure.supxlabel(f"rank of the true function among {N_RANKED} draws", fontsize=9)
    figure.suptitle(f"{title}: {', '.join(case.name for case in main)}", fontsize=9)


def ranks(
    results: Results, cases: list[Case], name: str, region: str
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of ranks [rank] over the truths of some problems, and errors; nan for one truth."""
    truths = [t for case in cases for t in results.runs.get((case, name), {}).values()]
    counts = np.array([truth[region]["ranks"] for truth in truths], float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    if len(shares) == 1:
        return shares[0], np.full_like(shares[0], np.nan)
    return shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(len(shares))


def _histogram(ax, shares: np.ndarray, errors: np.ndarray) -> None:
    """Bars, and where they belong if ranks are even: two standard errors about the line."""
    even, x = 1 / len(shares), np.arange(len(shares))
    outside = np.abs(shares - even) > 2 * errors
    ax.bar(x, shares, 0.9, color=np.where(outside, ORANGE, BLUE))
    ax.bar(x, 4 * errors, 0.9, bottom=even - 2 * errors, color=GREY, alpha=0.35)
    ax.axhline(even, color=GREY, lw=1)
