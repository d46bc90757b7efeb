"""Speed of agents, side by side in one run: ``make bench-rl``; fails below a target.

The agent of `fig-rl-push` on the planar stand-in, and that of `table-deep-sea`, with five members,
beside the same agent as a plain PyTorch loop over members with a Gymnasium environment. Seconds are
of the processor, not of the clock on the wall, so that others on the machine count little; both run
on one thread. Rivals are timed in turns. Saved as ``benchmarks/results/rl.json``.
"""

import dataclasses
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

# One thread for both, before JAX is imported.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
).strip()

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import anchored
from anchored.core.members import n_cores
from anchored.paper.figures.rl_push import Settings
from anchored.paper.tables.deep_sea import Settings as SeaSettings
from anchored.paper.tables.deep_sea import agent_of
from anchored.rl import DeepSea, PlanarPush, QAgent, QSettings
from anchored.rl.environments.deep_sea import OneHotMLP
from benchmarks.run import Line

RESULTS = Path(__file__).parent / "results" / "rl.json"
TURNS = 5
PUSH = dataclasses.replace(Settings().agent, n_step=1)  # PyTorch's loop has one-step targets
SEA = dataclasses.replace(agent_of(SeaSettings(), "anchored"), n_members=5)
SIZE = 20


class Case(NamedTuple):
    """An agent and its world, in both libraries."""

    words: str
    settings: QSettings
    env: Any
    network: Any
    theirs: Any  # the environment of Gymnasium
    n_rounds: tuple[int, int]  # that are timed, ours and theirs
    target: float  # times as many steps a second; zero: told beside the others


def cases() -> list[Case]:
    from benchmarks.torch_q_learning import Push, Sea

    push, sea = Push(PlanarPush()), Sea(DeepSea(SIZE))
    fewer = dataclasses.replace(PUSH, n_updates=50)
    number = (DeepSea(SIZE, indexed=True), OneHotMLP(SIZE**2, SEA.hidden))
    return [
        Case("push, the figure's 500 updates a round", PUSH, PlanarPush(), None, push, (8, 1), 20),
        Case("push, 50 updates a round", fewer, PlanarPush(), None, push, (8, 1), 20),
        Case(f"deep sea of {SIZE}, the number of a cell", SEA, *number, sea, (400, 20), 0),
    ]


def ours(case: Case, agent: QAgent) -> float:
    """Steps of the environment a second; the agent has compiled its program before."""
    started, before = time.process_time(), agent.n_episodes
    agent.fit(case.env, before + case.n_rounds[0] * case.settings.train_every)
    seconds = time.process_time() - started
    return agent.curve.length[before:].sum() / seconds


def q_learning() -> list[Line]:
    try:
        from benchmarks import torch_q_learning
    except ImportError:
        print("PyTorch is not installed: pip install -e '.[torch]'", file=sys.stderr)
        raise SystemExit(2) from None
    lines = []
    for case in cases():
        agent = QAgent(case.settings, network=case.network)
        agent.fit(case.env, case.settings.train_every)
        mine, theirs = [], []
        for _ in range(TURNS):
            mine.append(ours(case, agent))
            theirs.append(
                torch_q_learning.steps_a_second(case.settings, case.theirs, case.n_rounds[1])
            )
        ratio, name = float(np.median(np.divide(mine, theirs))), f"Q-learning, {case.words}"
        lines += [
            Line(f"{name}: ours", float(np.median(mine)), "steps/s", 0.0, True),
            Line(f"{name}: PyTorch loop", float(np.median(theirs)), "steps/s", 0.0, True),
            Line(f"{name}: faster", ratio, "x", case.target, True),
        ]
    return lines


def main() -> int:
    lines = q_learning()
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
        "cores": n_cores(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "lines": [line._asdict() | {"ok": bool(line.ok)} for line in lines],
    }
    RESULTS.write_text(json.dumps(record, indent=2, default=float) + "\n")
    missed = [line.name for line in lines if not line.ok]
    print(f"summary: missed {', '.join(missed)}" if missed else "summary: all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
