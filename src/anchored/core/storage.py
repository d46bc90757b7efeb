"""Where checkpoints are: in a folder on this machine, or in storage that a URL names.

`pyarrow.fs` reads URLs of the schemes file, s3, gs, abfss and hdfs; the package fsspec reads those
of other schemes. A file appears whole or not at all: it is written under another name and moved.
If something fails, an `OSError` says why in one line.
"""

import dataclasses
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from anchored._files import write_whole
from anchored.errors import bad_value
from anchored.tables import arrow

_SCHEME = "://"
_ARROW = ("file", "s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")  # those of pyarrow.fs


@runtime_checkable
class Folder(Protocol):
    """Files by name, written whole or not at all."""

    def names(self) -> list[str]:
        """Names of all files; none if there is no such folder."""
        ...

    def read(self, name: str) -> bytes:
        """The content of a file."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replace one of the same name, and make the folder if it does not exist."""
        ...

    def remove(self, names: list[str]) -> None:
        """Remove files, and the folder if it is then empty."""
        ...


@dataclasses.dataclass(frozen=True)
class LocalFolder:
    """A folder on this machine, or a mounted one."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path)) if self.path.is_dir() else []

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / name, content)

    def remove(self, names: list[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        if self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()


@dataclasses.dataclass(frozen=True)
class RemoteFolder:
    """A folder in a file system of `pyarrow.fs`.

    Parameters
    ----------
    filesystem : any of `pyarrow.fs`, an `FSSpecHandler` of fsspec included.
    path : of the folder there.
    url : by which people know it, if it came from one.
    """

    filesystem: Any
    path: str
    url: str | None = None

    def __str__(self) -> str:
        return self.url or f"{self.path} ({self.filesystem.type_name})"

    def names(self) -> list[str]:
        with _as_os_error():
            return sorted(info.base_name for info in self._infos() if info.is_file)

    def read(self, name: str) -> bytes:
        with _as_os_error(), self.filesystem.open_input_stream(self._at(name)) as stream:
            return stream.read()

    def write(self, name: str, content: bytes) -> None:
        part = self._at(f".{name}.{uuid.uuid4().hex}.part")
        with _as_os_error():
            self.filesystem.create_dir(self.path, recursive=True)
            try:
                with self.filesystem.open_output_stream(part) as stream:
                    stream.write(content)
                self.filesystem.move(part, self._at(name))
            except BaseException:
                with suppress(Exception):  # it may not be there, or nothing may be any more
                    self.filesystem.delete_file(part)
                raise

    def remove(self, names: list[str]) -> None:
        with _as_os_error():
            for name in names:
                with suppress(FileNotFoundError):
                    self.filesystem.delete_file(self._at(name))
            if not self._infos():
                with suppress(FileNotFoundError):
                    self.filesystem.delete_dir(self.path)

    def _infos(self) -> list[Any]:
        selector = arrow.filesystems().FileSelector(self.path, allow_not_found=True)
        return self.filesystem.get_file_info(selector)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


def folder_of(given: "Folder | str | Path") -> Folder:
    """A path is on this machine; a text with ``://`` is a URL."""
    if isinstance(given, str) and _SCHEME in given:
        return _of_url(given)
    return LocalFolder(Path(given)) if isinstance(given, (str, Path)) else given


@lru_cache
def _of_url(url: str) -> RemoteFolder:
    filesystem, path = _filesystem_of(url)
    return RemoteFolder(filesystem, path.rstrip("/"), url)


def _filesystem_of(url: str) -> tuple[Any, str]:
    fs, scheme = arrow.filesystems(), url.partition(_SCHEME)[0]
    try:
        if scheme in _ARROW:
            return fs.FileSystem.from_uri(url)
        from fsspec.core import url_to_fs

        found, path = url_to_fs(url)
    except (ValueError, NotImplementedError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        need = f"a folder, or a URL that pyarrow.fs or the package fsspec reads ({reason})"
        raise bad_value("checkpoint", url, need) from None
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Whatever the client of some storage raises, as an `OSError`."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise OSError(lines[0]) from error
