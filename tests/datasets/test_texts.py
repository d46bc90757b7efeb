"""Texts come whole and in order, from npz files and from the published ones alike."""

import io
import tarfile

import numpy as np
import pytest

from anchored.datasets import describe, load_texts
from anchored.datasets.registry import TEXTS

# Reviews by part, label and number: text and stars. In the archive they stand in another order.
REVIEWS = {
    ("train", "neg", 2): ("Dull.<br /><br />Very dull.", 2),
    ("train", "neg", 10): ("So bad it hurts", 1),
    ("train", "pos", 0): ("Café scenes are lovely", 9),
    ("test", "neg", 0): ("Long", 4),
    ("test", "pos", 7): ("Short and good", 7),
    ("test", "pos", 30): ("Good", 10),
}


def as_bytes(texts):
    """Joined texts and the offsets of their bytes."""
    pieces = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, pieces)])
    return np.frombuffer(b"".join(pieces), np.uint8), offsets


def write_npz_reviews(folder):
    arrays = {}
    for part in ("train", "test"):
        mine = {key: text for key, (text, _) in REVIEWS.items() if key[0] == part}
        arrays[f"{part}_text"], arrays[f"{part}_offsets"] = as_bytes(mine.values())
        arrays[f"{part}_label"] = np.array([kind == "pos" for _, kind, _ in mine], np.uint8)
    np.savez(folder / "imdb.npz", **arrays)


def write_archive(folder):
    files = {
        f"aclImdb/{part}/{kind}/{number}_{stars}.txt": text
        for (part, kind, number), (text, stars) in reversed(REVIEWS.items())
    }
    files |= {"aclImdb/train/unsup/0_0.txt": "No label", "aclImdb/README": "About"}
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


# Documents: has topics, part, kind of text, topics, title, body, and what is read of them.
NEWS = [
    ("YES", "TRAIN", "", ["grain", "corn"], "MAIZE <MZ> UP", "Maize rose &\n fell.\n Reuter", 0),
    ("NO", "TRAIN", "", [], "NOT LOOKED AT", "Nothing.", None),
    ("YES", "TEST", "BRIEF", ["earn"], "A FLASH", "", 1),
    ("YES", "NOT-USED", "", ["acq"], "UNUSED", "Nobody reads it.", None),
    ("BYPASS", "TEST", "", ["acq"], "BYPASSED", "Nor this.", None),
    ("YES", "TRAIN", "UNPROC", [], "", "TABLE\n 1 2", 0),
    ("YES", "TEST", "", [], "OLD <NAMES>", "Zürich said so.", 1),
]


def write_npz_news(folder):
    has_topics, parts, _, topics, titles, bodies, _ = zip(*NEWS, strict=True)
    columns = {"topics": map(" ".join, topics), "title": titles, "body": bodies}
    arrays = {}
    for name, texts in columns.items():
        arrays[name], arrays[f"{name}_offsets"] = as_bytes(texts)
    codes = {"YES": 0, "NO": 1, "BYPASS": 2, "TRAIN": 0, "TEST": 1, "NOT-USED": 2}
    arrays["lewissplit"] = np.array([codes[part] for part in parts], np.uint8)
    arrays["topics_attr"] = np.array([codes[it] for it in has_topics], np.uint8)
    np.savez(folder / "reuters.npz", **arrays)


def write_sgml(folder):
    """All documents in the first of the 22 files but the last one, which is in the last."""
    contents = ['<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'] * 22
    for i, (has_topics, part, kind, topics, title, body, _) in enumerate(NEWS):
        title, body = (text.replace("&", "&amp;").replace("<", "&lt;") for text in (title, body))
        marked = {
            "": f"<TITLE>{title}</TITLE>\n<DATELINE>  HERE, May 1 - </DATELINE>"
            f"<BODY>{body}\n&#3;</BODY>",
            "BRIEF": f"******<TITLE>{title}</TITLE>\n  Filler.\n&#3;",
            "UNPROC": f"{body}\n&#3;",
        }[kind]
        tags = "".join(f"<D>{topic}</D>" for topic in topics)
        kind = f' TYPE="{kind}"' if kind else ""
        contents[-1 if i == len(NEWS) - 1 else 0] += (
            f'<REUTERS TOPICS="{has_topics}" LEWISSPLIT="{part}" CGISPLIT="X" NEWID="{i + 1}">\n'
            f"<DATE>1-MAY-1987</DATE>\n<TOPICS>{tags}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n"
            f"<UNKNOWN>&#5;&#5;C\n</UNKNOWN>\n<TEXT{kind}>&#2;\n{marked}</TEXT>\n</REUTERS>\n"
        )
    for i, content in enumerate(contents):
        (folder / f"reut2-{i:03}.sgm").write_text(content, "latin-1")


