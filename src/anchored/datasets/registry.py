"""What each data set is, whose it is, and where its files come from.

Every file has a sha256, and a URL that is fixed to a commit but for IMDb, whose authors' own is
the only one. ``print(describe("boston"))`` shows a record.
"""

import dataclasses
import json
from importlib import resources

from anchored.errors import unknown_name


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
    name : what it is loaded by.
    about : what a row is.
    shape : rows, then the shape of one row's features, which texts have not.
    target : meaning and unit of the target.
    licence, citation : as stated by the origin.
    files : what is downloaded if it is not in the folder.
    target_column : its number in the file, whose columns before it are the features; None
        where the target is kept apart.
    n_splits : how many standard splits there are.
    n_train : rows of a fixed training part, which come first; None where rows are drawn.
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
        told = [f"  {key}: {value}" for key, value in lines.items() if value]
        return "\n".join([f"{self.name}: {self.about}", *told])


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

# The record of each file, and the data set it belongs to, by the file's name.
FILES = {file.name: (file, data_set) for data_set in _ALL.values() for file in data_set.files}


def describe(name: str) -> DataSet:
    """The record of one data set: origin, licence, shape, what to know; print it."""
    if name not in _ALL:
        raise unknown_name("name", name, _ALL)
    return _ALL[name]
