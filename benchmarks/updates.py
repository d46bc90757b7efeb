"""Updates beside fresh fits: time, error and coverage, and a stream in which nothing is forgotten.

    python -m benchmarks.updates twenty concrete 430 20   # 20 updates of 20 rows after 430
    python -m benchmarks.updates stream taxis 40          # 50 batches of 40 rows

Adds to docs/decisions/updates.json. Times are of the processor, so that other programs on the
machine do not count; compiling is part of the first of its kind, and medians leave it out.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from anchored import AnchoredRegressor, metrics
from anchored.datasets.real import load_real
from anchored.datasets.uci import load_uci

RECORD = Path(__file__).resolve().parents[1] / "docs/decisions/updates.json"
N_UPDATES, N_BATCHES, N_FIRST = 20, 50, 5
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


def twenty(name: str, n_first: int, n_each: int) -> dict:
    """Twenty updates after a first fit, beside two fresh fits of all rows."""
    X, y = load_uci(name)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, n = X[order], y[order], n_first + N_UPDATES * n_each
    test = X[n : n + 2_000], y[n : n + 2_000]
    model = AnchoredRegressor(random_state=0).partial_fit(X[:n_first], y[:n_first])
    first, seconds = scores(model, *test), []
    for i in range(n_first, n, n_each):
        some = slice(i, i + n_each)
        seconds.append(timed(lambda some=some: model.partial_fit(X[some], y[some])))
        assert not model.update_.retuned
    fresh, fresh_seconds = [], []
    for seed in (0, 1):  # the second finds its programs compiled
        other = AnchoredRegressor(random_state=seed)
        fresh_seconds.append(timed(lambda other=other: other.fit(X[:n], y[:n])))
        fresh.append(scores(other, *test))
    return {
        "rows": [n_first, n_each, n],
        "first": first,
        "updated": scores(model, *test),
        "fresh": {k: float(np.mean([f[k] for f in fresh])) for k in fresh[0]},
        "update_seconds": float(np.median(seconds)),
        "fresh_seconds": fresh_seconds[1],
    }


def stream(name: str, n_each: int) -> dict:
    """Fifty batches of a real table; error on test rows and on those of the first batches."""
    inputs, y = load_real(name)
    order = np.random.default_rng(0).permutation(len(y))
    n = N_BATCHES * n_each
    test = inputs.take(order[n : n + 2_000]), y[order[n : n + 2_000]]
    early = inputs.take(order[: N_FIRST * n_each]), y[order[: N_FIRST * n_each]]
    model, batches, refits = AnchoredRegressor(random_state=0), [], []
    for i in range(N_BATCHES):
        some = order[i * n_each : (i + 1) * n_each]
        seconds = timed(lambda some=some: model.partial_fit(inputs.take(some), y[some]))
        found = {"batch": i + 1, "seconds": seconds, "retuned": model.update_.retuned}
        batches.append(found | scores(model, *test) | {"early_rmse": scores(model, *early)["rmse"]})
        print(json.dumps(batches[-1]), flush=True)
        if i + 1 in REFITS:
            seen, other = order[: (i + 1) * n_each], AnchoredRegressor(random_state=1)
            seconds = timed(lambda s=seen, o=other: o.fit(inputs.take(s), y[s]))
            found = {"batch": i + 1, "seconds": seconds}
            refits.append(
                found | scores(other, *test) | {"early_rmse": scores(other, *early)["rmse"]}
            )
            print("refit", json.dumps(refits[-1]), flush=True)
    return {"rows_a_batch": n_each, "batches": batches, "refits": refits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("twenty", "stream"))
    parser.add_argument("table")
    parser.add_argument("numbers", type=int, nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {"twenty": twenty, "stream": stream}[given.what](given.table, *given.numbers)
    RECORD.parent.mkdir(exist_ok=True)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"twenty": {}, "stream": {}}
    record[given.what][given.table] = found
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    print(json.dumps({k: v for k, v in found.items() if k not in ("batches", "refits")}))


if __name__ == "__main__":
    main()
