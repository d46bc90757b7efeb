"""Processor seconds of a default fit beside CatBoost's, table by table and in turns.

CatBoost runs twice: with early stopping, as on the page of real tables, and with all of its 2,000
trees. Everything takes place in one process, so a table's programs may be compiled already.

    python -m benchmarks.fit_times [TABLE ...]    # all tables of `table-real` by default
"""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np

from anchored._files import write_whole
from anchored.datasets.real import load_real, split_real
from anchored.datasets.registry import REAL
from anchored.paper.tables import real
from anchored.paper.tables import real_rivals as rivals

RECORD = Path(__file__).parent / "results" / "fit_times.json"
MAX_TRAIN = real.Settings().max_train
METHODS = {
    "anchored": real.METHODS["anchored"].fit,
    "catboost": real.METHODS["catboost"].fit,
    "catboost, all trees": rivals.on_one_thread(partial(rivals.catboost, patience=None)),
}


def seconds(table: str) -> dict[str, float]:
    """Processor seconds of each method on the first split."""
    split, task = split_real(table, load_real(table), 0, MAX_TRAIN), REAL[table].task
    found = {
        name: real.score_split(fit, split, task, 0)["fit_processor_seconds"]
        for name, fit in METHODS.items()
    }
    return {name: round(value, 2) for name, value in found.items()}


def median_ratios(times: dict[str, dict[str, float]]) -> dict[str, float]:
    """Our seconds over each rival's: the median over the tables."""
    return {
        rival: round(float(np.median([of["anchored"] / of[rival] for of in times.values()])), 2)
        for rival in list(METHODS)[1:]
    }


def main() -> None:
    times: dict[str, dict[str, float]] = {}
    for table in sys.argv[1:] or REAL:
        times[table] = seconds(table)
        print(table, times[table], flush=True)
        record = {"processor_seconds": times, "median_ratios": median_ratios(times)}
        write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    print(median_ratios(times))


if __name__ == "__main__":
    main()
