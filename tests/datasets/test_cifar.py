"""CIFAR-10 from npz files and from PNG sheets; a part of it is never taken for the whole."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from anchored.datasets import describe, load_images

N = 3  # images in a made-up batch


@pytest.fixture
def batches(rng):
    """Images and labels of five training batches and of the test part."""
    names = [*(f"train-{i}" for i in range(1, 6)), "test"]
    return {
        name: (
            rng.integers(0, 256, (N, 32, 32, 3), np.uint8),
            rng.integers(0, 10, N).astype(np.uint8),
        )
        for name in names
    }


def write_npz(folder, batches, names):
    for name in names:
        x, y = batches[name]
        np.savez(folder / f"cifar10-{name}.npz", x=x, y=y)


def write_sheets(folder, batches, names):
    for name in names:
        Image.fromarray(batches[name][0].reshape(N, 1024, 3)).save(folder / f"cifar10-{name}.png")
    labels = {
        "train": np.concatenate([batches[f"train-{i}"][1] for i in range(1, 6)]),
        "test": batches["test"][1],
    }
    for part, y in labels.items():
        (folder / f"cifar10-{part}-labels.json").write_text(json.dumps(y.tolist()))


def joined(batches, numbers):
    arrays = zip(*(batches[f"train-{i}"] for i in numbers), strict=True)
    return [*map(np.concatenate, arrays), *batches["test"]]


def assert_images(got, want):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == np.uint8
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("write", [write_npz, write_sheets])
def test_what_was_written_is_read(tmp_path, batches, write):
    write(tmp_path, batches, batches)
    assert_images(load_images("cifar-10", tmp_path), joined(batches, range(1, 6)))


def test_a_folder_with_two_batches_gives_two_and_says_so(tmp_path, batches):
    write_npz(tmp_path, batches, ["train-1", "train-2", "train-4", "test"])
    assert_images(load_images("cifar-10", tmp_path), joined(batches, [1, 2]))
    record = describe("cifar-10")
    assert record.n_train == 50_000
    assert "fewer than 50,000 images to train on" in str(record)
    assert "may be incomplete" in load_images.__doc__


def test_npz_and_sheets_can_be_mixed(tmp_path, batches):
    write_npz(tmp_path, batches, ["train-1"])
    write_sheets(tmp_path, batches, ["train-2", "train-3", "test"])
    assert_images(load_images("cifar-10", tmp_path), joined(batches, [1, 2, 3]))


def test_a_folder_without_batches_asks_for_the_sheets(tmp_path, batches):
    write_npz(tmp_path, batches, ["train-2", "test"])
    with pytest.raises(FileNotFoundError, match=r"no cifar10-train-1\.png .*data_batch_1\.png"):
        load_images("cifar-10", tmp_path)


def test_sheets_need_pillow(tmp_path, batches, monkeypatch):
    write_sheets(tmp_path, batches, batches)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"train-1\.png needs Pillow: .*anchored\[data\]"):
        load_images("cifar-10", tmp_path)


def spoil_npz(folder):
    (folder / "cifar10-train-1.npz").write_bytes(b"plain text")


def cut_npz(folder):
    path = folder / "cifar10-train-1.npz"
    path.write_bytes(path.read_bytes()[:-50])


def drop_labels(folder):
    np.savez(folder / "cifar10-train-1.npz", x=np.zeros((N, 32, 32, 3), np.uint8))


def lose_a_label(folder):
    np.savez(folder / "cifar10-train-1.npz", x=np.zeros((N, 32, 32, 3), np.uint8), y=np.zeros(2))


def make_small(folder):
    np.savez(folder / "cifar10-train-1.npz", x=np.zeros((N, 28, 28), np.uint8), y=np.zeros(N))


def spoil_sheet(folder):
    (folder / "cifar10-train-1.npz").unlink()
    (folder / "cifar10-train-1.png").write_bytes(b"plain text")


def narrow_sheet(folder):
    (folder / "cifar10-train-1.npz").unlink()
    Image.fromarray(np.zeros((N, 1000, 3), np.uint8)).save(folder / "cifar10-train-1.png")


@pytest.mark.parametrize(
    ("mishap", "message"),
    [
        (spoil_npz, "not a complete npz file"),
        (cut_npz, "not a complete npz file"),
        (drop_labels, "lacks an array: y"),
        (lose_a_label, "has 3 images, but there are 2 labels"),
        (make_small, "must have 32 by 32 by 3"),
        (spoil_sheet, "not a complete PNG file"),
        (narrow_sheet, "rows of 1000 pixels, which do not make a square"),
    ],
)
def test_a_bad_file_is_named(tmp_path, batches, mishap, message):
    write_npz(tmp_path, batches, batches)
    mishap(tmp_path)
    with pytest.raises(ValueError, match=f"cifar10-train-1.*{message}"):
        load_images("cifar-10", tmp_path)


def test_stored_test_images_are_the_published_ones(uci_folder):
    """Facts of the whole set: 1,000 test images of a class, and how the labels begin."""
    if not (uci_folder / "cifar10-test.npz").is_file():
        pytest.skip("no cifar10-test.npz in the folder")
    with np.load(uci_folder / "cifar10-test.npz") as stored:
        assert stored["x"].shape == (10_000, 32, 32, 3)
        assert np.bincount(stored["y"]).tolist() == [1000] * 10
        assert stored["y"][:5].tolist() == [3, 8, 8, 0, 6]


@pytest.mark.slow
def test_stored_training_images_are_a_part(uci_folder):
    if not (uci_folder / "cifar10-train-2.npz").is_file():
        pytest.skip("no cifar10-train-2.npz in the folder")
    images = load_images("cifar-10", uci_folder)
    assert len(images.train_x) == len(images.train_y) in range(20_000, 50_001, 10_000)
    assert images.train_y[:5].tolist() == [6, 9, 9, 4, 1]
    means = images.train_x.mean(axis=(0, 1, 2))
    # Means of all 50,000; an image's own mean has a deviation of about 35.
    assert np.all(np.abs(means - [125.307, 122.950, 113.865]) < 4 * 35 / np.sqrt(20_000))
