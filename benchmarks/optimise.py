"""Bayesian optimisation beside random search, TPE and Gaussian processes.

Searches share the first points of a seed. Those that the record has are not run again, so a run
may be ended and taken up later.

    python -m benchmarks.optimise --develop     # the choice of surrogate, on other functions
    python -m benchmarks.optimise               # docs/decisions/optimise.json
    python -m benchmarks.optimise --minutes 20
"""

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anchored._files import write_whole
from anchored.decisions.surrogate import Networks, Twin
from benchmarks import decision_rivals as rivals
from benchmarks.decision_problems import DEVELOP, REPORTED, Problem

FOLDER = Path(__file__).resolve().parents[1] / "docs/decisions"
SEEDS, DEVELOP_SEEDS = 10, 3
DEFAULT = "anchored"
METHODS = {
    "random": rivals.random_search,
    "TPE": rivals.tpe,
    DEFAULT: rivals.anchored("twin", "auto"),
    "anchored, networks": rivals.anchored("rms", "auto"),
    "GP-EI": rivals.sklearn_gp,
    "BoTorch": rivals.botorch_gp,
}
TRIED = {
    "random": rivals.random_search,
    "TPE": rivals.tpe,
    "GP-EI": rivals.sklearn_gp,
    "twin, one layer, EI": rivals.anchored(Twin((50,)), "improvement"),
    "twin, two layers, EI": rivals.anchored(Twin((50, 50)), "improvement"),
    "twin, one layer, Thompson": rivals.anchored(Twin((50,)), "thompson"),
    "networks, EI": rivals.anchored(Networks("rms"), "improvement"),
    "networks, Thompson": rivals.anchored(Networks("rms"), "thompson"),
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


def run(path: Path, problems, methods, seeds: int, minutes: float) -> None:
    record = json.loads(path.read_text()) if path.exists() else {"searches": {}}
    ends = time.monotonic() + 60 * minutes
    for seed in range(seeds):
        for name, problem in problems.items():
            for method, search in methods.items():
                label = f"{name}/{method}/{seed}"
                if label in record["searches"] or not _installed(method):
                    continue
                if time.monotonic() > ends:
                    return
                record["searches"][label] = run_one(problem, search, seed)
                write_whole(path, (json.dumps(record) + "\n").encode())
                found = record["searches"][label]
                print(
                    label,
                    f"{min(found['values']):.5g} {np.mean(found['seconds']):.2f} s",
                    flush=True,
                )


def _installed(method: str) -> bool:
    return method != "BoTorch" or importlib.util.find_spec("botorch") is not None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--develop", action="store_true")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--methods", default="")
    given = parser.parse_args()
    wanted = [m for m in given.methods.split(";") if m]
    with threadpool_limits(1):
        if given.develop:
            chosen = {m: TRIED[m] for m in wanted or TRIED}
            run(FOLDER / "develop.json", DEVELOP, chosen, DEVELOP_SEEDS, given.minutes)
        else:
            chosen = {m: METHODS[m] for m in wanted or METHODS}
            run(FOLDER / "optimise.json", REPORTED, chosen, SEEDS, given.minutes)
