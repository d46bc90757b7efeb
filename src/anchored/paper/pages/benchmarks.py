"""The page of benchmarks on the UCI tables: our scores beside published ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from anchored.datasets.registry import TABLES
from anchored.paper.pages.protocol import protocol_section, starts_table
from anchored.paper.pages.scores import (
    NONE,
    cell,
    count_better,
    difference_error,
    fine_cell,
    join,
    label,
    margin,
    percent,
    row_with_best,
    seconds_cell,
    verdict,
)
from anchored.paper.prose import duration, number, rendered, table
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
_TREES = "the number of trees that is best on a fifth of the training rows, and its defaults"
_RIVALS = {
    "ngboost": f"NGBoost uses {_TREES} otherwise.",
    "catboost": f"CatBoost is five models drawn by Langevin boosting. It uses {_TREES} otherwise.",
}


def benchmark_page(
    records: Iterable[Record],
    torch_seconds: Mapping[str, float] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    protocol: Record | None = None,
    one_program: Sequence[Mapping[str, Any]] = (),
    starts: Record | None = None,
) -> str:
    """Markdown of all records of the presets ``paper`` and ``defaults``, and of the tuned ones.

    ``torch_seconds`` is how long a plain PyTorch loop would take for one split of
    ``anchored-5x50``, and ``tuned`` has our own hyperparameters, both by data set. ``protocol`` is
    the record of ``benchmarks.paper_protocol``. ``one_program`` has the lines of the record of
    ``benchmarks.splits``. ``starts`` is the record of ``benchmarks.paper_starts``. Sections without
    records are left out.
    """
    results = Results(record for record in records if record["preset"] != "smoke")
    seconds, cores = _seconds(results)
    return rendered(
        "benchmarks.md.j2",
        headline=_headline(results),
        standard=_table_1(results, "paper"),
        own=_table_1(results, OWN_SPLITS),
        starts=starts_table(starts) if starts else None,
        protocol=protocol_section(protocol) if protocol else None,
        variants=_variants(results),
        inference=_inference(results),
        others=_other_scores(results),
        failures=_failures(results),
        seconds=seconds,
        cores=cores,
        torch=_beside_torch(results, torch_seconds or {}),
        one_program=one_program,
        hyperparameters=_hyperparameters(tuned or {}),
        sources=PUBLISHED.sources,
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


# Sections: what the template shows of each, nothing where there are no records.


def _headline(results: Results) -> dict[str, Any] | None:
    ours = {d: results.own_nll("defaults", "anchored-defaults", d) for d in TABLES}
    shown = {d: score for d, score in ours.items() if score}
    if not shown:
        return None
    best = {d: _best_seen(d) for d in shown}
    rivals = [m for m in _RIVALS if m in results.methods("defaults")]
    columns = {
        f"{_title(m)} (our run)": {d: results.own_nll("defaults", m, d) for d in shown}
        for m in rivals
    }
    for name, m in (
        ("the paper's anchored 5x 50", "anchored-5x50"),
        ("Deep Ensembles as published", "deep-ensemble"),
    ):
        columns[name] = {d: _published(PUBLISHED.nll, m, d) for d in shown}
    columns["the best seen"] = {d: found[1] if found else None for d, found in best.items()}
    counts, rows = [], []
    for name, column in columns.items():
        pairs = {d: (score, other) for d, score in shown.items() if (other := column[d])}
        if pairs:
            counts.append(count_better(name, pairs))
    for d, score in shown.items():
        cells = row_with_best(d, [score, *(column[d] for column in columns.values())])
        found = best[d]
        rows.append([label(d), *cells, _title(found[0]) if found else NONE])
    titles = ["RMSE", "CRPS", "90 % interval covers", "seconds a fit"]
    own = [[label(d), *_cells(results, "defaults", "anchored-defaults", d, titles)] for d in shown]
    return {
        "counts": counts,
        "rivals": [_RIVALS[m] for m in rivals],
        "nll": table(["NLL", _title("anchored-defaults"), *columns, "which is"], rows),
        "scores": table(["defaults", *titles], own),
    }


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


def _table_1(results: Results, preset: str) -> dict[str, Any] | None:
    """Verdicts on NLL, the numbers, and on which data sets the ReLU GP's are the paper's."""
    methods = ("anchored-5x50", "relu-gp")
    pairs = {m: _pairs(results, PUBLISHED.nll, m, "nll", preset) for m in methods}
    pairs = {m: found for m, found in pairs.items() if found}
    if not pairs:
        return None
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
    exact = [margin(*pair) == 0 for pair in pairs.get("relu-gp", {}).values()]
    return {"verdicts": verdicts, "nll": table(header, rows), "exact": exact}


def _compared(dataset: str, pair: tuple[Score, Score] | None) -> list[str]:
    if pair is None:
        return [NONE] * 4
    ours, theirs = pair
    excess, error = margin(ours, theirs), difference_error(ours, theirs)
    in_errors = f"{excess / error:+z.1f}" if error else NONE
    return [cell(ours, dataset), cell(theirs, dataset), number(excess, "+z.2f"), in_errors]


def _variants(results: Results) -> list[dict[str, Any]]:
    methods = [m for m in PUBLISHED.rmse if m in results.methods("paper")]
    return [
        {
            "scores": _variant_table(results, methods, name, columns),
            "verdicts": [
                verdict(_title(m), pairs)
                for m in methods
                if (pairs := _pairs(results, columns, m, name))
            ],
        }
        for name, columns in (("rmse", PUBLISHED.rmse), ("nll", PUBLISHED.nll))
        if methods
    ]


def _variant_table(results: Results, methods: list[str], name: str, columns: Table) -> str:
    shown = fine_cell if name == "rmse" else cell
    rows = []
    for d in TABLES:
        ours = {m: results.score("paper", m, d, name) for m in methods}
        if any(ours.values()):
            theirs = {m: _published(columns, m, d) for m in methods}
            beside = {m: f" [{cell(score, d)}]" if score else "" for m, score in theirs.items()}
            rows.append([label(d), *(shown(ours[m], d) + beside[m] for m in methods)])
    return table([name.upper(), *map(_title, methods)], rows)


def _inference(results: Results) -> str:
    ours = [("defaults", "anchored-defaults")]
    ours += [("paper", m) for m in ("anchored-5x50", "deep-ensemble", "mc-dropout")]
    ours = [(preset, m) for preset, m in ours if m in results.methods(preset)]
    rows = []
    for d in TABLES:
        run = [results.own_nll(preset, m, d) for preset, m in ours]
        others = [_published(PUBLISHED.inference, m, d) for m in PUBLISHED.inference]
        if any(run) and any(others):
            theirs = [_published(PUBLISHED.nll, "anchored-5x50", d), *others]
            rows.append([d, *row_with_best(d, [*run, *theirs])])
    header = ["NLL", *(f"{_title(m)} (our run)" for _, m in ours)]
    return table([*header, "the paper's anchored 5x 50", *PUBLISHED.inference], rows)


def _other_scores(results: Results) -> dict[str, str]:
    """A table for each data set."""
    shown = [title for title in _COLUMNS if title != "seconds a fit"]
    tables = {}
    for d in TABLES:
        rows = [
            [preset, _title(method), *_cells(results, preset, method, d, shown)]
            for preset, method in _runs(results, "defaults", "paper", OWN_SPLITS, "tuned")
            if results.splits(preset, method, d)
        ]
        tables[label(d)] = table(["preset", "method", *shown], rows)
    return {name: text for name, text in tables.items() if text}


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
        splits = join([f"split {split} ({reason})" for split, reason in reasons.items()])
        lines.append(f"- {_title(method)}, {preset}, on {label(dataset)}: {splits}.")
    return lines


def _seconds(results: Results) -> tuple[str, str]:
    """The table, and the numbers of cores."""
    rows, cores = [], set()
    for preset, method in _runs(results, "defaults", "paper", "tuned"):
        cores.add(results.cores[preset])
        scores = {d: results.score(preset, method, d, "seconds") for d in TABLES}
        total = sum(s.mean * (s.n_splits or 0) for s in scores.values() if s)
        cells = [seconds_cell(score) for score in scores.values()]
        rows.append([preset, _title(method), *cells, duration(total)])
    numbers = join([str(n) for n in sorted(cores)])
    return table(["preset", "method", *map(label, TABLES), "all"], rows), numbers


def _beside_torch(results: Results, torch_seconds: Mapping[str, float]) -> str:
    rows = []
    for d, torch in torch_seconds.items():
        ours = results.score("paper", "anchored-5x50", d, "seconds")
        if ours:
            n, faster = ours.n_splits or 0, f"{torch / ours.mean:.0f}x"
            cells = [seconds_cell(ours), seconds_cell(Score(torch)), faster]
            rows.append([d, *cells, duration(n * ours.mean), duration(n * torch)])
    header = ["anchored 5x 50", "seconds a split", "PyTorch loop", "faster", "all splits"]
    return table([*header, "PyTorch loop"], rows)


def _hyperparameters(tuned: Mapping[str, Mapping[str, Any]]) -> str:
    shown = {d: PUBLISHED.hyperparameters.get(d, {}) for d in TABLES if d in tuned}
    names = dict.fromkeys(name for d, theirs in shown.items() for name in (*theirs, *tuned[d]))
    rows = []
    for d, theirs in shown.items():
        ours = {name: _setting(tuned[d].get(name)) for name in names}
        beside = {name: f" [{_setting(value)}]" for name, value in theirs.items()}
        rows.append([d, *(ours[name] + beside.get(name, "") for name in names)])
    return table(["", *(name.replace("_", " ") for name in names)], rows)


def _setting(value: Any) -> str:
    if value is None:
        return NONE
    return f"{value:.3g}" if isinstance(value, float) else str(value)
