"""Speed and memory, side by side in one run: ``make bench``.

Every line has a target; a miss makes the command fail. The table is saved as
``benchmarks/results/speed.json``. The machine is noisy, so rivals are timed in turns and
compared by the median of the ratios.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import anchored
from anchored import MLP, AnchoredRegressor, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.core.members import Vmapped
from anchored.tables.encoder import Encoder
from anchored.tables.reading import CSVWriter
from anchored.tables.reading import Table as AnyTable

RESULTS = Path(__file__).parent / "results"
BOSTON = {"n_members": 5, "n_hidden": 50, "n_features": 13, "n_rows": 455, "batch_size": 64}


class Line(NamedTuple):
    name: str
    value: float
    unit: str
    target: float
    at_least: bool  # else at most

    @property
    def ok(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target


def boston_fit(n_members=5, epochs=300, n_rows=455, member_map=None):
    """Fit once on random rows of the Boston setting; seconds and steps."""
    rng = np.random.default_rng(0)
    data = Data.make(rng.normal(size=(n_rows, 13)), rng.normal(size=n_rows))
    network = MLP((50,))
    prior = Prior.for_network(network, data.x[:1], first_var=10.0)
    schedule = Schedule(epochs, 64, 0.05, 0.995)
    started = time.perf_counter()
    ensemble = fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(0.06),
        data,
        method="anchored",
        n_members=n_members,
        schedule=schedule,
        member_map=member_map,
    )
    jax.block_until_ready(ensemble.params)
    return time.perf_counter() - started, schedule.n_steps(n_rows)


def against_torch() -> list[Line]:
    """Microseconds for one step of the whole ensemble, three ways, in turns."""
    try:
        from benchmarks import torch_rivals
    except ImportError:
        print("PyTorch is not installed: pip install -e '.[torch]'", file=sys.stderr)
        raise SystemExit(2) from None
    problem = torch_rivals.Problem(**BOSTON, noise_var=0.06, first_var=10.0)
    boston_fit()
    rounds = []
    for _ in range(7):
        seconds, steps = boston_fit(epochs=600)
        loop = torch_rivals.loop_seconds(problem, 60)
        vmap = torch_rivals.vmap_seconds(problem, 120)
        rounds.append((seconds / steps, loop, vmap))
    ours, loop, vmap = np.median(rounds, axis=0) * 1e6
    to_loop, to_vmap = np.median([(b / a, c / a) for a, b, c in rounds], axis=0)
    return [
        Line("one step, 5 networks of 50, batch 64", ours, "us", 0.0, True),
        Line("  plain PyTorch loop", loop, "us", 0.0, True),
        Line("  torch.func.vmap", vmap, "us", 0.0, True),
        Line("faster than the PyTorch loop", to_loop, "x", 50.0, True),
        Line("faster than torch.func.vmap", to_vmap, "x", 15.0, True),
    ]


def slopes() -> list[Line]:
    """Exponent of the cost in members and in rows: 1 is linear."""

    def slope(sizes, run):
        for size in sizes:
            run(size)
        times = [min(run(size) for _ in range(3)) for size in sizes]
        return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])

    members = slope([32, 64, 128, 256], lambda m: boston_fit(m, 100, member_map=Vmapped())[0])
    rows = slope([4_096, 8_192, 16_384, 32_768], lambda n: boston_fit(5, 20, n)[0])
    return [
        Line("cost in members, exponent", members, "", 1.15, False),
        Line("cost in rows, exponent", rows, "", 1.15, False),
    ]


class TimedMap(Vmapped):
    """Adds up the time spent inside compiled programs: steps and looks at the objective."""

    seconds = 0.0

    def loop(self, *args):
        return self._timed(super().loop, args)

    def apply(self, *args):
        return self._timed(super().apply, args)

    def _timed(self, run, args):
        started = time.perf_counter()
        result = jax.block_until_ready(run(*args))
        type(self).seconds += time.perf_counter() - started
        return result


def overhead() -> list[Line]:
    """What a second fit of the same shapes spends outside the compiled program."""
    boston_fit(epochs=3000, member_map=TimedMap())
    runs = []
    for _ in range(3):
        TimedMap.seconds = 0.0
        total, _ = boston_fit(epochs=3000, member_map=TimedMap())
        runs.append((total - TimedMap.seconds) * 1e3)
    return [Line("second fit, outside the program", min(runs), "ms", 50.0, False)]


def in_new_process(code: str) -> float:
    """The number a fresh interpreter prints last."""
    return _numbers(code)[-1]


IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"

FIRST_FIT = """
import time
from sklearn.datasets import load_diabetes
from anchored import AnchoredRegressor
X, y = load_diabetes(return_X_y=True)
started = time.perf_counter()
AnchoredRegressor(random_state=0).fit(X, y)
print(time.perf_counter() - started)
"""

# Not getrusage: its peak survives an exec and would be that of this process.
PEAK = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
"""