@pytest.mark.parametrize("write", [write_npz_reviews, write_archive])
def test_reviews_are_read_in_order_with_their_labels(tmp_path, write, monkeypatch):
    write(tmp_path)
    monkeypatch.setenv("ANCHORED_DATA", str(tmp_path))
    texts = load_texts("imdb")
    assert texts.train_x == [text for (part, *_), (text, _) in REVIEWS.items() if part == "train"]
    assert texts.test_x == [text for (part, *_), (text, _) in REVIEWS.items() if part == "test"]
    assert texts.train_y.tolist() == [0, 0, 1]
    assert texts.test_y.tolist() == [0, 1, 1]
    assert texts.train_y.dtype == np.uint8


@pytest.mark.parametrize("write", [write_npz_news, write_sgml])
def test_news_are_those_of_the_modapte_split(tmp_path, write):
    write(tmp_path)
    texts = load_texts("reuters", tmp_path)
    assert texts.train_x == ["MAIZE <MZ> UP\nMaize rose &\n fell.\n Reuter", "TABLE\n 1 2"]
    assert texts.train_y.tolist() == ["grain corn", ""]
    assert texts.test_x == ["A FLASH", "OLD <NAMES>\nZürich said so."]
    assert texts.test_y.tolist() == ["earn", ""]


def test_missing_files_and_names_are_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Save https://ai\.stan.*aclImdb_v1\.tar\.gz"):
        load_texts("imdb", tmp_path)
    write_sgml(tmp_path)
    (tmp_path / "reut2-021.sgm").unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no reut2-021\.sgm in"):
        load_texts("reuters", tmp_path)
    with pytest.raises(ValueError, match=r"one of imdb, reuters; got 'imbd'\. .*'imdb'"):
        load_texts("imbd", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("imdb.npz", b"plain text", "not a complete npz file"),
        ("aclImdb_v1.tar.gz", b"plain text", r"not a complete tar\.gz file"),
        ("aclImdb_v1.tar.gz", b"", r"not a complete tar\.gz file"),
    ],
    ids=["npz", "text", "empty"],
)
def test_a_bad_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        load_texts("imdb", tmp_path)


def test_a_cut_archive_is_named(tmp_path):
    write_archive(tmp_path)
    path = tmp_path / "aclImdb_v1.tar.gz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"aclImdb_v1\.tar\.gz is not a complete tar\.gz file"):
        load_texts("imdb", tmp_path)


def test_files_without_texts_are_refused(tmp_path):
    with tarfile.open(tmp_path / "aclImdb_v1.tar.gz", "w:gz"):
        pass
    with pytest.raises(ValueError, match="has 0 texts and 0 labels to train with"):
        load_texts("imdb", tmp_path)


def test_labels_must_be_as_many_as_texts(tmp_path):
    write_npz_reviews(tmp_path)
    with np.load(tmp_path / "imdb.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "imdb.npz", **arrays | {"test_label": arrays["test_label"][:2]})
    with pytest.raises(ValueError, match=r"imdb\.npz has 3 texts and 2 labels to test with"):
        load_texts("imdb", tmp_path)


@pytest.mark.parametrize("name", TEXTS)
def test_stored_texts_have_the_recorded_numbers(uci_folder, name):
    if not (uci_folder / f"{name}.npz").is_file():
        pytest.skip(f"no {name}.npz in the folder")
    texts, record = load_texts(name, uci_folder), describe(name)
    n_train, n_test = len(texts.train_x), len(texts.test_x)
    assert (n_train, n_test) == (record.n_train, record.shape[0] - record.n_train)
    assert all(texts.train_x)
    if name == "imdb":
        for y in (texts.train_y, texts.test_y):
            assert np.bincount(y).tolist() == [12_500, 12_500]
    else:
        assert texts.train_x[0].startswith("BAHIA COCOA REVIEW\nShowers continued")
        assert texts.train_y[0] == "cocoa"
        assert not any("<" in topics for topics in texts.train_y)
