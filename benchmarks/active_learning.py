"""Active learning on real tables: labels needed for the error of a random half of the pool.

Of each table 1,000 rows are the pool and 2,000 others the test. Members are trained on 100 labels
at random; then 25 rows at a time are labelled, as a method says, up to 500. Rows are encoded
without
their targets, and inputs are standardised by the pool, whose inputs are known. The prior and the
noise are those of highest evidence at the first labels and again at each doubling.

    python -m benchmarks.active_learning --minutes 20     # docs/decisions/active_learning.json
"""

import argparse
import json
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from anchored import MLP, Categorical, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored._files import write_whole
from anchored.core.rows import Standardiser
from anchored.datasets.real import load_real
from anchored.decisions.acquire import diverse, most_information, variance_reduction
from anchored.metrics import log_loss
from anchored.prediction.predictive import Predictive
from anchored.tables.encoder import Encoder
from anchored.tuning import Twin, tune_classification, tune_regression
from benchmarks.optimise import FOLDER

RECORD = FOLDER / "active_learning.json"
SETTINGS: dict[str, Any] = {
    "seeds": 5,
    "pool": 1_000,
    "test": 2_000,
    "first": 100,
    "batch": 25,
    "most": 500,
    "members": 10,
    "hidden": 50,
    "steps": 1_500,
    "rate": 0.03,
}
TABLES = {"car_price": "log", "ikea": "log", "hmeq": "classes"}
METHODS = ("random", "diverse", "members")
_CAPACITY = 512


class Task(NamedTuple):
    """Standardised rows of a table."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    n_classes: int  # 0 for numbers


def make_task(table: str, seed: int) -> Task:
    s, rows = SETTINGS, load_real(table)
    order = np.random.default_rng(seed).permutation(len(rows.y))[: s["pool"] + s["test"]]
    inputs, y = rows.inputs.take(order), rows.y[order]
    pool = np.arange(s["pool"])
    encoder = Encoder.fit(inputs.take(pool))
    scaler = Standardiser.fit(encoder.transform(inputs.take(pool)), np.ones(len(pool)))
    x = np.clip(scaler.forward(encoder.transform(inputs)), -5, 5)
    n_classes = 0
    if TABLES[table] == "classes":
        names, y = np.unique(y, return_inverse=True)
        n_classes = len(names)
    else:
        y = np.log1p(y)
    n = s["pool"]
    return Task(x[:n], y[:n], x[n:], y[n:], n_classes)


class Tuned(NamedTuple):
    first_var: float
    noise_var: np.ndarray | None
    relevance: np.ndarray


def tuned(task: Task, labelled: np.ndarray) -> Tuned:
    x, y, ones = task.x[labelled], task.y[labelled], np.ones(len(labelled))
    twin = Twin(x.shape[1], (SETTINGS["hidden"],), "relu")
    if task.n_classes:
        first_var, relevance, _ = tune_classification(twin, x, y, ones)
        return Tuned(first_var, None, relevance)
    target = Standardiser.fit(y[:, None], ones).forward(y[:, None])
    found = tune_regression(twin, x, target, ones, relevances=True)
    return Tuned(found.first_var, found.noise_var, found.relevance)


def fitted(task: Task, labelled: np.ndarray, known: Tuned, seed: int):
    """A function from rows to a predictive."""
    s, x, y = SETTINGS, task.x[labelled], task.y[labelled].astype(float)[:, None]
    network = MLP((s["hidden"],), n_outputs=max(task.n_classes, 1))
    shift, scale = (0.0, 1.0) if task.n_classes else (y.mean(), y.std())
    schedule = Schedule.of_steps(s["steps"], len(x), 64, s["rate"])
    ensemble = fit_ensemble(
        jax.random.key(seed),
        network,
        Prior.for_network(network, x[:1], known.first_var).with_relevance(known.relevance),
        Categorical() if task.n_classes else Gaussian(known.noise_var),
        Data.make(x, (y - shift) / scale).with_capacity(_CAPACITY),
        method="rms",
        n_members=s["members"],
        schedule=schedule,
    )
    return lambda rows: ensemble.predict(rows).rescaled(scale, shift)


def error(task: Task, dist: Predictive) -> float:
    if task.n_classes:
        return log_loss(dist, task.test_y)
    return float(np.sqrt(np.mean(np.square(dist.mean[:, 0] - task.test_y))))


def chosen(task: Task, method: str, dist: Predictive, rest, labelled, rng) -> np.ndarray:
    n = SETTINGS["batch"]
    if method == "random":
        return rng.permutation(len(rest))[:n]
    if method == "diverse":
        return diverse(rng, task.x[rest], n, task.x[labelled])
    assert dist.members is not None
    if task.n_classes:
        return most_information(rng, dist.members, n)
    members = dist.members[..., 0]
    deviations = (members - members.mean(axis=0)) / np.sqrt(len(members) - 1)
    return variance_reduction(deviations[None], dist.aleatoric_var.T, n)


def run_one(table: str, method: str, seed: int) -> dict[str, list[float]]:
    s, task = SETTINGS, make_task(table, seed)
    rng = np.random.default_rng([seed, 1])
    labelled = np.random.default_rng([seed, 0]).permutation(s["pool"])[: s["first"]]
    sizes, errors, known, tuned_at = [], [], None, 0
    while True:
        if known is None or len(labelled) >= 2 * tuned_at:
            known, tuned_at = tuned(task, labelled), len(labelled)
        predict = fitted(task, labelled, known, 1_000 * seed + len(labelled))
        sizes.append(len(labelled))
        errors.append(error(task, predict(task.test_x)))
        if len(labelled) >= s["most"]:
            return {"sizes": sizes, "errors": errors}
        rest = np.setdiff1d(np.arange(s["pool"]), labelled)
        dist = predict(task.x[rest])
        labelled = np.append(labelled, rest[chosen(task, method, dist, rest, labelled, rng)])


def run(minutes: float) -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if record.get("settings") != SETTINGS:
        record = {"settings": SETTINGS, "runs": {}}
    ends = time.monotonic() + 60 * minutes
    for seed in range(SETTINGS["seeds"]):
        for table in TABLES:
            for method in METHODS:
                label = f"{table}/{method}/{seed}"
                if label in record["runs"]:
                    continue
                if time.monotonic() > ends:
                    return
                record["runs"][label] = run_one(table, method, seed)
                write_whole(RECORD, (json.dumps(record) + "\n").encode())
                found = np.round(record["runs"][label]["errors"], 4)
                print(label, found[[0, 4, 8, -1]], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=600)
    with threadpool_limits(1):
        run(parser.parse_args().minutes)
