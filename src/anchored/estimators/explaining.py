"""`explain`: Shapley values of the mean and of both parts of the variance, column by column.

Background rows are a sample of the rows that the model knows. Their cells stand for "not known".
The explained values are those that `predict_dist` gives at the row: its mean, its epistemic and its
aleatoric variance. For classes they are the probabilities, the mutual information and the rest of
the entropy.
"""

from typing import Any, NamedTuple

import numpy as np

from anchored.core.records import layout_of
from anchored.core.shapley import Paths, walked
from anchored.errors import bad_value
from anchored.estimators.explanation import Effects, Explanation, Nearest, as_cells
from anchored.estimators.inputs import Encoded, encoded_inputs
from anchored.estimators.validation import whole
from anchored.prediction import special
from anchored.prediction.predictive import Predictive
from anchored.tables.columns import Category, Levels, missing_cells
from anchored.tables.frames import array_table, as_table, is_frame
from anchored.tables.table import Table

N_BACKGROUND = 64  # rows that stand for "not known"
N_PATHS = 128
_MOST_KNOWN = 20_000  # rows that are searched for the nearest
_AT_ONCE = 8_192  # inputs that go through the networks at a time
_FAR = 0.5  # deviations to the nearest known value that are worth a remark


class _Known(NamedTuple):
    """Rows that the model knows: as given, their features, standardised, and their targets."""

    X: Any
    features: np.ndarray
    z: np.ndarray
    y: np.ndarray | None


def explain(
    estimator: Any, X, background=None, n_paths: int = N_PATHS, n_nearest: int = 3, seed: int = 0
) -> Explanation:
    """The explanation of the rows of ``X``."""
    whole("n_paths", n_paths)
    z = np.asarray(estimator._standardised(X))
    if z.ndim != 2 or not np.issubdtype(z.dtype, np.floating):
        raise ValueError(
            f"`X` must be rows of a table to be explained by columns; standardised rows have the "
            f"shape {z.shape[1:]} and type {z.dtype}."
        )
    known = _known_rows(estimator, background)
    names, column = _columns(estimator)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(known.z))[:N_BACKGROUND])
    paths = Paths.drawn(seed, len(chosen), len(names), n_paths)
    found = [_effects(estimator, row, known.z[chosen], paths, column) for row in z]
    mean, epistemic, aleatoric = (_stacked([parts[i] for parts in found]) for i in range(3))
    features = _features(estimator, X)
    cells = _cells(estimator, X, features)
    classes = estimator.model_.classes
    outputs = tuple(map(str, range(mean.value.shape[1]) if classes is None else classes))
    return Explanation(
        names,
        cells,
        outputs,
        mean,
        epistemic,
        aleatoric,
        _nearest(estimator, z, known, n_nearest),
        _unusual(estimator, X, features, known, names),
        classes is not None,
    )


# Rows and columns


def _known_rows(estimator: Any, background) -> _Known:
    kept, y = estimator.__dict__.get("_kept"), None
    if background is not None:
        X = background
    elif kept is not None:
        known = kept.known
        if known.n_rows > _MOST_KNOWN:
            some = np.random.default_rng(0).permutation(known.n_rows)[:_MOST_KNOWN]
            known = known.take(np.sort(some))
        X, y = known.x, known.y
    elif estimator.held_out_ is not None:
        X, y = estimator.held_out_
    else:
        raise ValueError(
            "This model has no rows to compare with: files keep no training rows. Give some rows "
            "like those it was trained on: explain(X, background=rows)."
        )
    z = np.asarray(estimator._standardised(X))
    if not len(z):
        raise bad_value("background", "no row", "at least one row")
    return _Known(X, _features(estimator, X), z, y)


def _features(estimator: Any, X) -> np.ndarray:
    """Features [row, feature] as they are, not standardised."""
    model = estimator.model_
    if model.encoder is not None:
        return encoded_inputs(estimator, X, model.encoder, model.columns)
    layout = layout_of(model.members.network)
    if layout is not None:
        return layout.pack(X)
    return np.asarray(X, np.float64)


