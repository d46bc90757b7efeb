"""Kill a fit at random moments, start it again: is the model the same to the last bit?

    python -m benchmarks.faults fit --kills 200 --seconds 400   # `anchored fit`
    python -m benchmarks.faults ray --kills 50 --seconds 400    # a fit on a cluster of Ray

A fit is started, killed by SIGKILL after a random part of the time that an undisturbed one takes,
and started again, until it ends; then the next one begins. Every model is compared with that of an
undisturbed fit, byte by byte. The work lost is what the killed process did after its newest
checkpoint: by the clock, and in seconds of the processor, which other programs do not lengthen. A
process that had none yet loses what came before it; how many those are is the rest of the kills.

Processes of `anchored fit` are forked from one that has imported the package and has not computed
anything: most of a small fit would be its imports otherwise, and so would most moments of kills.

On Ray the worker that trains, the raylet of its node and the driver are killed in turn
(`benchmarks.ray_faults`).

A run adds to the record, ``benchmarks/results/faults.json``, after every fit that ended, until
there were as many kills or its seconds are up. Fits of all runs must be equal to the same bytes,
which the record knows by their SHA-256.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from anchored._files import write_whole
from anchored.cli import app
from anchored.core.checkpoints import INTERVAL

RECORD = Path(__file__).parent / "results" / "faults.json"
_LOOK_SECONDS = 0.01


@dataclasses.dataclass
class Tally:
    """What all runs of one kind found.

    Attributes
    ----------
    rows, members : of the fits.
    sha256 : of the model of an undisturbed fit.
    kills : by what was killed.
    rounds : fits that ended, ``same`` of them with the same bytes.
    leftovers : fits that left files behind.
    lost : seconds between the newest checkpoint of a process and its end, of those that had one.
    lost_work : the same in seconds of the processor.
    undisturbed : seconds of an undisturbed fit in each run.
    interval : seconds between two checkpoints, at most.
    """

    rows: int
    members: int
    sha256: str
    kills: dict[str, int] = dataclasses.field(default_factory=dict)
    rounds: int = 0
    same: int = 0
    leftovers: int = 0
    lost: list[float] = dataclasses.field(default_factory=list)
    lost_work: list[float] = dataclasses.field(default_factory=list)
    undisturbed: list[float] = dataclasses.field(default_factory=list)
    interval: float = INTERVAL

    @property
    def n_kills(self) -> int:
        return sum(self.kills.values())

    @property
    def ok(self) -> bool:
        return self.same == self.rounds and not self.leftovers

    def killed(self, what: str, lost: "Lost | None") -> None:
        self.kills[what] = self.kills.get(what, 0) + 1
        if lost is not None:
            self.lost.append(round(lost.seconds, 3))
            self.lost_work.append(round(lost.work, 3))

    def ended(self, model: Path, clean: bool) -> None:
        self.rounds += 1
        self.same += digest(model) == self.sha256
        self.leftovers += not clean


class Lost(NamedTuple):
    """Between the newest checkpoint of a process and its end."""

    seconds: float
    work: float  # seconds of the processor


class Watch:
    """Looks at a process and at its checkpoints, of some name."""

    def __init__(self, pid: int, folder: Path, name: str = "*"):
        self.process, self.folder, self.name = psutil.Process(pid), folder, name
        self.newest, self.work_then, self.has_one = time.time(), 0.0, False

    def look(self) -> None:
        for path in self.folder.glob(f"{self.name}.[01].safetensors"):
            try:
                written = path.stat().st_mtime
            except FileNotFoundError:  # taken away at the end of a fit
                continue
            if written > self.newest:
                self.newest, self.work_then, self.has_one = written, self.work(), True

    def work(self) -> float:
        return sum(self.process.cpu_times()[:2])

    def lost(self) -> Lost | None:
        """What would be lost if the process ended now; None if it has no checkpoint."""
        self.look()
        lost = Lost(max(time.time() - self.newest, 0.0), self.work() - self.work_then)
        return lost if self.has_one else None


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_table(path: Path, n_rows: int, n_columns: int = 8) -> None:
    """Numbers, a category and gaps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, n_columns))
    kind = rng.choice(["a", "b", "c"], n_rows)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * (kind == "a") + 0.3 * rng.normal(size=n_rows)
    names = [*(f"x{i}" for i in range(n_columns)), "kind", "y"]
    gaps = rng.random(n_rows) < 0.1
    lines = [",".join(names)]
    for i in range(n_rows):
        numbers = [f"{v:.6f}" for v in x[i]]
        numbers[2] = "" if gaps[i] else numbers[2]
        lines.append(",".join([*numbers, kind[i], f"{y[i]:.6f}"]))
    path.write_text("\n".join(lines) + "\n")


def arguments(table: Path, out: Path, members: int) -> list[str]:
    given = ["fit", str(table), "--target", "y", "--out", str(out), "--n-members", str(members)]
    return [*given, "--hidden", "10", "--json"]


