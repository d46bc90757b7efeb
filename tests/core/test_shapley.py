"""Shapley values on paths, beside closed forms."""

import itertools
import math

import numpy as np

from anchored import MLP
from anchored.core.shapley import Paths, walked


def by_definition(value, n):
    """Over all coalitions: value(set) -> number."""
    found = np.zeros(n)
    for i in range(n):
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for others in itertools.combinations([j for j in range(n) if j != i], size):
                found[i] += share * (value({*others, i}) - value(set(others)))
    return found


def test_pairs_of_paths_are_exact_for_interactions_of_two(rng):
    """A quadratic function of four columns, by the definition over all coalitions."""
    matrix, x, background = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=(5, 4))

    def mixed(columns):
        inside = np.isin(np.arange(4), list(columns))
        z = np.where(inside, x, background)
        return np.einsum("ri,ij,rj->r", z, matrix, z).mean()

    paths = Paths.drawn(0, 5, 4, 10)
    z = np.where(paths.rank[:, None] < np.arange(5)[:, None], x, background[paths.start][:, None])
    gains = paths.gains(np.einsum("psi,ij,psj->ps", z, matrix, z))
    np.testing.assert_allclose(gains.mean(axis=0), by_definition(mixed, 4), atol=1e-12)


def test_each_background_row_begins_as_many_paths():
    paths = Paths.drawn(0, 7, 3, 40)
    assert len(paths) == 42
    assert np.all(np.bincount(paths.start) == 6)
    assert np.all(np.sort(paths.rank, axis=1) == np.arange(3))
    assert np.all(paths.rank[::2] + paths.rank[1::2] == 2)


def test_members_walk_from_the_background_to_the_row(rng):
    network, column = MLP((4,)), np.array([0, 1, 1])
    params = tuple(
        {k: np.stack([v] * 2) for k, v in layer.items()}
        for layer in [
            {"weight": rng.normal(size=(3, 4)), "bias": np.zeros(4)},
            {"weight": rng.normal(size=(4, 1))},
        ]
    )
    x, start = rng.normal(size=3), rng.normal(size=(1, 3))
    way = walked(network, params, x, start, np.array([[1, 0]]), column)
    steps = np.array([start[0], [start[0, 0], x[1], x[2]], x])
    np.testing.assert_allclose(way.inputs[0], steps, rtol=1e-6)
    hidden = np.maximum(steps @ params[0]["weight"][0], 0)
    np.testing.assert_allclose(way.outputs[1, 0], hidden @ params[1]["weight"][0], rtol=1e-5)
