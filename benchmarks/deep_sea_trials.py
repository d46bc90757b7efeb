"""How the settings of deep sea were chosen: ``python -m benchmarks.deep_sea_trials``.

Trials of anchors and of randomised priors, as many but for the last stage, on sizes and seeds that
are not in the table: priors and rates on two seeds of size 14, most of them and some more on a seed
of size 24, and two of each method on another seed there; then the best of either and four
variations of it on two seeds of size 30; then four of anchors and the best of randomised priors on
two more. Then what is left of the members' spread at cells that were never seen, as episodes pass.
Saved as ``benchmarks/results/deep_sea_trials.json``; what is there is not run again. It takes half
an hour of the processor.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchored._files import write_whole
from anchored.paper.tables.deep_sea import Settings, agent_of, run
from anchored.rl import DeepSea, QAgent, QSettings
from anchored.rl.environments.deep_sea import OneHotMLP

RECORD = Path(__file__).parent / "results" / "deep_sea_trials.json"
METHODS = ("anchored", "randomised-priors")
DRIFT_SIZE, DRIFT_SEED, EPISODES = 24, 103, (1, 100, 200, 400)
DRIFTS = (("anchored", "a"), ("anchored", "b"), ("anchored", "e"), ("randomised-priors", "b"))


class Choice(NamedTuple):
    """What was tried; the rest is as in the table."""

    first_var: float
    prior_scale: float
    learning_rate: float
    in_prior_units: bool = False
    noise_var: float = 0.01
    capacity: int = 10_000


CHOICES = {
    "a": Choice(0.01, 30.0, 0.001),  # the table's
    "b": Choice(0.01, 30.0, 0.005),  # its faster rate
    "c": Choice(1.0, 3.0, 0.001),
    "d": Choice(1.0, 3.0, 0.01, True),
    "e": Choice(1.0, 10.0, 0.01, True),
    "f": Choice(0.1, 10.0, 0.003, True),
    "g": Choice(1.0, 3.0, 0.01, True, noise_var=1.0),  # without a penalty noise says nothing
    "h": Choice(1.0, 3.0, 0.03, True),
    "i": Choice(1.0, 3.0, 0.01, True, noise_var=0.1),
    "j": Choice(1.0, 1.0, 0.01, True),
    "k": Choice(1.0, 6.0, 0.01, True),
    "l": Choice(0.01, 30.0, 0.001, capacity=200_000),  # no row is forgotten
    "m": Choice(0.01, 30.0, 0.005, capacity=200_000),
    "n": Choice(0.01, 30.0, 0.0005),
    "o": Choice(0.01, 30.0, 0.0025),
    "p": Choice(0.001, 95.0, 0.0003),  # the same functions; layers that cells share move less
    "q": Choice(0.0001, 300.0, 0.0001),  # still less
    "r": Choice(0.01, 30.0, 0.001, noise_var=1.0),  # the anchors pull a hundred times as hard
    "s": Choice(1.0, 10.0, 0.01, True, noise_var=1.0),
}


class Stage(NamedTuple):
    size: int
    n_episodes: int
    seeds: tuple[int, ...]
    choices: tuple[str, str]  # of either method


STAGES = (
    Stage(14, 400, (101, 102), ("abcdef", "abcdef")),
    Stage(24, 1500, (103,), ("abdeghi", "abdehjk")),
    Stage(24, 1500, (104,), ("ae", "bd")),
    Stage(30, 1500, (105, 106), ("alnpq", "bmopq")),
    Stage(30, 1500, (107, 108), ("aers", "b")),
)


def settings_of(method: str, choice: Choice) -> QSettings:
    return dataclasses.replace(agent_of(Settings(), method), **choice._asdict())


def planned() -> Iterator[tuple[str, QSettings, Stage, int]]:
    for stage in STAGES:
        for method, choices in zip(METHODS, stage.choices, strict=True):
            for name in choices:
                for seed in stage.seeds:
                    label = f"{method}/{name}/{stage.size}/{seed}"
                    yield label, settings_of(method, CHOICES[name]), stage, seed


def drift(settings: QSettings) -> list[dict]:
    """Spread of Q at cells that were never seen, and at the others: medians, by episodes."""
    size, env = DRIFT_SIZE, DeepSea(DRIFT_SIZE, indexed=True)
    settings = dataclasses.replace(settings, capacity=size * max(EPISODES))  # forgets no row
    agent = QAgent(settings, network=OneHotMLP(size**2, settings.hidden), seed=DRIFT_SEED)
    cells = np.array([[row * size + column] for row in range(size) for column in range(row + 1)])
    found = []
    for n_episodes in EPISODES:
        agent.fit(env, n_episodes)
        assert agent.state is not None
        rows = np.asarray(agent.state.replay.x)[: int(agent.state.replay.n_seen)]
        unseen = ~np.isin(cells[:, 0], rows.astype(int))
        spread = agent.q_values(cells.astype(np.float32)).std(axis=0).mean(axis=1)
        found.append(
            {
                "episodes": n_episodes,
                "unseen": int(unseen.sum()),
                "cells": len(cells),
                "spread_unseen": float(np.median(spread[unseen])) if unseen.any() else None,
                "spread_seen": float(np.median(spread[~unseen])),
            }
        )
    return found


def main() -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"trials": {}, "drift": {}}
    record["choices"] = {name: choice._asdict() for name, choice in CHOICES.items()}
    for label, settings, stage, seed in planned():
        if label not in record["trials"]:
            record["trials"][label] = run(settings, stage.size, stage.n_episodes, seed)
            print(label, record["trials"][label], flush=True)
            _write(record)
    for method, name in DRIFTS:
        if f"{method}/{name}" not in record["drift"]:
            record["drift"][f"{method}/{name}"] = drift(settings_of(method, CHOICES[name]))
            print(method, name, record["drift"][f"{method}/{name}"], flush=True)
            _write(record)


def _write(record: dict) -> None:
    write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
