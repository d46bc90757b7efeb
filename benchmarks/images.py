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
from anchored import MLP, ConvNet, Data, Prior, Schedule, fit_ensemble
from anchored._files import write_whole
from anchored.likelihoods import Categorical

RECORD = Path(__file__).parent / "results" / "images.json"
N_MEMBERS, N_CLASSES = 5, 8

# The paper's full setting in a process of its own: a few steps, and the most memory they took.
FULL = """
import json, time
import jax, numpy as np
from anchored import ConvNet, Data, Prior, Schedule, fit_ensemble
from anchored.likelihoods import Categorical
from anchored.experiments.ood import cifar
from anchored.experiments.ood._table import prior_of, schedule_of
s, rng = cifar.PAPER.replace(epochs={"anchored": 2}), np.random.default_rng(0)
data = Data.make(rng.normal(size=(600, 32, 32, 3)), rng.integers(0, 8, 600))
network, started = ConvNet.vgg13(8), time.perf_counter()
fit_ensemble(jax.random.key(0), network, prior_of(s, network, data), Categorical(), data,
             n_members=2, schedule=schedule_of(s, "anchored", data.n_rows))
lines = open("/proc/self/status").read().splitlines()
peak = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps({"steps": 4, "members": 2, "batch": s.batch_size, "peak_gb": peak / 1e9,
                  "seconds": time.perf_counter() - started}))
"""


def ours(network, x, y, n_steps, batch_size) -> float:
    """Seconds of one step of the ensemble, compilation and checks apart."""
    data = Data.make(x, y)
    prior = Prior.for_network(network, data.x[:1])

    def seconds(steps: int) -> float:
        schedule = Schedule(max(1, steps * batch_size // len(x)), batch_size, 0.001)
        started = time.perf_counter()
        ensemble = fit_ensemble(
            jax.random.key(0),
            network,
            prior,
            Categorical(),
            data,
            n_members=N_MEMBERS,
            schedule=schedule,
        )
        jax.block_until_ready(ensemble.params)
        return time.perf_counter() - started

    few = len(x) // batch_size
    seconds(few)
    return (seconds(few + n_steps) - seconds(few)) / n_steps


def torchs(make, x, y, n_steps, batch_size) -> float:
    """The same, one member after another with all cores."""
    torch.manual_seed(0)
    members = [make() for _ in range(N_MEMBERS)]
    anchors = [[p.detach().clone() for p in member.parameters()] for member in members]
    optimisers = [torch.optim.Adam(member.parameters(), lr=0.001) for member in members]
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y).long()

    def step():
        rows = torch.randint(len(x), (batch_size,))
        for member, anchor, optimiser in zip(members, anchors, optimisers, strict=True):
            optimiser.zero_grad()
            fit = torch.nn.functional.cross_entropy(member(x[rows]), y[rows])
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


def compare(name: str, network, make, shape, batch_size: int, n_steps: int, rounds: int) -> dict:
    rng = np.random.default_rng(0)
    n_rows = 8 * batch_size
    x, y = rng.normal(size=(n_rows, *shape)).astype(np.float32), rng.integers(0, N_CLASSES, n_rows)
    channels_first = x if x.ndim == 2 else np.moveaxis(x, -1, 1)
    pairs = [
        (
            ours(network, x, y, 8 * n_steps if x.ndim == 2 else n_steps, batch_size),
            torchs(make, channels_first, y, n_steps, batch_size),
        )
        for _ in range(rounds)
    ]
    per_image = 1e3 / (batch_size * N_MEMBERS)
    mine, theirs = (float(np.median(column)) * per_image for column in zip(*pairs, strict=True))
    ratio = float(np.median([b / a for a, b in pairs]))
    print(f"{name}: {mine:.4f} ms an image and member, PyTorch {theirs:.4f}: {ratio:.2f}x faster")
    return {"name": name, "ms": mine, "torch_ms": theirs, "ratio": ratio, "batch": batch_size}


def main() -> int:
    load = os.getloadavg()[0]
    lines = [
        compare("three layers of 100", MLP((100,) * 3, 8), dense, (784,), 256, 40, 5),
        compare(
            "VGG-13, 8 times narrower",
            ConvNet.vgg13(N_CLASSES, narrower=8),
            lambda: vgg(8),
            (32, 32, 3),
            48,
            8,
            3,
        ),
        compare("VGG-13", ConvNet.vgg13(N_CLASSES), lambda: vgg(1), (32, 32, 3), 16, 8, 1),
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
    return 0 if lines[0]["ratio"] >= 5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
