"""Training that is killed goes on from its checkpoint, and ends with the same bits."""

import dataclasses
import errno
import os
import re
import subprocess
import sys

import jax
import numpy as np
import optax
import pytest

from anchored import MLP, Data, Gaussian, Prior, Schedule, StudentT, fit_ensemble
from anchored.core import checkpoints, storage, training
from anchored.core.checkpoints import Checkpoint
from anchored.core.loss import Folds
from anchored.core.members import OneByOne
from anchored.core.rows import HostRows, Standardiser
from anchored.errors import CheckpointWarning
from tests.core.test_ensembles import Explosive
from tests.core.test_state import rows, same_bits

NOISY = optax.chain(optax.add_noise(0.1, 0.5, 3), optax.sgd(0.01))
LONG = Schedule(60, 16, 0.02)  # 120 steps, 20 looks


class Killed(BaseException):
    """In place of a signal."""


def killer(after):
    """Calls it is given until it stops the training, as a signal would."""
    left = [after]

    def on_check(progress):
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    return on_check


def fit(data, checkpoint=None, network=None, on_check=None, **kwargs):
    network = network or MLP((6,))
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    args = (jax.random.key(0), network, prior, kwargs.pop("likelihood", Gaussian(0.05)), data)
    given = {"n_members": 4, "schedule": LONG, "checkpoint": checkpoint, "on_check": on_check}
    return fit_ensemble(*args, **given | kwargs)


@pytest.fixture(autouse=True)
def _whenever_it_can_be(request, monkeypatch):
    """Checkpoints are written after every step, whatever they cost."""
    if "waits" not in request.node.name:
        monkeypatch.setattr(checkpoints, "_TIMES_COST", 0.0)


def place(folder, **kwargs):
    return Checkpoint(folder, interval=0.0, **kwargs)


def host_data():
    x, y = rows(40)
    kept = HostRows(np.asarray(x, np.float32), np.arange(40), Standardiser.fit(x, np.ones(40)))
    return Data.make(kept, y)


def same_ensemble(one, other):
    same_bits((one.params, one.centres), (other.params, other.centres))
    assert (one.member_ids, one.retrained) == (other.member_ids, other.retrained)
    for a, b in zip(one.info, other.info, strict=True):
        np.testing.assert_array_equal(a, b)


CASES = {
    "default": {},
    "noise": {"method": "rms"},
    "folds": {"folds": Folds(np.arange(40) % 2, np.array([0, 1])).joined(2)},
    "optimiser": {"schedule": Schedule(60, 16, optimiser=optax.adam(0.02))},
    "noisy optimiser": {"schedule": Schedule(60, 16, optimiser=NOISY)},
    "muon": {"schedule": dataclasses.replace(LONG, rule="muon", in_prior_units=True)},
    "one by one": {"member_map": OneByOne()},
    "likelihood": {"likelihood": StudentT(), "network": MLP((6,), 2)},
    "memory map": {"data": host_data()},
    "diverged": {"network": Explosive((6,)), "n_members": 8},
    "settles": {"schedule": dataclasses.replace(LONG, tolerance=0.05)},
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_training_goes_on_to_the_same_bits(tmp_path, case, monkeypatch):
    """Killed at its third look and in the midst of steps, and a third time near the end."""
    kwargs = dict(CASES[case])
    data = kwargs.pop("data", None) or Data.make(*rows(40))
    undisturbed = fit(data, **kwargs)
    for after in (3, 2):
        with pytest.raises(Killed):
            fit(data, place(tmp_path), on_check=killer(after), **kwargs)
    seen = []
    again = fit(data, place(tmp_path), on_check=lambda p: seen.append(p.step), **kwargs)
    assert seen[0] > 0  # not from the start
    same_ensemble(again, undisturbed)
    # What is finished is not trained again.
    advanced = []
    monkeypatch.setattr(training, "advance", lambda *a: advanced.append(a))
    same_ensemble(fit(data, place(tmp_path), **kwargs), undisturbed)
    assert not advanced


def test_noise_that_comes_half_way_is_there_after_a_restart(tmp_path):
    data = Data.make(*rows(40))
    schedule = Schedule(2_500, 16, 0.02)  # 5,000 steps: features form without noise
    kwargs = {"method": "rms", "schedule": schedule}
    undisturbed = fit(data, **kwargs)
    for after in (14, 1):  # past half, and before the next look
        with pytest.raises(Killed):
            fit(data, Checkpoint(tmp_path, interval=0.02), on_check=killer(after), **kwargs)
    same_ensemble(fit(data, place(tmp_path), **kwargs), undisturbed)


def test_leftovers_are_removed(tmp_path):
    data, folder = Data.make(*rows(40)), tmp_path / "kept"
    with pytest.raises(Killed):
        fit(data, place(folder), on_check=killer(2))
    (folder / ".members.0.safetensors.0a1b.part").write_bytes(b"half")
    fit(data, folder)
    assert not folder.exists()


def half_done(folder, data, **kwargs):
    with pytest.raises(Killed):
        fit(data, place(folder), on_check=killer(3), **kwargs)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"data": Data.make(rows(40)[0], 2 * rows(40)[1])}, "rows"),
        ({"schedule": dataclasses.replace(LONG, epochs=61)}, "schedule"),
        ({"n_members": 5}, "members"),
        ({"network": MLP((6,), activation="tanh")}, "network"),
        ({"schedule": dataclasses.replace(LONG, learning_rate=0.03)}, "members, schedule"),
    ],
)
def test_a_checkpoint_of_another_training_is_named_and_not_used(tmp_path, changed, named):
    data = Data.make(*rows(40))
    half_done(tmp_path, data)
    changed = {"data": data} | changed
    with pytest.warns(CheckpointWarning, match=rf"\(different: [^)]*{named}.*starts again"):
        found = fit(**changed, checkpoint=place(tmp_path))
    same_ensemble(found, fit(**changed))


