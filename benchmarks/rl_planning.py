"""Milliseconds of one planning decision: part of ``make bench-rl``; fails above the target.

400 candidates, 5 rounds, 25 steps, 10 particles and 5 members of three hidden layers, for some
widths; saved as ``benchmarks/results/rl_planning.json``. The target is for the clock, with a device
for each core that the process may use. Beside it stand the clock with one device, and the time of
the processor, which other programs on the machine disturb less.
"""

import json
import os
import time
from contextlib import nullcontext
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from anchored._files import write_whole
from anchored.core.members import n_cores
from anchored.rl.dynamics import DynamicsModel, DynamicsSettings
from anchored.rl.environments.cartpole import CartPoleSwingUp
from anchored.rl.planning import Bounds, CrossEntropy, decide, rest

RECORD = Path(__file__).parent / "results" / "rl_planning.json"
WIDTHS = (32, 48, 50)
N_TIMES, N_PARTICLES, TARGET = 30, 10, 50.0


def decision(width: int) -> dict[str, float]:
    """Medians and least of the times of a decision, after it was compiled."""
    env, planner = CartPoleSwingUp(), CrossEntropy()
    bounds = Bounds(jnp.asarray(env.action_low), jnp.asarray(env.action_high))
    settings = DynamicsSettings(hidden=(width,) * 3, capacity=10_000)
    model = DynamicsModel.begin(jax.random.key(0), 4, 1, settings, env.features, env.reward)
    plan, clock, processor = rest(planner, bounds), [], []
    for number in range(1 + N_TIMES):
        seen = env.observe(env.reset(jax.random.key(number)))
        started, used = time.perf_counter(), time.process_time()
        key = jax.random.key(N_TIMES + number)
        action, plan = decide(planner, N_PARTICLES, model, key, seen, plan, bounds)
        jax.block_until_ready((action, plan))
        clock.append(1e3 * (time.perf_counter() - started))
        processor.append(1e3 * (time.process_time() - used))
    return {
        "clock_median": round(float(np.median(clock[1:])), 1),
        "clock_least": round(min(clock[1:]), 1),
        "processor_median": round(float(np.median(processor[1:])), 1),
    }


def on_devices(width: int) -> dict[str, dict[str, float]]:
    """`decision` with one device, and with all."""
    places = {"one": jax.default_device(jax.local_devices()[0]), "all": nullcontext()}
    found = {}
    for name, place in places.items():
        with place:
            found[name] = decision(width)
    return found


def main() -> int:
    jax.config.update("jax_num_cpu_devices", n_cores())
    found = {str(width): on_devices(width) for width in WIDTHS}
    for width, times in found.items():
        print(f"width {width}: {times} ms; target {TARGET:g}")
    record = {
        "milliseconds": found,
        "target": TARGET,
        "devices": jax.local_device_count(),
        "cores": n_cores(),
        "load": [round(load, 1) for load in os.getloadavg()],
    }
    write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    missed = [width for width, times in found.items() if times["all"]["clock_median"] > TARGET]
    print(f"summary: missed with {', '.join(missed)} nodes" if missed else "summary: target met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
