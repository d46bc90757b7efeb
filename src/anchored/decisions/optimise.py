"""Bayesian optimisation: ask where to look, tell what was found.

    optimiser = Optimiser({"x": Float(0, 1)})
    (point,) = optimiser.ask()
    optimiser.tell(point, value)

The first points fill the space evenly. Later points come from a model of the function that is
fitted to all values so far. The first point of a batch has the highest expected improvement. Each
further point is the best point of one function drawn from the model, so the points differ (Thompson
sampling). The points depend only on the seed, the values told and the number of points asked so
far.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchored.decisions import keeping
from anchored.decisions.acquisition import (
    Belief,
    draw_trials,
    improvement_worth,
    search,
    search_functions,
)
from anchored.decisions.space import Dimension, Space
from anchored.decisions.surrogate import Known, Networks, Surrogate, Twin, normalised, standardised
from anchored.errors import bad_value, unknown_name

Point = Mapping[str, Any]
Allowed = Callable[[dict[str, Any]], bool]

SURROGATES: dict[str, Surrogate] = {
    "twin": Twin(),
    "rms": Networks("rms"),
    "anchored": Networks("anchored"),
}
ACQUISITIONS = ("auto", "improvement", "thompson")
_MOST_ROWS = 1_000  # values that the model is fitted to: the best half and the latest half
_N_BEST = 5  # points near which candidates are tried
_TRIES = 1_000  # draws for a point that is allowed


@dataclasses.dataclass(frozen=True)
class Told:
    """A point, its value (NaN for one that failed) and its constraints."""

    x: dict[str, Any]
    y: float
    constraints: tuple[float, ...] = ()

    @property
    def is_feasible(self) -> bool:
        """Whether the value is finite and every constraint holds."""
        return math.isfinite(self.y) and all(c <= 0 for c in self.constraints)


class Optimiser:
    """Finds the point of a space where a costly function is lowest, or highest.

    Parameters
    ----------
    space : a `Space`, or a dict of `Float`, `Integer` and `Category` by name.
    maximise : whether high values are good.
    surrogate : the model of the function: "twin" (the exact Gaussian process of an infinitely
        wide network), "rms" or "anchored" (trained networks), or a record of
        `anchored.decisions.surrogate` with settings of your own.
    acquisition : "improvement" (expected improvement under a Student-t), "thompson" (each point is
        the best of one drawn function), or "auto": improvement for the first point when no asked
        point is still open, and Thompson sampling for all others.
    n_initial : points that fill the space evenly before a model is fitted; by default two for each
        dimension, at least 4 and at most 20. Points that you `tell` without being asked count too.
    n_constraints : number of constraints. Each value comes with this many numbers, which must not
        be above 0; each has its own model.
    allowed : a cheap function of a point; points for which it is false are never asked.
    random_state : seed.

    Attributes
    ----------
    told : the `Told` so far.
    pending : points asked and not yet told.

    Examples
    --------
    >>> from anchored.decisions import Float, Optimiser
    >>> optimiser = Optimiser({"x": Float(-1.0, 2.0)}, random_state=0)
    >>> for _ in range(10):
    ...     (point,) = optimiser.ask()
    ...     optimiser.tell(point, (point["x"] - 1.0) ** 2)
    >>> abs(optimiser.best.x["x"] - 1.0) < 0.05
    True
    """

    def __init__(
        self,
        space: Space | Mapping[str, Dimension],
        *,
        maximise: bool = False,
        surrogate: str | Surrogate = "twin",
        acquisition: str = "auto",
        n_initial: int | None = None,
        n_constraints: int = 0,
        allowed: Allowed | None = None,
        random_state: int = 0,
    ):
        self.space = space if isinstance(space, Space) else Space(space)
        self.maximise = bool(maximise)
        if isinstance(surrogate, str) and surrogate not in SURROGATES:
            raise unknown_name("surrogate", surrogate, SURROGATES)
        self.surrogate = SURROGATES[surrogate] if isinstance(surrogate, str) else surrogate
        if acquisition not in ACQUISITIONS:
            raise unknown_name("acquisition", acquisition, ACQUISITIONS)
        self.acquisition = acquisition
        n_dimensions = len(self.space.dimensions)
        self.n_initial = min(max(2 * n_dimensions, 4), 20) if n_initial is None else n_initial
        for name, number, least in (
            ("n_initial", self.n_initial, 2),
            ("n_constraints", n_constraints, 0),
            ("random_state", random_state, 0),
        ):
            if not (isinstance(number, (int, np.integer)) and number >= least):
                raise bad_value(name, number, f"a whole number from {least} on")
        self.n_constraints, self.random_state = int(n_constraints), int(random_state)
        self.allowed = allowed
        self.told: list[Told] = []
        self.pending: list[dict[str, Any]] = []
        self.n_asked = 0

    @property
    def best(self) -> Told:
        """The best told point that meets all constraints."""
        feasible = [told for told in self.told if told.is_feasible]
        if not feasible:
            raise ValueError("No point told so far has a value and meets all constraints.")
        return min(feasible, key=lambda told: self._sign * told.y)

    @property
    def _sign(self) -> int:
        return -1 if self.maximise else 1

    def ask(self, n: int = 1) -> list[dict[str, Any]]:
        """``n`` points to evaluate; they are new points, as long as the space has any."""
        if not (isinstance(n, (int, np.integer)) and n >= 1):
            raise bad_value("n", n, "a positive whole number")
        seed, points = (self.random_state, self.n_asked), []
        n_first = min(n, max(self.n_initial - len(self.told) - len(self.pending), 0))
        if n_first:
            points += self._first_points(n_first)
        if n > n_first:
            few = len({_key(t.x) for t in self.told if math.isfinite(t.y)}) < 2
            later = self._random_points if few else self._model_points
            points += later(n - n_first, seed, points)
        self.pending += points
        self.n_asked += n
        return [dict(point) for point in points]

    def tell(self, x: Point | Sequence[Point], y, constraints=None) -> None:
        """Report the value of a point, or of several; NaN or an infinite value is a failure.

        ``constraints`` has ``n_constraints`` numbers for each point; a point is feasible if none is
        above 0.
        """
        one = isinstance(x, Mapping)
        points = [x] if one else list(x)
        values = np.asarray([y] if one else y, np.float64)
        if values.shape != (len(points),):
            raise bad_value("y", y, f"one number for each of {len(points)} points")
        limits = np.empty((len(points), 0))
        if constraints is not None or self.n_constraints:
            given = [] if constraints is None else constraints
            limits = np.asarray([given] if one else given, np.float64)
            limits = limits.reshape(len(points), -1) if limits.size else limits
            if limits.shape != (len(points), self.n_constraints) or not np.isfinite(limits).all():
                raise bad_value(
                    "constraints", constraints, f"{self.n_constraints} finite numbers a point"
                )
        self.space.encode(points)  # all are checked before any is taken
        for point, value, limit in zip(points, values, limits, strict=True):
            value = float(value) if np.isfinite(value) else math.nan
            plain = {name: _plain(point[name]) for name in self.space.names}
            self.told.append(Told(plain, value, tuple(map(float, limit))))
            keys = [_key(p) for p in self.pending]
            if _key(plain) in keys:
                self.pending.pop(keys.index(_key(plain)))

    # Files

    def save(self, path: str | Path) -> None:
        """Write the optimiser, except for ``allowed``, to one JSON file, whole or not at all."""
        keeping.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, allowed: Allowed | None = None) -> "Optimiser":
        """Load an optimiser from a file; it continues as the saved one would have."""
        return keeping.load(cls, Told, Path(path), allowed)

    # Points

    def _first_points(self, n: int) -> list[dict[str, Any]]:
        """The next of the points that fill the space."""
        done = len(self.told) + len(self.pending)
        rows = self.space.spread((self.random_state, 0), max(self.n_initial, done + n))
        points = self.space.decode(rows)[done : done + n]
        fine = [self.allowed is None or self.allowed(dict(point)) for point in points]
        spare = iter(self._random_points(fine.count(False), (self.random_state, done, 1), points))
        return [p if ok else next(spare) for p, ok in zip(points, fine, strict=True)]

    def _random_points(self, n: int, seed: tuple[int, ...], others) -> list[dict[str, Any]]:
        """Allowed points at random."""
        rng, found, seen = np.random.default_rng([*seed, 3]), [], self._seen(others)
        for attempt in range(_TRIES * max(n, 1)):
            if len(found) == n:
                return found
            (point,) = self.space.decode(self.space.random(rng, 1))
            new = _key(point) not in seen or attempt >= _TRIES * n // 2
            if new and (self.allowed is None or self.allowed(dict(point))):
                seen.add(_key(point))
                found.append(point)
        raise ValueError(
            f"`allowed` was false for nearly all of {_TRIES * n} random points: make the space "
            "smaller, so that more of it is allowed."
        )

    def _seen(self, others) -> set:
        return {_key(p) for p in (*(t.x for t in self.told), *self.pending, *others)}

    def _model_points(self, n: int, seed: tuple[int, ...], before) -> list[dict[str, Any]]:
        """By the models: expected improvement, Thompson sampling or one after the other."""
        rng = np.random.default_rng([*seed, 0])
        improves = self.acquisition == "improvement" or (
            self.acquisition == "auto" and not self.pending and not before
        )
        n_drawn = 0 if self.acquisition == "improvement" else n - improves
        rows, points = self._rows(), list(before)
        models = [self._fitted(rows, part, seed, n_drawn) for part in range(1 + self.n_constraints)]
        trials = draw_trials(self.space, rng, rows.best)
        trials = trials._replace(candidates=self._allowed_rows(trials.candidates))
        if improves:
            belief = rows.belief([model.moments() for model in models])
            ends, _ = search(improvement_worth, self.space, belief, trials)
            points += self._taken(ends, n - n_drawn, seed, points)
        if n_drawn:
            belief = rows.belief([model.functions() for model in models])
            for ends in search_functions(self.space, belief, trials)[0]:
                points += self._taken(ends, 1, (*seed, len(points)), points)
        return points[len(before) :]

    def _allowed_rows(self, rows: np.ndarray) -> np.ndarray:
        """Candidates that are allowed, repeated up to the same number."""
        if self.allowed is None:
            return rows
        kept = [i for i, p in enumerate(self.space.decode(rows)) if self.allowed(dict(p))]
        if not kept:
            kept_rows = self.space.encode(self._random_points(1, (self.random_state, 4), []))
            return np.repeat(kept_rows, len(rows), axis=0)
        return rows[np.resize(kept, len(rows))]

    def _taken(self, ends: np.ndarray, n: int, seed, others) -> list[dict[str, Any]]:
        """The first ends that are allowed and new; random points where there are none."""
        found, seen = [], self._seen(others)
        for point in self.space.decode(ends):
            fine = self.allowed is None or self.allowed(dict(point))
            if len(found) < n and fine and _key(point) not in seen:
                found.append(point)
                seen.add(_key(point))
        missing = n - len(found)
        if missing:
            found += self._random_points(missing, seed, [*others, *found])
        return found

    # Models

    def _rows(self) -> "_Rows":
        """The values told as arrays, failed ones at the worst value; low is good."""
        y = self._sign * np.array([t.y for t in self.told])
        y = np.where(np.isnan(y), np.nanmax(y), y)
        kept = np.arange(len(y))
        if len(y) > _MOST_ROWS:
            half = _MOST_ROWS // 2
            kept = np.union1d(np.argsort(y, kind="stable")[:half], kept[-half:])
        told = [self.told[i] for i in kept]
        u = self.space.encode([t.x for t in told])
        limits = np.array([t.constraints for t in told]).reshape(len(told), -1)
        feasible = np.array([t.is_feasible for t in told])
        scaled = normalised if self.surrogate.normalise else standardised
        return _Rows(u, scaled(y[kept]), limits, feasible)

    def _fitted(self, rows: "_Rows", part: int, seed: tuple[int, ...], n_drawn: int):
        """The model of the objective (part 0) or of a constraint."""
        columns = tuple(int(c) for c in self.space.columns)
        known = Known(self.space.features(rows.u), rows.values(part), columns)
        return self.surrogate.fit(known, (*seed, part), n_drawn)


@dataclasses.dataclass(frozen=True)
class _Rows:
    u: np.ndarray  # [row, coordinate]
    y: np.ndarray  # [row], scaled
    limits: np.ndarray  # [row, constraint]
    feasible: np.ndarray  # [row]

    def values(self, part: int) -> np.ndarray:
        """What a model is fitted to."""
        return self.y if part == 0 else standardised(self.limits[:, part - 1])

    @property
    def best(self) -> np.ndarray:
        """The points of lowest value, feasible ones first; always as many, or more is compiled."""
        return self.u[np.resize(np.lexsort((self.y, ~self.feasible))[:_N_BEST], _N_BEST)]

    def belief(self, models: list) -> Belief:
        best = self.y[self.feasible].min() if self.feasible.any() else math.nan
        scale = self.limits.std(axis=0)
        zeros = -self.limits.mean(axis=0) / np.where(scale > 0, scale, 1.0)
        # Functions are mapped one by one, so limits come as a tuple of numbers.
        return Belief(models[0], np.float64(best), tuple(models[1:]), tuple(zeros))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _key(point: Point) -> tuple:
    return tuple((name, type(v).__name__, v) for name, v in sorted(point.items()))
