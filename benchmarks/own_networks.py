"""How fast members of other frameworks train beside our `MLP`, side by side in one run.

    python -m benchmarks.own_networks

All have two layers, ten members and the paper's Boston size. Rounds of all take turns, so that what
else the machine does falls on all alike; the best round of each counts. Frameworks that are not
installed are left out. The record goes to benchmarks/results/own_networks.json.
"""

import contextlib
import json
import time
from pathlib import Path

import jax
import numpy as np

from anchored import MLP, Data, Gaussian, Prior, Schedule, advance, init_ensemble

RECORD = Path(__file__).parent / "results" / "own_networks.json"
ROWS, FEATURES, WIDTH, MEMBERS, BATCH = 455, 13, 50, 10, 64
STEPS, LOOP_STEPS, ROUNDS = 1_000, 30, 15


def networks() -> dict:
    """Each framework's network of two layers, where it is installed."""
    found: dict = {"MLP": MLP((WIDTH,))}
    shapes = {"w0": (FEATURES, WIDTH), "b0": (WIDTH,), "w1": (WIDTH, 1)}
    example = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    found["plain JAX"] = (
        lambda p, x: jax.nn.relu(x @ p["w0"] + p["b0"]) @ p["w1"],
        example,
    )
    try:
        import equinox as eqx

        key = jax.random.key(0)
        found["Equinox"] = eqx.nn.MLP(FEATURES, 1, WIDTH, 1, use_final_bias=False, key=key)
    except ImportError:
        pass
    try:
        from flax import linen, nnx

        rngs = nnx.Rngs(0)
        layers = (
            nnx.Linear(FEATURES, WIDTH, rngs=rngs),
            nnx.relu,
            nnx.Linear(WIDTH, 1, use_bias=False, rngs=rngs),
        )
        found["NNX"] = nnx.Sequential(*layers)
        found["Linen"] = linen.Sequential(
            (linen.Dense(WIDTH), linen.relu, linen.Dense(1, use_bias=False))
        )
    except ImportError:
        pass
    with contextlib.suppress(ImportError):
        found["PyTorch"] = torch_module()
    return found


def torch_module():
    from torch import nn

    return nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1, bias=False))


def trainer(network, x, y):
    """A function that takes `STEPS` steps of all members, compiled."""
    data, prior = Data.make(x, y), Prior.for_network(network, x[:1])
    state = init_ensemble(
        jax.random.key(0), network, prior, Gaussian(0.1), data, n_members=MEMBERS,
        schedule=Schedule(batch_size=BATCH),
    )  # fmt: skip

    def run() -> float:
        start = time.perf_counter()
        jax.block_until_ready(advance(state, data, STEPS).theta)
        return (time.perf_counter() - start) / STEPS

    run()
    return run


def torch_loop(x, y):
    """The same ensemble as a loop over members in PyTorch."""
    import torch

    torch.set_num_threads(1)  # matrices this small are slower on several
    x, y = torch.from_numpy(x), torch.from_numpy(y[:, None])
    members = [torch_module() for _ in range(MEMBERS)]
    anchors = [[torch.randn_like(p) for p in member.parameters()] for member in members]
    optimisers = [torch.optim.Adam(member.parameters(), 0.01) for member in members]

    def run() -> float:
        start = time.perf_counter()
        for _ in range(LOOP_STEPS):
            rows = torch.randint(len(x), (BATCH,))
            for member, anchor, optimiser in zip(members, anchors, optimisers, strict=True):
                optimiser.zero_grad()
                pairs = zip(member.parameters(), anchor, strict=True)
                pull = sum(((p - a) ** 2).sum() for p, a in pairs) / (2 * len(x))
                loss = ((member(x[rows]) - y[rows]) ** 2).mean() / 0.2 + pull
                loss.backward()
                optimiser.step()
        return (time.perf_counter() - start) / LOOP_STEPS

    run()
    return run


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = np.sin(x[:, 0])
    runs = {name: trainer(network, x, y) for name, network in networks().items()}
    if "PyTorch" in runs:
        runs["PyTorch loop"] = torch_loop(x, y)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            seconds[name].append(run())
    best = {name: min(times) for name, times in seconds.items()}
    record = {
        "microseconds_a_step": {name: round(1e6 * s, 1) for name, s in best.items()},
        "times_of_ours": {name: round(s / best["MLP"], 2) for name, s in best.items()},
    }
    if "PyTorch" in best:
        record["faster_than_the_loop"] = round(best["PyTorch loop"] / best["PyTorch"], 1)
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
