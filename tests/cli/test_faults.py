"""A short version of `benchmarks.faults`: fits that are killed end with the same bytes."""

import time

import pytest
from benchmarks.faults import Tally, begun, fits


@pytest.mark.slow
def test_a_killed_fit_ends_with_the_bytes_of_an_undisturbed_one():
    kept = []
    tally = fits(None, 4, 60, 2, time.monotonic() + 120, kept.append)
    assert tally.n_kills >= 1
    assert tally.ok
    assert kept[-1] is tally


@pytest.mark.slow
def test_a_killed_fit_on_ray_ends_with_the_bytes_of_an_undisturbed_one():
    pytest.importorskip("ray")
    from benchmarks.ray_faults import KINDS, ray_fits

    tally = ray_fits(None, len(KINDS), 60, 4, time.monotonic() + 240, lambda tally: None)
    assert tally.kills == dict.fromkeys(KINDS, 1)
    assert tally.ok


def test_a_record_goes_on_only_with_the_same_fit(tmp_path):
    (tmp_path / "model").write_bytes(b"one")
    first = begun(None, 60, 2, tmp_path / "model", 1.0)
    first.killed("process", 0.5)
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
