"""Which surrogate for batches of ten: the comparison of Li et al. (2024).

"A study of Bayesian neural network surrogates for Bayesian optimization" found deep ensembles poor.
Their members are pulled to zero and see random 80 % parts of the rows: here `regularised`. They
are compared with members pulled to anchors, with members that also feel the noise of the data
(`rms`) and with the exact infinitely wide network. Batches of ten follow ten random points: nine
on Branin, nineteen on Hartmann-6 and Ackley-10. Each point is the best of one member.

    python -m benchmarks.surrogates --minutes 20     # docs/decisions/surrogates.json
"""

import argparse
import json
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anchored._files import write_whole
from anchored.decisions import Optimiser
from anchored.decisions.surrogate import Networks, Surrogate, Twin
from benchmarks.decision_problems import REPORTED, Problem
from benchmarks.optimise import FOLDER

RECORD = FOLDER / "surrogates.json"
SEEDS, BATCH = 5, 10
ROUNDS = {"Branin": 9, "Hartmann-6": 19, "Ackley-10": 19}
SURROGATES: dict[str, Surrogate] = {
    "regularised, 80 %": Networks("regularised", seen=0.8),
    "anchored": Networks("anchored"),
    "rms": Networks("rms"),
    "twin": Twin(),
}


def run_one(problem: Problem, n_rounds: int, surrogate: Surrogate, seed: int) -> dict[str, Any]:
    optimiser = Optimiser(
        problem.space, surrogate=surrogate, acquisition="thompson", random_state=seed
    )
    rng, seconds = np.random.default_rng([seed, 9]), []
    points = problem.space.decode(problem.space.random(rng, BATCH))
    for number in range(n_rounds + 1):
        started = time.perf_counter()
        points = optimiser.ask(BATCH) if number else points
        seconds.append(round(time.perf_counter() - started, 3))
        optimiser.tell(points, [problem.value(point) for point in points])
    return {"values": [told.y for told in optimiser.told], "seconds": seconds[1:]}


def run(minutes: float) -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"searches": {}}
    ends = time.monotonic() + 60 * minutes
    for seed in range(SEEDS):
        for name, n_rounds in ROUNDS.items():
            for method, surrogate in SURROGATES.items():
                label = f"{name}/{method}/{seed}"
                if label in record["searches"]:
                    continue
                if time.monotonic() > ends:
                    return
                found = run_one(REPORTED[name], n_rounds, surrogate, seed)
                record["searches"][label] = found
                write_whole(RECORD, (json.dumps(record) + "\n").encode())
                print(
                    label,
                    f"{min(found['values']):.5g} {np.mean(found['seconds']):.2f} s",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=600)
    with threadpool_limits(1):
        run(parser.parse_args().minutes)
