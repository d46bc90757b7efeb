"""Speed of agents, side by side in one run: ``make bench-rl``; fails below a target.

The agent of `fig-rl-push` on the planar stand-in, five members, beside the same agent as a plain
PyTorch loop over members with a Gymnasium environment. Seconds are of the processor, not of the
clock on the wall, so that others on the machine do not count; both run on one thread. Rivals are
timed in turns. Saved as ``benchmarks/results/rl.json``.
"""

import dataclasses
import json
import os
import platform
import sys
import time
from pathlib import Path

# One thread for both, before JAX is imported.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
).strip()

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import anchored
from anchored.paper.figures.rl_push import Settings
from anchored.rl import PlanarPush, QAgent
from benchmarks.run import Line

RESULTS = Path(__file__).parent / "results" / "rl.json"
ROUNDS, TURNS = 8, 3
SETTINGS = dataclasses.replace(Settings().agent, n_step=1)  # PyTorch's loop has one-step targets


def ours(agent: QAgent, n_rounds: int) -> float:
    """Steps of the environment a second; the agent has compiled its program before."""
    started, before = time.process_time(), agent.n_episodes
    agent.fit(PlanarPush(), before + n_rounds * SETTINGS.train_every)
    seconds = time.process_time() - started
    return agent.curve.length[before:].sum() / seconds


def q_learning() -> list[Line]:
    try:
        from benchmarks import torch_q_learning
    except ImportError:
        print("PyTorch is not installed: pip install -e '.[torch]'", file=sys.stderr)
        raise SystemExit(2) from None
    lines = []
    for n_updates, words in ((SETTINGS.n_updates, "the figure's"), (50, "a tenth of its")):
        settings = dataclasses.replace(SETTINGS, n_updates=n_updates)
        agent = QAgent(settings).fit(PlanarPush(), settings.train_every)
        mine, theirs = [], []
        for _ in range(TURNS):
            mine.append(ours(agent, ROUNDS))
            theirs.append(torch_q_learning.steps_a_second(settings, PlanarPush(), 1))
        ratio = float(np.median(np.divide(mine, theirs)))
        name = f"Q-learning, {words} {n_updates} updates a round"
        lines += [
            Line(f"{name}: ours", float(np.median(mine)), "steps/s", 0.0, True),
            Line(f"{name}: PyTorch loop", float(np.median(theirs)), "steps/s", 0.0, True),
            Line(f"{name}: faster", ratio, "x", 20.0, True),
        ]
    return lines


PARTS = (q_learning,)  # a part of the planner's joins here


def main() -> int:
    lines = [line for part in PARTS for line in part()]
    table = Table("what", "measured", "target", "", title="agents")
    for line in lines:
        target = f"{'at least' if line.at_least else 'at most'} {line.target:g} {line.unit}"
        mark = ("ok" if line.ok else "MISSED") if line.target else ""
        value = f"{line.value:.3g} {line.unit}"
        table.add_row(line.name, value, target if line.target else "", mark)
    Console(width=110).print(table)
    record = {
        "version": anchored.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "lines": [line._asdict() | {"ok": bool(line.ok)} for line in lines],
    }
    RESULTS.write_text(json.dumps(record, indent=2, default=float) + "\n")
    missed = [line.name for line in lines if not line.ok]
    print(f"summary: missed {', '.join(missed)}" if missed else "summary: all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
