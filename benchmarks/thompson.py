"""Thompson sampling on Hartmann-6: does an ensemble's spread lead to the optimum?

After a few random points, each step trains an ensemble on all points so far, draws one member and
evaluates the function where that member is lowest. The prior is that of highest evidence, as in
`AnchoredRegressor`; so is the noise, or else it is known to be small. But for a shorter schedule
the members are that estimator's.

    python -m benchmarks.thompson            # runs what the record lacks, writes record and page
    python -m benchmarks.thompson --page     # the page from the record
"""

import json
import sys
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored._files import write_whole
from anchored.core.rows import Standardiser
from anchored.paper.prose import table
from anchored.tuning import Twin, tune_regression
from benchmarks.sections import write_section

ROOT = Path(__file__).resolve().parents[1]
RECORD, PAGE = ROOT / "benchmarks/results/thompson.json", ROOT / "docs/randomised_map.md"
HEADING = "## Thompson sampling\n"
SETTINGS: dict[str, Any] = {
    "seeds": 10,
    "first": 10,  # random points
    "evaluations": 50,
    "members": 10,
    "hidden": 50,
    "steps": 5_000,
    "rate": 0.03,
    "candidates": 5_000,
    "refined": 10,  # of the best candidates
    "known_noise": 0.01,  # share of the variance of the values
}
METHODS = ("rms", "anchored")
NOISES = {"by evidence": None, "known": SETTINGS["known_noise"]}
_SHOWN = (10, 20, 30, 40, 50)
_CAPACITY = 64  # rows, so that one compiled program serves all steps
_REFINING = (200, 0.01)  # steps and their size
_ALL_NOISE = 0.9  # share of the variance from which on nothing else is seen
_TOP = """Made from a record by `python -m benchmarks.thompson`. The task is to minimise
Hartmann-6, a function of six inputs, in {evaluations} evaluations without noise. The first
{first} points are random. Each later step trains {members} members of {hidden} nodes on all rows
so far, draws one member and evaluates the function where that member is lowest. The noise
variance is either chosen by evidence, as in `AnchoredRegressor`, or set to {known_noise:.0%} of
the variance of the values. The regret is the lowest value so far minus the optimum. The table
shows the median regret over {seeds} seeds, and the quartiles at the end."""
_END = """At the end the median regret of `anchored` is {evidence} times that of `rms` with noise
by evidence, and {known} times with known noise. The regret of `rms` at the end is lower for
{lower[0]} of {seeds} seeds with noise by evidence, and for {lower[1]} with known noise. So `rms`
does not help this search. With noise by evidence both methods fail: in {blind:.0%} of the steps
the evidence attributes {all_noise:.0%} of the variance or more to noise, because a few rows in six
dimensions show no pattern. If you know that the noise is small, set `noise_var`. Members with a
wider spread also explore more. This search has few steps, which may be why the narrower spread of
`anchored` does better."""

# The function as in Dixon and Szego (1978).
_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_SHAPES = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
OPTIMUM = -3.32237


def hartmann(x: np.ndarray) -> np.ndarray:
    """Values [row] at x [row, 6] in the unit cube."""
    square = np.sum(_SHAPES * (x[:, None, :] - _CENTRES) ** 2, axis=-1)
    return -np.exp(-square) @ _WEIGHTS


def trained(seed: int, x: np.ndarray, y: np.ndarray, method: str, noise: float | None):
    """An ensemble on standardised rows, the inputs' standardiser, and the noise told."""
    s, ones = SETTINGS, np.ones(len(x))
    scaler = Standardiser.fit(x, ones)
    z, target = scaler.forward(x), Standardiser.fit(y[:, None], ones).forward(y[:, None])
    known = None if noise is None else np.array([noise])
    twin = Twin(x.shape[1], (s["hidden"],), "relu")
    tuned = tune_regression(twin, z, target, ones, noise_var=known)
    network = MLP((s["hidden"],))
    ensemble = fit_ensemble(
        jax.random.key(seed),
        network,
        Prior.for_network(network, z, tuned.first_var),
        Gaussian(tuned.noise_var),
        Data.make(z, target).with_capacity(_CAPACITY),
        method=method,
        n_members=s["members"],
        schedule=Schedule.of_steps(s["steps"], len(x), _CAPACITY, s["rate"]),
    )
    return ensemble, scaler, float(tuned.noise_var[0])


