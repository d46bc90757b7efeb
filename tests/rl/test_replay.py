"""The ring holds the newest rows, counts all, and is written in place without compiling again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored.rl import Replay


def test_the_ring_holds_the_newest_rows(rng):
    replay, rows = Replay.make(7, 2, 1), []
    for n in (3, 5, 0, 7, 2, 6):
        x, keep = rng.normal(size=(n, 2)).astype(np.float32), rng.uniform(size=n) < 0.7
        replay = replay.add(jnp.asarray(x), jnp.asarray(x[:, :1] + 1), jnp.asarray(keep))
        rows += list(x[keep])
        held = np.asarray(replay.x)[: int(replay.data.n_rows)]
        expected = np.array(rows[-7:]).reshape(-1, 2)
        assert sorted(map(tuple, held)) == sorted(map(tuple, expected))
        np.testing.assert_array_equal(
            np.asarray(replay.y)[: len(held), 0], held[:, 0] + np.float32(1)
        )
        assert int(replay.n_seen) == float(replay.data.total_weight) == len(rows)
        np.testing.assert_array_equal(replay.data.weight, np.arange(7) < len(expected))
    assert len(rows) > 7


def test_rows_are_added_in_place_by_one_program():
    add = jax.jit(Replay.add, donate_argnums=0)
    replay = Replay.make(50_000, 4, 7)
    n_bytes = replay.x.nbytes + replay.y.nbytes
    x, y, keep = jnp.zeros((10, 4)), jnp.zeros((10, 7)), jnp.ones(10, bool)
    memory = add.lower(replay, x, y, keep).compile().memory_analysis()
    assert memory.alias_size_in_bytes >= n_bytes
    assert memory.temp_size_in_bytes < n_bytes / 100
    for _ in range(3):
        replay = add(replay, x, y, keep)
    assert add._cache_size() == 1
    assert int(replay.n_seen) == 30


def test_more_rows_than_room_are_refused():
    with pytest.raises(ValueError, match="`x` has 4 rows and the buffer has room for 3"):
        Replay.make(3, 1, 1).add(jnp.zeros((4, 1)), jnp.zeros((4, 1)))
    with pytest.raises(ValueError, match="`capacity` must be a positive whole number; got 0"):
        Replay.make(0, 1, 1)
