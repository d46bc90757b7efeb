"""What a fit keeps in memory, so that rows can be added without a new fit.

None of this goes into a file, because files hold no training rows.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.ensembles import Ensemble
from anchored.core.loss import Folds
from anchored.estimators.inputs import Inputs
from anchored.estimators.rows import Rows
from anchored.tables.frames import as_table, is_frame
from anchored.tables.table import Table

MOST_CELLS = 2**24  # of inputs that are kept as they were given


class Known(NamedTuple):
    """Training rows as they were given, in the order in which they came."""

    x: Any  # array, `Table`, or a dict or tuple of arrays
    y: np.ndarray
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None

    @classmethod
    def of(cls, X, y, sample_weight=None, groups=None) -> "Known":
        """Copies, so that later changes to the user's arrays have no effect."""
        weight = None if sample_weight is None else np.array(sample_weight, np.float64)
        return cls(_copied(X), np.array(y), weight, None if groups is None else np.array(groups))

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def n_cells(self) -> int:
        if isinstance(self.x, Table):
            return self.x.n_rows * len(self.x.columns)
        return sum(leaf.size for leaf in jax.tree.leaves(self.x))

    def joined(self, later: "Known") -> "Known":
        """These rows, followed by others."""
        if (self.groups is None) != (later.groups is None):
            raise ValueError(
                "`groups` must be given for all rows or for none; earlier rows came "
                f"{'without' if self.groups is None else 'with'} them."
            )
        weight = None
        if self.weight is not None or later.weight is not None:
            parts = (np.ones(k.n_rows) if k.weight is None else k.weight for k in (self, later))
            weight = np.concatenate([*parts])
        groups = None
        if self.groups is not None and later.groups is not None:
            groups = np.concatenate([self.groups, later.groups])
        y = np.concatenate([self.y, later.y])
        return Known(_joined(self.x, later.x), y, weight, groups)

    def take(self, rows: np.ndarray) -> "Known":
        """Some of the rows."""
        x = self.x.take(rows) if isinstance(self.x, Table) else _each(lambda a: a[rows], self.x)
        weight, groups = (None if a is None else a[rows] for a in (self.weight, self.groups))
        return Known(x, self.y[rows], weight, groups)

    def thinned(self, n_rows: int) -> "Known":
        """A random sample of the rows, with weights that add up to those of all rows."""
        rows = np.sort(np.random.default_rng(0).permutation(self.n_rows)[:n_rows])
        some = self.take(rows)
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        kept = weight[rows]
        return some._replace(weight=kept * (weight.sum() / kept.sum()))


def _each(function, x: Any) -> Any:
    if isinstance(x, dict):
        return {name: function(part) for name, part in x.items()}
    return tuple(map(function, x)) if isinstance(x, tuple) else function(x)


def _copied(X: Any) -> Any:
    if not is_frame(X):
        return _each(np.array, X)
    table = as_table(X)
    columns = {name: cells.copy() for name, cells in table.columns.items()}
    return Table(columns, table.n_rows, keep=table.keep)


def _joined(x: Any, later: Any) -> Any:
    if isinstance(x, Table):
        columns = {name: _joined_cells(c, later.columns.get(name), len(later))
                   for name, c in x.columns.items()}  # fmt: skip
        return Table(columns, len(x) + len(later), keep=x.keep)
    if isinstance(x, dict):
        return {name: np.concatenate([part, later[name]]) for name, part in x.items()}
    if isinstance(x, tuple):
        return tuple(np.concatenate(pair) for pair in zip(x, later, strict=True))
    return np.concatenate([x, later])


def _joined_cells(cells: np.ndarray, later: np.ndarray | None, n_later: int) -> np.ndarray:
    """A column that no encoder uses may be missing later; numbers beside text become text."""
    if later is None:
        missing = None if cells.dtype == object else np.nan
        later = np.full(n_later, missing, cells.dtype)
    if cells.dtype == later.dtype:
        return np.concatenate([cells, later])
    return np.concatenate([_as_text(cells), _as_text(later)])


def _as_text(cells: np.ndarray) -> np.ndarray:
    if cells.dtype == object:
        return cells
    return np.array([None if v != v else f"{v:.17g}" for v in cells.tolist()], dtype=object)


class Prepared(NamedTuple):
    """What training starts from, and what it takes to finish it."""

    inputs: Inputs  # without the inputs themselves
    rows: Rows
    model: Any  # network, prior, likelihood, data
    folds: Folds | None
    key: np.ndarray  # words of the key of everything random
    targets: Any  # how targets became those of ``rows``, and what was learned of them

    @property
    def random(self) -> jax.Array:
        """The key of everything random."""
        return jax.random.wrap_key_data(jnp.asarray(self.key))


class Completed(NamedTuple):
    """What is known once the model has been made from trained members."""

    prepared: Prepared
    scores: "Scores | None"  # of held-out rows
    outputs: np.ndarray  # of some training rows [member, row, out]


class Fit(NamedTuple):
    """What a fit leaves beside the model."""

    prepared: Prepared
    ensemble: Ensemble
    others: Ensemble | None  # members of folds
    scores: "Scores | None"


class Scores(NamedTuple):
    """Log densities of rows that members had not seen: how many, their mean and variance."""

    n: float = 0.0
    mean: float = 0.0
    var: float = 0.0

    @classmethod
    def of(cls, scores: np.ndarray) -> "Scores":
        return cls(float(len(scores)), float(scores.mean()), float(scores.var()))

    def joined(self, other: "Scores") -> "Scores":
        n = self.n + other.n
        share = other.n / n if n else 0.0
        mean = (1 - share) * self.mean + share * other.mean
        apart = share * (1 - share) * (self.mean - other.mean) ** 2
        return Scores(n, mean, (1 - share) * self.var + share * other.var + apart)


@dataclasses.dataclass(frozen=True)
class Update:
    """What the last `fit` or `partial_fit` did.

    Attributes
    ----------
    n_new : rows that were added.
    n_rows : different rows in all.
    n_steps : steps that members took, from the start or from where they were.
    retuned : why all rows were fitted again; empty if members continued from where they were.
    """

    n_new: int
    n_rows: int
    n_steps: int
    retuned: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Kept:
    """A fit that rows can be added to.

    Attributes
    ----------
    known : its rows as they were given.
    prepared : its rows as members are trained on them, and the rest of training.
    ensemble, others : the members, and those of folds.
    labels : of ``known.groups``, in the order of their numbers; None if there are no groups.
    settings : the estimator's parameters.
    n_tuned : rows at the last tuning of the prior and the noise.
    held_out : scores of rows held out at the last tuning; None if none were.
    since : scores of the rows that came since then, before members were trained on them.
    """

    known: Known
    prepared: Prepared
    ensemble: Ensemble
    others: Ensemble | None
    labels: np.ndarray | None
    settings: dict[str, Any]
    n_tuned: int
    held_out: Scores | None
    since: Scores
