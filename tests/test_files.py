"""Files that belong together stay together, whenever the process that writes them dies."""

import os
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from anchored import _files
from anchored.cli._common import model_errors

NAMES = ("metrics.json", "model.safetensors", "report.html")
WRITER = """
import os, sys
from pathlib import Path
from anchored import _files

folder, content, n_steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
done = 0

def stops_at(function):
    def stepped(*args, **kwargs):
        global done
        if done == n_steps:
            os._exit(9)  # as a kill: nothing is cleaned up
        done += 1
        return function(*args, **kwargs)
    return stepped

for name in ("mkdir", "rename", "replace", "rmdir", "unlink", "open"):
    setattr(os, name, stops_at(getattr(os, name)))
_files.make_folder(folder)
_files.remove_leftovers(folder)
with _files.together(folder) as stage:
    for name in sys.argv[4:]:
        with open(stage / name, "w") as file:
            file.write(content[:1])
            file.flush()
            stops_at(file.write)(content[1:])
"""


def write(folder, content, names=NAMES):
    with _files.together(folder) as stage:
        for name in names:
            (stage / name).write_text(content)


def contents(folder, names=NAMES):
    return {(folder / name).read_text() for name in names}


def test_files_killed_at_every_step_belong_together(tmp_path):
    """Old or new, never a mixture; and nothing else is left or lost."""
    seen, sources = [], {"PYTHONPATH": str(Path(_files.__file__).parents[1])}
    (tmp_path / "notes.txt").write_text("the user's own")
    for n_steps in count():
        _files.remove_leftovers(tmp_path)
        write(tmp_path, "old")
        command = [sys.executable, "-S", "-c", WRITER, tmp_path, "new", str(n_steps), *NAMES]
        status = subprocess.run(command, timeout=60, env=os.environ | sources).returncode
        between = contents(tmp_path)
        _files.settle(tmp_path)
        (settled,) = contents(tmp_path)
        seen.append((between, settled))
        _files.remove_leftovers(tmp_path)
        assert sorted(os.listdir(tmp_path)) == sorted([*NAMES, "notes.txt"])
        assert contents(tmp_path) == {settled}
        if status == 0:
            break
        assert status == 9
    assert (tmp_path / "notes.txt").read_text() == "the user's own"
    after = [settled for _, settled in seen]
    assert after == sorted(after, reverse=True)  # one step decides
    assert ({"old"}, "old") in seen
    assert ({"old"}, "new") in seen  # decided, not yet moved
    assert ({"old", "new"}, "new") in seen  # half moved
    assert seen[-1] == ({"new"}, "new")


def test_two_writers_do_not_mix(tmp_path, monkeypatch):
    """The second decides while the first has moved one file of three, and the other way round."""
    replace = os.replace
    moved = []

    def interrupted(source, target):
        replace(source, target)
        moved.append(source)
        if len(moved) == 1:
            write(tmp_path, "second")

    monkeypatch.setattr(os, "replace", interrupted)
    write(tmp_path, "first")
    assert contents(tmp_path) == {"second"}
    assert len(moved) == 6  # of each writer all three
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_a_writer_waits_for_what_another_decided(tmp_path, monkeypatch):
    """Another process decides just before our rename: its files move first."""
    rename, once = os.rename, iter([True])

    def overtaken(source, target):
        if next(once, False):
            other = tmp_path / "other"
            other.mkdir()
            for name in NAMES:
                (other / name).write_text("theirs")
            rename(other, target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", overtaken)
    write(tmp_path, "ours")
    assert contents(tmp_path) == {"ours"}
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_an_error_while_writing_leaves_the_old_files(tmp_path):
    write(tmp_path, "old")
    with suppress(ZeroDivisionError), _files.together(tmp_path) as stage:
        (stage / NAMES[0]).write_text("new")
        _ = 1 / 0
    assert contents(tmp_path) == {"old"}
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_a_file_that_cannot_be_moved_is_an_error_and_moves_later(tmp_path):
    """As when a program on Windows holds the report open."""
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="report"):
        write(tmp_path, "new")
    (tmp_path / "report.html").rmdir()
    _files.remove_leftovers(tmp_path)
    assert contents(tmp_path) == {"new"}
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_one_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    _files.write_whole(path, b"old")
    with suppress(ZeroDivisionError), _files.writing(path) as file:
        file.write(b"new")
        _ = 1 / 0
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_commands_read_the_files_that_were_decided(tmp_path):
    """A fit was killed after the rename: the model that a command reads is the new one."""
    decided = tmp_path / ".finished"
    decided.mkdir()
    (tmp_path / "model.safetensors").write_text("old")
    (decided / "model.safetensors").write_text("new")
    with model_errors(tmp_path / "model.safetensors"):
        assert (tmp_path / "model.safetensors").read_text() == "new"
