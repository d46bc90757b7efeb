"""Scales and marks of the pictures."""

import re

import numpy as np
import pytest

from anchored.reporting import svg


def test_ticks_are_round_and_inside(rng):
    for _ in range(300):
        low, span = rng.normal() * 10.0 ** rng.uniform(-8, 8), 10.0 ** rng.uniform(-8, 8)
        scale = svg.linear([low, low + span])
        places = np.array([place for place, _ in scale.ticks])
        assert 2 <= len(places) <= 8
        assert scale.low <= places.min() + 1e-9 * span
        assert places.max() <= scale.high + 1e-9 * span
        labels = [label for _, label in scale.ticks]
        assert len(set(labels)) == len(labels)
        shown = [float(s.replace("\N{MINUS SIGN}", "-").replace(",", "")) for s in labels]
        np.testing.assert_allclose(shown, places, atol=0.01 * span, rtol=1e-12)


@pytest.mark.parametrize("values", [[3.0], [0.0, 0.0], [np.nan, 1.0], [], [1e300, -1e300]])
def test_scales_of_odd_values_are_finite(values):
    scale = svg.linear(values)
    assert np.isfinite([scale.low, scale.high]).all()
    assert scale.low < scale.high


def test_marks_are_placed_in_data_units():
    frame = svg.Frame(svg.shares(), svg.shares(), "x", "y")
    wide, high = frame.inner
    (x, y), *_ = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', frame.dots([0.25], [0.75], "one"))
    assert (float(x), float(y)) == pytest.approx((0.25 * wide, 0.25 * high), abs=0.051)
    bar = frame.bars([0.0], [0.5], [0.2], [0.6], "one")
    width, height = re.search(r'width="([\d.]+)" height="([\d.]+)"', bar).groups()
    assert (float(width), float(height)) == pytest.approx((0.5 * wide, 0.4 * high), abs=0.051)
    gap = frame.line([0.0, 0.1, np.nan, 0.3, 0.4], [0.1] * 5, "one")
    assert gap.count("M") == 2
