"""Images are read from idx files; a bad file is named and what is wrong with it."""

import gzip
import struct

import numpy as np
import pytest

from anchored.datasets import load_images


def idx(array, code=0x08):
    array = np.asarray(array, np.uint8)
    return (
        struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()
    )


@pytest.fixture
def folder(tmp_path, rng):
    """Five training and two test images under the names of Fashion-MNIST."""
    arrays = {}
    for part, n in (("train", 5), ("t10k", 2)):
        arrays[f"{part}-images-idx3"] = rng.integers(0, 256, (n, 28, 28), np.uint8)
        arrays[f"{part}-labels-idx1"] = rng.integers(0, 10, n, np.uint8)
    for name, array in arrays.items():
        (tmp_path / f"fashion-mnist-{name}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    return tmp_path, arrays


def test_what_was_written_is_read(folder, monkeypatch):
    path, arrays = folder
    monkeypatch.setenv("ANCHORED_DATA", str(path))
    images = load_images("fashion-mnist")
    for got, want in zip(images, arrays.values(), strict=True):
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, want)


def test_missing_files_and_names_are_explained(folder, monkeypatch):
    path, _ = folder
    monkeypatch.delenv("ANCHORED_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="set the environment variable ANCHORED_DATA"):
        load_images("mnist")
    with pytest.raises(FileNotFoundError, match=r"There is no mnist-train-images-idx3-ubyte\.gz"):
        load_images("mnist", path)
    with pytest.raises(
        ValueError, match=r"must be one of mnist, fashion-mnist, cifar-10; got 'mnits'"
    ):
        load_images("mnits", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain text", "not a complete gzip file"),
        (gzip.compress(idx(np.zeros((5, 28, 28))))[:-20], "not a complete gzip file"),
        (gzip.compress(b""), "begins with nothing"),
        (gzip.compress(idx(np.zeros(5))), r"with 3 axes: it begins with 00 00 08 01"),
        (gzip.compress(idx(np.zeros((5, 28, 28)), code=0x0D)), "begins with 00 00 0d 03"),
        (
            gzip.compress(idx(np.zeros((5, 28, 28)))[:-9]),
            "announces 5 x 28 x 28 values but contains",
        ),
        (gzip.compress(idx(np.zeros((5, 32, 32)))), "must have 28 by 28"),
        (gzip.compress(idx(np.zeros((4, 28, 28)))), "has 4 images, .* 5 labels"),
    ],
    ids=["text", "cut", "empty", "axes", "type", "short", "size", "count"],  # bytes hold the time
)
def test_a_bad_file_is_named(folder, content, message):
    path, _ = folder
    bad = path / "fashion-mnist-train-images-idx3-ubyte.gz"
    bad.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_images("fashion-mnist", path)
    assert str(bad) in str(caught.value)
