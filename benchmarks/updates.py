"""Updates beside fresh fits: time, error and coverage, and a stream in which nothing is forgotten.

    python -m benchmarks.updates growth ames              # how often to fit all rows again
    python -m benchmarks.updates twenty concrete 430 20   # 20 updates of 20 rows after 430
    python -m benchmarks.updates stream diamonds 20       # 50 batches of 20 rows
    python -m benchmarks.updates refits diamonds 20       # fresh fits after every tenth of them

Adds to docs/decisions/updates.json. Times are of the processor, so that other programs on the
machine do not count; compiling is part of the first of its kind, and medians leave it out.
"""

import argparse
import dataclasses
import json
import pickle
import time
import warnings
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from anchored import AnchoredRegressor, metrics
from anchored._files import write_whole
from anchored.datasets.real import load_real, split_real
from anchored.datasets.uci import load_uci
from anchored.estimators import updating
from anchored.tables.table import Table

RECORD = Path(__file__).resolve().parents[1] / "docs/decisions/updates.json"
N_UPDATES, N_BATCHES, N_FIRST, N_TEST = 20, 50, 5, 2_000
CHOICE_FIRST, CHOICE_EACH, CHOICE_TEST = 420, 20, 1_000
GROWTHS = (2.0, 1.5)  # that were tried
REFIT_SEEDS = (1, 2)
REFITS = (10, 20, 30, 40, 50)  # batches after which all rows are also fitted anew


def scores(model, X, y) -> dict[str, float]:
    dist = model.predict_dist(X)
    return {
        "rmse": metrics.rmse(dist, y),
        "nll": metrics.nll(dist, y),
        "coverage": metrics.coverage(dist, y, 0.9),
    }


