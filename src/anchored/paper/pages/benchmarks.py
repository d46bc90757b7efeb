"""The page of benchmarks on the UCI tables: ours beside what was published."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from anchored.datasets.registry import TABLES
from anchored.paper.pages.markdown import duration, table
from anchored.paper.pages.protocol import protocol_section, starts_section
from anchored.paper.pages.scores import (
    NONE,
    cell,
    count_better,
    difference_error,
    fine_cell,
    join,
    label,
    margin,
    number,
    percent,
    row_with_best,
    seconds_cell,
    verdict,
)
from anchored.paper.runner import Record
from anchored.paper.tables.uci_published import PUBLISHED, Table
from anchored.paper.tables.uci_scores import Results, Score

OWN_SPLITS = "paper-splits"  # the paper's settings on the paper's own splits
_TITLES = {
    "anchored-defaults": "anchored, defaults",
    "anchored-5x50": "anchored 5x 50",
    "anchored-10x50": "anchored 10x 50",
    "anchored-5x50-50": "anchored 5x 50-50",
    "single-50": "single 50",
    "relu-gp": "ReLU GP",
    "erf-gp": "ERF GP",
    "deep-ensemble": "Deep Ensembles",
    "unconstrained": "unconstrained",
    "regularised": "regularised",
    "mc-dropout": "MC dropout",
    "ngboost": "NGBoost",
    "catboost": "CatBoost",
}
_VARIANTS = (
    "relu-gp",
    "erf-gp",
    "anchored-5x50",
    "anchored-10x50",
    "anchored-5x50-50",
    "single-50",
)
# What is shown of a score, and how, by the column's title.
_COLUMNS: dict[str, tuple[str, Callable[[Score | None, str], str]]] = {
    "NLL, Gaussian": ("nll", cell),
    "NLL, Student-t": ("nll_student_t", cell),
    "RMSE": ("rmse", fine_cell),
    "CRPS": ("crps", fine_cell),
    "90 % interval covers": ("coverage_90", lambda score, _: percent(score)),
    "calibration error": ("calibration_error", partial(cell, decimals=3)),
    "seconds a fit": ("seconds", lambda score, _: seconds_cell(score)),
}
_TREES = "as many trees as are best for a fifth of the training part, and else its defaults"
_RIVALS = {
    "ngboost": f"NGBoost has {_TREES}.",
    "catboost": f"CatBoost is five models drawn by Langevin boosting; it has {_TREES}.",
}

_HEAD = """# Benchmarks

The regression benchmark of Pearce et al. 2020 on the standard splits, made from the records of
every data set and method. Scores are in the target's own units; means ± one standard error over
the splits: 20, of protein 5, of song 1. A number in parentheses says how many splits a score has
if that is fewer. Lower is better for all scores but coverage. Networks have 50 nodes, for
protein and song 100, as in the paper. **Song is a stored subset of 5,000 training and 2,000 test
rows, not comparable with the paper's song**, so the paper's number is not shown beside it. The
paper's ReLU GP saw 10,000 rows of protein. Numbers are compared as printed, at two decimals.
"""

_HEADLINE = """## Without tuning by hand

