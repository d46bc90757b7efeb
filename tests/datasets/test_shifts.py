"""Each transform does what the paper says, and nothing else; the same seed gives the same."""

import numpy as np
import pytest

from anchored.datasets import Vocabulary
from anchored.datasets.shifts import (
    colour,
    flip,
    gaussian_noise,
    grey,
    hold_out,
    invert,
    random_words_1,
    random_words_2,
    random_words_3,
    resize,
    rotate,
    scramble,
    sparse_noise,
)

VOCABULARY = Vocabulary(tuple(f"word{i}" for i in range(500)))
RANDOM_WORDS = (random_words_1, random_words_2, random_words_3)


@pytest.fixture(params=[(6, 5, 7), (6, 5, 7, 3)], ids=["grey", "colour"])
def pixels(request, rng):
    return rng.integers(0, 256, request.param, np.uint8)


def test_held_out_classes_are_gone_and_the_rest_numbered_without_gaps():
    y = np.array([5, 0, 1, 8, 9, 1, 5, 2], np.uint8)
    x = np.arange(8)[:, None]
    out = hold_out(x, y, (8, 5))
    assert out.x[:, 0].tolist() == [1, 2, 4, 5, 7]
    assert out.y.tolist() == [0, 1, 7, 1, 2]
    assert out.y.dtype == y.dtype
    assert out.held_x[:, 0].tolist() == [0, 3, 6]
    assert out.held_y.tolist() == [5, 8, 5]


def test_new_labels_do_not_depend_on_which_rows_there_are():
    few = hold_out(np.zeros((3, 1)), np.array([1, 7, 9]), [1, 7])
    assert few.y.tolist() == [7]  # of 0, 2, 3, 4, 5, 6, 8, 9


def test_a_class_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"`classes` .* has no 10; got \[1, 10\]"):
        hold_out(np.zeros((3, 1)), np.array([0, 1, 2]), [10, 1])


def test_a_quarter_turn(pixels):
    turned = rotate(pixels)
    assert turned.shape == (6, 7, 5, *pixels.shape[3:])
    for i in range(5):
        for j in range(7):  # what was at the right is now on top
            np.testing.assert_array_equal(turned[:, 6 - j, i], pixels[:, i, j])
    np.testing.assert_array_equal(rotate(rotate(rotate(turned))), pixels)


def test_upside_down(pixels):
    flipped = flip(pixels)
    for i in range(5):
        np.testing.assert_array_equal(flipped[:, 4 - i], pixels[:, i])
    np.testing.assert_array_equal(flip(flipped), pixels)


def test_the_negative_of_pixels_and_of_standardised_values(pixels):
    negative = invert(pixels)
    assert negative.dtype == np.uint8
    np.testing.assert_array_equal(negative.astype(int) + pixels, 255)
    standardised = ((pixels - 100.0) / 50).astype(np.float32)
    np.testing.assert_array_equal(invert(standardised), -standardised)
    with pytest.raises(ValueError, match=r"`x` must be an array of uint8 .* got 'int64'"):
        invert(pixels.astype(np.int64))


def test_scrambled_rows_have_the_same_pixels_in_another_order():
    place = np.arange(4 * 8 * 32).reshape(4, 8, 32)
    x = np.stack([place, place + 10_000, place + 20_000], axis=-1)
    scrambled = scramble(0, x)
    np.testing.assert_array_equal(np.sort(scrambled, axis=2), x)  # rows stay, pixels stay whole
    orders = scrambled[..., 0] - 32 * np.arange(32).reshape(4, 8, 1)
    assert len({tuple(order) for order in orders.reshape(32, 32)}) == 32  # each its own
    assert not np.any(np.all(orders == np.arange(32), axis=2))
    np.testing.assert_array_equal(scramble(0, place), scrambled[..., 0])
    assert np.any(scramble(1, place) != scramble(0, place))


def test_every_order_of_a_row_is_equally_likely():
    scrambled = scramble(0, np.tile(np.arange(3), (6000, 1, 1)))[:, 0]
    _, counts = np.unique(scrambled, axis=0, return_counts=True)
    assert len(counts) == 6
    # 1,000 of each are expected, with a binomial deviation of 29.
    assert np.all(np.abs(counts - 1000) < 4 * np.sqrt(6000 / 6 * 5 / 6))


def test_gaussian_noise_has_its_moments():
    noise = gaussian_noise(0, 200, (28, 28))
    assert noise.shape == (200, 28, 28)
    assert noise.dtype == np.float32
    n = noise.size
    assert abs(noise.mean()) < 4 * 2 / np.sqrt(n)
    assert abs(noise.std() - 2) < 4 * 2 / np.sqrt(2 * n)
    np.testing.assert_allclose(gaussian_noise(0, 200, (28, 28), std=1.0) * 2, noise)