def test_other_versions_are_named(tmp_path, monkeypatch):
    data = Data.make(*rows(40))
    half_done(tmp_path, data)
    monkeypatch.setattr(jax, "__version__", "0.0.1")
    with pytest.warns(CheckpointWarning, match=r"\(different: versions\)"):
        fit(data, place(tmp_path))


def newest(folder):
    return max(folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_checkpoint_falls_back_on_the_one_before(tmp_path, damage):
    data = Data.make(*rows(40))
    half_done(tmp_path, data)
    path = newest(tmp_path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    changed = {"cut": content[: len(content) // 2], "flipped": content, "empty": b""}[damage]
    path.write_bytes(changed)
    seen = []
    with pytest.warns(
        CheckpointWarning, match=rf"{re.escape(str(path))}; the other one is used"
    ) as caught:
        found = fit(data, place(tmp_path), on_check=lambda p: seen.append(p.step))
    assert len(caught) == 1
    assert seen[0] > 0
    same_ensemble(found, fit(data))


def test_two_damaged_checkpoints_start_anew(tmp_path):
    data = Data.make(*rows(40))
    half_done(tmp_path, data)
    for path in tmp_path.glob("*.safetensors"):
        path.write_bytes(b"not a file")
    with pytest.warns(CheckpointWarning, match="starts again") as caught:
        found = fit(data, place(tmp_path))
    assert len(caught) == 1
    same_ensemble(found, fit(data))


def test_a_full_disk_is_said_once_and_training_goes_on(tmp_path, monkeypatch):
    data = Data.make(*rows(40))
    half_done(tmp_path, data)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "write_whole", full)
    with pytest.warns(CheckpointWarning, match=r"\(No space left on device\)") as caught:
        found = fit(data, place(tmp_path))
    assert len(caught) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    same_ensemble(found, fit(data))


def test_a_folder_that_cannot_be_made_is_said_and_training_goes_on(tmp_path):
    (tmp_path / "file").write_text("in the way")
    data = Data.make(*rows(40))
    with pytest.warns(CheckpointWarning, match="No checkpoint can be written") as caught:
        found = fit(data, place(tmp_path / "file" / "folder"))
    assert len(caught) == 1
    same_ensemble(found, fit(data))


def test_writing_waits_for_its_interval_and_for_its_cost(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(checkpoints.time, "perf_counter", lambda: clock[0])
    writes = []

    def write(folder, name, content):
        writes.append(clock[0])
        clock[0] += 0.5  # seconds that a file takes

    monkeypatch.setattr(storage.LocalFolder, "write", write)
    keeper = checkpoints.Keeper(Checkpoint(tmp_path), {})
    for _ in range(10_000):
        clock[0] += 0.01
        if keeper.due():
            keeper.save({}, {})
    assert writes[0] == pytest.approx(checkpoints.INTERVAL, abs=0.02)
    assert np.diff(writes).min() >= 10.0  # twenty times half a second
    assert len(writes) * 0.5 <= 0.05 * clock[0] + 0.5


@pytest.mark.parametrize("step_seconds", [1e-4, 0.03, 0.6])
def test_no_more_than_an_interval_is_between_two_files(tmp_path, monkeypatch, step_seconds):
    """By a clock that moves with the steps, the first of which compiles."""
    clock, saved = [0.0], []

    def advance(state, data, n_steps):
        clock[0] += n_steps * step_seconds + (3.0 if clock[0] == 0.0 else 0.0)
        return dataclasses.replace(state, step=state.step + n_steps)

    monkeypatch.setattr(checkpoints.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(training, "advance", advance)
    monkeypatch.setattr(training, "keep", lambda keeper, run: keeper.save({}, {}))
    monkeypatch.setattr(checkpoints.Checkpoint, "save", lambda *args: saved.append(clock[0]))
    n_epochs = max(1, int(20 / step_seconds) // 20) * 10
    fit(Data.make(*rows(40)), Checkpoint(tmp_path), schedule=Schedule(n_epochs, 16, 0.02))
    assert clock[0] > 14
    assert len(saved) >= 6
    gaps = np.diff(saved)
    assert gaps.max() <= checkpoints.INTERVAL
    assert gaps[:-1].min() >= checkpoints.INTERVAL / 2  # the last is at the end


_MARKS = """
from anchored.core import checkpoints
checkpoints._TIMES_COST = 0.0
from tests.core.test_checkpoints import place, rows, fit, Data, StudentT, MLP, Killed, killer
from pathlib import Path
import sys
try:
    fit(Data.make(*rows(40)), place(Path(sys.argv[1])), network=MLP((6,), 2, "gelu"),
        likelihood=StudentT(), on_check=killer(3))
except Killed:
    pass
"""


@pytest.mark.slow
def test_another_process_finds_its_own_fingerprints(tmp_path):
    command = [sys.executable, "-c", _MARKS, str(tmp_path)]
    env = os.environ | {"PYTHONHASHSEED": "7"}
    subprocess.run(command, check=True, timeout=300, env=env)
    seen = []
    data, how = Data.make(*rows(40)), {"network": MLP((6,), 2, "gelu"), "likelihood": StudentT()}
    found = fit(data, place(tmp_path), on_check=lambda p: seen.append(p.step), **how)
    assert seen[0] > 0
    same_ensemble(found, fit(data, **how))
