"""Rows the way the core trains on them: weighted, merged, standardised and padded."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.mapped import taken
from anchored.core.packing import Layout, is_several
from anchored.core.precision import checked_dtype, doubled, real_type
from anchored.core.tree import is_traced, on_device
from anchored.errors import bad_value
from anchored.prediction.special import limited, with_ramps
from anchored.typing import Array

_PIECE_BYTES = 2**26  # read at a time from rows that stay where they are
_TABLE_ROWS, _IMAGE_ROWS = 16_384, 512
_BLOCK_ROWS = 2**20  # of long columns that are computed on at a time
_LEAST_LENGTH, _FEW_LENGTHS = 16, 2_048  # of padded rows: the least; very few up to here
_FAR_OUT = 12.0  # deviations; a column with values beyond has a limit ...
_LIMIT = 4.0  # ... of as many units of its middle half
_REACH = 4.0  # spans of the training values that inputs are followed beyond them
# Ramps of a column: the least, and with many rows the most; of all columns, if they have more.
LEAST_RAMPS, _MOST_RAMPS, ALL_RAMPS = 8, 64, 160
_ROWS_PER_RAMP = 200
_RAMP_SHARE = 0.2  # their variance as a share of the column's own
_MANY_VALUES = 10_000  # that are looked at to count those
_LEAST_VALUES = 4  # different ones in a column with ramps
_QUARTILES = 1.349  # deviations between the quartiles of a normal distribution
_AS_IT_IS = 2.0**25  # no whole number that is held as a real one lies beyond
_ROUNDING = 1e-7  # of a deviation that is a difference of squares, relative to the mean

# Changes a batch of inputs at random, as they are before standardising: (generator, x) -> x.
Augment = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Data:
    """Training rows on the device; inputs too large for it stay `HostRows`.

    There may be room for more rows; empty places have weight zero. `make` rounds the number of
    places up, so that data sets of similar size share one compiled program. `with_capacity` makes
    room for later rows, except with `HostRows`.

    Attributes
    ----------
    x : [place, ...], y : [place, target], weight : [place].
    n_rows : number of rows; they fill the first places.
    total_weight : N of the scaling contract: the sum of the weights.
    layout : how several input arrays are packed into one; None if there is only one.
    dtype : number type of training: float32, float64 or bfloat16.

    >>> import numpy as np
    >>> from anchored import Data
    >>> data = Data.make(np.zeros((3, 2)), [1.0, 2.0, 3.0], weight=[1.0, 1.0, 2.0])
    >>> int(data.n_rows), float(data.total_weight)
    (3, 4.0)
    """

    x: Any
    y: Array
    weight: Array
    n_rows: int
    total_weight: float
    layout: Layout | None = dataclasses.field(default=None, metadata={"static": True})
    dtype: str = dataclasses.field(default="float32", metadata={"static": True})

    @classmethod
    @doubled(lambda *given, **named: named.get("dtype") == "float64")
    def make(cls, x, y, weight=None, *, dtype: str = "float32") -> "Data":
        """Data from arrays x [batch, ...], y [batch] or [batch, target] and weights [batch].

        A weight w counts a row w times; rows of weight zero do not count at all. Inputs may be a
        dict or a tuple of arrays. ``dtype`` is the number type of training: float32, float64 or
        bfloat16.
        """
        real = real_type(checked_dtype(dtype))
        layout = Layout.of(x) if is_several(x) else None
        x = x if layout is None else layout.pack(x)
        x = x if isinstance(x, HostRows) else np.asarray(x)
        y, weight = _rows_like(x, y, weight)
        if not (len(x) and np.any(weight > 0)):
            raise ValueError("`weight` must be non-negative with at least one row above zero.")
        if isinstance(x, HostRows):
            inputs, size = dataclasses.replace(x, real=real), len(x)
        else:
            size = padded_size(len(x))
            inputs = _padded(x, size, input_type(x.dtype, real))
        y, places = _padded(y, size, real), _padded(weight, size, real)
        return cls(inputs, y, places, len(x), float(np.sum(weight)), layout, dtype)

    @property
    def is_double(self) -> bool:
        """Whether the rows are in double precision."""
        return self.dtype == "float64"

    @doubled(lambda self, *given: self.is_double)
    def with_capacity(self, n: int) -> "Data":
        """The same rows, with room for ``n`` rows in total."""
        if isinstance(self.x, HostRows) or n < self.n_rows:
            raise bad_value(
                "n", n, f"at least {self.n_rows}, the number of rows, which must be in memory"
            )
        x, y, weight = (
            _padded(np.asarray(a)[: self.n_rows], n, a.dtype) for a in (self.x, self.y, self.weight)
        )
        return dataclasses.replace(self, x=x, y=y, weight=weight)

    @doubled(lambda self, *given, **named: self.is_double)
    def append(self, x, y, weight=None) -> "Data":
        """The data with more rows at the end, in the room that `with_capacity` made.

        It also works inside a compiled function. The caller must then make sure that there is room,
        and that ``x``, ``y`` [batch, target] and ``weight`` are arrays with the same number of
        rows.
        """
        if self.layout is not None:
            x = self.layout.pack(x)
        if not is_traced(self.n_rows):
            room = len(self.weight) - int(self.n_rows)
            y, weight = _rows_like(x, y, weight)
            if len(x) > room:
                raise ValueError(
                    f"`x` has {len(x)} rows and there is room for {room}; make more room with "
                    "`data.with_capacity(n)`."
                )
        weight = jnp.ones(len(x)) if weight is None else jnp.asarray(weight)
        rows = (jnp.asarray(x), jnp.asarray(y), weight)
        x, y, weight = _written((self.x, self.y, self.weight), rows, self.n_rows)
        total: Any = self.total_weight + rows[2].sum()
        total = total if is_traced(total) else float(total)
        return Data(x, y, weight, self.n_rows + len(rows[0]), total, self.layout, self.dtype)


def _rows_like(x, y, weight) -> tuple[np.ndarray, np.ndarray]:
    """Targets [batch, target] and weights [batch] that belong to inputs ``x``, checked."""
    y, weight = np.asarray(y), same_weights(len(x)) if weight is None else np.asarray(weight)
    if not len(x) == len(y) == len(weight):
        raise ValueError(
            f"`x`, `y` and `weight` must have the same number of rows; got {len(x)}, {len(y)} "
            f"and {len(weight)}."
        )
    if not np.all(weight >= 0):
        raise ValueError("`weight` must be non-negative with at least one row above zero.")
    return y[:, None] if y.ndim == 1 else y, weight


def same_weights(n_rows: int) -> np.ndarray:
    """One for each row, which take no memory."""
    return np.broadcast_to(1.0, n_rows)


@jax.jit
def _written(arrays, rows, start):
    """Rows put into the places from ``start`` on."""

    def into(array: Array, some: Array) -> Array:
        at = (start, *[0] * (array.ndim - 1))
        return jax.lax.dynamic_update_slice(array, some.astype(array.dtype), at)

    return jax.tree.map(into, arrays, rows)


@dataclasses.dataclass(frozen=True)
class HostRows:
    """Inputs [row, ...] that stay where they are, in a memory-mapped file say, until needed.

    Indexing reads, standardises and returns rows; `batch` changes them at random first.

    Attributes
    ----------
    source : the inputs as they are.
    index : [row] their numbers in ``source``.
    standardiser : what is done to them when they are read.
    augment : what is done to them before that when they are trained on.
    real : type of real numbers that are read.
    """

    source: np.ndarray
    index: np.ndarray
    standardiser: "Standardiser"
    augment: Augment | None = None
    real: Any = np.float32

    def __len__(self) -> int:
        return len(self.index)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.source.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """Number type of the rows that are read."""
        return np.dtype(np.int32 if self.standardiser.keeps_type else self.real)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.source.shape[1:])) * self.dtype.itemsize

    def __getitem__(self, rows) -> np.ndarray:
        return self._read(taken(self.source, self.index[rows]))

    def batches(self, rows: np.ndarray, rngs: Iterable[np.random.Generator]) -> Iterator:
        """Rows [step, batch, ...] as they are trained on, numbers [step, batch] in one go."""
        found = taken(self.source, self.index[rows.ravel()])
        found = found.reshape(*rows.shape, *self.source.shape[1:])
        for x, rng in zip(found, rngs, strict=True):
            yield self._read(x if self.augment is None else self._augmented(x, rng))

    def _augmented(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        assert self.augment is not None
        made = self.augment(rng, x)
        if np.shape(made) != x.shape:
            raise ValueError(
                f"`augment` must keep the shape of a batch, {x.shape}; it made {np.shape(made)}."
            )
        return made

    def take(self, rows) -> "HostRows":
        """Some of the rows; nothing is read yet."""
        return dataclasses.replace(self, index=self.index[rows])

    def pieces(self) -> Iterator[np.ndarray]:
        """All rows, a few at a time, as they are."""
        size = max(1, _PIECE_BYTES // max(1, self.row_bytes))
        for start in range(0, len(self), size):
            yield taken(self.source, self.index[start : start + size])

    def _read(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.standardiser.forward(x), self.dtype)


def rows_at_once(x) -> int:
    """Most rows of inputs ``x`` to bring through a network at a time.

    Inside a network, images and texts become much larger; rows of a table stay small.
    """
    is_table = len(x.shape) == 2 and not np.issubdtype(x.dtype, np.integer)
    return _TABLE_ROWS if is_table else _IMAGE_ROWS


def input_type(dtype, real: Any = np.float32) -> Any:
    """What inputs are held as on the device: whole numbers stay whole."""
    return np.int32 if np.issubdtype(dtype, np.integer) else real


def padded_size(n: int) -> int:
    """The least of a few lengths that is at least n.

    Up to 2,048 they are 2^k and 3 * 2^k from 16 on; beyond, m * 2^k with 8 <= m < 16.
    """
    step = 1 << max(n.bit_length() - (2 if n <= _FEW_LENGTHS else 4), 0)
    return max(_LEAST_LENGTH, -(-n // step) * step)


def blocks(n_rows: int) -> Iterator[slice]:
    """Rows in parts so small that intermediate results take little memory."""
    for start in range(0, n_rows, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, n_rows))


def in_blocks(function: Callable[[np.ndarray], np.ndarray], y: np.ndarray) -> np.ndarray:
    """A function of each row [row, target], computed in parts."""
    found = np.empty(y.shape)
    for some in blocks(len(y)):
        found[some] = function(y[some])
    return found


def _padded(array: np.ndarray, size: int, dtype) -> Array:
    out = np.zeros((size, *array.shape[1:]), dtype)
    out[: len(array)] = array
    return on_device(out)


@dataclasses.dataclass(frozen=True)
class Standardiser:
    """z = (x - mean) / scale, column by column; constant columns keep scale one.

    Values beyond the ``reach`` of a column are moved to its end. Where a column has a
    ``limit``, z is then bent smoothly so that it stays within it. Columns may have ``ramps``, which
    stand behind all columns: a piecewise-linear function of z is a linear one of its ramps.
    """

    mean: np.ndarray
    scale: np.ndarray
    keeps_type: bool = False  # leaves its input as it is, type included
    limit: np.ndarray | None = None  # [column]; infinite for none
    reach: np.ndarray | None = None  # [2, column], standardised
    ramps: np.ndarray | None = None  # [4, ramp]: see `with_ramps`

    @classmethod
    def fit(cls, x: np.ndarray, weight: np.ndarray) -> "Standardiser":
        """Weighted mean and deviation of each column of x [batch, column].

        Arrays of higher rank (images) get one mean and one deviation for all their values.
        """
        if x.ndim > 2:
            share, rows = weight / weight.sum(), x.reshape(len(x), -1)
            mean = share @ rows.mean(axis=1)
            scale = np.sqrt(share @ np.square(rows - mean).mean(axis=1))
            return cls(np.asarray(mean), np.asarray(scale if scale > 0 else 1.0))
        # Dividing by the largest value first keeps squares of huge numbers finite.
        most = [np.max(np.abs(x[some]), axis=0) for some in blocks(len(x))]
        unit = np.maximum(np.max(most, axis=0), np.finfo(np.float64).tiny)
        total = weight.sum()
        mean = sum((weight[b] / total) @ (x[b] / unit) for b in blocks(len(x)))
        square = sum((weight[b] / total) @ np.square(x[b] / unit - mean) for b in blocks(len(x)))
        scale = np.sqrt(square)
        # Columns constant up to rounding carry no information: do not blow the rounding up.
        scale = np.where(scale > 1e-12 * np.abs(mean), scale * unit, 1.0)
        return cls(mean * unit, scale)

    @classmethod
    def identity(cls) -> "Standardiser":
        """Leaves its input as it is, type included."""
        return cls(np.zeros(()), np.ones(()), keeps_type=True)

    @classmethod
    def of_rows(cls, rows: HostRows, weight: np.ndarray) -> "Standardiser":
        """What `fit` gives, reading each row once and few at a time."""

        def averaged(values: np.ndarray) -> np.ndarray:  # [row] of images, [row, column] of tables
            return values if values.ndim == 2 else values.reshape(len(values), -1).mean(axis=1)

        share, start, mean, square = weight / weight.sum(), 0, 0.0, 0.0
        for piece in rows.pieces():
            values, some = piece.astype(np.float64), share[start : start + len(piece)]
            mean = mean + some @ averaged(values)
            square = square + some @ averaged(np.square(values))
            start += len(piece)
        mean, scale = np.asarray(mean), np.sqrt(np.maximum(square - np.square(mean), 0.0))
        # What is constant up to rounding carries no information.
        return cls(mean, np.where(scale > _ROUNDING * np.abs(mean), scale, 1.0))

    def robust(self, x: np.ndarray, weight: np.ndarray) -> "Standardiser":
        """With a limit for columns that have values far out.

        They are centred on their median, in units of their middle half: single huge values
        neither squeeze all others together nor pull at the networks.
        """
        far = np.max(np.abs(x - self.mean), axis=0) > _FAR_OUT * self.scale
        if not far.any():
            return self
        low, middle, high = (
            np.quantile(x, q, axis=0, weights=weight, method="inverted_cdf")
            for q in (0.25, 0.5, 0.75)
        )
        unit = np.where(high > low, (high - low) / _QUARTILES, self.scale)
        return Standardiser(
            np.where(far, middle, self.mean),
            np.where(far, unit, self.scale),
            limit=np.where(far, _LIMIT, np.inf),
        )

    def within_reach(self, x: np.ndarray, flags: np.ndarray | None = None) -> "Standardiser":
        """With a reach of four times what the values span, on either side of them.

        Networks continue in straight lines: the prediction for a mistyped cell would have no bound.
        ``flags`` [column] may later be 0 or 1, also if they were always 0.
        """
        ends = np.stack([x.min(axis=0), x.max(axis=0)])
        if flags is not None:
            ends = np.where(flags, np.stack([np.minimum(ends[0], 0), np.maximum(ends[1], 1)]), ends)
        z = (ends - self.mean) / self.scale
        beyond = _REACH * (z[1] - z[0])
        return dataclasses.replace(self, reach=z + np.stack([-beyond, beyond]))

    def with_ramps(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        columns: np.ndarray,
        dated: np.ndarray | None = None,
    ) -> "Standardiser":
        """With ramps between quantiles of ``columns`` (numbers), where they have many values.

        With more rows a column gets more ramps, unless it is ``dated`` [column]. Rows of one date
        share what happened on it, so they carry less information than as many other rows.
        """
        z = self.forward(x)
        columns = np.array([j for j in columns if _has_many_values(z[:, j])], int)
        few = np.zeros(z.shape[1], bool) if dated is None else dated
        numbers = np.where(few, LEAST_RAMPS, ramps_of_a_column(len(z), int(np.sum(~few[columns]))))
        found = [ramp for j in columns for ramp in _ramps(int(j), z[:, j], weight, numbers[j])]
        return dataclasses.replace(self, ramps=np.array(found).T) if found else self

    def without_ramps(self) -> "Standardiser":
        return dataclasses.replace(self, ramps=None)

    @property
    def n_ramps(self) -> int:
        return 0 if self.ramps is None else self.ramps.shape[1]

    def of_columns(self, some: np.ndarray) -> "Standardiser":
        """For ``some`` columns alone; the others stay as they are, however far out they are."""
        assert self.reach is not None
        far = np.full(self.reach.shape, _AS_IT_IS) * np.array([[-1.0], [1.0]])
        return Standardiser(
            np.where(some, self.mean, 0.0),
            np.where(some, self.scale, 1.0),
            limit=None if self.limit is None else np.where(some, self.limit, np.inf),
            reach=np.where(some, self.reach, far),
        )

    def forward(self, x: np.ndarray) -> np.ndarray:
        if self.keeps_type:
            return x
        z = limited((x - self.mean) / self.scale, self.reach, self.limit)
        return with_ramps(z, self.ramps)


def ramps_of_a_column(n_rows: int, n_columns: int) -> int:
    """How many ramps each of ``n_columns`` columns has, at most."""
    share = ALL_RAMPS // max(n_columns, 1)
    return max(min(n_rows // _ROWS_PER_RAMP, share, _MOST_RAMPS), LEAST_RAMPS)


def _has_many_values(z: np.ndarray) -> bool:
    return len(np.unique(z[:_MANY_VALUES])) >= _LEAST_VALUES


def _ramps(column: int, z: np.ndarray, weight: np.ndarray, number) -> list[tuple[float, ...]]:
    """From each quantile of the values z [row] of a column to the next; none if they are two."""
    levels = np.linspace(0, 1, number + 1)
    ends = np.unique(np.quantile(z, levels, weights=weight, method="inverted_cdf"))
    if len(ends) < 3:
        return []
    height = 2 * np.sqrt(_RAMP_SHARE / (len(ends) - 1))
    return [(column, start, end, height) for start, end in itertools.pairwise(ends.tolist())]


def merge_rows(x: np.ndarray, y: np.ndarray, weight: np.ndarray):
    """Drop rows of weight zero, merge equal rows, adding their weights, and shuffle.

    The result is in a random order that depends on the rows alone, so a fit is the same whether
    a row is repeated or weighted, and in whatever order the rows came.
    """
    keep = weight > 0
    x, y, weight = x[keep], y[keep], weight[keep]
    code = _row_codes(x) * np.uint64(0x9E3779B97F4A7C15) + _row_codes(y)
    order = np.argsort(code, kind="stable")
    x, y, weight, code = x[order], y[order], weight[order], code[order]
    again = np.flatnonzero(code[1:] == code[:-1]) + 1
    same = _equal_rows(x, again) & _equal_rows(y, again)
    starts = np.delete(np.arange(len(x)), again[same])
    order = _shuffled_order(len(starts))
    return x[starts[order]], y[starts[order]], np.add.reduceat(weight, starts)[order]


def _shuffled_order(n_rows: int) -> np.ndarray:
    """The same random order whenever there are as many rows."""
    return np.random.default_rng(0).permutation(n_rows)


def _equal_rows(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Whether each row of ``index`` equals the row before it."""
    return np.all(array[index] == array[index - 1], axis=tuple(range(1, array.ndim)))


def _row_codes(array: np.ndarray) -> np.ndarray:
    """A 64-bit code of each row: equal rows have equal codes, exact whatever their position."""
    flat = np.ascontiguousarray(array.reshape(len(array), -1), dtype=np.float64) + 0.0
    mixers = np.random.default_rng(0).integers(1, 2**63, flat.shape[1], dtype=np.uint64)
    code = np.zeros(len(flat), np.uint64)
    for column, mixer in zip(flat.view(np.uint64).T, mixers | np.uint64(1), strict=True):
        mixed = (column ^ (column >> np.uint64(29))) * mixer
        code += mixed ^ (mixed >> np.uint64(32))
    return code
