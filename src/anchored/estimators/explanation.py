"""Explains predictions: one record for some rows, and the text made from it."""

import dataclasses
from collections.abc import Sequence

import numpy as np

_SHOWN = 5  # columns named in a line
_DIGITS = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """What each column adds to a predicted quantity.

    ``value = usual + by_column.sum(axis=1)``, up to rounding.

    Attributes
    ----------
    value : [row, out], the predicted quantity.
    usual : [out], its average over the background rows.
    by_column : [row, column, out] what each column adds: its Shapley value.
    error : [row, column, out] standard errors of ``by_column``, due to the number of paths.
    """

    value: np.ndarray
    usual: np.ndarray
    by_column: np.ndarray
    error: np.ndarray

    def largest(self, row: int, out: int = 0, most: int = _SHOWN) -> list[tuple[int, float]]:
        """Numbers of the columns that add or subtract most, and what they add."""
        added = self.by_column[row, :, out]
        order = np.argsort(-np.abs(added), kind="stable")[:most]
        return [(int(i), float(added[i])) for i in order if added[i] != 0]


@dataclasses.dataclass(frozen=True, eq=False)
class Nearest:
    """The known rows that are nearest to each row.

    Attributes
    ----------
    rows : [row, k] their numbers, from 0, in the order in which they were given.
    distance : [row, k] in deviations of the inputs, columns that matter little counting little.
    targets : [row, k], or [row, k, out]; None if they are not known.
    """

    rows: np.ndarray
    distance: np.ndarray
    targets: np.ndarray | None


@dataclasses.dataclass(frozen=True, eq=False)
class Explanation:
    """Which columns drive predictions and their uncertainty; ``str`` puts it into words.

    Attributes
    ----------
    columns : their names.
    cells : [row][column], as text.
    outputs : names of the targets, or labels of the classes.
    mean : effects on the prediction in the target's units, or on the probability of each class.
    epistemic, aleatoric : effects on the two parts of the variance; for classes, of the entropy in
        nats.
    nearest : known rows that are like these.
    unusual : [row] remarks on cells unlike those of all known rows.
    """

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]
    mean: Effects
    epistemic: Effects
    aleatoric: Effects
    nearest: Nearest
    unusual: tuple[tuple[str, ...], ...]
    classes: bool = False

    def __len__(self) -> int:
        return len(self.cells)

    def __str__(self) -> str:
        return "\n\n".join(self.text(row) for row in range(len(self)))

    def text(self, row: int) -> str:
        """The explanation of one row in words."""
        out = self.main_output(row)
        lines = [f"Row {row}: {self._headline(row, out)}"]
        part = "entropy" if self.classes else "variance"
        for what, effects, of in (
            ("prediction", self.mean, out),
            (f"epistemic {part}", self.epistemic, min(out, self.epistemic.value.shape[1] - 1)),
            (f"aleatoric {part}", self.aleatoric, min(out, self.aleatoric.value.shape[1] - 1)),
        ):
            value, usual = number(effects.value[row, of]), number(effects.usual[of])
            said = self.told(effects, row, of) or "no column matters"
            lines.append(f"  {what} {value} (usually {usual}): {said}")
        lines += [f"  unusual: {remark}" for remark in self.unusual[row]]
        near = ", ".join(self.neighbours(row))
        if near:
            lines.append(f"  nearest known rows: {near}")
        return "\n".join(lines)

    def main_output(self, row: int) -> int:
        """The class that is predicted; else the first output."""
        return int(np.argmax(self.mean.value[row])) if self.classes else 0

    def told(self, effects: Effects, row: int, out: int = 0, most: int = _SHOWN) -> str:
        """The columns that add most, with their cells."""
        found = effects.largest(row, out, most)
        return "; ".join(
            f"{self.columns[i]}={self.cells[row][i]} {number(v, '+')}" for i, v in found
        )

    def neighbours(self, row: int) -> list[str]:
        """The nearest known rows in words."""
        said = []
        for place, number_of_row in enumerate(self.nearest.rows[row].tolist()):
            target = ""
            if self.nearest.targets is not None:
                value = self.nearest.targets[row, place]
                target = f", target {_shown(value)}"
            distance = number(float(self.nearest.distance[row, place]))
            said.append(f"row {number_of_row} (distance {distance}{target})")
        return said

    def _headline(self, row: int, out: int) -> str:
        value = number(self.mean.value[row, out])
        if self.classes:
            return f"{self.outputs[out]} with probability {value}"
        deviation = np.sqrt(self.epistemic.value[row, out] + self.aleatoric.value[row, out])
        name = f"{self.outputs[out]} " if len(self.outputs) > 1 else ""
        return f"{name}{value} +- {number(float(deviation))}"


def number(value: float, sign: str = "") -> str:
    """A number of a few digits."""
    return f"{float(value):{sign}.{_DIGITS}g}"


def _shown(value) -> str:
    if np.ndim(value):
        return " ".join(map(_shown, value))
    return number(float(value)) if isinstance(value, (float, int, np.number)) else str(value)


def as_cells(values: Sequence) -> list[str]:
    """Cells of a column as text."""
    return ["missing" if v is None or v != v else _shown(v) for v in values]
