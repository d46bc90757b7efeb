"""Kills of a fit on Ray: the worker that trains, the raylet of its node, the driver, in turn.

A cluster of three nodes runs on this machine (`ray.cluster_utils.Cluster`): a head without cores,
where drivers live, and two nodes of one core. A driver is a process that fits and saves a model:

    python -m benchmarks.ray_faults ADDRESS TABLE CHECKPOINT MODEL MEMBERS

A raylet that was killed takes its workers with it, and a new node comes in its place. A driver that
was killed is started again; so is one whose task was lost more often than Ray tries it again.

A worker that trains writes a note of which training it is, so that the checkpoints of a process
that is killed are known. A driver loses the work of its workers, or its own if none trains.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from anchored.typing import Work
from benchmarks.faults import Keep, Lost, Tally, Watch, begun, write_table

KINDS = ("worker", "raylet", "driver")
_QUICK = {  # a node that is dead is soon known to be
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 20,
}
_PATIENT = {"RAY_raylet_start_wait_time_s": "60"}  # nodes of a busy machine start slowly
_TRIES = 10  # to start a node
_HERE = {"node_ip_address": "127.0.0.1"}
_LONGEST = 1_200.0  # seconds of a driver, after which something hangs
_LOOK_SECONDS = 0.05
_NOTES = "notes"  # folder beside that of checkpoints


def drive(address: str, table: str, checkpoint: str, model: str, members: str) -> None:
    """What a driver does."""
    import pandas as pd
    import ray

    from anchored import AnchoredRegressor
    from anchored.cluster import RayExecutor

    class Noting(RayExecutor):
        def map(self, work, on_progress):
            notes = Path(checkpoint).parent / _NOTES
            return super().map(work._replace(function=noted(work, notes)), on_progress)

    ray.init(address=address, log_to_driver=False, _node_ip_address="127.0.0.1")
    frame = pd.read_csv(table)
    how = {"n_members": int(members), "hidden": (10,), "random_state": 0, "checkpoint": checkpoint}
    fitted = AnchoredRegressor(**how, executor=Noting()).fit(frame.drop(columns="y"), frame["y"])
    fitted.save(model)


def noted(work: Work, notes: Path) -> Any:
    """What workers do, with a note of which training a process carries out."""
    function = work.function

    def noting(job, chunk, report):
        note = notes / str(os.getpid())
        note.write_text(f"{job.name}-{chunk.first}")
        try:
            return function(job, chunk, report)
        finally:
            note.unlink(missing_ok=True)

    return noting


class Nodes:
    """A head and two nodes of one core each."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        args = {"num_cpus": 0, "include_dashboard": False, "_system_config": _QUICK} | _HERE
        self.cluster = Cluster(initialize_head=True, head_node_args=args)
        self.workers: list[Any] = [self._added() for _ in range(2)]

    def _added(self) -> Any:
        """One more node; a raylet whose helpers start too slowly ends, and another may do."""
        for _ in range(_TRIES - 1):
            try:
                return self.cluster.add_node(num_cpus=1, **_HERE)
            except Exception as error:  # Ray raises no other kind
                print("A node did not start:", error)
        return self.cluster.add_node(num_cpus=1, **_HERE)

    @property
    def address(self) -> str:
        return self.cluster.address

    def raylets(self) -> list[psutil.Process]:
        """Of the nodes that train."""
        pids = [node.all_processes["raylet"][0].process.pid for node in self.workers]
        return [psutil.Process(pid) for pid in pids]

    def training(self) -> list[psutil.Process]:
        """Processes that carry out tasks."""
        found = []
        for raylet in self.raylets():
            for child in raylet.children(recursive=True):
                try:
                    if "".join(child.cmdline()).startswith("ray::_task"):
                        found.append(child)
                except psutil.Error:
                    continue  # it ended
        return found

    def replace(self, i: int) -> None:
        """A node died, and another comes."""
        self.cluster.remove_node(self.workers[i], allow_graceful=False)
        self.workers[i] = self._added()

    def close(self) -> None:
        self.cluster.shutdown()


