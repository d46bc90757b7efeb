"""Members that workers train in chunks are those of one machine."""

import dataclasses

import jax
import numpy as np
import pytest

from anchored import MLP, AnchoredRegressor, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.cluster import LocalExecutor, as_executor
from anchored.core.chunks import split
from anchored.core.loss import Folds
from anchored.core.members import Threaded, n_cores
from anchored.errors import Status
from tests.core.test_checkpoints import same_ensemble
from tests.core.test_ensembles import Explosive
from tests.core.test_state import rows

SHORT = Schedule(60, 16, 0.02)


def fit(executor=None, network=None, n_members=4, **kwargs):
    data = Data.make(*rows(40))
    network = network or MLP((6,))
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    given = {"n_members": n_members, "schedule": SHORT, "executor": executor} | kwargs
    return fit_ensemble(jax.random.key(0), network, prior, Gaussian(0.05), data, **given)


CASES = {
    "plain": {},
    "noise": {"method": "rms"},
    "settles": {"schedule": dataclasses.replace(SHORT, tolerance=0.05)},
    "folds": {"folds": Folds(np.arange(40) % 2, np.array([0, 1])).joined(2)},
    "diverged": {"network": Explosive((6,)), "n_members": 8},
}


@pytest.mark.parametrize("case", CASES)
def test_chunks_are_the_same_members(case):
    """The machine runs shares of the same size, so that all bits are the same."""
    kwargs = CASES[case]
    whole = fit(member_map=Threaded(1, 2), **kwargs)
    chunks = fit(LocalExecutor(chunk=2), **kwargs)
    for one, other in zip(
        jax.tree.leaves((whole.params, whole.centres)),
        jax.tree.leaves((chunks.params, chunks.centres)),
        strict=True,
    ):
        # Diverged members are trained again beside as many as diverged in their chunk.
        tolerance = 1e-4 if case == "diverged" else 0.0
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    assert (whole.member_ids, whole.retrained) == (chunks.member_ids, chunks.retrained)
    np.testing.assert_array_equal(whole.info.status, chunks.info.status)
    np.testing.assert_array_equal(whole.info.steps, chunks.info.steps)
    if case == "settles":
        assert whole.info.steps[-1] < 120
    np.testing.assert_allclose(whole.info.objective, chunks.info.objective, rtol=1e-5)


@pytest.mark.slow
def test_chunks_of_another_size_differ_by_rounding_alone():
    whole, chunks = fit(n_members=9), fit(LocalExecutor(chunk=3), n_members=9)
    for one, other in zip(
        jax.tree.leaves(whole.params), jax.tree.leaves(chunks.params), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_finished_chunks_are_not_trained_again(tmp_path):
    from anchored.core.checkpoints import Checkpoint

    place, seen = Checkpoint(tmp_path, interval=0.0), []
    one = fit(LocalExecutor(chunk=2), checkpoint=place)
    again = fit(LocalExecutor(chunk=2), checkpoint=place, on_check=lambda p: seen.append(p.step))
    same_ensemble(one, again)
    assert seen == [60, 120]  # of each chunk, that it is done
    fit(LocalExecutor(chunk=2), checkpoint=tmp_path)
    assert not tmp_path.exists()


@pytest.mark.parametrize(
    ("n_members", "chunk", "sizes"),
    [
        (20, None, [5, 5, 5, 5]),
        (8, None, [4, 4]),
        (11, None, [5, 6]),
        (2, None, [2]),
        (7, 3, [3, 4]),
        (5, 2, [2, 3]),
    ],
)
def test_no_member_is_alone(n_members, chunk, sizes):
    cuts = split(n_members, chunk)
    assert [cut.stop - cut.start for cut in cuts] == sizes
    assert cuts[0].start == 0
    assert cuts[-1].stop == n_members


def test_unknown_executors_are_named():
    with pytest.raises(ValueError, match="`executor` must be None"):
        AnchoredRegressor(executor="dask").fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="`chunk` must be at least 2"):
        fit(LocalExecutor(chunk=1))
    assert as_executor("ray://127.0.0.1:1").address == "ray://127.0.0.1:1"


def test_workers_take_the_cores_they_are_given(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "several")
    assert n_cores() >= 1


def test_status_of_all_members_is_kept():
    found = fit(LocalExecutor(chunk=2), network=Explosive((6,), hopeless=True))
    assert list(found.info.status) == [Status.DIVERGED] * 4
