"""Members trained by workers of Ray; one that dies costs no more than its last steps."""

import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest

from anchored import AnchoredRegressor
from anchored.cluster import LocalExecutor, RayExecutor
from anchored.core.checkpoints import Checkpoint
from tests.cluster.test_executors import SHORT, fit
from tests.core.test_checkpoints import same_ensemble

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_members_of_workers_are_those_of_this_process(tmp_path):
    seen = []
    how = {"method": "rms", "on_check": lambda p: seen.append(p.step)}
    found = fit(RayExecutor(chunk=2), checkpoint=tmp_path / "kept", **how)
    same_ensemble(found, fit(LocalExecutor(chunk=2), method="rms"))
    assert seen
    assert not (tmp_path / "kept").exists()


def test_an_estimator_fits_on_ray():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=60)
    how = {"n_members": 10, "epochs": 5, "random_state": 0}
    there = AnchoredRegressor(**how, executor="ray").fit(x, y)
    here = AnchoredRegressor(**how).fit(x, y)
    np.testing.assert_array_equal(there.predict(x), here.predict(x))


def test_rows_of_a_file_are_opened_by_the_workers(tmp_path):
    import jax

    from anchored import MLP, Data, Gaussian, Prior, fit_ensemble
    from anchored.core.rows import HostRows, Standardiser

    x = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(40, 3))
    x[:] = np.random.default_rng(0).normal(size=(40, 3))
    x.flush()
    x = np.memmap(tmp_path / "rows", np.float32, "r", shape=(40, 3))
    kept = HostRows(x, np.arange(40), Standardiser.fit(np.asarray(x), np.ones(40)))
    data, network = Data.make(kept, np.asarray(x[:, 0])), MLP((6,))
    prior = Prior.for_network(network, data.x[:1])
    found = [
        fit_ensemble(jax.random.key(0), network, prior, Gaussian(0.1), data, n_members=4,
                     schedule=SHORT, executor=executor)
        for executor in (RayExecutor(chunk=2), LocalExecutor(chunk=2))
    ]  # fmt: skip
    same_ensemble(*found)


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    """The process of a worker ends by a signal in the midst of its training."""
    from anchored import Schedule

    place = Checkpoint(tmp_path, interval=0.05)
    long = Schedule(8_000, 16, 0.02)
    killed = []

    def kill_one():
        until = time.monotonic() + 600
        while not killed and time.monotonic() < until:
            time.sleep(0.05)
            if any(tmp_path.glob("*.safetensors")):
                for process in psutil.Process().children(recursive=True):
                    if "".join(process.cmdline()).startswith("ray::_task"):
                        os.kill(process.pid, signal.SIGKILL)
                        killed.append(process.pid)
                        return

    thread = threading.Thread(target=kill_one)
    thread.start()
    found = fit(RayExecutor(chunk=2), checkpoint=place, schedule=long)
    thread.join()
    assert killed
    same_ensemble(found, fit(LocalExecutor(chunk=2), schedule=long))
