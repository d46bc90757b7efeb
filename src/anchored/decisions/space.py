"""The search space: numbers, whole numbers and categories, and their coordinates in a unit cube.

A point is a dict of values by name. Internally, a point is a row of coordinates between 0 and 1. A
number has one coordinate. A category has one coordinate for each choice: that of the chosen one is
1, and the others are 0.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import qmc

from anchored.errors import bad_value

_ONE_HOT = 1 / math.sqrt(2)  # two choices are then as far apart as the ends of a number
_MOST_WHOLE = 2**53  # whole numbers that float64 tells apart


@dataclasses.dataclass(frozen=True)
class Float:
    """A number from ``low`` to ``high``; with ``log`` on a logarithmic scale."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self):
        _check_range(self, math.isfinite)

    def place(self, value: Any) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        low, high = self.ends
        return (self._scaled(value) - low) / (high - low)

    def value(self, place: float) -> float:
        """The value at a place between 0 and 1."""
        low, high = self.ends
        found = low + place * (high - low)
        return float(min(max(math.exp(found) if self.log else found, self.low), self.high))

    def allows(self, value: Any) -> bool:
        """Whether the dimension contains this value."""
        return _is_number(value) and self.low <= value <= self.high

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else float(value)

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest value on the scale of the search."""
        return self._scaled(self.low), self._scaled(self.high)


@dataclasses.dataclass(frozen=True)
class Integer:
    """A whole number from ``low`` to ``high``, both included; with ``log`` on a logarithmic
    scale.
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self):
        _check_range(self, lambda end: int(end) == end and abs(end) <= _MOST_WHOLE)

    @property
    def n_levels(self) -> int:
        """Number of different values."""
        return self.high - self.low + 1

    def place(self, value: Any) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        low, high = self.ends
        return (self._scaled(value) - low) / (high - low)

    def value(self, place: float) -> int:
        """The whole number at a place between 0 and 1."""
        low, high = self.ends
        found = low + place * (high - low)
        return int(min(max(round(math.exp(found) if self.log else found), self.low), self.high))

    def allows(self, value: Any) -> bool:
        """Whether the dimension contains this value."""
        return _is_number(value) and int(value) == value and self.low <= value <= self.high

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else float(value)

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest value on the scale of the search."""
        return self._scaled(self.low - 0.5), self._scaled(self.high + 0.5)


@dataclasses.dataclass(frozen=True)
class Category:
    """One of some choices: texts, numbers, true, false or None, without an order."""

    choices: tuple

    def __post_init__(self):
        object.__setattr__(self, "choices", tuple(self.choices))
        plain = (str, int, float, bool, type(None))
        if len(self.choices) < 2 or not all(isinstance(c, plain) for c in self.choices):
            raise bad_value("choices", self.choices, "two or more texts, numbers, flags or None")
        if len({_tag(c) for c in self.choices}) < len(self.choices):
            raise bad_value("choices", self.choices, "different from each other")

    def index(self, value: Any) -> int:
        """Position of a choice in ``choices``."""
        return [_tag(c) for c in self.choices].index(_tag(value))

    def allows(self, value: Any) -> bool:
        """Whether the dimension contains this value."""
        return _tag(value) in {_tag(c) for c in self.choices}


Dimension = Float | Integer | Category


def _tag(value: Any) -> tuple[str, Any]:
    """Tells True from 1."""
    return type(value).__name__, value


def _is_number(value: Any) -> bool:
    numeric = isinstance(value, (int, float, np.integer, np.floating))
    return numeric and not isinstance(value, bool) and math.isfinite(value)


def _check_range(dimension: Float | Integer, fits) -> None:
    low, high = dimension.low, dimension.high
    if not (_is_number(low) and _is_number(high) and fits(low) and fits(high) and low < high):
        raise bad_value("low, high", (low, high), "two numbers of this kind, the lower one first")
    if dimension.log and low <= 0:
        raise bad_value("low", low, "above 0 for a logarithmic scale")


@dataclasses.dataclass(frozen=True)
class Space:
    """Named dimensions.

    Examples
    --------
    >>> from anchored.decisions import Category, Float, Integer, Space
    >>> space = Space({"rate": Float(1e-4, 1.0, log=True), "depth": Integer(1, 8)})
    >>> space.encode([{"rate": 0.01, "depth": 1}]).tolist()
    [[0.5, 0.0625]]
    >>> (found,) = space.decode([[0.5, 0.0625]])
    >>> round(found["rate"], 4), found["depth"]
    (0.01, 1)
    """

    names: tuple[str, ...]
    dimensions: tuple[Dimension, ...]

    def __init__(self, dimensions: Mapping[str, Dimension]):
        if not isinstance(dimensions, Mapping) or not dimensions:
            raise bad_value("space", dimensions, "a dict of dimensions by name, not empty")
        for name, dimension in dimensions.items():
            if not isinstance(name, str):
                raise bad_value("space", name, "named by texts")
            if not isinstance(dimension, Dimension):
                raise bad_value(f"space[{name!r}]", dimension, "a Float, an Integer or a Category")
        object.__setattr__(self, "names", tuple(dimensions))
        object.__setattr__(self, "dimensions", tuple(dimensions.values()))

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of coordinates of each dimension."""
        return tuple(len(d.choices) if isinstance(d, Category) else 1 for d in self.dimensions)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of a point: one for each number, one for each choice."""
        return sum(self.widths)

    @property
    def columns(self) -> np.ndarray:
        """The number of the dimension of each coordinate."""
        return np.repeat(np.arange(len(self.dimensions)), self.widths)

    def encode(self, points: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Coordinates [point, coordinate] of points, each checked."""
        rows = np.zeros((len(points), self.n_coordinates))
        starts = np.cumsum([0, *self.widths[:-1]])
        for row, point in zip(rows, points, strict=True):
            self._check(point)
            for name, dimension, start in zip(self.names, self.dimensions, starts, strict=True):
                if isinstance(dimension, Category):
                    row[start + dimension.index(point[name])] = 1.0
                else:
                    row[start] = dimension.place(point[name])
        return rows

    def decode(self, rows) -> list[dict[str, Any]]:
        """Points from coordinates: whole numbers are rounded, and the choice with the largest
        coordinate counts.
        """
        return [self._point(row) for row in np.asarray(rows, np.float64)]

    def snapped(self, rows) -> np.ndarray:
        """Coordinates moved to the nearest points of the space."""
        return self.encode(self.decode(rows))

    def features(self, rows):
        """Inputs for networks: numbers from -1 to 1, as NumPy or JAX arrays."""
        return features(rows, self.is_choice)

    @property
    def is_choice(self) -> np.ndarray:
        """Which coordinates belong to a category."""
        return np.repeat([isinstance(d, Category) for d in self.dimensions], self.widths)

    @property
    def steps(self) -> np.ndarray:
        """Number of levels of whole numbers [coordinate]; 0 for continuous numbers."""
        levels = [d.n_levels if isinstance(d, Integer) else 0 for d in self.dimensions]
        return np.repeat(levels, self.widths)

    def spread(self, seed: Sequence[int], n: int) -> np.ndarray:
        """Coordinates of ``n`` points that fill the space evenly (scrambled Sobol points)."""
        sampler = qmc.Sobol(len(self.dimensions), rng=np.random.default_rng(seed))
        places = sampler.random_base2(max(n - 1, 1).bit_length())[:n]
        return self._from_places(places)

    def random(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Coordinates of ``n`` independent random points."""
        return self._from_places(rng.uniform(size=(n, len(self.dimensions))))

    def _from_places(self, places: np.ndarray) -> np.ndarray:
        columns = []
        for dimension, place in zip(self.dimensions, places.T, strict=True):
            if isinstance(dimension, Category):
                n = len(dimension.choices)
                columns.append(np.eye(n)[np.minimum((place * n).astype(int), n - 1)])
            else:
                columns.append(place[:, None])
        rows = np.concatenate(columns, axis=1)
        return self.snapped(rows) if self.steps.any() else rows

    def _point(self, row: np.ndarray) -> dict[str, Any]:
        point, start = {}, 0
        for name, dimension, width in zip(self.names, self.dimensions, self.widths, strict=True):
            if isinstance(dimension, Category):
                point[name] = dimension.choices[int(np.argmax(row[start : start + width]))]
            else:
                point[name] = dimension.value(float(row[start]))
            start += width
        return point

    def _check(self, point: Mapping[str, Any]) -> None:
        if not isinstance(point, Mapping) or set(point) != set(self.names):
            raise bad_value("x", point, f"a dict with the names {', '.join(self.names)}")
        for name, dimension in zip(self.names, self.dimensions, strict=True):
            if not dimension.allows(point[name]):
                raise bad_value(f"x[{name!r}]", point[name], f"within {dimension}")


def features(rows, is_choice: np.ndarray):
    """Coordinates as networks take them; ``is_choice`` tells those of categories."""
    return (2 * rows - 1) * np.where(is_choice, _ONE_HOT, 1.0)
