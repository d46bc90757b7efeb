"""Networks for images beside a plain PyTorch loop: ``make bench-images``.

Ratios are of seconds for the same work, timed in turns; the machine is noisy. Saved as
``benchmarks/results/images.json``.
"""

import itertools
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import torch

import anchored
from anchored import MLP, ConvNet, Data, Prior, Schedule, advance, fit_ensemble, init_ensemble
from anchored._files import write_whole
from anchored.core.likelihoods import Categorical

RECORD = Path(__file__).parent / "results" / "images.json"
N_MEMBERS, N_CLASSES = 5, 8
TARGET = 5  # times as fast as PyTorch, dense layers at batch 256

# The paper's full setting in a process of its own: a few steps, and the most memory they took.
FULL = """
import json, time
import jax, numpy as np
from anchored import ConvNet, Data, fit_ensemble
from anchored.core.likelihoods import Categorical
from anchored.paper.tables import cifar
from anchored.paper.tables.unfamiliar import prior_of, schedule_of
s, rng = cifar.PAPER.replace(epochs={"anchored": 2}), np.random.default_rng(0)
data = Data.make(rng.normal(size=(600, 32, 32, 3)), rng.integers(0, 8, 600))
network, started = ConvNet.vgg13(8), time.perf_counter()
schedule, n_members = schedule_of(s, "anchored", data.n_rows), 2
fit_ensemble(jax.random.key(0), network, prior_of(s, network, data), Categorical(), data,
             method="anchored", n_members=n_members, schedule=schedule)
lines = open("/proc/self/status").read().splitlines()
peak = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps({"steps": schedule.n_steps(data.n_rows), "members": n_members,
                  "batch": s.batch_size, "peak_gb": peak / 1e9,
                  "seconds": time.perf_counter() - started}))
"""


def fitting(network, x, y, n_steps: int, batch_size: int) -> float:
    """Seconds of one step of `fit_ensemble` with its share of looks, compilation apart."""
    data = Data.make(x, y)
    prior = Prior.for_network(network, data.x[:1])

    def seconds(steps: int) -> float:
        started = time.perf_counter()
        ensemble = fit_ensemble(
            jax.random.key(0),
            network,
            prior,
            Categorical(),
            data,
            method="anchored",
            n_members=N_MEMBERS,
            schedule=Schedule(steps * batch_size // len(x), batch_size, 0.001),
        )
        jax.block_until_ready(ensemble.params)
        return time.perf_counter() - started

    few = len(x) // batch_size
    seconds(few)
    return (seconds(few + n_steps) - seconds(few)) / n_steps


def stepping(network, x, y, n_steps: int) -> float:
    """Seconds of one step of the ensemble on these rows."""
    data = Data.make(x, y)
    state = init_ensemble(
        jax.random.key(0),
        network,
        Prior.for_network(network, x[:1]),
        Categorical(),
        data,
        n_members=N_MEMBERS,
        schedule=Schedule(1, len(x), 0.001),
    )

    def run(count: int) -> float:
        started = time.perf_counter()
        jax.block_until_ready(advance(state, data, count).theta)
        return time.perf_counter() - started

    run(1)
    return run(n_steps) / n_steps


def torchs(make, x, y, n_steps: int, batch_size: int, loader: bool = False) -> float:
    """The same in PyTorch, one member after another with all cores.

    Rows come by their numbers from one tensor, or from a ``DataLoader`` of each member.
    """
    torch.manual_seed(0)
    members = [make() for _ in range(N_MEMBERS)]
    anchors = [[p.detach().clone() for p in member.parameters()] for member in members]
    optimisers = [torch.optim.Adam(member.parameters(), lr=0.001) for member in members]
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y).long()

    def numbered():
        while True:
            rows = torch.randint(len(x), (batch_size,))
            yield x[rows], y[rows]

    def loaded():
        rows = torch.utils.data.TensorDataset(x, y)
        while True:
            yield from torch.utils.data.DataLoader(rows, batch_size, shuffle=True)

    batches = [loaded() if loader else numbered() for _ in members]

    def step():
        for member, anchor, optimiser, feed in zip(
            members, anchors, optimisers, batches, strict=True
        ):
            inputs, labels = next(feed)
            optimiser.zero_grad()
            fit = torch.nn.functional.cross_entropy(member(inputs), labels)
            pull = sum(
                torch.sum((p - a) ** 2) * p[0].numel()
                for p, a in zip(member.parameters(), anchor, strict=True)
            )
            (fit + pull / (2 * len(x))).backward()
            optimiser.step()

    step()
    started = time.perf_counter()
    for _ in range(n_steps):
        step()
    return (time.perf_counter() - started) / n_steps


