"""Members shared out over the processes that `jax.distributed` joined, on loopback."""

import os
import socket
import subprocess
import sys

import pytest

WORKER = """
import sys
import jax, numpy as np
jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]),
                           initialization_timeout=600)
from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.core.members import Vmapped
rng = np.random.default_rng(0)
data, network = Data.make(rng.normal(size=(40, 3)), rng.normal(size=40)), MLP((6,))
prior = Prior.for_network(network, data.x[:1])
assert jax.process_count() == jax.device_count() == 2
found = []
for member_map in (None, Vmapped()):  # shared out, and each for itself
    ensemble = fit_ensemble(jax.random.key(0), network, prior, Gaussian(0.1), data, n_members=4,
                            schedule=Schedule(20, 10), member_map=member_map)
    found.append(jax.tree.leaves(ensemble.params))
for first, second in zip(*found):
    np.testing.assert_allclose(first, second, atol=1e-5)
print("same")
"""


@pytest.mark.slow
def test_two_processes_share_out_the_members():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, address, str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
        )
        for i in range(2)
    ]
    try:
        for process in processes:
            out, err = process.communicate(timeout=600)
            assert out.strip().endswith("same"), err[-2000:]
    finally:
        for process in processes:
            process.kill()
            process.wait()
