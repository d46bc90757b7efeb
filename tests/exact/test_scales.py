"""The scale of a target is found by rows held out one at a time."""

import numpy as np
import pytest

from anchored.exact import gp, scales
from anchored.exact.evidence import Twin
from anchored.exact.kernels import Kernel


def test_leave_one_out_is_that_of_models_without_the_row(rng):
    x, y, weight = rng.normal(size=(12, 2)), rng.normal(size=(12, 1)), rng.uniform(0.5, 2, 12)
    kernel, noise = Kernel.paper(5.0, 2, (1,), "relu"), np.array([0.2])
    residual, variance = gp.leave_one_out(kernel, x, y, noise, weight)
    for i in range(12):
        rest = np.arange(12) != i
        left = gp.condition(kernel, x[rest], y[rest], noise, weight[rest]).predict(x[i : i + 1])
        assert residual[i] == pytest.approx(y[i, 0] - left.mean[0, 0], rel=1e-6)
        assert variance[i] == pytest.approx(left.epistemic_var[0, 0] + 0.2 / weight[i], rel=1e-6)


@pytest.mark.parametrize(("noise", "found"), [("grows", True), ("even", False)])
def test_the_scale_follows_the_noise(rng, noise, found):
    x = rng.normal(size=(250, 2))
    trend = np.exp(1.0 + x[:, 0])
    y = trend * np.exp(0.3 * rng.normal(size=250))
    if noise == "even":  # shifted far up, the largest is no longer many times the median
        y = 4 + x[:, 0] + 0.3 * rng.normal(size=250)
        y[0] = 13.0
    chosen = scales.choose(Twin(2, (1,), "relu"), x, y, np.ones(250))
    assert (chosen is not None) == found


@pytest.mark.parametrize(
    "y", [np.full(100, 2.0), np.linspace(-1, 50, 100), np.linspace(90, 110, 100), np.zeros(100)]
)
def test_targets_without_another_scale(y):
    assert scales.candidates(y) == []


def test_zeros_are_not_put_far_below():
    y = np.concatenate([np.zeros(40), np.geomspace(1, 100, 60)])
    (only,) = scales.candidates(y)
    assert only.shift == np.median(y[y > 0])
    assert len(scales.candidates(y[40:])) == 2