def dense() -> torch.nn.Module:
    widths, layers = (784, 100, 100, 100), []
    for n_in, n_out in itertools.pairwise(widths):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(100, N_CLASSES, bias=False))


def vgg(narrower: int) -> torch.nn.Module:
    layers, n_in = [], 3
    for block in ConvNet.vgg13(narrower=narrower).blocks:
        for n_out in block:
            layers += [torch.nn.Conv2d(n_in, n_out, 3, padding=1), torch.nn.ReLU()]
            n_in = n_out
        layers.append(torch.nn.MaxPool2d(2))
    n_hidden = 512 // narrower
    layers += [torch.nn.Flatten(), torch.nn.Linear(4 * n_in, n_hidden), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(n_hidden, N_CLASSES, bias=False))
    return network.to(memory_format=torch.channels_last)


def rows_like(shape, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, *shape)).astype(np.float32)
    return x, rng.integers(0, N_CLASSES, n_rows).astype(np.int32)


def line(name: str, batch_size: int, mine: list[float], theirs: list[float]) -> dict:
    """Milliseconds an image and member, and the median ratio of runs next to each other."""
    per_image = 1e3 / (batch_size * N_MEMBERS)
    ratio = float(np.median(np.divide(theirs, mine)))
    ms, torch_ms = (float(np.median(times)) * per_image for times in (mine, theirs))
    print(f"{name}: {ms:.4f} ms an image and member, PyTorch {torch_ms:.4f}: ratio {ratio:.2f}")
    return {"name": name, "batch": batch_size, "ms": ms, "torch_ms": torch_ms, "ratio": ratio}


def compare_dense(batch_size: int, rounds: int) -> list[dict]:
    x, y = rows_like((784,), 8 * batch_size)
    network, times = MLP((100,) * 3, N_CLASSES), []
    for _ in range(rounds):
        mine = fitting(network, x, y, 960, batch_size)
        theirs = (torchs(dense, x, y, 40, batch_size, loader) for loader in (False, True))
        times.append((mine, *theirs))
    mine, numbered, loaded = (list(column) for column in zip(*times, strict=True))
    return [
        line("three layers of 100", batch_size, mine, numbered),
        line("three layers of 100, DataLoader", batch_size, mine, loaded),
    ]


def compare_convolutions(narrower: int, batch_size: int, n_steps: int, rounds: int) -> dict:
    x, y = rows_like((32, 32, 3), batch_size)
    network, channels_first = ConvNet.vgg13(N_CLASSES, narrower), np.moveaxis(x, -1, 1)
    mine, theirs = [], []
    for _ in range(rounds):
        mine.append(stepping(network, x, y, n_steps))
        theirs.append(torchs(lambda: vgg(narrower), channels_first, y, n_steps, batch_size))
    name = "VGG-13" if narrower == 1 else f"VGG-13, {narrower} times narrower"
    return line(name, batch_size, mine, theirs)


def main() -> int:
    load = os.getloadavg()[0]
    lines = [
        *compare_dense(batch_size=256, rounds=5),
        compare_convolutions(narrower=8, batch_size=50, n_steps=40, rounds=5),
        compare_convolutions(narrower=1, batch_size=16, n_steps=4, rounds=3),
    ]
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)
    full = json.loads(done.stdout.splitlines()[-1])
    print(f"paper's full setting: {full}")
    record = {
        "version": anchored.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "load before": load,
        "members": N_MEMBERS,
        "lines": lines,
        "full": full,
    }
    write_whole(RECORD, json.dumps(record, indent=2).encode() + b"\n")
    if lines[0]["ratio"] < TARGET:
        print(f"{lines[0]['name']}: {lines[0]['ratio']:.2f} is short of the {TARGET} aimed at")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
