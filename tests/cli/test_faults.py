"""A short version of `benchmarks.faults`: fits that are killed end with the same bytes."""

import json
import subprocess
import sys

import pytest
from benchmarks.faults import Lost, Tally, begun


def tally(tmp_path, part: str, *more: str) -> Tally:
    """What a process of its own finds: one that has computed with JAX cannot be forked."""
    record = tmp_path / "record.json"
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.faults", part, *more]
    command += ["--rows", "60", "--record", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return Tally(**json.loads(record.read_text())[part])


@pytest.mark.slow
def test_a_killed_fit_ends_with_the_bytes_of_an_undisturbed_one(tmp_path):
    found = tally(tmp_path, "fit", "--kills", "4", "--members", "2")
    assert found.kills == {"process": 4}
    assert found.ok
    assert found.rounds >= 1


@pytest.mark.slow
def test_a_killed_fit_on_ray_ends_with_the_bytes_of_an_undisturbed_one(tmp_path):
    pytest.importorskip("ray")
    found = tally(tmp_path, "ray", "--kills", "3", "--members", "4")
    assert found.kills == {"worker": 1, "raylet": 1, "driver": 1}
    assert found.ok
    assert found.rounds >= 1


def test_a_record_goes_on_only_with_the_same_fit(tmp_path):
    (tmp_path / "model").write_bytes(b"one")
    first = begun(None, 60, 2, tmp_path / "model", 1.0)
    first.killed("process", Lost(0.5, 0.4))
    first.ended(tmp_path / "model", clean=True)
    again = begun(first, 60, 2, tmp_path / "model", 2.0)
    assert (again.n_kills, again.same, again.undisturbed) == (1, 1, [1.0, 2.0])
    assert begun(first, 61, 2, tmp_path / "model", 1.0).n_kills == 0
    (tmp_path / "model").write_bytes(b"other")
    again.ended(tmp_path / "model", clean=True)
    assert not again.ok
    with pytest.raises(RuntimeError, match="--again"):
        begun(first, 60, 2, tmp_path / "model", 1.0)
    assert Tally(60, 2, "", rounds=1, same=1, leftovers=1).ok is False