class _Fits:
    """Fits on a cluster, one after another."""

    def __init__(self, home: Path, nodes: Nodes, members: int):
        self.home, self.nodes, self.members = home, nodes, members
        self.table, self.checkpoint, self.model = home / "table.csv", home / "kept", home / "model"
        self.notes, self.n_failed = home / _NOTES, 0
        self.watches: dict[int, Watch] = {}
        self.notes.mkdir()

    def started(self) -> subprocess.Popen:
        for note in self.notes.iterdir():  # of workers that died with their driver
            note.unlink(missing_ok=True)
        given = (self.nodes.address, self.table, self.checkpoint, self.model, self.members)
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ray_faults", *map(str, given)]
        log = (self.home / "log").open("ab")
        driver = subprocess.Popen(command, stdout=log, stderr=log)
        self.watches = {driver.pid: Watch(driver.pid, self.checkpoint)}
        return driver

    def undisturbed(self) -> float:
        started, driver = time.perf_counter(), self.started()
        if not self.waited(driver, _LONGEST) or driver.returncode:
            driver.kill()
            raise RuntimeError((self.home / "log").read_text()[-2000:])
        return time.perf_counter() - started

    def look(self, driver: subprocess.Popen) -> None:
        """At the notes of workers, and at the checkpoints of all processes."""
        pids = {int(note.name) for note in self.notes.iterdir()}
        self.watches = {p: w for p, w in self.watches.items() if p in pids or p == driver.pid}
        for pid in pids - set(self.watches):
            name = (self.notes / str(pid)).read_text()
            if name:
                self.watches[pid] = Watch(pid, self.checkpoint, name)
        for watch in self.watches.values():
            watch.look()

    def waited(self, driver: subprocess.Popen, seconds: float) -> bool:
        """Whether the driver ended within some seconds."""
        until = time.monotonic() + seconds
        while driver.poll() is None and time.monotonic() < until:
            with suppress(FileNotFoundError, psutil.NoSuchProcess):  # a worker just ended
                self.look(driver)
            time.sleep(_LOOK_SECONDS)
        return driver.poll() is not None

    def strike(self, kind: str, driver: subprocess.Popen, rng) -> tuple[bool, Lost | None]:
        """Kill one of a kind, and what was lost; False if there was none."""
        place = int(rng.integers(len(self.nodes.workers)))
        if kind == "raylet":
            victim = self.nodes.raylets()[place]
            losers = [child.pid for child in victim.children(recursive=True)]
        elif kind == "driver":
            victim = psutil.Process(driver.pid)
            losers = [pid for pid in self.watches if pid != driver.pid] or [driver.pid]
        else:
            found = self.nodes.training()
            if not found:
                return False, None
            victim = found[int(rng.integers(len(found)))]
            losers = [victim.pid]
        lost = self.lost(losers)
        victim.send_signal(signal.SIGKILL)
        for pid in losers:
            (self.notes / str(pid)).unlink(missing_ok=True)
        if kind == "raylet":
            self.nodes.replace(place)
        if kind == "driver":
            driver.wait()
        return True, lost

    def lost(self, pids: list[int]) -> Lost | None:
        """The most that any of some processes loses."""
        found = []
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                found.append(self.watches[pid].lost() if pid in self.watches else None)
        some = [lost for lost in found if lost is not None]
        return Lost(*map(max, zip(*some, strict=True))) if some else None

    def disturbed(self, tally: Tally, takes: float, rng, more) -> None:
        """One fit to its end, with kills as long as ``more()`` says."""
        driver, deadline = self.started(), time.monotonic() + _LONGEST
        while True:
            if time.monotonic() > deadline:
                driver.kill()
                raise RuntimeError(f"A driver hangs: {(self.home / 'log').read_text()[-2000:]}")
            wait = rng.uniform(0, takes) if more() else _LONGEST
            if not self.waited(driver, wait):
                kind = KINDS[tally.n_kills % len(KINDS)]
                struck, lost = self.strike(kind, driver, rng)
                while not struck and not self.waited(driver, 0.1):  # no worker trains just now
                    struck, lost = self.strike(kind, driver, rng)
                if struck:
                    tally.killed(kind, lost)
                    deadline = time.monotonic() + _LONGEST
            if driver.poll() is None:
                continue
            if driver.returncode == 0:
                return
            self.n_failed += driver.returncode != -signal.SIGKILL
            driver = self.started()


def ray_fits(kept, n_kills: int, n_rows: int, members: int, ends: float, keep: Keep) -> Tally:
    """Kills of a fit on Ray until there are ``n_kills``; the last fit is always finished."""
    from anchored.cli import compile_cache

    compile_cache.switch_on()  # for all processes that are started here
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # all of Ray on loopback
    os.environ |= _PATIENT
    with tempfile.TemporaryDirectory() as name:
        nodes = Nodes()
        try:
            fits = _Fits(Path(name), nodes, members)
            write_table(fits.table, n_rows)
            fits.undisturbed()  # compiles
            takes = fits.undisturbed()
            tally = begun(kept, n_rows, members, fits.model, takes)
            rng = np.random.default_rng(tally.n_kills)

            def more() -> bool:
                return tally.n_kills < n_kills and time.monotonic() < ends

            while more():
                fits.model.unlink()
                fits.disturbed(tally, takes, rng, more)
                tally.ended(fits.model, not fits.checkpoint.exists())
                shutil.rmtree(fits.checkpoint, ignore_errors=True)
                keep(tally)
            print(f"{fits.n_failed} drivers ended by an error and were started again.")
        finally:
            nodes.close()
    return tally


if __name__ == "__main__":
    drive(*sys.argv[1:])
