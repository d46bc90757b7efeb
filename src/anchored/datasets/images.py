"""MNIST and Fashion-MNIST, read from their gzipped idx files, and CIFAR-10.

Files are read from a folder (``data_dir`` or the environment variable ``ANCHORED_DATA``), where
they are named like ``mnist-train-images-idx3-ubyte.gz``, or else downloaded. Those of CIFAR-10 are
``cifar10-train-1.npz`` and so on with arrays x and y, or as published: PNG sheets with an image in
each row, which Pillow reads.
"""

import gzip
import json
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchored.datasets.folder import find_file, find_in_folder, read_arrays
from anchored.datasets.registry import IMAGES
from anchored.errors import missing_package, unknown_name

_UNSIGNED_BYTE = 0x08  # idx's code of the only type these files have
_N_BATCHES = 5  # files that CIFAR-10's training part comes in


class Images(NamedTuple):
    """Images from 0 to 255, and class numbers [batch], all uint8.

    Grey images are [batch, 28, 28]; images of CIFAR-10 are [batch, 32, 32, 3].
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_images(name: str, data_dir: str | Path | None = None) -> Images:
    """Training and test images of one of the registry's ``IMAGES``, with their labels.

    ``cifar-10`` may be incomplete: if a folder has only some of the five training batches, you get
    these, with 10,000 images each. All of them have ``describe(name).n_train`` images.
    """
    if name not in IMAGES:
        raise unknown_name("name", name, IMAGES)
    if name == "cifar-10":
        return _load_cifar(data_dir)
    arrays = []
    for part in ("train", "t10k"):
        images, labels = (
            find_file(f"{name}-{part}-{kind}-ubyte.gz", data_dir)
            for kind in ("images-idx3", "labels-idx1")
        )
        arrays += _checked(name, images, read_idx(images, n_axes=3), read_idx(labels, n_axes=1))
    return Images(*arrays)


def read_idx(path: Path, n_axes: int) -> np.ndarray:
    """The bytes of a gzipped idx file: two zeros, type, number of axes, their lengths, values."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} is not a complete gzip file ({error}). Fetch it again."
        ) from error
    magic, start = content[:4], 4 + 4 * n_axes
    if magic != bytes([0, 0, _UNSIGNED_BYTE, n_axes]) or len(content) < start:
        raise ValueError(
            f"{path} is not an idx file of unsigned bytes with {n_axes} axes: it begins with "
            f"{magic.hex(' ') or 'nothing'}."
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_axes, offset=4))
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} announces {' x '.join(map(str, shape))} values but contains "
            f"{len(content) - start:,}. Fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _load_cifar(data_dir: str | Path | None) -> Images:
    train = [_read_batch(path, "train", i, data_dir) for i, path in enumerate(_batches(data_dir))]
    test = _batch_in_folder("test", data_dir) or find_file("cifar10-test.png", data_dir)
    x, y = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    return Images(x, y, *_read_batch(test, "test", 0, data_dir))


def _batches(data_dir: str | Path | None) -> list[Path]:
    """Training batches in the folder, from the first to the last without a gap, or else all."""
    names = [f"train-{i}" for i in range(1, _N_BATCHES + 1)]
    paths = []
    for name in names:
        path = _batch_in_folder(name, data_dir)
        if path is None:
            break
        paths.append(path)
    return paths or [find_file(f"cifar10-{name}.png", data_dir) for name in names]


def _batch_in_folder(name: str, data_dir: str | Path | None) -> Path | None:
    stored = find_in_folder(f"cifar10-{name}.npz", data_dir)
    return stored or find_in_folder(f"cifar10-{name}.png", data_dir)


def _read_batch(
    path: Path, part: str, i: int, data_dir: str | Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of batch number ``i`` of a part; those in PNG have their labels apart."""
    if path.suffix == ".npz":
        x, y = read_arrays(path, ("x", "y"))
    else:
        x = _read_sheet(path)
        every = json.loads(find_file(f"cifar10-{part}-labels.json", data_dir).read_text())
        y = np.array(every[i * len(x) : (i + 1) * len(x)], np.uint8)
    return _checked("cifar-10", path, x, y)


def _read_sheet(path: Path) -> np.ndarray:
    """The images of a PNG sheet: each of its rows is one, its pixels row by row."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise missing_package(f"{path} needs Pillow", "data") from error
    try:
        with Image.open(path) as sheet:
            pixels = np.array(sheet.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"{path} is not a complete PNG file ({error}). Get it again.") from error
    side = math.isqrt(pixels.shape[1])
    if side**2 != pixels.shape[1]:
        raise ValueError(
            f"{path} has rows of {pixels.shape[1]} pixels, which do not make a square."
        )
    return pixels.reshape(-1, side, side, 3)


def _checked(name: str, path: Path, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    need = IMAGES[name].shape[1:]
    if x.shape[1:] != need:
        sides = " by ".join(map(str, need))
        raise ValueError(f"{path} contains images of {x.shape[1:]} pixels; they must have {sides}.")
    if len(x) != len(y):
        raise ValueError(f"{path} has {len(x)} images, but there are {len(y)} labels.")
    return x, y
