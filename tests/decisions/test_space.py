"""Points and coordinates are two ways to say the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchored.decisions import Category, Float, Integer, Space

SPACE = Space(
    {
        "rate": Float(1e-4, 1.0, log=True),
        "depth": Integer(1, 300, log=True),
        "share": Float(-2.0, 3.0),
        "n": Integer(-3, 4),
        "kind": Category(("a", None, True, 1)),
    }
)


@given(
    st.floats(1e-4, 1.0),
    st.integers(1, 300),
    st.floats(-2, 3),
    st.integers(-3, 4),
    st.integers(0, 3),
)
def test_decoding_undoes_encoding(rate, depth, share, n, kind):
    point = {"rate": rate, "depth": depth, "share": share, "n": n}
    point["kind"] = SPACE.dimensions[4].choices[kind]
    rows = SPACE.encode([point])
    assert rows.shape == (1, 8)
    assert ((rows >= 0) & (rows <= 1)).all()
    (back,) = SPACE.decode(rows)
    assert type(back["kind"]) is type(point["kind"])
    for name in ("depth", "n", "kind"):
        assert back[name] == point[name]
    for name in ("rate", "share"):
        assert math.isclose(back[name], point[name], rel_tol=1e-9, abs_tol=1e-9)


def test_levels_of_whole_numbers_are_equally_likely():
    rows = SPACE.random(np.random.default_rng(0), 8_000)
    counts = np.bincount([p["n"] + 3 for p in SPACE.decode(rows)], minlength=8)
    # 1,000 each, with a standard deviation of 30
    assert np.abs(counts - 1_000).max() < 4 * np.sqrt(1_000 * 7 / 8)


def test_points_that_fill_the_space_are_allowed_and_even():
    rows = SPACE.spread((0,), 64)
    assert len(rows) == 64
    np.testing.assert_allclose(SPACE.snapped(rows), rows, atol=1e-12)
    counts, _ = np.histogram(rows[:, 2], bins=8, range=(0, 1))
    assert (counts == 8).all()  # Sobol points


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Float(1.0, 0.0), "`low, high` must be two numbers"),
        (lambda: Float(0.0, math.inf), "`low, high`"),
        (lambda: Float(0.0, 1.0, log=True), "`low` must be above 0 for a logarithmic scale"),
        (lambda: Integer(0, 2.5), "`low, high`"),
        (lambda: Category(("a",)), "`choices` must be two or more"),
        (lambda: Category(("a", "a")), "`choices` must be different"),
        (lambda: Space({}), "`space` must be a dict"),
        (lambda: Space({"x": (0, 1)}), r"`space\['x'\]` must be a Float"),
        (lambda: SPACE.encode([{"rate": 1}]), "`x` must be a dict with the names rate"),
    ],
)
def test_what_is_wrong_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_values_outside_the_space_are_refused():
    point = {"rate": 0.1, "depth": 2, "share": 0.0, "n": 0, "kind": "a"}
    for name, value in (("rate", 2.0), ("depth", 2.5), ("n", True), ("kind", 1.0)):
        with pytest.raises(ValueError, match=rf"`x\['{name}'\]`"):
            SPACE.encode([point | {name: value}])