`AnchoredRegressor` with nothing set, one default for all data sets; NLL of its own predictive, a
Student-t. The best seen is the lowest of the published numbers gathered from the sources below.
What a fit learns, it learns from its training part alone. The defaults themselves are not quite
free of selection: widths, folds and the model of the noise were settled on validation rows inside
the training parts of splits 0 to 3, which are test rows of other splits; that fewer than 500 rows
have ten folds, after yacht's coverage had been seen, and so were widths of intervals that held-out
rows correct; their batches of 32, on validation rows inside the training parts of splits 0 to 5 of
boston and yacht; the length and the rate of training, earlier, on test rows of splits 0 to 4 of
boston, concrete, energy, wine and yacht. Seconds are those of one fit, on two cores that did other
work as well.
"""

_TABLE_1 = (
    "Gaussian NLL. The difference is taken at the paper's two decimals; its standard error is",
    "ours and the paper's in quadrature.",
    "",
)

_OWN_SPLITS = (
    "The same on the splits that the authors drew, made again by the rule in their scripts: preset",
    "`paper-splits`. Their rows of power were in another order, so those splits are only alike.",
    "",
)


def benchmark_page(
    records: Iterable[Record],
    torch_seconds: Mapping[str, float] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    protocol: Record | None = None,
    one_program: Sequence[Mapping[str, Any]] = (),
    starts: Record | None = None,
) -> str:
    """Markdown of all records of the presets ``paper`` and ``defaults``, and of tuned ones.

    ``torch_seconds`` is what a plain PyTorch loop would take for one split of ``anchored-5x50``,
    ``tuned`` our own hyperparameters, both by data set; ``protocol`` the record of
    ``benchmarks.paper_protocol``; ``one_program`` the lines of that of ``benchmarks.splits``;
    ``starts`` the record of ``benchmarks.paper_starts``.
    Sections without records are left out.
    """
    results = Results(record for record in records if record["preset"] != "smoke")
    sections = [
        _headline(results),
        _table_1(results),
        starts_section(starts),
        protocol_section(protocol),
        _variants(results),
        _inference(results),
        _other_scores(results),
        _failures(results),
        _seconds(results, torch_seconds or {}, one_program),
        _hyperparameters(tuned or {}),
    ]
    sources = ["## Sources of the published numbers", ""]
    sources += [f"- {source}." for source in PUBLISHED.sources]
    return "\n".join(
        [_HEAD, *("\n".join([*lines, ""]) for lines in sections if lines), *sources, ""]
    )


def _pairs(
    results: Results, columns: Table, method: str, score: str, preset: str = "paper"
) -> dict[str, tuple[Score, Score]]:
    """Ours and the paper's, of the data sets that have both."""
    found = {}
    for data in TABLES:
        ours = results.score(preset, method, data, score)
        theirs = _published(columns, method, data)
        if ours and theirs:
            found[data] = (ours, theirs)
    return found


def _title(method: str) -> str:
    return _TITLES.get(method, method)


def _published(columns: Table, method: str, dataset: str) -> Score | None:
    """A published score; none for song, of which we have other rows."""
    found = columns.get(method, {}).get(dataset)
    return None if found is None or dataset == "song" else Score(*found)


# Sections


def _headline(results: Results) -> list[str]:
    ours = {d: results.own_nll("defaults", "anchored-defaults", d) for d in TABLES}
    shown = {d: score for d, score in ours.items() if score}
    if not shown:
        return []
    best = {d: _best_seen(d) for d in shown}
    columns = {
        f"{_title(m)} (our run)": {d: results.own_nll("defaults", m, d) for d in shown}
        for m in _RIVALS
        if m in results.methods("defaults")
    }
    told = [how for m, how in _RIVALS.items() if m in results.methods("defaults")]
    for name, m in (
        ("the paper's anchored 5x 50", "anchored-5x50"),
        ("Deep Ensembles as published", "deep-ensemble"),
    ):
        columns[name] = {d: _published(PUBLISHED.nll, m, d) for d in shown}
    columns["the best seen"] = {d: found[1] if found else None for d, found in best.items()}
    sentences, rows = [], []
    for name, column in columns.items():
        pairs = {d: (score, other) for d, score in shown.items() if (other := column[d])}
        if pairs:
            sentences.append(count_better(name, pairs))
    for d, score in shown.items():
        cells = row_with_best(d, [score, *(column[d] for column in columns.values())])
        found = best[d]
        rows.append([label(d), *cells, _title(found[0]) if found else NONE])
    return [
        _HEADLINE,
        *sentences,
        "",
        *([" ".join(told), ""] if told else []),
        *table(["NLL", _title("anchored-defaults"), *columns, "which is"], rows),
        "",
        *_own_scores(results, list(shown)),
    ]


def _own_scores(results: Results, datasets: Sequence[str]) -> list[str]:
    shown = ["RMSE", "CRPS", "90 % interval covers", "seconds a fit"]
    run = "defaults", "anchored-defaults"
    rows = [[label(d), *_cells(results, *run, d, shown)] for d in datasets]
    return table(["defaults", *shown], rows)


def _cells(
    results: Results, preset: str, method: str, dataset: str, titles: Iterable[str]
) -> list[str]:
    columns = [_COLUMNS[title] for title in titles]
    return [show(results.score(preset, method, dataset, name), dataset) for name, show in columns]


def _best_seen(dataset: str) -> tuple[str, Score] | None:
    """Name and score of the lowest NLL published by anyone."""
    found = {
        method: score
        for columns in (PUBLISHED.nll, PUBLISHED.inference, PUBLISHED.elsewhere)
        for method in columns
        if (score := _published(columns, method, dataset))
    }
    return min(found.items(), key=lambda item: item[1].mean, default=None)


