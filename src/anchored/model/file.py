"""Writes a `FittedModel` to a file, and reads it back.

Format 2. Files of format 1 (version 0.1.0) are read too: they correct widths of intervals
symmetrically, and they keep held-out rows instead of the knots of format 2.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from anchored._json import Fields, quoted
from anchored.errors import ModelFileError
from anchored.model import tensors
from anchored.model.network_fields import below, pack_members, take_leaves, unpack_members
from anchored.model.record import FittedModel, NetworkRecord, Regression
from anchored.model.target_fields import (
    pack_regression,
    pack_sampled,
    unpack_regression,
    unpack_sampled,
)
from anchored.model.tensors import Arrays
from anchored.tables.encoder import Encoder

FORMAT = 2
_PLAIN = (
    "package",
    "parameters",
    "n_rows",
    "n_features",
    "feature_names",
    "columns",
    "temperature",
    "provenance",
)
_VECTORS = ("x_mean", "x_scale", "x_reach", "x_limit", "x_ramps", "novelty_scale")
# Types of class labels; those of an object array are texts.
_LABELS = {
    "str": str,
    "object": str,
    "bool": bool,
    **{f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": float,
    "float64": float,
}


def save(model: FittedModel, path: str | Path) -> None:
    """Write the file whole or not at all."""
    fields: dict[str, Any] = {"format": FORMAT} | {name: getattr(model, name) for name in _PLAIN}
    arrays: dict[str, np.ndarray] = {}
    for name in _VECTORS:
        if getattr(model, name) is not None:
            arrays[name] = np.asarray(getattr(model, name), np.float64)
    fields["ensemble"] = pack_members(model.members, arrays)
    arrays |= below("prior/mean", model.prior_mean) | below("prior/scale", model.prior_scale)
    fields["regression"] = fields["classes"] = fields["encoder"] = None
    if model.encoder is not None:
        fields["encoder"] = model.encoder.to_json()
    if model.regression is not None:
        fields["regression"] = pack_regression(model.regression, arrays)
    if model.classes is not None:
        labels = {"type": _label_type(model.classes), "labels": model.classes.tolist()}
        fields["classes"] = labels
    if model.sampled is not None:
        fields["sampled"] = pack_sampled(model.sampled, arrays)
    if model.held_out is not None:
        arrays["held_out/x"], arrays["held_out/y"] = _pack_held_out(model)
    halved = model.members.dtype == "bfloat16"
    short = {name for name in arrays if halved and name.startswith("ensemble/params/")}
    tensors.write(path, fields, arrays, short)


def load(path: str | Path) -> FittedModel:
    """The model of a file; a `ModelFileError` of one line says what is wrong with it."""
    try:
        return _unpack(*tensors.read(path))
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be used as a model: {error}") from error


def _unpack(found: Fields, arrays: Arrays) -> FittedModel:
    number, package = found.whole("format"), found.text("package")
    if number > FORMAT:
        raise ModelFileError(
            f"it has format {number}, written by anchored {package}; this version reads formats "
            f"up to {FORMAT}. Upgrade anchored."
        )
    if number < 1:
        raise ModelFileError(f"there is no format {number}. {tensors.AGAIN}")
    n_features = found.whole("n_features", 1)
    members = unpack_members(found.object("ensemble"), arrays, number)
    network = members.network
    x_ramps = _unpack_ramps(arrays, n_features)
    n_ramps = 0 if x_ramps is None else x_ramps.shape[1]
    if network.is_dense and network.row_shape != (n_features + n_ramps,):
        need = f"{network.row_shape and network.row_shape[0] - n_ramps}, as the network has it"
        raise found.wrong("n_features", n_features, need)
    names = None if found.absent("feature_names") else found.texts("feature_names")
    if names is not None and len(names) != n_features:
        raise found.wrong("feature_names", names, f"{n_features} of them")
    x_mean = x_scale = x_reach = x_limit = None
    if "x_scale" in arrays or network.is_dense:
        shape = (n_features,) if network.is_dense else arrays.below("x_scale")[""]
        x_mean, x_scale = arrays.take("x_mean", shape), arrays.take("x_scale", shape, above=0)
        if "x_reach" in arrays:
            x_reach = arrays.take("x_reach", (2, *x_scale.shape))
        if "x_limit" in arrays:
            x_limit = arrays.take("x_limit", shape, above=0, finite=False)
    regression = classes = sampled = None
    if not found.absent("sampled"):
        sampled = unpack_sampled(found.object("sampled"), arrays)
        if not (found.absent("regression") and found.absent("classes")):
            raise found.wrong("sampled", sampled.name, "null beside `regression` or `classes`")
    elif (given := found.optional_object("regression")) is not None:
        regression = unpack_regression(given, arrays, network, n_features, number)
        if not found.absent("classes"):
            raise found.wrong("classes", found.take("classes"), "null beside `regression`")
    else:
        classes = _unpack_classes(found.object("classes"), network)
    like = {name: leaf.shape[1:] for name, leaf in members.params.items()}
    temperature = 1.0 if found.absent("temperature") else found.number("temperature", above=0)
    targets = regression or sampled
    n_novelty = 2 if targets is None else len(targets.scale)
    model = FittedModel(
        package=package,
        parameters=found.plain_object("parameters"),
        n_rows=None if found.absent("n_rows") else found.whole("n_rows", 1),
        n_features=n_features,
        feature_names=names,
        columns=None if found.absent("columns") else found.texts("columns"),
        members=members,
        prior_mean=take_leaves("prior/mean", arrays, like),
        prior_scale=take_leaves("prior/scale", arrays, like, finite=False),
        x_mean=x_mean,
        x_scale=x_scale,
        x_reach=x_reach,
        x_limit=x_limit,
        x_ramps=x_ramps,
        regression=regression,
        classes=classes,
        temperature=temperature,
        novelty_scale=arrays.optional("novelty_scale", (n_novelty,), least=0),
        encoder=_unpack_encoder(found, n_features),
        provenance=found.plain_object("provenance"),
        held_out=_unpack_held_out(arrays, n_features, regression, classes),
        sampled=sampled,
    )
    found.close()
    arrays.close()
    return model


def _unpack_ramps(arrays: Arrays, n_features: int) -> np.ndarray | None:
    if "x_ramps" not in arrays:
        return None
    ramps = arrays.take("x_ramps", (4, None))
    column, start, end, _ = ramps
    if np.any(column != np.floor(column)) or np.any((column < 0) | (column >= n_features)):
        raise ModelFileError(f"`x_ramps` must be of columns 0 to {n_features - 1}. {tensors.AGAIN}")
    if not np.all(start < end):
        raise ModelFileError(f"`x_ramps` must end after they start. {tensors.AGAIN}")
    return ramps


def _label_type(classes: np.ndarray) -> str:
    """The name under which labels of this type are kept."""
    name = "str" if classes.dtype.kind == "U" else classes.dtype.name
    texts = all(isinstance(label, str) for label in classes) if name == "object" else True
    if name in _LABELS and texts:
        return name
    raise TypeError(
        f"`classes_` are of type {classes.dtype}; files can store labels that are text, whole "
        "numbers, numbers or booleans. Fit with such labels."
    )


def _unpack_classes(found: Fields, network: NetworkRecord) -> np.ndarray:
    n_outputs = network.n_outputs
    name = found.text("type", _LABELS)
    labels: Any = found.take("labels")
    kind = _LABELS[name]
    if not (isinstance(labels, list) and all(type(label) is kind for label in labels)):
        raise found.wrong("labels", labels, f"a list of {kind.__name__}")
    if len(labels) != n_outputs or n_outputs < 2 or len(set(labels)) < n_outputs:
        raise found.wrong("labels", labels, f"{n_outputs} different ones, at least 2")
    if kind is float and not all(math.isfinite(label) for label in labels):
        raise found.wrong("labels", labels, "finite")
    found.close()
    try:
        return np.array(labels, dtype=name)
    except (OverflowError, ValueError) as error:
        raise ModelFileError(f"`classes/labels` {quoted(labels)} are not {name}.") from error


def _unpack_encoder(found: Fields, n_features: int) -> Encoder | None:
    if found.absent("encoder"):
        return None
    try:
        encoder = Encoder.from_json(found.take("encoder"))
    except ValueError as error:
        raise ModelFileError(f"its encoder: {error}") from error
    if len(encoder.feature_names) != n_features:
        raise ModelFileError(
            f"its encoder makes {len(encoder.feature_names)} features, its networks take "
            f"{n_features}."
        )
    return encoder


def _pack_held_out(model: FittedModel) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and targets or class numbers."""
    assert model.held_out is not None
    x, y = model.held_out
    x = x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)
    if model.classes is None:
        return x, y.astype(np.float64)
    return x, np.searchsorted(model.classes, y).astype(np.int64)


def _unpack_held_out(
    arrays: Arrays, n_features: int, regression: Regression | None, classes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    if "held_out/y" not in arrays:
        return None
    if regression is not None:
        shape = (None,) if regression.one_target else (None, len(regression.scale))
        y = arrays.take("held_out/y", shape)
        return arrays.take_inputs("held_out/x", len(y), n_features), y
    assert classes is not None
    number = arrays.take("held_out/y", (None,), np.int64, least=0)
    if not np.all(number < len(classes)):
        raise ModelFileError("the tensor `held_out/y` has numbers that no class has.")
    return arrays.take_inputs("held_out/x", len(number), n_features), classes[number]
