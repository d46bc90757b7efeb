"""The page of the coverage of truths drawn from the prior."""

from collections.abc import Mapping
from typing import Any

from anchored.paper.prose import rendered
from anchored.paper.tables.coverage_methods import METHODS
from anchored.paper.tables.coverage_problems import NOISES, REGIONS
from anchored.paper.tables.coverage_record import main_of, percent
from anchored.paper.tables.coverage_results import (
    BY_CHANCE,
    CLOSE,
    LEVEL,
    Mean,
    Results,
    covered,
    verdict,
)
from anchored.paper.tables.coverage_scores import LEVELS, N_RANKED


def coverage_page(record: Mapping[str, Any], pictures: str) -> str:
    """Markdown of the record; its picture is in the folder ``pictures``."""
    results = Results(dict(record))
    return rendered(
        "coverage.md.j2",
        record=record,
        pictures=pictures,
        shared=next(iter(record["settings"].values())),
        noises=NOISES,
        levels=LEVELS,
        far=REGIONS["outside"],
        n_ranked=N_RANKED,
        by_chance=BY_CHANCE,
        level=LEVEL,
        close=CLOSE,
        halves=[_verdicts(results, title, main_of(cases)) for title, cases in results.halves],
        n_fits=len(record["numbers"]),
        defaults=sorted({s["method"] for s in record["settings"].values() if "method" in s}),
    )


def _verdicts(results: Results, title: str, main) -> dict[str, Any]:
    """Each method in a word, on the main problems of regression or of classes."""
    rows = []
    for name in results.methods(main):
        cells = []
        for region in REGIONS:
            mean = Mean.of(results.mean(case, name, covered("function", region)) for case in main)
            assert mean is not None
            cells.append(f"{verdict(mean)} ({percent(mean)} %)")
        rows.append([METHODS[name].words, *cells])
    return {"title": title, "problems": [case.name for case in main], "rows": rows}
