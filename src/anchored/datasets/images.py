"""MNIST and Fashion-MNIST, read from their gzipped idx files.

Files are read from a folder (``data_dir`` or the environment variable ``ANCHORED_DATA``), where
they are named like ``mnist-train-images-idx3-ubyte.gz``, or else downloaded.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchored._errors import unknown_name
from anchored.datasets._folder import find_file
from anchored.datasets.registry import IMAGES

_SIDE = 28
_UNSIGNED_BYTE = 0x08  # idx's code of the only type these files have


class Images(NamedTuple):
    """Grey images [batch, 28, 28] from 0 to 255, and class numbers [batch], all uint8."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_images(name: str, data_dir: str | Path | None = None) -> Images:
    """Training and test images of one of the registry's ``IMAGES``, with their labels."""
    if name not in IMAGES:
        raise unknown_name("name", name, IMAGES)
    arrays = []
    for part in ("train", "t10k"):
        images, labels = (
            find_file(f"{name}-{part}-{kind}-ubyte.gz", data_dir)
            for kind in ("images-idx3", "labels-idx1")
        )
        x, y = read_idx(images, n_axes=3), read_idx(labels, n_axes=1)
        if x.shape[1:] != (_SIDE, _SIDE):
            raise ValueError(f"{images} holds images of {x.shape[1:]} pixels; need 28 by 28.")
        if len(x) != len(y):
            raise ValueError(f"{images} has {len(x)} images, {labels.name} {len(y)} labels.")
        arrays += [x, y]
    return Images(*arrays)


def read_idx(path: Path, n_axes: int) -> np.ndarray:
    """The bytes of a gzipped idx file: two zeros, type, number of axes, their lengths, values."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}). Fetch it again.") from error
    magic, start = content[:4], 4 + 4 * n_axes
    if magic != bytes([0, 0, _UNSIGNED_BYTE, n_axes]) or len(content) < start:
        raise ValueError(
            f"{path} is not an idx file of unsigned bytes with {n_axes} axes: it begins with "
            f"{magic.hex(' ') or 'nothing'}."
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_axes, offset=4))
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} announces {' x '.join(map(str, shape))} values but holds "
            f"{len(content) - start:,}. Fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