MEMORY = (
    PEAK
    + """
import numpy as np
from anchored import AnchoredRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(1_000_000, 20))
y = X[:, 0] * X[:, 1] + rng.normal(size=1_000_000)
data = X.nbytes + y.nbytes
model = AnchoredRegressor(n_members=10, epochs=2, random_state=0).fit(X, y)
model.predict(X, return_std=True)
print((peak() - data) / 1e9)
"""
)


def fresh_processes() -> list[Line]:
    """Imports, the first fit with everything in it, and peak memory."""
    pairs = [[in_new_process(IMPORT.format(m)) for m in ("jax, anchored", "jax")] for _ in range(5)]
    with_anchored, jax_alone = np.median(pairs, axis=0)
    return [
        Line("import anchored, above import jax", with_anchored - jax_alone, "s", 0.4, False),
        Line("first fit, diabetes, tuned and compiled", in_new_process(FIRST_FIT), "s", 10, False),
        Line(
            "1,000,000 x 20 rows, 10 members: peak above the data",
            in_new_process(MEMORY),
            "GB",
            1.5,
            False,
        ),
    ]


def prediction() -> list[Line]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 10))
    model = AnchoredRegressor(epochs=5, prior=1.0, noise_var=1.0, random_state=0)
    model.fit(X[:500], X[:500, 0])
    model.predict(X, return_std=True)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        model.predict(X, return_std=True)
        times.append(time.perf_counter() - started)
    return [Line("predict 100,000 rows, 10 members", min(times), "s", 0.5, False)]


START = """
import time
started = time.perf_counter()
from anchored.model import runtime
runtime.load({model!r}).predict([[0.0] * 10])
print(time.perf_counter() - started)
"""

PREDICT = (
    PEAK
    + """
import time
started = time.perf_counter()
from anchored.cli import app
app(["predict", {model!r}, {table!r}, "--out", {out!r}], standalone_mode=False)
seconds = time.perf_counter() - started
print(seconds, peak() / 1e6)
"""
)


def saved_models() -> list[Line]:
    """A model file: start, and a CSV file of a million rows by NumPy alone."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000_000, 10)).round(6)
    columns = {f"c{i}": x[:, i] for i in range(10)}
    encoder = Encoder.fit(AnyTable(columns, len(x)).take(np.arange(3_000)))
    model = AnchoredRegressor(epochs=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x[:3_000], np.sin(x[:3_000, 0]) + x[:3_000, 1])
    with tempfile.TemporaryDirectory() as folder:
        names = {"model": "model.safetensors", "table": "million.csv", "out": "predictions.csv"}
        paths = {name: str(Path(folder) / file) for name, file in names.items()}
        model.save(paths["model"], encoder=encoder)
        with open(paths["table"], "wb") as file:
            CSVWriter(file).write(columns)
        start = min(in_new_process(START.format(**paths)) for _ in range(3))
        seconds, megabytes = _numbers(PREDICT.format(**paths))
    return [
        Line("model file: import, load, one row", start, "s", 0.3, False),
        Line("CSV of 1,000,000 x 10 rows, 10 members", len(x) / seconds, "rows/s", 1e5, True),
        Line("its peak memory", megabytes, "MB", 500, False),
    ]


def _numbers(code: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> int:
    lines: list[Line] = []
    for part in (against_torch, overhead, slopes, prediction, saved_models, fresh_processes):
        print(f"{part.__name__} ...", file=sys.stderr, flush=True)
        lines += part()
    table = Table("what", "measured", "target", "", title="anchored benchmark")
    for line in lines:
        sign = "at least" if line.at_least else "at most"
        target = f"{sign} {line.target:g} {line.unit}" if line.target else ""
        mark = ("ok" if line.ok else "MISSED") if line.target else ""
        table.add_row(line.name, f"{line.value:.3g} {line.unit}", target, mark)
    Console(width=110).print(table)
    missed = [line.name for line in lines if not line.ok]
    record = {
        "version": anchored.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "cores": os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count(),
        "lines": [line._asdict() | {"ok": bool(line.ok)} for line in lines],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "speed.json").write_text(json.dumps(record, indent=2, default=float) + "\n")
    n_targets = sum(line.target > 0 for line in lines)
    ratio = next(line.value for line in lines if "PyTorch loop" in line.name and line.unit == "x")
    print(
        f"summary: {n_targets - len(missed)} of {n_targets} targets met; one step is "
        f"{ratio:.0f}x faster than a plain PyTorch loop"
        + (f"; missed: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