def _table_1(results: Results) -> list[str]:
    standard, own = (_beside_the_paper(results, p) for p in ("paper", OWN_SPLITS))
    if standard:
        standard = ["## Table 1: the paper's settings", "", *_TABLE_1, *standard]
    if own:
        exact = _pairs(results, PUBLISHED.nll, "relu-gp", "nll", OWN_SPLITS)
        alike = sum(margin(*pair) == 0 for pair in exact.values())
        own = ["## Table 1 on the paper's own splits", "", *_OWN_SPLITS, *own]
        if exact:
            told = f"its NLL is the paper's to two decimals on {alike} of {len(exact)} data sets."
            own += ["", f"Nothing random enters the ReLU GP but the splits; {told}"]
    return [*standard, "", *own] if standard and own else standard + own


def _beside_the_paper(results: Results, preset: str) -> list[str]:
    """Verdicts on NLL, and the numbers."""
    methods = ("anchored-5x50", "relu-gp")
    pairs = {m: _pairs(results, PUBLISHED.nll, m, "nll", preset) for m in methods}
    pairs = {m: found for m, found in pairs.items() if found}
    rows = []
    for d in TABLES:
        compared = [found.get(d) for found in pairs.values()]
        if any(compared):
            rows.append([d, *(text for pair in compared for text in _compared(d, pair))])
    header = ["NLL"]
    for m in pairs:
        header += [_title(m), "the paper's", "difference", "in standard errors"]
    verdicts = [verdict(_title(m), found) for m, found in pairs.items()]
    heavy = _pairs(results, PUBLISHED.nll, methods[0], "nll_student_t", preset)
    if heavy:
        verdicts.append(verdict(f"{_title(methods[0])}, scored by the Student-t predictive", heavy))
    return [*verdicts, "", *table(header, rows)] if rows else []


def _compared(dataset: str, pair: tuple[Score, Score] | None) -> list[str]:
    if pair is None:
        return [NONE] * 4
    ours, theirs = pair
    excess, error = margin(ours, theirs), difference_error(ours, theirs)
    in_errors = f"{excess / error:+z.1f}" if error else NONE
    return [cell(ours, dataset), cell(theirs, dataset), number(excess, "+z.2f"), in_errors]


def _variants(results: Results) -> list[str]:
    methods = [m for m in _VARIANTS if m in results.methods("paper")]
    if not methods:
        return []
    lines = ["## Tables 4 and 5: variants", "", "Ours [the paper's]; NLL is Gaussian.", ""]
    for name, columns in (("rmse", PUBLISHED.rmse), ("nll", PUBLISHED.nll)):
        shown = fine_cell if name == "rmse" else cell
        rows = []
        for d in TABLES:
            ours = {m: results.score("paper", m, d, name) for m in methods}
            if not any(ours.values()):
                continue
            cells = []
            for m, score in ours.items():
                theirs = _published(columns, m, d)
                cells.append(shown(score, d) + (f" [{cell(theirs, d)}]" if theirs else ""))
            rows.append([label(d), *cells])
        lines += [*table([name.upper(), *map(_title, methods)], rows), ""]
        verdicts = {_title(m): _pairs(results, columns, m, name) for m in methods}
        lines += [verdict(title, pairs) for title, pairs in verdicts.items() if pairs]
        lines.append("")
    return lines[:-1]


def _inference(results: Results) -> list[str]:
    ours = [("defaults", "anchored-defaults")]
    ours += [("paper", m) for m in ("anchored-5x50", "deep-ensemble", "mc-dropout")]
    ours = [(preset, m) for preset, m in ours if m in results.methods(preset)]
    if not ours:
        return []
    rows = []
    for d in TABLES:
        run = [results.own_nll(preset, m, d) for preset, m in ours]
        others = [_published(PUBLISHED.inference, m, d) for m in PUBLISHED.inference]
        if any(run) and any(others):
            theirs = [_published(PUBLISHED.nll, "anchored-5x50", d), *others]
            rows.append([d, *row_with_best(d, [*run, *theirs])])
    if not rows:
        return []
    header = ["NLL", *(f"{_title(m)} (our run)" for _, m in ours)]
    return [
        "## Table 6: inference methods",
        "",
        "NLL of our runs, then as published; the paper prints log likelihoods.",
        "",
        *table([*header, "the paper's anchored 5x 50", *PUBLISHED.inference], rows),
    ]


def _other_scores(results: Results) -> list[str]:
    lines, shown = [], [title for title in _COLUMNS if title != "seconds a fit"]
    for d in TABLES:
        rows = []
        for preset, method in _runs(results, "defaults", "paper", OWN_SPLITS, "tuned"):
            if not results.splits(preset, method, d):
                continue
            rows.append([preset, _title(method), *_cells(results, preset, method, d, shown)])
        if rows:
            lines += [f"### {label(d)}", "", *table(["preset", "method", *shown], rows), ""]
    return ["## Other scores", "", *lines[:-1]] if lines else []


