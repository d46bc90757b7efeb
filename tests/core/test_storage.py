"""Checkpoints on storage that a URL names, and what is said when it is lost."""

import pickle
import uuid

import jax
import pytest
from pyarrow import fs

from anchored import AnchoredRegressor, Data
from anchored.cluster import LocalExecutor
from anchored.core import checkpoints
from anchored.core.checkpoints import Checkpoint
from anchored.core.storage import LocalFolder, RemoteFolder, folder_of
from anchored.errors import CheckpointWarning
from tests.core.test_checkpoints import Killed, fit, killer, same_ensemble
from tests.core.test_state import rows

WAYS = {
    "path": lambda folder: folder,
    "text": str,
    "url": lambda folder: folder.as_uri(),
    "subtree": lambda folder: RemoteFolder(
        fs.SubTreeFileSystem(str(folder.parent), fs.LocalFileSystem()), folder.name
    ),
    "fsspec": lambda folder: f"memory://{uuid.uuid4().hex}/kept",
}


@pytest.fixture(autouse=True)
def _whenever_it_can_be(monkeypatch):
    monkeypatch.setattr(checkpoints, "_TIMES_COST", 0.0)


@pytest.fixture(params=WAYS)
def place(request, tmp_path):
    if request.param == "fsspec":
        pytest.importorskip("fsspec")
    return WAYS[request.param](tmp_path / "kept")


def test_a_killed_training_goes_on_wherever_it_is_kept(place):
    data = Data.make(*rows(40))
    with pytest.raises(Killed):
        fit(data, Checkpoint(place, interval=0.0), on_check=killer(3))
    files = folder_of(place)
    assert files.names() == ["members.0.safetensors", "members.1.safetensors"]
    files.write(".members.0.safetensors.0a1b.part", b"half")  # of a process that was killed
    seen = []
    found = fit(data, place, on_check=lambda p: seen.append(p.step))
    assert seen[0] > 0  # not from the start
    same_ensemble(found, fit(data))
    assert files.names() == []


def test_chunks_of_members_are_kept_there_too(place):
    data, how = Data.make(*rows(40)), {"executor": LocalExecutor(chunk=2)}
    with pytest.raises(Killed):
        fit(data, Checkpoint(place, interval=0.0), on_check=killer(3), **how)
    assert "members-0.0.safetensors" in folder_of(place).names()
    same_ensemble(fit(data, place, **how), fit(data, **how))


@pytest.mark.parametrize("way", ["path", "url", "subtree"])
def test_folders_can_be_sent_to_workers(way, tmp_path):
    files = Checkpoint.of(WAYS[way](tmp_path / "kept")).elsewhere()
    files.write("a", b"1")
    again = pickle.loads(pickle.dumps(files))
    assert (again.names(), again.read("a")) == (["a"], b"1")
    again.remove(["a", "b"])
    assert not (tmp_path / "kept").exists()


def test_a_relative_path_is_sent_as_an_absolute_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Checkpoint.of("kept").elsewhere() == LocalFolder(tmp_path / "kept")


class Lost(fs.FileSystemHandler):
    """Storage that answers nothing, as a network that is gone."""

    def get_type_name(self):
        return "lost"

    def _gone(self, *args, **kwargs):
        raise ConnectionError(104, "connection reset by peer")

    for _name in fs.FileSystemHandler.__abstractmethods__ - {"get_type_name"}:
        locals()[_name] = _gone


def test_storage_that_is_lost_is_said_in_single_lines_and_training_goes_on():
    lost = RemoteFolder(fs.PyFileSystem(Lost()), "kept")
    data = Data.make(*rows(40))
    with pytest.warns(CheckpointWarning) as caught:
        found = fit(data, Checkpoint(lost, interval=0.0))
    said = [str(warning.message) for warning in caught]
    assert len(said) == 2
    assert said[0].startswith("Checkpoints in kept (py::lost) cannot be read (")
    assert "'members' starts again" in said[0]
    assert said[1].startswith("No checkpoint can be written to kept (py::lost) (")
    assert all("connection reset by peer" in line and "\n" not in line for line in said)
    same_ensemble(found, fit(data))


def test_storage_that_is_lost_at_the_end_does_not_cost_the_fit(tmp_path):
    files = WAYS["url"](tmp_path / "kept")
    data = Data.make(*rows(40))

    def lose(progress):
        for path in (tmp_path / "kept").glob("*"):
            path.unlink()
        (tmp_path / "kept").rmdir()
        (tmp_path / "kept").write_text("in the way")
        raise Killed

    with pytest.raises(Killed):
        fit(data, Checkpoint(files, interval=0.0), on_check=lose)
    with pytest.warns(CheckpointWarning) as caught:
        found = fit(data, files)
    said = [str(warning.message) for warning in caught]
    assert [line.split(str(files))[0] for line in said] == [
        "Checkpoints in ",  # cannot be read
        "No checkpoint can be written to ",
        "Checkpoints in ",  # cannot be removed
    ]
    assert "cannot be read" in said[0]
    assert "cannot be removed" in said[2]
    same_ensemble(found, fit(data))
    assert (tmp_path / "kept").read_text() == "in the way"


@pytest.mark.parametrize("url", ["nonsense://bucket/kept", "file://relative"])
def test_a_url_that_nothing_reads_is_refused_before_the_fit(url):
    x, y = rows(40)
    with pytest.raises(ValueError, match=r"`checkpoint` must be .*URL"):
        AnchoredRegressor(checkpoint=url).fit(x, y)
    with pytest.raises(ValueError, match="`checkpoint`"):
        fit(Data.make(*rows(40)), url)


def test_a_fit_keeps_its_trainings_by_a_url(tmp_path):
    x, y = rows(40)
    how = {"n_members": 2, "epochs": 5, "random_state": 0}
    there = AnchoredRegressor(**how, checkpoint=(tmp_path / "kept").as_uri()).fit(x, y)
    here = AnchoredRegressor(**how).fit(x, y)
    for one, other in zip(
        *(jax.tree.leaves(m.ensemble_.params) for m in (there, here)), strict=True
    ):
        assert (one == other).all()
    assert not (tmp_path / "kept").exists()
