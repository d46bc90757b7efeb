"""Files come from the folder, then the cache, then the web, whole and checked or not at all.

The web is a server of the test's own on the loopback interface.
"""

import dataclasses
import hashlib
import io
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from anchored.datasets import load_images, load_uci
from anchored.datasets.folder import find_file
from anchored.datasets.registry import FILES
from anchored.errors import MissingDataError

CONTENT = np.random.default_rng(0).bytes(200_000)  # a few chunks


class Web:
    """A server of one file: what it answers, and how often it was asked."""

    def __init__(self):
        self.content, self.status, self.told_length, self.n_asked = CONTENT, 200, len(CONTENT), 0
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                web.n_asked += 1
                self.send_response(web.status)
                if web.told_length is not None:
                    self.send_header("Content-Length", str(web.told_length))
                self.end_headers()
                self.wfile.write(web.content)

            def log_message(self, format, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/data.txt"

    def close(self):
        """Go down; a second time changes nothing."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def web(monkeypatch):
    """Serves boston.txt, whose record is changed to match."""
    web = Web()
    file, data_set = FILES["boston.txt"]
    file = dataclasses.replace(file, url=web.url, sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(FILES, "boston.txt", (file, data_set))
    yield web
    web.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder in the environment."""
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("ANCHORED_DATA", raising=False)
    return tmp_path / "cache" / "anchored"


def files_in(folder):
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def test_a_file_is_downloaded_once(web, cache):
    path = find_file("boston.txt", None)
    assert path == cache / "boston.txt"
    assert path.read_bytes() == CONTENT
    assert find_file("boston.txt", None) == path
    assert web.n_asked == 1
    assert files_in(cache) == ["boston.txt"]


def test_what_the_folder_lacks_is_downloaded(web, cache, tmp_path):
    assert find_file("boston.txt", tmp_path) == cache / "boston.txt"
    assert files_in(tmp_path) == ["cache"]  # the user's folder is left as it is


@pytest.mark.parametrize("by_environment", [False, True])
def test_the_folder_comes_first_and_is_not_checked(
    web, cache, tmp_path, monkeypatch, by_environment
):
    (tmp_path / "boston.txt").write_text("mine")
    if by_environment:
        monkeypatch.setenv("ANCHORED_DATA", str(tmp_path))
    path = find_file("boston.txt", None if by_environment else str(tmp_path))
    assert path.read_text() == "mine"
    assert web.n_asked == 0


def test_a_spoilt_file_in_the_cache_is_replaced(web, cache):
    cache.mkdir(parents=True)
    (cache / "boston.txt").write_bytes(CONTENT[:100])
    assert find_file("boston.txt", None).read_bytes() == CONTENT


def answer_not_found(web):
    web.status = 404


def break_off(web):
    web.content = CONTENT[:100_000]


def send_less(web):
    web.content, web.told_length = CONTENT[:100_000], None


def send_another(web):
    web.content = CONTENT[::-1]


@pytest.mark.parametrize(
    ("mishap", "reason"),
    [
        (answer_not_found, "HTTPError: 404"),
        (break_off, "ChunkedEncodingError: "),
        (send_less, "the downloaded file has the wrong sha256"),
        (send_another, "the downloaded file has the wrong sha256"),
    ],
)
def test_a_failed_download_leaves_nothing_and_is_explained(web, cache, tmp_path, mishap, reason):
    mishap(web)
    with pytest.raises(MissingDataError) as caught:
        find_file("boston.txt", tmp_path)
    message = str(caught.value)
    assert f"There is no boston.txt in {tmp_path}, and it could not be downloaded to" in message
    assert f"{cache} ({reason}" in message
    assert f"Save {web.url} (licence: none stated (StatLib" in message
    assert message.endswith(f" as {tmp_path / 'boston.txt'}.")
    assert "\n" not in message
    assert files_in(cache) == []
    web.content, web.status, web.told_length = CONTENT, 200, len(CONTENT)
    assert find_file("boston.txt", tmp_path).read_bytes() == CONTENT  # a second try may succeed


def test_a_refused_download_leaves_no_connection_open(web):
    answer_not_found(web)
    with pytest.raises(MissingDataError) as caught:
        find_file("boston.txt", None)
    refusal = caught.value.__cause__.__cause__
    assert refusal.response.raw.closed


def test_a_server_that_is_down_is_explained(web, cache):
    web.close()
    with pytest.raises(MissingDataError, match=r"\(ConnectionError: .*\)\. Save http://127"):
        find_file("boston.txt", None)
    assert files_in(cache) == []


@pytest.mark.parametrize("load", [lambda: load_uci("boston"), lambda: load_images("mnist")])
def test_without_a_network_the_folder_to_fill_is_told(load, cache):
    with pytest.raises(FileNotFoundError, match="set the environment variable ANCHORED_DATA") as e:
        load()
    message = str(e.value)
    assert re.match(r"No folder has (boston|mnist)[^ ]*, and it could not be downloaded", message)
    assert f"{cache} (ProxyError" in message
    assert "Save https://raw.githubusercontent.com/" in message
    assert files_in(cache) == []


def test_a_cache_that_cannot_be_made_is_explained(web, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(MissingDataError, match=r"could not be downloaded to .*Error: "):
        find_file("boston.txt", None)


def test_without_pooch_the_install_is_told(web, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingDataError, match=r"pip install 'anchored\[data\]'.*Save http://127"):
        find_file("boston.txt", tmp_path)
    (tmp_path / "boston.txt").write_text("mine")
    assert find_file("boston.txt", tmp_path).read_text() == "mine"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("told_length", [len(CONTENT), None])
def test_progress_is_drawn_on_a_terminal(web, monkeypatch, told_length):
    web.told_length = told_length
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    find_file("boston.txt", None)
    drawn = sys.stderr.getvalue()
    assert "boston.txt" in drawn
    if told_length:
        assert "200.0/200.0 kB" in drawn
    sys.stderr.truncate(0)
    find_file("boston.txt", None)  # from the cache: nothing to draw
    assert "boston.txt" not in sys.stderr.getvalue()


def test_a_bar_ends_with_a_broken_download(web, monkeypatch):
    break_off(web)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(MissingDataError):
        find_file("boston.txt", None)
    assert sys.stderr.getvalue().endswith("\x1b[?25h")  # the cursor is back


def test_nothing_is_drawn_without_a_terminal(web, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    find_file("boston.txt", None)
    assert sys.stderr.getvalue() == ""