def _runs(results: Results, *presets: str) -> list[tuple[str, str]]:
    """Presets and methods, in the order of the titles, others last."""
    order = {method: i for i, method in enumerate(_TITLES)}
    return [
        (preset, method)
        for preset in presets
        for method in sorted(results.methods(preset), key=lambda m: order.get(m, len(order)))
    ]


def _failures(results: Results) -> list[str]:
    lines = []
    for preset, method, dataset, reasons in results.failures():
        told = [f"split {split} ({reason})" for split, reason in reasons.items()]
        lines.append(f"- {_title(method)}, {preset}, on {label(dataset)}: {join(told)}.")
    head = ["## Fits that failed", "", "Scores with such a split are not finite above.", ""]
    return head + lines if lines else []


def _seconds(
    results: Results,
    torch_seconds: Mapping[str, float],
    one_program: Sequence[Mapping[str, Any]],
) -> list[str]:
    rows, cores = [], set()
    for preset, method in _runs(results, "defaults", "paper", "tuned"):
        cores.add(results.cores[preset])
        scores = {d: results.score(preset, method, d, "seconds") for d in TABLES}
        total = sum(s.mean * (s.n_splits or 0) for s in scores.values() if s)
        cells = [seconds_cell(score) for score in scores.values()]
        rows.append([preset, _title(method), *cells, duration(total)])
    if not rows:
        return []
    lines = [
        "## Seconds",
        "",
        f"Seconds a split, on {join([str(n) for n in sorted(cores)])} CPU cores that at times did",
        "other work as well, and the time of all splits together.",
        "",
        *table(["preset", "method", *map(label, TABLES), "all"], rows),
    ]
    return [*lines, *_beside_torch(results, torch_seconds), *_one_program(one_program)]


def _beside_torch(results: Results, torch_seconds: Mapping[str, float]) -> list[str]:
    rows = []
    for d, torch in torch_seconds.items():
        ours = results.score("paper", "anchored-5x50", d, "seconds")
        if ours:
            n, faster = ours.n_splits or 0, f"{torch / ours.mean:.0f}x"
            cells = [seconds_cell(ours), seconds_cell(Score(torch)), faster]
            rows.append([d, *cells, duration(n * ours.mean), duration(n * torch)])
    if not rows:
        return []
    header = ["anchored 5x 50", "seconds a split", "PyTorch loop", "faster", "all splits"]
    return [
        "",
        "Beside a plain PyTorch loop: the number of steps times its measured time for a step",
        "of the same networks and batch.",
        "",
        *table([*header, "PyTorch loop"], rows),
    ]


def _one_program(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    if not lines:
        return []
    header = ["20 splits x 5 networks", "batch", "steps", "side by side", "in one program", "ratio"]
    rows = []
    for line in lines:
        times = [f"{line[name]:.2f} s" for name in ("side_by_side", "one_program")]
        counts = str(line["batch"]), str(line["steps"])
        rows.append([line["name"], *counts, *times, f"{line['ratio']:.2f}"])
    return [
        "",
        "Splits have a program each and run side by side. All splits could also be members of one",
        "program that gathers the rows of each; seconds for the same steps, timed in turns",
        "(`make bench-splits`), and the median ratio of the second to the first:",
        "",
        *table(header, rows),
    ]


def _hyperparameters(tuned: Mapping[str, Mapping[str, Any]]) -> list[str]:
    shown = [d for d in TABLES if d in tuned]
    if not shown:
        return []
    names = dict.fromkeys(
        name for d in shown for name in (*PUBLISHED.hyperparameters.get(d, {}), *tuned[d])
    )
    rows = []
    for d in shown:
        theirs = PUBLISHED.hyperparameters.get(d, {})
        cells = []
        for name in names:
            text = _setting(tuned[d].get(name))
            cells.append(text + (f" [{_setting(theirs[name])}]" if name in theirs else ""))
        rows.append([d, *cells])
    return [
        "## Hyperparameters",
        "",
        "Ours, found by `anchored tune` on the training part of split 0, the best of one search",
        "[the paper's]; variances are those of standardised data.",
        "",
        *table(["", *(name.replace("_", " ") for name in names)], rows),
    ]


def _setting(value: Any) -> str:
    if value is None:
        return NONE
    return f"{value:.3g}" if isinstance(value, float) else str(value)
