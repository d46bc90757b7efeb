"""Kills of a fit on Ray: the worker that trains, the raylet of its node, the driver, in turn.

A cluster of three nodes runs on this machine (`ray.cluster_utils.Cluster`): a head without cores,
where drivers live, and two nodes of one core. A driver is a process that fits and saves a model:

    python -m benchmarks.ray_faults ADDRESS TABLE CHECKPOINT MODEL MEMBERS

A raylet that was killed takes its workers with it, and a new node comes in its place. A driver that
was killed is started again; so is one whose task was lost more often than Ray tries it again.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.faults import Keep, Tally, begun, since_checkpoint, write_table

KINDS = ("worker", "raylet", "driver")
_QUICK = {  # a node that is dead is soon known to be
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
_HERE = {"node_ip_address": "127.0.0.1"}
_LONGEST = 300.0  # seconds of a driver, after which something hangs


def drive(address: str, table: str, checkpoint: str, model: str, members: str) -> None:
    """What a driver does."""
    import pandas as pd
    import ray

    from anchored import AnchoredRegressor

    ray.init(address=address, log_to_driver=False, _node_ip_address="127.0.0.1")
    frame = pd.read_csv(table)
    how = {"n_members": int(members), "hidden": (10,), "random_state": 0, "checkpoint": checkpoint}
    fitted = AnchoredRegressor(**how, executor="ray").fit(frame.drop(columns="y"), frame["y"])
    fitted.save(model)


class Nodes:
    """A head and two nodes of one core each."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        args = {"num_cpus": 0, "include_dashboard": False, "_system_config": _QUICK} | _HERE
        self.cluster = Cluster(initialize_head=True, head_node_args=args)
        self.workers: list[Any] = [self._added() for _ in range(2)]

    def _added(self) -> Any:
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

    def kill_raylet(self, i: int) -> None:
        """A node dies, and another comes."""
        self.raylets()[i].send_signal(signal.SIGKILL)
        self.cluster.remove_node(self.workers[i], allow_graceful=False)
        self.workers[i] = self._added()

    def close(self) -> None:
        self.cluster.shutdown()


def _waited(driver: subprocess.Popen, seconds: float) -> bool:
    """Whether the driver ended within some seconds."""
    try:
        driver.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _strike(kind: str, nodes: Nodes, driver: subprocess.Popen, rng) -> bool:
    """Kill one of a kind; False if there was none."""
    if kind == "raylet":
        nodes.kill_raylet(int(rng.integers(len(nodes.workers))))
    elif kind == "driver":
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    else:
        found = nodes.training()
        if not found:
            return False
        found[int(rng.integers(len(found)))].send_signal(signal.SIGKILL)
    return True


class _Fits:
    """Fits on a cluster, one after another."""

    def __init__(self, home: Path, nodes: Nodes, members: int):
        self.home, self.nodes, self.members = home, nodes, members
        self.table, self.checkpoint, self.model = home / "table.csv", home / "kept", home / "model"
        self.n_failed = 0

    def started(self) -> subprocess.Popen:
        given = (self.nodes.address, self.table, self.checkpoint, self.model, self.members)
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ray_faults", *map(str, given)]
        log = (self.home / "log").open("ab")
        return subprocess.Popen(command, stdout=log, stderr=log)

    def undisturbed(self) -> float:
        started, driver = time.perf_counter(), self.started()
        if not _waited(driver, _LONGEST) or driver.returncode:
            driver.kill()
            raise RuntimeError((self.home / "log").read_text()[-2000:])
        return time.perf_counter() - started

    def disturbed(self, tally: Tally, takes: float, rng, more) -> None:
        """One fit to its end, with kills as long as ``more()`` says."""
        driver, began, deadline = self.started(), time.time(), time.monotonic() + _LONGEST
        last_kill = 0.0
        while True:
            if time.monotonic() > deadline:
                driver.kill()
                raise RuntimeError(f"A driver hangs: {(self.home / 'log').read_text()[-2000:]}")
            wait = rng.uniform(0, takes) if more() else _LONGEST
            if not _waited(driver, wait):
                kind = KINDS[tally.n_kills % len(KINDS)]
                struck = _strike(kind, self.nodes, driver, rng)
                while not struck and not _waited(driver, 0.1):  # no worker trains just now
                    struck = _strike(kind, self.nodes, driver, rng)
                if struck:
                    since = since_checkpoint(self.checkpoint, began)
                    # What the kill before has cost, this one does not cost again.
                    tally.killed(kind, since and min(since, time.time() - last_kill))
                    last_kill = time.time()
                    deadline = time.monotonic() + _LONGEST
            if driver.poll() is None:
                continue
            if driver.returncode == 0:
                return
            self.n_failed += driver.returncode != -signal.SIGKILL
            driver, began = self.started(), time.time()


def ray_fits(kept, n_kills: int, n_rows: int, members: int, ends: float, keep: Keep) -> Tally:
    """Kills of a fit on Ray until there are ``n_kills``; the last fit is always finished."""
    from anchored.cli import compile_cache

    compile_cache.switch_on()  # for all processes that are started here
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # all of Ray on loopback
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