def test_sparse_noise_is_as_sparse_as_it_should_be():
    noise = sparse_noise(0, 100, (32, 32, 3))
    assert noise.shape == (100, 32, 32, 3)
    assert noise.dtype == np.float32
    assert set(np.unique(noise)) == {0.0, 50.0}
    n, p = noise.size, 0.005
    assert abs(np.count_nonzero(noise) - n * p) < 4 * np.sqrt(n * p * (1 - p))
    assert set(np.unique(sparse_noise(0, 10, (9,), value=3.0, p=0.5))) == {0.0, 3.0}


@pytest.mark.parametrize("draw", RANDOM_WORDS)
def test_random_words_are_words_of_the_vocabulary(draw):
    rows = draw(0, 50, 40, VOCABULARY)
    assert rows.shape == (50, 40)
    assert rows.dtype == np.int32
    assert rows.min() >= 2
    assert rows.max() < VOCABULARY.size
    assert not any("..." in text for text in VOCABULARY.decode(rows))


def spread(rows, words):
    """Counts of the words over what is expected if all are equally likely, in deviations."""
    counts = np.array([np.count_nonzero(rows == word) for word in words])
    p = 1 / len(words)
    return (counts - rows.size * p) / np.sqrt(rows.size * p * (1 - p))


def test_random_1_repeats_one_word_a_row():
    rows = random_words_1(0, 10_000, 5, VOCABULARY)
    assert np.all(rows == rows[:, :1])
    assert np.abs(spread(rows[:, 0], VOCABULARY.numbers)).max() < 4.5


def test_random_2_draws_all_words_alike():
    rows = random_words_2(0, 200, 200, VOCABULARY)
    assert np.abs(spread(rows, VOCABULARY.numbers)).max() < 4.5
    assert np.mean(rows[:, 1:] == rows[:, :-1]) < 0.01


def test_random_3_draws_the_hundred_rarest_words_alike():
    rows = random_words_3(0, 200, 200, VOCABULARY)
    assert set(np.unique(rows)) == set(VOCABULARY.numbers[-100:])
    assert np.abs(spread(rows, VOCABULARY.numbers[-100:])).max() < 4.5
    assert all(int(word[4:]) >= 400 for word in VOCABULARY.decode(rows[:1])[0].split())


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: gaussian_noise(seed, 5, (4, 4)),
        lambda seed: sparse_noise(seed, 50, (28, 28)),
        *(lambda seed, draw=draw: draw(seed, 5, 9, VOCABULARY) for draw in RANDOM_WORDS),
    ],
    ids=["gaussian", "sparse", "words-1", "words-2", "words-3"],
)
def test_the_seed_decides(draw):
    np.testing.assert_array_equal(draw(3), draw(3))
    assert np.any(draw(3) != draw(4))


def test_grey_is_the_mean_of_the_channels():
    x = np.array([[[[0, 0, 255], [10, 11, 11], [255, 255, 255]]]], np.uint8)
    assert grey(x).tolist() == [[[85, 11, 255]]]
    assert grey(x).dtype == np.uint8
    np.testing.assert_allclose(grey(x / 255), x.mean(axis=-1) / 255)
    assert grey(x.astype(np.float32)).dtype == np.float32


def test_colour_has_three_equal_channels_and_grey_undoes_it(rng):
    x = rng.integers(0, 256, (4, 5, 6), np.uint8)
    coloured = colour(x)
    assert coloured.shape == (4, 5, 6, 3)
    for channel in range(3):
        np.testing.assert_array_equal(coloured[..., channel], x)
    np.testing.assert_array_equal(grey(coloured), x)


def test_resize_cuts_or_pads_all_sides_alike(rng):
    x = rng.integers(1, 256, (2, 32, 32, 3), np.uint8)
    np.testing.assert_array_equal(resize(x, 28), x[:, 2:30, 2:30])
    np.testing.assert_array_equal(resize(x, 27), x[:, 2:29, 2:29])
    np.testing.assert_array_equal(resize(x, 32), x)
    wide = resize(x[:, 2:30, 2:30, 0], 32)
    np.testing.assert_array_equal(wide[:, 2:30, 2:30], x[:, 2:30, 2:30, 0])
    assert np.count_nonzero(wide) == 2 * 28 * 28
    assert resize(x, 35).shape == (2, 35, 35, 3)
    np.testing.assert_array_equal(resize(x, 35)[:, 1:33, 1:33], x)


def test_images_of_one_network_can_be_shown_to_another(rng):
    cifar = rng.integers(0, 256, (2, 32, 32, 3), np.uint8)
    digits = rng.integers(0, 256, (2, 28, 28), np.uint8)
    assert grey(resize(cifar, 28)).shape == digits.shape
    assert colour(resize(digits, 32)).shape == cifar.shape
