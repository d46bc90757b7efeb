"""Downloads of data files into pooch's cache; the one module that knows pooch."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchored.datasets.registry import File

if TYPE_CHECKING:
    from rich.console import Console

_CHUNK = 2**16  # bytes


class FetchError(Exception):
    """A file is not in the cache and cannot be downloaded; the message says why."""


def fetch(file: File) -> Path:
    """The path of ``file`` in the cache; downloaded if it is missing or its sha256 is wrong."""
    try:
        import pooch
    except ImportError as error:
        raise FetchError(
            "pooch, which would download it, is not installed (pip install 'anchored[data]')"
        ) from error
    cache = Path(pooch.os_cache("anchored"))
    try:
        with _progress(file.name) as bar:
            get: Any = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK)
            path = pooch.retrieve(
                file.url, f"sha256:{file.sha256}", file.name, cache, downloader=get
            )
    except OSError as error:  # those of requests too
        response = getattr(error, "response", None)
        if response is not None:
            response.close()  # pooch leaves it open
        words = textwrap.shorten(str(error), 150)
        raise FetchError(
            f"it could not be downloaded to {cache} ({type(error).__name__}: {words})"
        ) from error
    except ValueError as error:
        raise FetchError(
            f"it could not be downloaded to {cache} (the downloaded file has the wrong sha256)"
        ) from error
    return Path(path)


@contextmanager
def _progress(title: str) -> Iterator[Any]:
    """A bar for pooch on standard error, or False if that is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield False
        return
    bar = _Bar(title, console)
    try:
        yield bar
    finally:
        bar.close()  # pooch does so only after a success


class _Bar:
    """What pooch uses of a progress bar, drawn by rich from the first bytes on."""

    def __init__(self, title: str, console: "Console"):
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._rich = Progress(*columns, console=console)
        self._title = title
        self.total = 0  # bytes; pooch sets it, to 0 if the server does not tell

    def update(self, n_bytes: int) -> None:
        if not self._rich.tasks:
            self._rich.start()
            self._rich.add_task(self._title, total=self.total or None)
        self._rich.advance(self._rich.task_ids[0], n_bytes)

    def reset(self) -> None:
        for task in self._rich.task_ids:
            self._rich.reset(task)

    def close(self) -> None:
        self._rich.stop()
