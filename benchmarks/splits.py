"""All splits of a table in one program, or a program for each: ``make bench-splits``.

The benchmark trains splits x members. They can be one long member axis, where rows that differ by
split are gathered, or a program for each split, as many at a time as there are cores. Both train
the same networks for the same steps; timed in turns, saved as ``benchmarks/results/splits.json``.
"""

import dataclasses
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import anchored
from anchored import MLP, Data, Gaussian, Prior, fit_ensemble
from anchored._files import write_whole
from anchored.core.loss import Extra, MemberLoss, Own
from anchored.core.members import best_member_map, n_cores
from anchored.core.priors import draw_anchors
from anchored.core.state import Batch
from anchored.core.training import begin, train
from anchored.core.tree import Raveller, as_pytree
from anchored.paper.tables.uci_settings import PAPER_SETTINGS

RECORD = Path(__file__).parent / "results" / "splits.json"
N_SPLITS, N_MEMBERS = 20, 5
TABLES = {"boston": (455, 13, 300), "kin8nm": (7373, 8, 60)}  # rows, features, epochs of a round


class OfSplit(NamedTuple):
    """What a member has of its own, and the number of its split."""

    own: Own
    split: Any


class AllRows(NamedTuple):
    """The rows of all splits, one after another."""

    extra: Extra
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class SplitLoss:
    """The loss of a member on the rows of its own split."""

    loss: MemberLoss
    n_rows: int

    def __call__(self, params, own: OfSplit, rows: AllRows, batch: Batch):
        at = own.split * self.n_rows + batch.rows
        return self.loss(params, own.own, rows.extra, batch._replace(x=rows.x[at], y=rows.y[at]))


def compare(name: str, rounds: int) -> dict:
    n_rows, n_features, epochs = TABLES[name]
    settings, rng = PAPER_SETTINGS[name], np.random.default_rng(0)
    x = rng.normal(size=(N_SPLITS, n_rows, n_features)).astype(np.float32)
    y = rng.normal(size=(N_SPLITS, n_rows)).astype(np.float32)
    network, likelihood = MLP(settings.hidden), Gaussian(settings.noise_var)
    schedule = dataclasses.replace(settings.schedule, epochs=epochs)
    tables = [Data.make(*rows) for rows in zip(x, y, strict=True)]
    prior = Prior.for_network(network, tables[0].x[:1], settings.first_var)

    def fit(split: int):
        ensemble = fit_ensemble(
            jax.random.key(split),
            network,
            prior,
            likelihood,
            tables[split],
            method="anchored",
            n_members=N_MEMBERS,
            schedule=schedule,
        )
        return jax.block_until_ready(ensemble.params)

    def side_by_side():
        with ThreadPoolExecutor(n_cores()) as pool:
            list(pool.map(fit, range(N_SPLITS)))

    n_all = N_SPLITS * N_MEMBERS
    raveller = Raveller.like(prior.scale)
    keys = jax.random.split(jax.random.key(0), n_all)
    start = raveller.ravel_members(jax.vmap(partial(network.init, x=tables[0].x[:1]))(keys))
    anchors = raveller.ravel_members(draw_anchors(jax.random.key(1), prior, n_all))
    own = OfSplit(Own(anchors, None, None), jnp.repeat(jnp.arange(N_SPLITS), N_MEMBERS))
    extra = Extra(raveller.ravel(prior.scale), as_pytree(likelihood), 1.0, None)
    rows = AllRows(extra, jnp.asarray(x.reshape(-1, n_features)), jnp.asarray(y.reshape(-1, 1)))
    loss = SplitLoss(MemberLoss(network, raveller), n_rows)
    members = best_member_map(network, n_all)

    def one_program():
        state = begin(0, loss, start, own, rows, schedule, n_rows, members)
        state, _ = train(state, tables[0], schedule)
        jax.block_until_ready(state.theta)

    times = {side_by_side: [], one_program: []}
    for run in times:
        run()
    for _ in range(rounds):
        for run, seconds in times.items():
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
    apart, together = times.values()
    found = {
        "name": name,
        "batch": schedule.batch_size,
        "steps": schedule.n_steps(n_rows),
        "side_by_side": float(np.median(apart)),
        "one_program": float(np.median(together)),
        "ratio": float(np.median(np.divide(together, apart))),
    }
    print(
        f"{name}, {found['steps']} steps of {N_SPLITS} splits x {N_MEMBERS} networks: side by side "
        f"{found['side_by_side']:.2f} s, in one program {found['one_program']:.2f} s, which takes "
        f"{found['ratio']:.2f} times as long"
    )
    return found


def main() -> int:
    load = os.getloadavg()[0]
    record = {
        "version": anchored.__version__,
        "jax": jax.__version__,
        "cores": n_cores(),
        "load before": load,
        "splits": N_SPLITS,
        "members": N_MEMBERS,
        "lines": [compare(name, rounds=5) for name in TABLES],
    }
    write_whole(RECORD, json.dumps(record, indent=2).encode() + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