def timed(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def growth(name: str) -> None:
    """Twenty updates under each of `GROWTHS`, scored on other rows of the table's training part."""
    X, y = split_real(name, load_real(name), 0).train
    order, n = (
        np.random.default_rng(100).permutation(len(y)),
        CHOICE_FIRST + N_UPDATES * CHOICE_EACH,
    )
    X, y = X.take(order), y[order]

    def rows(start: int, end: int) -> tuple[Table, np.ndarray]:
        return X.take(np.arange(start, min(end, len(y)))), y[start:end]

    test = rows(n, n + CHOICE_TEST)
    model = AnchoredRegressor(random_state=0).partial_fit(*rows(0, CHOICE_FIRST))
    first, before = scores(model, *test), pickle.dumps(model)
    fresh = scores(AnchoredRegressor(random_state=7).fit(*rows(0, n)), *test)
    tried, usual, old = {}, updating.GROWTH, None
    for factor in GROWTHS:
        updating.GROWTH, model = factor, pickle.loads(before)
        for i in range(CHOICE_FIRST, n, CHOICE_EACH):
            model.partial_fit(*rows(i, i + CHOICE_EACH))
        tried[str(factor)] = scores(model, *test)
        if factor == max(GROWTHS):
            old = scores(with_old_choices(model), *test)
    updating.GROWTH = usual
    found = {"test_rows": len(test[1]), "first": first, "fresh": fresh, "tried": tried, "old": old}
    keep("growth", name, found)
    print(json.dumps(found))


def with_old_choices(model: Any) -> Any:
    """Trained from the start, with the encoding, prior and noise of the last fit of all rows."""
    prepared = model._kept.prepared
    targets = dataclasses.replace(prepared.targets, learned=None)
    prepared = prepared._replace(targets=targets)
    model._complete(prepared, *model._train(prepared.random, prepared.model, prepared.folds))
    return model


def twenty(name: str, n_first: int, n_each: int, seed: int) -> None:
    """Twenty updates after a first fit, beside two fresh fits of all rows; rows follow the seed."""
    X, y = load_uci(name)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y, n = X[order], y[order], n_first + N_UPDATES * n_each
    test = X[n : n + N_TEST], y[n : n + N_TEST]
    model = AnchoredRegressor(random_state=seed).partial_fit(X[:n_first], y[:n_first])
    first, updates = scores(model, *test), []
    for i in range(n_first, n, n_each):
        some = slice(i, i + n_each)
        seconds = timed(lambda some=some: model.partial_fit(X[some], y[some]))
        updates.append({"seconds": seconds, "retuned": model.update_.retuned})
    fresh = []
    for other_seed in (2 * seed + 100, 2 * seed + 101):  # the second finds its programs compiled
        other = AnchoredRegressor(random_state=other_seed)
        seconds = timed(lambda other=other: other.fit(X[:n], y[:n]))
        fresh.append(scores(other, *test) | {"seconds": seconds})
    found = {
        "rows": [n_first, n_each, n],
        "test_rows": len(test[1]),
        "first": first,
        "updated": scores(model, *test),
        "updates": updates,
        "fresh": fresh,
    }
    keep("twenty", name, read_record()["twenty"].get(name, {}) | {str(seed): found})
    print(json.dumps(found))


class Stream(NamedTuple):
    """Rows of a real table in the order of the stream, and the rows that scores are of."""

    inputs: Table
    y: np.ndarray
    order: np.ndarray
    n_each: int

    @classmethod
    def make(cls, name: str, n_each: int) -> "Stream":
        inputs, y = load_real(name)
        return cls(inputs, y, np.random.default_rng(0).permutation(len(y)), n_each)

    def rows(self, first: int, last: int) -> tuple[Table, np.ndarray]:
        """Those of batches ``first`` to ``last``, the last not included."""
        some = self.order[first * self.n_each : last * self.n_each]
        return self.inputs.take(some), self.y[some]

    def scores(self, model) -> dict[str, float]:
        """Of rows that are not in the stream, and the error on rows of its first batches."""
        n = N_BATCHES * self.n_each
        test = self.order[n : n + N_TEST]
        found = scores(model, self.inputs.take(test), self.y[test])
        return found | {"early_rmse": scores(model, *self.rows(0, N_FIRST))["rmse"]}


def stream(name: str, n_each: int, state: Path) -> None:
    """Fifty batches, each an update; the record has each batch as soon as it is measured.

    The model after each batch is pickled to ``state``, from where a run that was ended goes on.
    """
    rows, model, batches = Stream.make(name, n_each), AnchoredRegressor(random_state=0), []
    if state.exists():
        model, batches = pickle.loads(state.read_bytes())
    for i in range(len(batches), N_BATCHES):
        some = rows.rows(i, i + 1)
        seconds = timed(lambda some=some: model.partial_fit(*some))
        found = {"batch": i + 1, "seconds": seconds, "retuned": model.update_.retuned}
        batches.append(found | rows.scores(model))
        write_whole(state, pickle.dumps((model, batches)))
        keep("stream", name, {"rows_a_batch": n_each, "batches": batches})
        print(json.dumps(batches[-1]), flush=True)


def refits(name: str, n_each: int) -> None:
    """Fresh fits of all rows so far, after some of the batches; those of the record are kept."""
    rows = Stream.make(name, n_each)
    kept = read_record()["refits"].get(name, {"rows_a_batch": n_each, "batches": []})
    if kept["rows_a_batch"] != n_each:
        raise ValueError(f"The record has refits of {kept['rows_a_batch']} rows a batch.")
    batches = kept["batches"]
    for last, seed in product(REFITS, REFIT_SEEDS):
        if (last, seed) in [(b["batch"], b["seed"]) for b in batches]:
            continue
        model = AnchoredRegressor(random_state=seed)
        seconds = timed(lambda model=model, last=last: model.fit(*rows.rows(0, last)))
        batches.append({"batch": last, "seed": seed, "seconds": seconds} | rows.scores(model))
        keep("refits", name, {"rows_a_batch": n_each, "batches": batches})
        print(json.dumps(batches[-1]), flush=True)


def read_record() -> dict:
    parts = {"growth": {}, "twenty": {}, "stream": {}, "refits": {}}
    return parts | (json.loads(RECORD.read_text()) if RECORD.exists() else {})


def keep(what: str, table: str, found: dict) -> None:
    record = read_record()
    record[what][table] = found
    write_whole(RECORD, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("growth", "twenty", "stream", "refits"))
    parser.add_argument("table")
    parser.add_argument("numbers", type=int, nargs="*")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and members of `twenty`")
    parser.add_argument("--state", type=Path, help="file of a stream that may be taken up again")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "stream":
        with TemporaryDirectory() as folder:
            state = given.state or Path(folder) / "stream.pickle"
            stream(given.table, *given.numbers, state=state)
    elif given.what == "twenty":
        twenty(given.table, *given.numbers, seed=given.seed)
    elif given.what == "refits":
        refits(given.table, *given.numbers)
    else:
        growth(given.table)


if __name__ == "__main__":
    main()
