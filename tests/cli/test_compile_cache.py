"""Compiled programs are kept between processes, and nothing goes wrong if they cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anchored.cli import compile_cache

# Prints a result, how many programs were looked up and how many of them were there.
PROGRAM = """
from anchored.cli import compile_cache
{before}
compile_cache.switch_on()
import jax
from jax import monitoring
events = []
monitoring.register_event_listener(lambda event, **about: events.append(event))
print(jax.jit(lambda x: (x @ x.T).sum() + 0.125)(jax.numpy.ones((3, 5))))
for kind in ("compile_requests_use_cache", "cache_hits"):
    print(events.count(f"/jax/compilation_cache/{{kind}}"))
"""


def start(variables, before=""):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "ANCHORED_COMP"))}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        env=kept | {name: str(value) for name, value in variables.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Programs looked up, and those found; the result is right and there is no warning."""
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    result, *counts = output.split()
    assert float(result) == 45.125
    return tuple(map(int, counts))


def run(variables, before=""):
    return finish(start(variables, before))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder that two processes filled at the same time, and how many programs it has."""
    folder = tmp_path_factory.mktemp("home") / "made" / "here"
    both = [start({"ANCHORED_COMPILE_CACHE": folder}) for _ in range(2)]
    (wanted, _), (again, _) = map(finish, both)
    assert len(list(folder.iterdir())) == wanted == again > 0
    return folder, wanted


def test_another_process_compiles_nothing_but_what_is_broken(filled):
    folder, wanted = filled
    assert run({"ANCHORED_COMPILE_CACHE": folder}) == (wanted, wanted)
    entries = list(folder.iterdir())
    for i, entry in enumerate(entries):
        content = entry.read_bytes()
        entry.write_bytes(content[: len(content) // 2] if i % 2 else b"")
    assert run({"ANCHORED_COMPILE_CACHE": folder}) == (wanted, 0)
    assert all(entry.stat().st_size for entry in entries)  # empty ones were written anew


@pytest.fixture
def switched_on(monkeypatch, tmp_path):
    """The folder that JAX is given when `switch_on` meets these variables."""

    def switch(**variables):
        for name in ("JAX_COMPILATION_CACHE_DIR", "ANCHORED_COMPILE_CACHE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"HOME": tmp_path, "XDG_CACHE_HOME": tmp_path} | variables).items():
            monkeypatch.setenv(name, str(value))
        compile_cache.switch_on()
        return os.environ.get("JAX_COMPILATION_CACHE_DIR")

    return switch


def test_it_can_be_switched_off_and_a_users_own_folder_is_left_alone(switched_on, tmp_path):
    assert switched_on(ANCHORED_COMPILE_CACHE="off") is None
    own = str(tmp_path / "own")
    assert switched_on(JAX_COMPILATION_CACHE_DIR=own) == own
    assert list(tmp_path.iterdir()) == []
    assert switched_on() is not None
    assert list(tmp_path.iterdir()) != []


def test_a_file_in_the_way(switched_on, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    assert switched_on(ANCHORED_COMPILE_CACHE=blocked) is None
    assert switched_on(ANCHORED_COMPILE_CACHE=blocked / "folder") is None
    assert blocked.read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_disk_that_takes_no_more(filled, tmp_path):
    """No file may grow over 100 bytes, so every write fails half-way."""
    full = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    )
    assert run({"ANCHORED_COMPILE_CACHE": tmp_path}, full) == (filled[1], 0)
    assert sum(entry.stat().st_size for entry in tmp_path.iterdir()) <= 100 * filled[1]


def test_a_disk_that_is_almost_full_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_cache, "MAX_BYTES", 2**62)
    assert not compile_cache._make_ready(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path):
    assert compile_cache._make_ready(tmp_path)
    tmp_path.chmod(0o777)  # whoever writes a program there has it run by us
    assert not compile_cache._make_ready(tmp_path)


def test_the_least_recently_used_go_first(tmp_path):
    for i in range(6):
        (tmp_path / str(i)).write_bytes(b"x" * 100)
        os.utime(tmp_path / str(i), (i, 0) if i % 2 else (0, i))  # read at i, or written
    compile_cache.sweep(tmp_path, max_bytes=350)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["3", "4", "5"]


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/anchored/programs"),
        ("linux", {"XDG_CACHE_HOME": "/fast"}, "/fast/anchored/programs"),
        ("darwin", {"XDG_CACHE_HOME": "/fast"}, "~/Library/Caches/anchored/programs"),
        ("win32", {}, "~/AppData/Local/anchored/programs"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/anchored/programs"),
        ("linux", {"ANCHORED_COMPILE_CACHE": "/mine"}, "/mine"),
    ],
)
def test_where_programs_are_kept(platform, variables, expected):
    assert compile_cache._folder(variables, platform) == Path(expected).expanduser()
