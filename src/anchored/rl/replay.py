"""A replay buffer on the device: a ring of rows for `anchored.advance`.

It has a fixed capacity and a count, so nothing is compiled again when rows are added, and inside a
compiled program rows are written in place. What training reads is a `Data` of the same arrays.

The penalty of the scaling contract is divided by N, the number of rows **seen so far**, including
those that the ring has dropped. The mean of the log likelihood over the buffer stands for the mean
over all N, so a member's loss is its negative log posterior over N given all rows it has seen. The
pull of the anchor has weight 1/N in the loss. It dominates while there are few rows and fades as
rows arrive. It never fades for parameters that no row affects.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from anchored.core.rows import Data
from anchored.core.tree import is_traced
from anchored.errors import bad_value
from anchored.typing import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Replay:
    """Rows x [place, ...] and y [place, target]: the newest ``capacity`` rows seen so far.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from anchored.rl import Replay
    >>> replay = Replay.make(3, 1, 1)
    >>> replay = replay.add(jnp.arange(5.0)[:3, None], jnp.zeros((3, 1)))
    >>> replay = replay.add(jnp.array([[7.0], [8.0]]), jnp.zeros((2, 1)))
    >>> int(replay.n_seen), int(replay.data.n_rows), replay.x[:, 0].tolist()
    (5, 3, [7.0, 8.0, 2.0])
    """

    x: Any
    y: Any
    n_seen: Any

    @classmethod
    def make(cls, capacity: int, n_inputs: int, n_targets: int) -> "Replay":
        """An empty buffer."""
        if not (isinstance(capacity, int) and capacity >= 1):
            raise bad_value("capacity", capacity, "a positive whole number")
        x, y = jnp.zeros((capacity, n_inputs)), jnp.zeros((capacity, n_targets))
        return cls(x, y, jnp.zeros((), jnp.int32))

    @property
    def capacity(self) -> int:
        """Number of transitions that there is room for."""
        return len(self.x)

    @property
    def data(self) -> Data:
        """The rows as training data: each counts once, and N is the number of rows seen so far."""
        n_rows: Any = jnp.minimum(self.n_seen, self.capacity)
        weight = (jnp.arange(self.capacity) < n_rows).astype(jnp.float32)
        total: Any = self.n_seen.astype(jnp.float32)
        return Data(self.x, self.y, weight, n_rows, total)

    def add(self, x: Array, y: Array, keep: Array | None = None) -> "Replay":
        """The buffer with more rows, of which only those with ``keep`` [row] count; they replace
        the oldest.

        There may be at most ``capacity`` new rows at a time.
        """
        keep = jnp.ones(len(x), bool) if keep is None else keep
        if not is_traced((self, keep)) and int(keep.sum()) > self.capacity:
            raise ValueError(
                f"`x` has {int(keep.sum())} rows and the buffer has room for {self.capacity}; "
                "make it with a larger `capacity`."
            )
        order = self.n_seen + jnp.cumsum(keep) - 1
        place = jnp.where(keep, order % self.capacity, self.capacity)  # beyond the end: dropped
        return Replay(
            self.x.at[place].set(x, mode="drop"),
            self.y.at[place].set(y, mode="drop"),
            self.n_seen + keep.sum(dtype=jnp.int32),
        )