def forked(arguments: list[str], log: Path) -> int:
    """The number of a new process that carries out a command of ``anchored``."""
    pid = os.fork()
    if pid:
        return pid
    try:
        with log.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            app(arguments, standalone_mode=False)
        os._exit(0)
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)


def ended(pid: int, seconds: float, watch: Watch | None = None) -> int | None:
    """How a process ended within some seconds, 0 for well; None if it did not."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        if watch is not None:
            watch.look()
        time.sleep(_LOOK_SECONDS)


def run_to_end(arguments: list[str], log: Path) -> float:
    """Seconds of a run that nobody kills."""
    started = time.perf_counter()
    if ended(forked(arguments, log), math.inf):
        raise RuntimeError(f"A run failed: {log.read_text()[-2000:]}")
    return time.perf_counter() - started


def killed_run(
    arguments: list[str], log: Path, folder: Path, after: float
) -> tuple[bool, Lost | None]:
    """Whether it was killed before its end, and what was lost."""
    pid = forked(arguments, log)
    watch = Watch(pid, folder)
    code = ended(pid, after, watch)
    if code is None:
        os.kill(pid, signal.SIGSTOP)  # that it does nothing between the look and its end
        lost = watch.lost()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return True, lost
    if code:
        raise RuntimeError(f"A run failed: {log.read_text()[-2000:]}")
    return False, None


def clean(out: Path) -> bool:
    """Whether nothing but results was left."""
    return not any(path.name.startswith(".") for path in out.iterdir())


Keep = Callable[[Tally], None]


def fits(kept: Tally | None, n_kills: int, n_rows: int, members: int, ends: float, keep: Keep):
    """Kills of ``anchored fit`` until there are ``n_kills``; the last fit is always finished."""
    for name in ("anchored.cli._fitting", "anchored.estimators", "anchored.reporting"):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        home, table = Path(name), Path("table.csv")  # a model file says which table it is from
        stack.enter_context(contextlib.chdir(home))
        out, log = home / "killed", home / "log"
        write_table(table, n_rows)
        run_to_end(arguments(table, home / "first", members), log)  # compiles
        takes = run_to_end(arguments(table, home / "clean", members), log)
        tally = begun(kept, n_rows, members, home / "clean" / "model.safetensors", takes)
        rng = np.random.default_rng(tally.n_kills)  # other moments in every run
        while tally.n_kills < n_kills and time.monotonic() < ends:
            finished = False
            while not finished:
                more = tally.n_kills < n_kills and time.monotonic() < ends
                after = rng.uniform(0, takes) if more else 1e6
                given = arguments(table, out, members)
                killed, lost = killed_run(given, log, out / ".checkpoint", after)
                if killed:
                    tally.killed("process", lost)
                finished = not killed
            tally.ended(out / "model.safetensors", clean(out))
            shutil.rmtree(out)
            keep(tally)
    return tally


def begun(kept: Tally | None, n_rows: int, members: int, model: Path, takes: float) -> Tally:
    """The tally of earlier runs of the same fit, or a new one."""
    found = digest(model)
    if kept is None or (kept.rows, kept.members) != (n_rows, members):
        return Tally(n_rows, members, found, undisturbed=[round(takes, 2)])
    if kept.sha256 != found:
        raise RuntimeError(
            "An undisturbed fit differs from that of earlier runs, by other code say; --again "
            "starts the record anew."
        )
    kept.undisturbed.append(round(takes, 2))
    return kept


def recorded(path: Path) -> dict:
    """The record as it is now: the two parts may be measured at the same time."""
    return json.loads(path.read_text()) if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("fit", "ray"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--members", type=int, help="2 by default, and 10 on Ray: two chunks")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop killing after this long")
    parser.add_argument("--again", action="store_true", help="start the record anew")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    given.record = given.record.absolute()
    found = recorded(given.record).get(given.part)
    kept = None if found is None or given.again else Tally(**found)

    def keep(tally: Tally) -> None:
        record = recorded(given.record) | {given.part: dataclasses.asdict(tally)}
        write_whole(given.record, (json.dumps(record, indent=2) + "\n").encode())

    ends = time.monotonic() + given.seconds
    members = given.members or {"fit": 2, "ray": 10}[given.part]
    if given.part == "fit":
        tally = fits(kept, given.kills, given.rows, members, ends, keep)
    else:
        from benchmarks.ray_faults import ray_fits

        tally = ray_fits(kept, given.kills, given.rows, members, ends, keep)
    print(json.dumps(dataclasses.asdict(tally)))
    print(f"{tally.n_kills} kills, {tally.same} of {tally.rounds} models the same", os.getloadavg())
    if not tally.ok:
        sys.exit("A model differs from the undisturbed one, or files were left.")


if __name__ == "__main__":
    main()