@partial(jax.jit, static_argnums=0)
def lowest(network: MLP, params, mean, scale, candidates):
    """Where a member is lowest in the cube: the best candidates, moved downhill."""

    def value(x):
        return network.apply(params, ((x - mean) / scale)[None])[0, 0]

    best = candidates[jnp.argsort(jax.vmap(value)(candidates))[: SETTINGS["refined"]]]
    n_steps, size = _REFINING

    def down(i, x):
        slope = jax.vmap(jax.grad(value))(x)
        length = jnp.maximum(jnp.linalg.norm(slope, axis=-1, keepdims=True), 1e-12)
        return jnp.clip(x - size * (1 - i / n_steps) * slope / length, 0.0, 1.0)

    ends = jnp.concatenate([best, jax.lax.fori_loop(0, n_steps, down, best)])
    return ends[jnp.argmin(jax.vmap(value)(ends))]


def search(seed: int, method: str, noise: float | None) -> dict[str, list[float]]:
    """Regret after each evaluation, and the noise told at each step."""
    s, rng = SETTINGS, np.random.default_rng(seed)
    x, told = rng.uniform(size=(s["first"], 6)), []
    while len(x) < s["evaluations"]:
        fitted = trained(1_000 * seed + len(x), x, hartmann(x), method, noise)
        ensemble, scaler, noise_var = fitted
        member = ensemble.member(int(rng.integers(ensemble.n_members)))
        params = jax.tree.map(lambda leaf: leaf[0], member.params)
        candidates = rng.uniform(size=(s["candidates"], 6)).astype(np.float32)
        scale = (np.float32(part) for part in (scaler.mean, scaler.scale))
        found = lowest(ensemble.network, params, *scale, candidates)
        x = np.concatenate([x, np.asarray(found, np.float64)[None]])
        told.append(noise_var)
    return {"regret": _regret(x), "noise_var": told}


def random_search(seed: int) -> dict[str, list[float]]:
    """With the same first points."""
    rng = np.random.default_rng(seed)
    return {"regret": _regret(rng.uniform(size=(SETTINGS["evaluations"], 6))), "noise_var": []}


def _regret(x: np.ndarray) -> list[float]:
    return (np.minimum.accumulate(hartmann(x)) - OPTIMUM).tolist()


def run() -> None:
    """Searches that the record has are not run again."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if record.get("settings") != SETTINGS:
        record = {"settings": SETTINGS, "searches": {}}
    for seed in range(SETTINGS["seeds"]):
        searches = {f"random//{seed}": partial(random_search, seed)}
        for name, noise in NOISES.items():
            for method in METHODS:
                searches[f"{method}/{name}/{seed}"] = partial(search, seed, method, noise)
        for label, searched in searches.items():
            if label not in record["searches"]:
                record["searches"][label] = searched()
                write_whole(RECORD, (json.dumps(record) + "\n").encode())
                print(label, f"{record['searches'][label]['regret'][-1]:.4f}", flush=True)


def regrets(record: dict, method: str, noise: str) -> np.ndarray:
    """Regret [seed, evaluation]."""
    seeds = range(record["settings"]["seeds"])
    return np.array([record["searches"][f"{method}/{noise}/{seed}"]["regret"] for seed in seeds])


def section(record: dict) -> str:
    """What `docs/randomised_map.md` says of the record."""
    s, rows = record["settings"], []
    for method, noise in [(m, n) for n in NOISES for m in METHODS] + [("random", "")]:
        found = regrets(record, method, noise)
        medians = [f"{np.median(found[:, n - 1]):.2f}" for n in _SHOWN]
        low, high = np.quantile(found[:, -1], [0.25, 0.75])
        name = "random search" if method == "random" else f"`{method}`"
        rows.append([name, noise or "none", *medians, f"{low:.2f} to {high:.2f}"])
    header = ("members", "noise", *(f"after {n}" for n in _SHOWN), "quartiles")
    ends = [[regrets(record, method, noise)[:, -1] for method in METHODS] for noise in NOISES]
    times = [f"{np.median(theirs) / np.median(ours):.2f}" for ours, theirs in ends]
    told = [v["noise_var"] for k, v in record["searches"].items() if "/by evidence/" in k]
    end = _END.format(
        evidence=times[0],
        known=times[1],
        lower=[int(np.sum(ours < theirs)) for ours, theirs in ends],
        seeds=s["seeds"],
        blind=np.mean(np.array(told) >= _ALL_NOISE),
        all_noise=_ALL_NOISE,
    )
    top = fill(_TOP.format(**s), 105)
    return "\n".join([HEADING, top, "", table(header, rows), "", fill(end, 105), ""])


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        run()
    write_section(PAGE, section(json.loads(RECORD.read_text())))
