"""Inputs unlike the training data: the paper's out-of-distribution sets and functions to make them.

Images are [row, height, width] or [row, height, width, channel]. Nothing is changed in place;
random numbers come from ``np.random.default_rng(seed)``.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from anchored.datasets.words import Vocabulary
from anchored.errors import bad_value

_WHITE = 255  # the brightest value of a uint8 pixel
_N_RARE = 100  # words that Random 3 draws from


class HeldOut(NamedTuple):
    """The kept rows with renumbered labels, and the held-out rows with their old labels."""

    x: np.ndarray
    y: np.ndarray
    held_x: np.ndarray
    held_y: np.ndarray


def hold_out(x: np.ndarray, y: np.ndarray, classes: Iterable[int]) -> HeldOut:
    """Hold out all rows of some ``classes``; the other classes are renumbered in order, without
    gaps.

    The new label of a class depends only on ``classes``, so it is the same in the training and the
    test part. ``held_y`` keeps the old labels.
    """
    gone = np.unique(np.fromiter(classes, np.int64))
    absent = np.setdiff1d(gone, y)
    if len(absent):
        raise bad_value("classes", gone.tolist(), f"labels of `y`, which has no {absent[0]}")
    held = np.isin(y, gone)
    kept = y[~held]
    renumbered = (kept - np.searchsorted(gone, kept)).astype(y.dtype)
    return HeldOut(x[~held], renumbered, x[held], y[held])


def rotate(x: np.ndarray) -> np.ndarray:
    """Images turned by 90 degrees, counter-clockwise; the paper does not name its angle."""
    return np.rot90(x, axes=(1, 2))


def flip(x: np.ndarray) -> np.ndarray:
    """Images upside down."""
    return x[:, ::-1]


def invert(x: np.ndarray) -> np.ndarray:
    """The negative of images: -x of standardised values (floats), 255 - x of uint8 pixels.

    The paper took the negative of the values that the network sees. To do the same, standardise
    first; the mean grey then does not change.
    """
    if x.dtype == np.uint8:
        return _WHITE - x
    if not np.issubdtype(x.dtype, np.floating):
        raise bad_value("x", x.dtype.name, "an array of uint8 pixels or of floats")
    return -x


def scramble(seed: int, x: np.ndarray) -> np.ndarray:
    """The pixels in each row of each image, shuffled in a different order; a pixel keeps its
    channels.
    """
    order = np.random.default_rng(seed).random(x.shape[:3]).argsort(axis=2)
    return np.take_along_axis(x, order.reshape(order.shape + (1,) * (x.ndim - 3)), axis=2)


def gaussian_noise(seed: int, n: int, shape: tuple[int, ...], std: float = 2.0) -> np.ndarray:
    """Normal values of mean 0, float32 [n, *shape], as if standardised."""
    rng = np.random.default_rng(seed)
    return np.float32(std) * rng.standard_normal((n, *shape), dtype=np.float32)


def sparse_noise(
    seed: int, n: int, shape: tuple[int, ...], value: float = 50.0, p: float = 0.005
) -> np.ndarray:
    """Zeros, and ``value`` with probability ``p``: float32 [n, *shape], as if standardised."""
    hit = np.random.default_rng(seed).random((n, *shape), dtype=np.float32) < p
    return np.float32(value) * hit


def random_words_1(seed: int, n: int, length: int, vocabulary: Vocabulary) -> np.ndarray:
    """The paper's Random 1: one random word for each row, repeated; int32 [n, length]."""
    words = np.random.default_rng(seed).choice(vocabulary.numbers, (n, 1))
    return np.repeat(words, length, axis=1)


def random_words_2(seed: int, n: int, length: int, vocabulary: Vocabulary) -> np.ndarray:
    """The paper's Random 2: every word drawn at random, all equally likely; int32 [n, length]."""
    return np.random.default_rng(seed).choice(vocabulary.numbers, (n, length))


def random_words_3(seed: int, n: int, length: int, vocabulary: Vocabulary) -> np.ndarray:
    """The paper's Random 3: like Random 2, from the vocabulary's 100 least frequent words."""
    return np.random.default_rng(seed).choice(vocabulary.numbers[-_N_RARE:], (n, length))


def grey(x: np.ndarray) -> np.ndarray:
    """Colour images [row, height, width, 3] without colour: the mean of the channels.

    uint8 pixels are rounded and stay uint8.
    """
    mean = x.mean(axis=-1, dtype=np.float32 if x.dtype == np.uint8 else None)
    return mean.round().astype(np.uint8) if x.dtype == np.uint8 else mean


def colour(x: np.ndarray) -> np.ndarray:
    """Grey images [row, height, width] with three equal channels."""
    return np.repeat(x[..., None], 3, axis=-1)


def resize(x: np.ndarray, side: int) -> np.ndarray:
    """Images of ``side`` by ``side`` pixels: cut, or padded with zeros, equally on all sides.

    The scale does not change. Zero is black in raw pixels but not in standardised ones, so resize
    first. An odd pixel is cut or added at the bottom and right.
    """
    for axis in (1, 2):
        lack = side - x.shape[axis]
        if lack > 0:
            margin = [(0, 0)] * x.ndim
            margin[axis] = (lack // 2, lack - lack // 2)
            x = np.pad(x, margin)
        else:
            first = -lack // 2
            x = x.take(range(first, first + side), axis=axis)
    return x
