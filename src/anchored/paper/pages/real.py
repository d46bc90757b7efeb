"""The page of real tables, and of gap and tail splits, made from their records."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anchored.datasets.registry import REAL
from anchored.paper.pages.scores import NONE
from anchored.paper.prose import number, rendered, table
from anchored.paper.runner import Record
from anchored.paper.tables.gap import KINDS, PUBLISHED, by_run, mean_score
from anchored.paper.tables.real_record import ALPHA, HIGHER_IS_BETTER, RealResults
from anchored.paper.tables.uci_scores import Score

OURS = "anchored"
_TITLES = {
    "rmse": "RMSE",
    "crps": "CRPS",
    "nll": "NLL",
    "interval_score": "90 % interval score",
    "log_loss": "log loss",
    "brier": "Brier score",
    "accuracy": "accuracy",
}
_RANKED = {
    "regression": ("interval_score", "crps", "rmse"),
    "classification": ("log_loss", "brier"),
}
_SHOWN = {
    "regression": ("interval_score", "crps", "rmse", "nll"),
    "classification": ("log_loss", "brier", "accuracy"),
}
# Whom we compare ourselves with, and in what: CatBoost's RMSE is that of its squared error.
_DUELS = {
    "regression": (
        ("catboost", ("interval_score", "crps", "nll")),
        ("catboost-conformal", ("interval_score", "crps", "rmse")),
    ),
    "classification": (("catboost", ("log_loss", "brier")),),
}
_FLOORS = {"regression": ("ridge", "rmse"), "classification": ("logistic", "log_loss")}
_POINT = "catboost-conformal"
_NEAR, _FLOOR_SHARE = 1.05, 1.02
_COVERED = (0.87, 0.93)


def real_page(record: Record, gap: Record | None = None) -> str:
    """Markdown of the record of ``table-real`` and, if there is one, of ``table-gap``."""
    results = RealResults(record)
    rows = {settings["max_train"] for settings in record["settings"].values()}
    return rendered(
        "real_tables.md.j2",
        n_tables={task: len(results.datasets(task)) for task in _RANKED},
        max_train=max(rows, default=None),
        seeds=_seeds(results),
        ranks=[_ranks(results, task) for task in _RANKED if results.datasets(task)],
        summary=_summary(results),
        coverage=_coverage(results),
        factors=_factors(results),
        sections=[
            {"title": _TITLES[name], "task": task, "table": _scores(results, task, name)}
            for task, names in _SHOWN.items()
            for name in names
        ],
        failures=results.failures(),
        seconds=_seconds(results),
        tables=table(
            ("table", "what a row is", "rows", "columns", "target", "split"),
            [
                (t.name, t.about, f"{t.shape[0]:,}", str(t.shape[1]), f"`{t.target}`", t.split)
                for t in REAL.values()
            ],
        ),
        alpha=ALPHA,
        gap=None if gap is None else _gap(gap),
        ours=OURS,
    )


# Real tables


def _seeds(results: RealResults) -> str:
    """How many seeds each method has."""
    counts: dict[str, set[int]] = {}
    for task in _RANKED:
        for dataset in results.datasets(task):
            for method in results.methods(dataset):
                counts.setdefault(method, set()).add(len(results.seeds(dataset, method)))
    spans = {m: f"{min(c)}" if len(c) == 1 else f"{min(c)} to {max(c)}" for m, c in counts.items()}
    return ", ".join(f"{method} {span}" for method, span in spans.items())


def _ranks(results: RealResults, task: str) -> dict[str, Any]:
    """Mean ranks of methods on every table of the task, and the critical difference."""
    methods = results.ranked(task)
    found = {name: results.ranks(name, methods, task) for name in _RANKED[task]}
    found = {name: ranks for name, ranks in found.items() if ranks is not None}
    if not found:
        return {"task": task, "table": "", "n_tables": 0, "difference": None}
    first = next(iter(found.values()))
    rows = [
        [method, *(_with_best(ranks.mean, method) for ranks in found.values())]
        for method in first.mean
    ]
    return {
        "task": task,
        "table": table(["mean rank", *(_TITLES[name] for name in found)], rows),
        "n_tables": first.n_tables,
        "difference": first.critical_difference,
    }


def _with_best(ranks: Mapping[str, float], method: str) -> str:
    text = f"{ranks[method]:.2f}"
    return f"**{text}**" if ranks[method] == min(ranks.values()) else text


def _summary(results: RealResults) -> list[str]:
    """Sentences on ours beside CatBoost, the linear floor, and the time; none without ours."""
    lines = []
    for task, duels in _DUELS.items():
        for rival, names in duels:
            parts = []
            for name in names:
                pairs = results.compared(name, (OURS, rival), task)
                if pairs:
                    n_lower = sum(ours < theirs for ours, theirs in pairs.values())
                    parts.append(f"{_TITLES[name]} on {n_lower} of {len(pairs)}")
            if parts:
                lines.append(f"{task}: {OURS} is better than {rival} in {', '.join(parts)} tables.")
    lines += _near_catboost(results)
    lines += [line for task in _FLOORS for line in _floor(results, task)]
    ratios = _time_ratios(results)
    if ratios:
        lines.append(
            f"A fit takes {np.median(ratios):.1f} times the processor seconds of CatBoost: this is "
            f"the median over {len(ratios)} tables."
        )
    return lines


def _near_catboost(results: RealResults) -> list[str]:
    pairs = results.compared("rmse", (OURS, _POINT), "regression")
    near = sum(ours <= _NEAR * theirs for ours, theirs in pairs.values())
    if not pairs:
        return []
    return [
        f"The RMSE of {OURS} is at most {_NEAR - 1:.0%} above CatBoost's on {near} of {len(pairs)} "
        "tables."
    ]


def _floor(results: RealResults, task: str) -> list[str]:
    rival, name = _FLOORS[task]
    pairs = results.compared(name, (OURS, rival), task)
    below = [data for data, (ours, theirs) in pairs.items() if ours > _FLOOR_SHARE * theirs]
    if not pairs:
        return []
    where = f"on {', '.join(below)}" if below else "on none"
    return [
        f"The {_TITLES[name]} of {OURS} is more than {_FLOOR_SHARE - 1:.0%} above that of {rival} "
        f"{where} of {len(pairs)} tables."
    ]


def _time_ratios(results: RealResults) -> list[float]:
    return [
        ours / theirs
        for task, rival in (("regression", _POINT), ("classification", "catboost"))
        for ours, theirs in results.compared("fit_processor_seconds", (OURS, rival), task).values()
        if math.isfinite(ours / theirs)
    ]


def _coverage(results: RealResults) -> str:
    """For each method: mean, least and largest coverage, and how many tables are not as hoped."""
    low, high = _COVERED
    rows = []
    datasets = results.datasets("regression")
    for method in dict.fromkeys(m for dataset in datasets for m in results.methods(dataset)):
        found = {d: results.score(d, method, "coverage") for d in datasets}
        means = {d: score.mean for d, score in found.items() if score is not None}
        if not means:
            continue
        n_outside = sum(not low <= mean <= high for mean in means.values())
        span = f"{min(means.values()):.1%} to {max(means.values()):.1%}"
        rows.append((method, f"{np.mean(list(means.values())):.1%}", span, str(n_outside)))
    last = f"tables not in {low:.0%}-{high:.0%}"
    return table(("90 % intervals cover", "mean", "least to largest", last), rows)


def _factors(results: RealResults) -> str:
    """The factor on our epistemic variance by table; empty if the record has none."""
    found = {d: results.score(d, OURS, "factor") for d in results.datasets("regression")}
    rows = [(d, _digits(score.mean, abs(score.mean))) for d, score in found.items() if score]
    return table(("table", "learned factor"), rows) if rows else ""


def _scores(results: RealResults, task: str, name: str) -> str:
    """A row for each table, a column for each method that has the score."""
    datasets = results.datasets(task)
    methods = dict.fromkeys(m for dataset in datasets for m in results.methods(dataset))
    scores = {d: {m: results.score(d, m, name) for m in methods} for d in datasets}
    methods = [m for m in methods if any(row[m] is not None for row in scores.values())]
    sign = -1 if name in HIGHER_IS_BETTER else 1
    rows = [[d, *_row([row[m] for m in methods], sign)] for d, row in scores.items()]
    return table(["table", *methods], rows)


def _row(scores: Sequence[Score | None], sign: int) -> list[str]:
    """Cells with the best in bold."""
    means = [sign * score.mean for score in scores if score is not None]
    best = min(means, default=math.inf)
    return [
        f"**{_cell(score)}**" if score and sign * score.mean == best else _cell(score)
        for score in scores
    ]


def _cell(score: Score | None) -> str:
    if score is None:
        return NONE
    text = _digits(score.mean, abs(score.mean))
    return text if score.error is None else f"{text} ± {_digits(score.error, abs(score.mean))}"


def _digits(value: float, size: float) -> str:
    """Four digits of a number of this size."""
    if not math.isfinite(size):
        return number(size, "g")
    places = 3 if size < 1 else max(0, 3 - math.floor(math.log10(size)))
    return f"{value:,.{places}f}"


def _seconds(results: RealResults) -> str:
    rows = []
    datasets = [d for task in _RANKED for d in results.datasets(task)]
    methods = list(dict.fromkeys(m for dataset in datasets for m in results.methods(dataset)))
    for dataset in datasets:
        found = [results.score(dataset, m, "fit_processor_seconds") for m in methods]
        rows.append([dataset, *(NONE if s is None else number(s.mean, ".1f") for s in found)])
    return table(["processor seconds of a fit", *methods], rows)


# Gap and tail splits


def _gap(record: Record) -> dict[str, Any]:
    """Ours beside what was published, by the kind of split."""
    runs = by_run(record)
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in runs))
    methods = list(dict.fromkeys(method for _, _, method in runs))
    lower, sections = [], []
    for kind in KINDS:
        rows = []
        for dataset in datasets:
            ours = [mean_score(runs, (dataset, kind, m), "nll") for m in methods]
            theirs = [Score(nll) for nll in PUBLISHED[kind].get(dataset, ())]
            first = mean_score(runs, (dataset, kind, OURS), "nll")
            if first and theirs:
                lower.append(first.mean <= min(score.mean for score in theirs))
            cells = _row([*ours, *(theirs or [None] * len(PUBLISHED["methods"]))], 1)
            covered = mean_score(runs, (dataset, kind, OURS), "coverage")
            rows.append([dataset, *cells, NONE if covered is None else f"{covered.mean:.1%}"])
        header = [f"NLL, {kind}", *methods, *PUBLISHED["methods"], f"{OURS}: 90 % intervals cover"]
        sections.append(table(header, rows))
    return {
        "n_lower": sum(lower),
        "n_compared": len(lower),
        "tables": sections,
        "source": PUBLISHED["source"],
        "protocol": PUBLISHED["protocol"],
        "max_rows": max(settings["max_rows"] for settings in record["settings"].values()),
    }
