import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchored import Data
from anchored.core.rows import (
    ALL_RAMPS,
    LEAST_RAMPS,
    Standardiser,
    merge_rows,
    padded_size,
    ramps_of_a_column,
)
from anchored.datasets import six_points
from anchored.tables.memory import RAMPED_BYTES, RAMPED_COLUMNS, of_row


@given(st.integers(1, 10**7))
def test_padding_is_small_and_takes_few_sizes(n):
    size = padded_size(n)
    assert n <= size <= max(16, (1.5 if n <= 2048 else 1.13) * n)
    assert padded_size(size) == size


def test_a_hundred_rows_have_few_lengths():
    assert {padded_size(n) for n in range(50, 101)} == {64, 96, 128}


def test_padding_has_no_weight(rng):
    data = Data.make(rng.normal(size=(21, 2)), rng.normal(size=21), np.full(21, 2.0))
    assert data.x.shape[0] == padded_size(21) > 21
    assert data.total_weight == 42
    assert data.n_rows == 21
    assert float(data.weight[21:].sum()) == 0


@given(st.permutations(range(8)), st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_repeating_weighting_and_shuffling_give_the_same_rows(order, counts):
    if not any(counts):
        counts[0] = 1
    rng = np.random.default_rng(0)
    x, y, counts = rng.normal(size=(8, 3)), rng.normal(size=(8, 1)), np.array(counts)
    order = np.array(order)
    weighted = merge_rows(x[order], y[order], counts[order].astype(float))
    repeated = merge_rows(x.repeat(counts, 0), y.repeat(counts, 0), np.ones(counts.sum()))
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_that_differ_are_kept_apart():
    x = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [-0.0, 1.0]])
    y = np.array([[1.0], [1.0], [2.0], [1.0]])
    _, _, weight = merge_rows(x, y, np.ones(4))
    assert sorted(weight) == [1, 1, 2]  # minus zero is zero


def test_standardiser(rng):
    x = rng.normal(3.0, 5.0, size=(50, 2))
    weight = rng.integers(1, 4, 50)
    z = Standardiser.fit(x, weight.astype(float)).forward(x.repeat(weight, axis=0))
    np.testing.assert_allclose([z.mean(0), z.std(0) - 1], 0, atol=1e-12)


@pytest.mark.parametrize("factor", [1e-200, 1e12, 1e200])
def test_standardiser_is_free_of_units(factor, rng):
    x = rng.normal(size=(50, 1))
    plain, scaled = (Standardiser.fit(v, np.ones(50)).forward(v) for v in (x, x * factor))
    np.testing.assert_allclose(plain, scaled, rtol=1e-9)


def test_constant_columns_stay_finite():
    x = np.full((5, 1), 0.1)
    np.testing.assert_allclose(Standardiser.fit(x, np.ones(5)).forward(x), 0, atol=1e-15)


def test_images_share_one_scale(rng):
    images = rng.normal(2.0, 3.0, size=(10, 4, 4, 1))
    z = Standardiser.fit(images, np.ones(10)).forward(images)
    assert z.shape == images.shape
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)


def test_bad_rows_are_named():
    with pytest.raises(ValueError, match="must have the same number of rows; got 3, 2 and 3"):
        Data.make(np.zeros((3, 1)), np.zeros(2))
    with pytest.raises(ValueError, match="`weight` must be non-negative"):
        Data.make(np.zeros((2, 1)), np.zeros(2), [-1.0, 1.0])


def test_six_points():
    x, y = six_points()
    np.testing.assert_allclose(y, x[:, 0] * np.sin(5 * x[:, 0]))


def test_values_beyond_reach_count_as_at_its_end():
    """Up to four spans of the values beyond them nothing changes; then nothing more happens."""
    x = np.array([[0.0, 5.0], [10.0, 5.0]])
    plain = Standardiser.fit(x, np.ones(2))
    reached = plain.within_reach(x)
    near = np.array([[-40.0, 5.0], [50.0, 5.0], [3.0, 5.0]])
    np.testing.assert_array_equal(reached.forward(near), plain.forward(near))
    far = reached.forward(np.array([[-1e9, 5.0], [1e9, 7.0]]))
    np.testing.assert_array_equal(far, plain.forward(near[:2]))


def test_columns_with_values_far_out_have_a_limit(rng):
    """Single huge values leave the others as they are; well-behaved columns do not change."""
    x = rng.normal(size=(500, 3))
    x[0, 1] = 1e6
    x[:, 2] = rng.random(500) < 0.02  # a rare flag: its middle half has no width
    ones = np.ones(500)
    plain = Standardiser.fit(x, ones)
    robust = plain.robust(x, ones)
    z = robust.forward(x)
    np.testing.assert_allclose(z[:, [0, 2]], plain.forward(x)[:, [0, 2]])
    assert np.all(np.abs(z[:, 1]) < 4)
    assert z[0, 1] > 3.99
    usual = (x[1:, 1] - np.median(x[:, 1])) / robust.scale[1]
    assert robust.scale[1] == pytest.approx(1.0, abs=0.15)
    near = np.abs(usual) < 1
    np.testing.assert_allclose(z[1:, 1][near], usual[near], rtol=0.04, atol=0.01)
    assert np.all(np.diff(z[np.argsort(x[:, 1]), 1]) >= 0)
    tame = x[1:, :1]
    assert Standardiser.fit(tame, ones[1:]).robust(tame, ones[1:]).limit is None


def test_more_rows_give_a_column_more_ramps(rng):
    """As many rows a ramp, up to a share of those of all columns, and never fewer than eight."""
    asked = ((400, 3, 8), (4_000, 3, 20), (40_000, 1, 64), (40_000, 4, 40), (40_000, 100, 8))
    for n_rows, n_columns, expected in asked:
        assert ramps_of_a_column(n_rows, n_columns) == expected
    x, ones = rng.normal(size=(4_000, 3)), np.ones(4_000)
    scaler = Standardiser.fit(x, ones)
    found = scaler.with_ramps(x, ones, np.arange(3), dated=np.array([False, True, False])).ramps
    np.testing.assert_array_equal(np.bincount(found[0].astype(int)), [20, 8, 20])
    # A column's ramps together have the same part of its variance, however many there are.
    for column in range(3):
        heights = found[3, found[0] == column]
        assert np.sum(np.square(heights)) == pytest.approx(4 * 0.2)


def test_a_table_s_memory_counts_the_most_ramps_that_it_can_have():
    assert RAMPED_COLUMNS * LEAST_RAMPS == ALL_RAMPS
    for n_columns in (1, 3, 20, 50):
        most = n_columns * ramps_of_a_column(10**6, n_columns)
        assert most <= LEAST_RAMPS * max(n_columns, RAMPED_COLUMNS)
        assert of_row(n_columns, LEAST_RAMPS * n_columns) == RAMPED_BYTES * n_columns
