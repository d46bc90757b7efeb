"""Expected improvement against numerical integration; the search against known optima."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from anchored.decisions import Category, Float, Integer, Space
from anchored.decisions.acquisition import (
    Belief,
    draw_trials,
    expected_improvement,
    improvement_worth,
    search,
)


@pytest.mark.parametrize("dof", [3.0, 9.0, 99.0])
@pytest.mark.parametrize("mean", [-2.0, 0.5, 6.0])
def test_expected_improvement_is_the_integral(dof, mean):
    best, scale = 0.3, 0.8
    student = stats.t(dof, loc=mean, scale=scale)
    exact, _ = integrate.quad(student.cdf, -np.inf, best, epsabs=0, epsrel=1e-9)
    with jax.enable_x64(True):
        found = expected_improvement(jnp.float64(mean), jnp.float64(scale), dof, best)
    assert float(found) == pytest.approx(exact, rel=1e-6)


def test_its_gradient_is_that_of_finite_differences():
    with jax.enable_x64(True):

        def value(v):
            return expected_improvement(v[0], jnp.exp(v[1]), 7.0, 0.2)

        at = jnp.array([0.7, -0.3])
        found = np.asarray(jax.grad(value)(at))
        step = 1e-6
        near = [(value(at + step * e) - value(at - step * e)) / (2 * step) for e in jnp.eye(2)]
    np.testing.assert_allclose(found, np.asarray(near), rtol=1e-6)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Bowl:
    """A belief of known optimum: x0 at 0.3, the whole number at 4, the category c."""

    dof: float = 20.0

    def __call__(self, z):
        x, n, kind = (z[:, 0] + 1) / 2, (z[:, 1] + 1) / 2, z[:, 2:]
        value = (x - 0.3) ** 2 + (n - 4.5 / 11) ** 2 - 0.1 * kind[:, 2]
        return value, jnp.full(len(z), 0.01)


def test_the_search_finds_numbers_whole_numbers_and_categories():
    space = Space({"x": Float(0, 1), "n": Integer(0, 10), "kind": Category(("a", "b", "c"))})
    trials = draw_trials(space, np.random.default_rng(0), np.empty((0, 5)))
    ends, worths = search(
        improvement_worth, space, Belief(_Bowl(), np.float64(0.1), (), ()), trials
    )
    (point,) = space.decode(ends[:1])
    assert point["n"] == 4
    assert point["kind"] == "c"
    assert point["x"] == pytest.approx(0.3, abs=2e-3)
    assert (np.diff(worths) <= 0).all()
