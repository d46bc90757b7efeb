"""What each data set is, who made it, and where its files come from.

Every file has a sha256 and a URL. The URL is fixed to a commit, except for IMDb, which only its
authors publish. ``print(describe("boston"))`` shows a record.
"""

import dataclasses
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from anchored._files import package_data
from anchored.errors import unknown_name

_NUMERIC = ("boston", "concrete", "kin8nm", "power", "protein")  # among the real tables


@dataclasses.dataclass(frozen=True)
class File:
    """A file on the web, and the name it has in a folder of data files."""

    name: str
    url: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A table, or a set of images or texts.

    Attributes
    ----------
    name : the name to load it by.
    about : what a row is.
    shape : number of rows, then the shape of one row's features (none for texts).
    target : meaning and unit of the target.
    licence, citation : as stated by the origin.
    files : what is downloaded if it is not in the folder.
    target_column : number of the target's column; the columns before it are the features. None if
        the target is in another file.
    n_splits : number of standard splits.
    n_train : number of rows in a fixed training part, which comes first; None if splits are drawn.
    note : what to know before using it.
    """

    name: str
    about: str
    shape: tuple[int, ...]
    target: str
    licence: str
    citation: str
    files: tuple[File, ...]
    target_column: int | None = None
    n_splits: int = 1
    n_train: int | None = None
    note: str = ""

    def __str__(self) -> str:
        n_rows, *axes = self.shape
        features = f"{' x '.join(map(str, axes))} features" if axes else "a text"
        lines = {
            "rows": f"{n_rows:,}, each with {features}",
            "target": self.target,
            "splits": self.n_splits,
            "licence": self.licence,
            "citation": self.citation,
            "files": " ".join(file.url for file in self.files),
            "note": self.note,
        }
        return _told(self, lines)


@dataclasses.dataclass(frozen=True)
class RealTable:
    """One table and where it comes from.

    Attributes
    ----------
    name, about : the name to load it by, and what a row is.
    task, target : regression or classification, and the column to predict.
    split : ``random``, or ``time:COLUMN`` if the last fifth by that column are the test rows.
    shape : rows and input columns.
    sha256 : of the file ``tables/<name>.csv.gz``; empty for a UCI table.
    url, source_sha256 : address and sha256 of the public file that it is made from.
    dropped : columns of that file that are left out; if two have the same name, the second ends
        with ``.1``. Rows without a target are left out too.
    note : what to know before using it.
    """

    name: str
    about: str
    task: str
    target: str
    split: str
    shape: tuple[int, int]
    sha256: str
    url: str
    source_sha256: str
    dropped: tuple[str, ...] = ()
    note: str = ""

    @property
    def source(self) -> File:
        """The public file."""
        return File(
            f"{self.name}-source{PurePosixPath(self.url).suffix}", self.url, self.source_sha256
        )

    @property
    def file(self) -> str:
        """Path of the table inside a data folder."""
        return f"tables/{self.name}.csv.gz"

    def __str__(self) -> str:
        lines = {
            "rows": f"{self.shape[0]:,}, each with {self.shape[1]} columns",
            "target": f"{self.target} ({self.task})",
            "split": self.split,
            "file": f"{self.file}, {self.origin}" if self.sha256 else self.origin,
            "note": self.note,
        }
        return _told(self, lines)

    @property
    def origin(self) -> str:
        """Where the table can be found, in words."""
        source = f"{self.url} (sha256 {self.source_sha256})"
        if not self.sha256:
            return source
        less = f"the columns {', '.join(self.dropped)} and without " if self.dropped else ""
        return f"made from {source} without {less}rows that have no target"


def _told(record: "DataSet | RealTable", lines: Mapping[str, object]) -> str:
    """A line of its own for all that is known of a record."""
    told = [f"  {key}: {value}" for key, value in lines.items() if value]
    return "\n".join([f"{record.name}: {record.about}", *told])


def _by_name(found: list[dict]) -> dict[str, DataSet]:
    """Data sets of one kind, as ``registry.json`` beside this module has them."""
    records = {}
    for record in found:
        files = tuple(File(**file) for file in record.pop("files"))
        shape = tuple(record.pop("shape"))
        records[record["name"]] = DataSet(shape=shape, files=files, **record)
    return records


_FOUND = json.loads(
    resources.files("anchored.datasets").joinpath("registry.json").read_text("utf-8")
)
TABLES, IMAGES, TEXTS = (_by_name(_FOUND[kind]) for kind in ("tables", "images", "texts"))
_ALL = TABLES | IMAGES | TEXTS


def _numeric(name: str) -> RealTable:
    """A UCI table as one of the real tables."""
    record = TABLES[name]
    file, shape = record.files[0], (record.shape[0], record.shape[1])
    return RealTable(
        name, record.about, "regression", "target", "random", shape, "", file.url, file.sha256
    )


def _real(entry: dict[str, Any]) -> RealTable:
    """A table of ``real.toml``, whose lists become tuples."""
    return RealTable(**{k: _fixed(v) for k, v in entry.items()})


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


REAL = {
    entry["name"]: _real(entry) for entry in package_data("anchored.datasets", "real.toml")["table"]
} | {name: _numeric(name) for name in _NUMERIC}

# The record of each file, and the data set it belongs to, by the file's name.
FILES = {file.name: (file, data_set) for data_set in _ALL.values() for file in data_set.files}


def describe(name: str) -> DataSet | RealTable:
    """The record of one data set: origin, licence, shape and notes; print it."""
    known = _ALL | {real: table for real, table in REAL.items() if real not in _ALL}
    if name not in known:
        raise unknown_name("name", name, known)
    return known[name]
