"""IMDb's reviews and Reuters' news, as texts with labels.

Files are read from a folder (``data_dir`` or the environment variable ``ANCHORED_DATA``), where
they are ``imdb.npz`` and ``reuters.npz`` or have their published names, or else downloaded. In an
npz file texts are joined: text i is ``bytes(text[offsets[i]:offsets[i + 1]]).decode()``.
"""

import html
import itertools
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchored.datasets.folder import find_file, find_in_folder, read_arrays
from anchored.datasets.registry import TEXTS
from anchored.errors import unknown_name


class Texts(NamedTuple):
    """Texts and their labels [row], for training and for testing.

    Labels of ``imdb`` are uint8: 0 for a bad review, 1 for a good one. Those of ``reuters`` are
    strings of topics, separated by spaces; a text may have none or several.
    """

    train_x: list[str]
    train_y: np.ndarray
    test_x: list[str]
    test_y: np.ndarray


def load_texts(name: str, data_dir: str | Path | None = None) -> Texts:
    """Training and test part of one of the registry's ``TEXTS``: all of IMDb, or Reuters' ModApte
    split.
    """
    if name not in TEXTS:
        raise unknown_name("name", name, TEXTS)
    stored = find_in_folder(f"{name}.npz", data_dir)
    paths = [stored] if stored else [find_file(file.name, data_dir) for file in TEXTS[name].files]
    texts = _read_imdb(paths[0]) if name == "imdb" else _read_reuters(paths)
    for part, x, y in (("train", *texts[:2]), ("test", *texts[2:])):
        if not x or len(x) != len(y):
            raise ValueError(f"{paths[0]} has {len(x)} texts and {len(y)} labels to {part} with.")
    return texts


def _read_imdb(path: Path) -> Texts:
    if path.suffix != ".npz":
        return _read_archive(path)
    arrays = []
    for part in ("train", "test"):
        names = (f"{part}_{array}" for array in ("text", "offsets", "label"))
        text, offsets, label = read_arrays(path, names)
        arrays += [_cut(text, offsets), label]
    return Texts(*arrays)


_REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt")


def _read_archive(path: Path) -> Texts:
    """Reviews of the published archive, a file each: bad ones first, by number."""
    found = {"train": [], "test": []}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if name := _REVIEW.fullmatch(member.name):
                    part, kind, number = name.groups()
                    content = archive.extractfile(member)
                    assert content is not None  # it is a file
                    found[part].append((kind == "pos", int(number), content.read().decode()))
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(
            f"{path} is not a complete tar.gz file ({error}). Get it again."
        ) from error
    arrays = []
    for reviews in found.values():
        reviews.sort()
        arrays += [[text for *_, text in reviews], np.array([y for y, *_ in reviews], np.uint8)]
    return Texts(*arrays)


class _News(NamedTuple):
    """A document of Reuters: part and attribute are as published, the text is title and body."""

    part: str
    has_topics: str
    topics: str
    text: str


_PARTS = ("TRAIN", "TEST", "NOT-USED")
_HAS_TOPICS = ("YES", "NO", "BYPASS")


def _read_reuters(paths: list[Path]) -> Texts:
    """The ModApte split: documents looked at for topics, in the parts named TRAIN and TEST."""
    read = _read_joined if paths[0].suffix == ".npz" else _read_sgml
    news = [one for path in paths for one in read(path) if one.has_topics == "YES"]
    arrays = []
    for part in ("TRAIN", "TEST"):
        mine = [one for one in news if one.part == part]
        arrays += [[one.text for one in mine], np.array([one.topics for one in mine], np.str_)]
    return Texts(*arrays)


def _read_joined(path: Path) -> Iterator[_News]:
    topics, titles, bodies = (
        _cut(*read_arrays(path, (name, f"{name}_offsets"))) for name in ("topics", "title", "body")
    )
    parts, attributes = read_arrays(path, ("lewissplit", "topics_attr"))
    for row in zip(parts, attributes, topics, titles, bodies, strict=True):
        yield _News(_PARTS[row[0]], _HAS_TOPICS[row[1]], row[2], _join(row[3], row[4]))


_DOCUMENT = re.compile(
    r'<REUTERS TOPICS="([A-Z]+)" LEWISSPLIT="([A-Z-]+)".*?<TOPICS>(.*?)</TOPICS>'
    r".*?<TEXT(.*?)>(.*?)</TEXT>",
    re.DOTALL,
)


def _read_sgml(path: Path) -> Iterator[_News]:
    for has_topics, part, topics, kind, text in _DOCUMENT.findall(path.read_text("latin-1")):
        if "UNPROC" in kind:  # neither title nor body is marked
            title, body = "", re.sub("<[^>]*>", "", text)
        else:
            title, body = _between("TITLE", text), _between("BODY", text)
        topics = " ".join(re.findall("<D>(.*?)</D>", topics))
        yield _News(part, has_topics, topics, _join(_plain(title), _plain(body)))


def _plain(text: str) -> str:
    """Without references to control characters, and with those to others resolved."""
    return html.unescape(re.sub(r"&#\d+;", " ", text)).strip()


def _between(tag: str, text: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found.group(1) if found else ""


def _join(title: str, body: str) -> str:
    return f"{title}\n{body}".strip()


def _cut(text: np.ndarray, offsets: np.ndarray) -> list[str]:
    """Texts that are joined in one array of UTF-8 bytes."""
    content = text.tobytes()
    return [content[a:b].decode() for a, b in itertools.pairwise(offsets.tolist())]