def _owners(estimator: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the columns, and which of them each feature comes from."""
    model = estimator.model_
    if model.encoder is not None:
        names = model.encoder.names
        places = {name: place for place, name in enumerate(names)}
        return names, np.array([places[name] for name in model.encoder.feature_columns])
    if model.members.network.inputs is not None:
        parts = model.members.network.inputs["parts"]
        sizes = [int(np.prod(part["shape"])) for part in parts]
        return tuple(str(p["name"]) for p in parts), np.repeat(np.arange(len(parts)), sizes)
    names = model.feature_names or tuple(f"x{i}" for i in range(model.n_features))
    return tuple(names), np.arange(model.n_features)


def _columns(estimator: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the columns, and which of them each input of the networks comes from."""
    names, owner = _owners(estimator)
    ramps = estimator.model_.x_ramps
    if ramps is not None:
        owner = np.concatenate([owner, owner[ramps[0].astype(int)]])
    return names, owner.astype(np.int32)


def _cells(estimator: Any, X, features: np.ndarray) -> tuple[tuple[str, ...], ...]:
    names, owner = _owners(estimator)
    table = _table(estimator, X)
    if table is not None:
        columns = [as_cells(table.columns[name].tolist()) for name in names]
    else:
        columns = []
        for place in range(len(names)):
            values = features[:, owner == place]
            one = values.shape[1] == 1
            columns.append(as_cells(values[:, 0].tolist()) if one else ["..."] * len(values))
    return tuple(zip(*columns, strict=True)) if len(features) else ()


def _table(estimator: Any, X) -> Table | None:
    """The cells of rows, if they are those of a table."""
    model = estimator.model_
    if model.encoder is None or isinstance(X, Encoded):
        return None
    if is_frame(X):
        return as_table(X)
    return array_table(np.asarray(X), model.columns or model.encoder.names)


# Shapley values


class _Measured(NamedTuple):
    """Mean, epistemic and aleatoric part [..., out]."""

    mean: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray


def _measured(estimator: Any, outputs: np.ndarray, z: np.ndarray) -> _Measured:
    dist: Predictive = estimator._pooled(outputs, z)
    if dist.family == "categorical":
        assert dist.members is not None
        doubt = dist.mutual_information
        whole = special.entropy(dist.members.mean(axis=0))
        return _Measured(dist.probabilities, doubt[:, None], (whole - doubt)[:, None])
    n = len(z)
    return _Measured(
        *(part.reshape(n, -1) for part in (dist.mean, dist.epistemic_var, dist.aleatoric_var))
    )


def _effects(
    estimator: Any, z: np.ndarray, background: np.ndarray, paths: Paths, column: np.ndarray
) -> list[Effects]:
    """Effects of one row on the mean and both parts of the variance."""
    ensemble = estimator.ensemble_
    n_steps = paths.rank.shape[1] + 1
    size = max(2, _AT_ONCE // n_steps // 2 * 2)
    found = []
    for start in range(0, len(paths), size):
        begin, rank = paths.start[start : start + size], paths.rank[start : start + size]
        way = walked(
            ensemble.network,
            ensemble.params,
            z.astype(np.float32),
            background[begin].astype(np.float32),
            rank,
            column,
        )
        inputs = way.inputs.reshape(-1, z.shape[0])
        outputs = way.outputs.reshape(len(way.outputs), len(inputs), -1)
        parts = _measured(estimator, outputs, inputs)
        found.append([part.reshape(len(rank), n_steps, -1) for part in parts])
    return [_effect(np.concatenate(parts), paths) for parts in zip(*found, strict=True)]


def _effect(values: np.ndarray, paths: Paths) -> Effects:
    """Effects of the columns, from values [path, step, out] on the way to one row."""
    gains = paths.gains(values)
    pairs = gains.reshape(-1, 2, *gains.shape[1:]).mean(axis=1)
    error = pairs.std(axis=0, ddof=min(1, len(pairs) - 1)) / np.sqrt(len(pairs))
    usual = values[:, 0].mean(axis=0)
    return Effects(values[0, -1][None], usual, gains.mean(axis=0)[None], error[None])


def _stacked(parts: list[Effects]) -> Effects:
    fields = ("value", "by_column", "error")
    value, by_column, error = (np.concatenate([getattr(p, f) for p in parts]) for f in fields)
    return Effects(value, parts[0].usual, by_column, error)


# What the model knows


def _nearest(estimator: Any, z: np.ndarray, known: _Known, k: int) -> Nearest:
    """By distance in what the networks see; columns of small prior scale count little."""
    k = min(k, len(known.z))
    scale = estimator.model_.prior_scale.get("0/weight")
    weight = np.ones(z.shape[1])
    if scale is not None and scale.ndim == 2 and np.isfinite(scale).all():
        weight = np.square(np.asarray(scale[:, 0], np.float64))
    weight = weight / weight.sum()
    rows, distance = [], []
    for row in z:
        apart = np.square(known.z - row) @ weight
        order = np.argsort(apart, kind="stable")[:k]
        rows.append(order)
        distance.append(np.sqrt(apart[order]))
    index = np.array(rows, int).reshape(len(z), k)
    targets = None if known.y is None else np.asarray(known.y)[index]
    return Nearest(index, np.array(distance).reshape(len(z), k), targets)


def _unusual(
    estimator: Any, X, features: np.ndarray, known: _Known, names: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Remarks on the cells of each row that no known row has, or none near them."""
    model, (_, owner) = estimator.model_, _owners(estimator)
    flags = np.zeros(len(owner), bool) if model.encoder is None else model.encoder.indicators
    scale = np.broadcast_to(np.asarray(model.x_scale, np.float64), flags.shape)
    cells = _cells(estimator, X, features)
    new = _new_cells(estimator, _table(estimator, X), _table(estimator, known.X), len(features))
    remarks: list[list[str]] = [[] for _ in features]
    for place, name in enumerate(names):
        inside = np.flatnonzero(owner == place)
        for row, mine in enumerate(remarks):
            said = "is in no known row"
            if not new[row, place]:
                said = _remark(features[row], known.features, inside, flags, scale)
            if said is not None:
                mine.append(f"{name}={cells[row][place]} {said}")
    return tuple(map(tuple, remarks))


def _new_cells(estimator: Any, table: Table | None, known: Table | None, n_rows: int) -> np.ndarray:
    """Whether each cell [row, column] is a level, or missing, as in no known row."""
    encoder = estimator.model_.encoder
    if encoder is None or table is None or known is None:
        return np.zeros((n_rows, len(_owners(estimator)[0])), bool)
    found = []
    for column in encoder.columns:
        cells, before = table.columns[column.name], known.columns[column.name]
        missing = missing_cells(cells)
        new = missing & ~missing_cells(before).any()
        if isinstance(column, (Category, Levels)):
            seen = set(before.tolist())
            new |= ~missing & np.array([cell not in seen for cell in cells.tolist()], bool)
        found.append(new)
    return np.stack(found, axis=1)


def _remark(row, known, inside, flags, scale) -> str | None:
    """On the features of one column."""
    for i in inside:
        values = known[:, i]
        if flags[i]:
            if row[i] > 0 and not values.any():
                return "is in no known row"
            continue
        low, high, unit = values.min(), values.max(), scale[i]
        if row[i] > high + _FAR * unit or row[i] < low - _FAR * unit:
            above = row[i] > high
            far = (row[i] - high if above else low - row[i]) / unit
            where = "above the largest" if above else "below the smallest"
            return f"is {far:.1f} deviations {where} known"
        if np.min(np.abs(values - row[i])) > _FAR * unit:
            return f"has no known row within {_FAR:g} deviations"
    return None
