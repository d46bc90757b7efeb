"""Members over workers of Ray: what they gain and cost. ``python -m benchmarks.scale`` (needs ray)

An ensemble of 20 members is trained in three ways, each time in new processes: here on one core, by
one worker of Ray with one core, and by two of them. The number of steps is such that the first
takes about as long as asked. The three take turns, three rounds of them, and the median of each
counts. Compiled programs are kept on disk, as `anchored fit` does it. The overhead is what one
worker takes longer than this process, the start of Ray not included. The record, with the seconds
of all rounds, is ``benchmarks/results/scale.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from anchored._files import write_whole
from anchored.cli import compile_cache
from benchmarks.busy import busy_cores

RECORD = Path(__file__).parent / "results" / "scale.json"
N_ROWS, _FEW, ROUNDS = 20_000, 200, 3
_ONE_CORE = {"OMP_NUM_THREADS": "1", "NPROC": "1"}


def trained(n_workers: int, members: int, n_steps: int) -> dict[str, float]:
    """Seconds of one ensemble in this process (no workers) or on Ray."""
    import jax

    from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
    from anchored.cluster import RayExecutor

    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 20)).astype(np.float32)
    data, network = Data.make(x, np.sin(2 * x[:, 0])), MLP((50, 50))
    prior, starting = Prior.for_network(network, data.x[:1]), 0.0
    if n_workers:
        import ray

        started = time.perf_counter()
        ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False,
                 _node_ip_address="127.0.0.1")  # fmt: skip
        starting = time.perf_counter() - started
    started = time.perf_counter()
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(0.1),
        data,
        n_members=members,
        schedule=Schedule.of_steps(n_steps, N_ROWS, 200, 0.01),
        executor=RayExecutor() if n_workers else None,
    )
    seconds = time.perf_counter() - started
    total = float(sum(np.abs(np.asarray(leaf)).sum() for leaf in jax.tree.leaves(ensemble.params)))
    return {"seconds": seconds, "starting": starting, "sum": total}


def _in_process(n_workers: int, members: int, n_steps: int) -> dict[str, float]:
    given = ["--workers", str(n_workers), "--members", str(members), "--steps", str(n_steps)]
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", *given]
    env = os.environ | (_ONE_CORE if n_workers == 0 else {})
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def measured(members: int, seconds: float) -> dict:
    """All three in turn, and the median of each."""
    compile_cache.switch_on()  # for the processes that are started here
    _in_process(0, members, _FEW)  # compiles
    _in_process(1, members, _FEW)
    few, more = (_in_process(0, members, n)["seconds"] for n in (_FEW, 6 * _FEW))
    n_steps = int(seconds / ((more - few) / (5 * _FEW)))
    load = busy_cores()
    rounds = [[_in_process(n, members, n_steps) for n in (0, 1, 2)] for _ in range(ROUNDS)]
    seconds = np.array([[found["seconds"] for found in turn] for turn in rounds])
    here, one, two = np.median(seconds, 0).tolist()
    return {
        "members": members,
        "steps": n_steps,
        "load_before": load,
        "here_seconds": here,
        "one_worker_seconds": one,
        "two_workers_seconds": two,
        "seconds_of_rounds": seconds.round(2).tolist(),
        "ray_starts_in_seconds": float(np.median([turn[1]["starting"] for turn in rounds])),
        "overhead_seconds": one - here,
        "speed_up": one / two,
        "share_of_ideal": one / two / 2,
        "same_members": len({found["sum"] for turn in rounds for found in turn}) == 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the fit in one process")
    parser.add_argument("--workers", type=int, help="one measurement, in this process")
    parser.add_argument("--steps", type=int, default=_FEW)
    given = parser.parse_args()
    if given.workers is not None:
        print(json.dumps(trained(given.workers, given.members, given.steps)))
        return
    text = json.dumps(measured(given.members, given.seconds), indent=2) + "\n"
    write_whole(RECORD, text.encode())
    print(text, end="")


if __name__ == "__main__":
    main()
