"""What the targets of training rows say about each level of a column.

A column of hundreds of levels (a job title, a car's model) has too many for a feature each. The
mean target of a level contains most of the information in that level. A mean of few rows is drawn
towards the mean of all rows, and more so if the rows of one level differ widely. It is the
posterior mean if levels are drawn from a normal distribution. A second feature says how well the
level is known, from 0 (never seen) to 1.

A row's own target must not be part of its features, or networks would learn to read it there. So
training rows are divided into ten parts, and each part is described by the other nine. Equal rows
are spread evenly. If one part had them all, the other parts would say the opposite. The result does
not depend on the order of the rows.
"""

import dataclasses
import zlib
from statistics import NormalDist

import numpy as np

from anchored.tables.table import Table

_N_PARTS = 10
_MOST_CLASSES = 10  # that have a share of their own
_LEAST_BETWEEN = 1e-6  # variance between levels, as a share of the whole


@dataclasses.dataclass(frozen=True)
class Signals:
    """What is averaged over the rows of a level: ``values`` [row, signal], and their ``titles``."""

    titles: tuple[str, ...]
    values: np.ndarray
    weight: np.ndarray

    @classmethod
    def of_numbers(cls, y: np.ndarray, weight: np.ndarray | None = None) -> "Signals":
        """Normal scores of the ranks of targets [row, out]: huge values do not dominate a mean."""
        y = y.reshape(len(y), -1)
        ends = [""] if y.shape[1] == 1 else [f" {i}" for i in range(y.shape[1])]
        scores = np.stack([_normal_scores(column) for column in y.T], axis=-1)
        return cls(tuple(f"usual target{end}" for end in ends), scores, _weights(y, weight))

    @classmethod
    def of_classes(cls, y: np.ndarray, weight: np.ndarray | None = None) -> "Signals":
        """For each of the largest classes, whether a row belongs to it; for two classes, one
        suffices.
        """
        classes, counts = np.unique(y, return_counts=True)
        largest = classes[np.argsort(-counts, kind="stable")]
        shown = largest[:1] if len(classes) == 2 else largest[:_MOST_CLASSES]
        titles = tuple(f"share of {label}" for label in shown.tolist())
        return cls(titles, np.equal(y[:, None], shown).astype(float), _weights(y, weight))

    def take(self, rows: np.ndarray) -> "Signals":
        return Signals(self.titles, self.values[rows], self.weight[rows])


def _weights(y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.ones(len(y)) if weight is None else np.asarray(weight, float)


def _normal_scores(y: np.ndarray) -> np.ndarray:
    _, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / len(y)
    grid = np.linspace(0, 1, 2_049)[1:-1]
    scores = np.array([NormalDist().inv_cdf(level) for level in grid])
    return np.interp(middle, grid, scores)[places]


@dataclasses.dataclass(frozen=True)
class Means:
    """For each level the mean of every signal, and how well it is known [level, signal + 1]."""

    levels: dict[str, int]
    values: np.ndarray
    usual: np.ndarray  # of a level never seen

    @classmethod
    def fit(cls, cells: np.ndarray, signals: Signals) -> "Means":
        """From the cells [row] of a column; missing cells are no level."""
        names = sorted({cell for cell in cells.tolist() if cell is not None})
        levels = {name: place for place, name in enumerate(names)}
        places = np.array([levels.get(cell, -1) for cell in cells], int)
        there = places >= 0
        places, weight, values = places[there], signals.weight[there], signals.values[there]
        count = np.bincount(places, weight, len(levels))
        drawn = [_drawn(places, weight, column, count) for column in values.T]
        usual = np.array([*(mean for _, mean, _ in drawn), 0.0])
        known = np.mean([share for _, _, share in drawn], axis=0)
        return cls(levels, np.column_stack([*(mean for mean, _, _ in drawn), known]), usual)

    def at(self, cells: np.ndarray) -> np.ndarray:
        """For each cell, [row, signal + 1]."""
        places = np.array([self.levels.get(cell, -1) for cell in cells], int)
        return np.where(places[:, None] >= 0, self.values[places], self.usual)


def _drawn(places, weight, values, count) -> tuple[np.ndarray, float, np.ndarray]:
    """Mean of each level, drawn to that of all rows; the latter; and the weight of the former."""
    total = np.maximum(count, np.finfo(float).tiny)
    mean = np.bincount(places, weight * values, len(count)) / total
    square = np.bincount(places, weight * np.square(values), len(count)) / total
    whole, n_rows = np.average(values, weights=weight), count.sum()
    left = max(n_rows - len(count), 1.0)
    within = max(float(count @ (square - np.square(mean))), 0.0) / left
    spread = count @ np.square(mean - whole) - (len(count) - 1) * within
    size = max(n_rows - count @ count / n_rows, 1.0)
    between = max(spread / size, _LEAST_BETWEEN * np.average(np.square(values - whole)), 1e-300)
    share = count / (count + within / between)
    return whole + share * (mean - whole), float(whole), share


def parts_of(table: Table, signals: Signals) -> np.ndarray:
    """The part [row] of each row, dealt like cards in the order of a code of cells and target."""
    text = np.array([cells.astype(str) for cells in table.columns.values()], object)
    rows = ("\x1f".join(row) for row in zip(*text, *signals.values.T.astype(str), strict=True))
    codes = np.array([zlib.crc32(row.encode("utf-8", "replace")) for row in rows])
    parts = np.empty(len(codes), int)
    parts[np.argsort(codes, kind="stable")] = np.arange(len(codes)) % _N_PARTS
    return parts


def by_other_parts(cells: np.ndarray, signals: Signals, parts: np.ndarray) -> np.ndarray:
    """What `Means` of all other parts say about each training row."""
    out = np.empty((len(cells), signals.values.shape[1] + 1))
    for part in range(_N_PARTS):
        here = parts == part
        if here.any():
            rest = np.flatnonzero(~here)
            out[here] = Means.fit(cells[rest], signals.take(rest)).at(cells[here])
    return out
