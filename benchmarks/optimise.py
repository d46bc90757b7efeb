"""Bayesian optimisation beside random search, TPE and Gaussian processes.

Searches share the first points of a seed. Those that the record has are not run again, so a run
may be ended and taken up later, and methods may be run side by side: each search is added to what
the record has when it ends.

    python -m benchmarks.optimise --develop     # the choice of surrogate, on other functions
    python -m benchmarks.optimise --settle      # and of its hyperpriors, with other seeds
    python -m benchmarks.optimise --waves       # and of its cosines, on more functions
    python -m benchmarks.optimise --speed       # seconds of a suggestion at 100 values
    python -m benchmarks.optimise               # docs/decisions/optimise.json
    python -m benchmarks.optimise --minutes 20
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anchored._files import write_whole
from anchored.decisions.surrogate import Hyperpriors, Networks, Twin
from benchmarks import decision_rivals as rivals
from benchmarks.decision_problems import DEVELOP, REPORTED, SETTLE, WAVES, Problem

FOLDER = Path(__file__).resolve().parents[1] / "docs/decisions"
SEEDS, DEVELOP_SEEDS = range(10), range(3)
SETTLE_SEEDS, WAVES_SEEDS = range(100, 105), range(100, 104)
DEFAULT = "anchored"
METHODS = {
    "random": rivals.random_search,
    "TPE": rivals.tpe,
    DEFAULT: rivals.anchored("twin", "auto"),
    "anchored, networks": rivals.anchored("rms", "auto"),
    "GP-EI": rivals.sklearn_gp,
    "BoTorch": rivals.botorch_gp,
}
# Before hyperpriors were settled: one steepness, more noise, values as they are.
_NOISY, _ONE_STEEPNESS = (1e-3, 2.0), (1.0, 1e-3)
BEFORE = Hyperpriors(steepness=_ONE_STEEPNESS, noise_var=_NOISY)
_OLD, _NETWORK = Twin((50,), BEFORE, False, False), Twin(waves=False)
_NETWORKS = Networks("rms", hyperpriors=BEFORE, normalise=False)
TRIED = {
    "random": rivals.random_search,
    "TPE": rivals.tpe,
    "GP-EI": rivals.sklearn_gp,
    "twin, one layer, EI": rivals.anchored(_OLD, "improvement"),
    "twin, two layers, EI": rivals.anchored(Twin((50, 50), BEFORE, False, False), "improvement"),
    "twin, one layer, Thompson": rivals.anchored(_OLD, "thompson"),
    "networks, EI": rivals.anchored(_NETWORKS, "improvement"),
    "networks, Thompson": rivals.anchored(_NETWORKS, "thompson"),
}
SETTLED = {
    "TPE": rivals.tpe,
    "before": rivals.anchored(_OLD, "auto"),
    "normalised": rivals.anchored(Twin((50,), BEFORE, waves=False), "auto"),
    "normalised, little noise": rivals.anchored(
        Twin((50,), Hyperpriors(steepness=_ONE_STEEPNESS), waves=False), "auto"
    ),
    "learned steepness": rivals.anchored(_NETWORK, "auto"),
}
WITH_WAVES = {
    "without cosines": rivals.anchored(_NETWORK, "auto"),
    DEFAULT: rivals.anchored("twin", "auto"),
}


def run_one(problem: Problem, method, seed: int) -> dict[str, Any]:
    """Values in the order of evaluation, and seconds of each suggestion."""
    points = problem.space.decode(
        problem.space.random(np.random.default_rng([seed, 9]), problem.n_first)
    )
    values = [problem.value(point) for point in points]
    search = method(problem, seed, list(zip(points, values, strict=True)))
    seconds, answer = [], None
    while len(values) < problem.n_evaluations:
        started = time.perf_counter()
        point = search.send(answer)
        seconds.append(time.perf_counter() - started)
        answer = problem.value(point)
        values.append(answer)
    return {"values": values, "seconds": [round(s, 4) for s in seconds]}


def run(path: Path, problems, methods, seeds: Iterable[int], minutes: float) -> None:
    ends = time.monotonic() + 60 * minutes
    for seed in seeds:
        for name, problem in problems.items():
            for method, search in methods.items():
                label = f"{name}/{method}/{seed}"
                if label in _read(path)["searches"] or not _installed(method):
                    continue
                if time.monotonic() > ends:
                    return
                found = run_one(problem, search, seed)
                record = _read(path)
                record["searches"][label] = found
                write_whole(path, (json.dumps(record) + "\n").encode())
                print(
                    label,
                    f"{min(found['values']):.5g} {np.mean(found['seconds']):.2f} s",
                    flush=True,
                )


def speed(path: Path) -> None:
    """Seconds of suggestions from 100 values on, of the clock and of the processor."""
    record = {}
    for name in ("Hartmann-6", "Ackley-10", "trees, diabetes"):
        problem, seconds = REPORTED[name], []
        points = problem.space.decode(problem.space.random(np.random.default_rng(0), 100))
        values = [problem.value(point) for point in points]
        search = METHODS[DEFAULT](problem, 0, list(zip(points, values, strict=True)))
        answer = None
        for _ in range(10):
            started = time.perf_counter(), time.process_time()
            point = search.send(answer)
            ended = time.perf_counter(), time.process_time()
            seconds.append([round(e - s, 4) for s, e in zip(started, ended, strict=True)])
            answer = problem.value(point)
        record[name] = dict(zip(("clock", "processor"), zip(*seconds, strict=True), strict=True))
        print(name, record[name], flush=True)
    write_whole(path, (json.dumps(record) + "\n").encode())


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {"searches": {}}


def _installed(method: str) -> bool:
    return method != "BoTorch" or importlib.util.find_spec("botorch") is not None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--develop", action="store_true")
    parser.add_argument("--settle", action="store_true")
    parser.add_argument("--waves", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--methods", default="")
    given = parser.parse_args()
    wanted = [m for m in given.methods.split(";") if m]
    plan = ("optimise.json", REPORTED, METHODS, SEEDS)
    if given.develop:
        plan = ("develop.json", DEVELOP, TRIED, DEVELOP_SEEDS)
    elif given.settle:
        plan = ("settle.json", SETTLE, SETTLED, SETTLE_SEEDS)
    elif given.waves:
        plan = ("waves.json", WAVES, WITH_WAVES, WAVES_SEEDS)
    name, problems, methods, seeds = plan
    with threadpool_limits(1):
        if given.speed:
            speed(FOLDER / "speed.json")
        else:
            chosen = {m: methods[m] for m in wanted or methods}
            run(FOLDER / name, problems, chosen, seeds, given.minutes)
