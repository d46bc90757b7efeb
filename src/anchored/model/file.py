"""The image of a `FittedModel` in a file, and the way back.

Format 2. Files of format 1 (version 0.1.0) are read too: they correct widths of intervals
symmetrically, and keep held-out rows where format 2 keeps knots.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from anchored._json import Fields, quoted
from anchored.errors import ModelFileError
from anchored.model import tensors
from anchored.model.forward import ACTIVATIONS, Leaves, dense_shapes
from anchored.model.record import (
    FittedModel,
    Members,
    NetworkRecord,
    Noise,
    NoiseShape,
    Regression,
    Sampled,
)
from anchored.model.tensors import Arrays
from anchored.prediction.conformal import Conformal, order_statistic
from anchored.prediction.warp import Warp
from anchored.tables.encoder import Encoder

FORMAT = 2
DTYPES = ("float32", "float64", "bfloat16")  # that members are trained in
FAMILIES = ("gaussian", "student-t")
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
_MAX_LAYERS = 1_000
_MAX_LOG_NOISE = 100.0
_MAX_SCORE = 1e3  # of a knot of the correction
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
    fields["ensemble"] = _pack_members(model.members, arrays)
    arrays |= _below("prior/mean", model.prior_mean) | _below("prior/scale", model.prior_scale)
    fields["regression"] = fields["classes"] = fields["encoder"] = None
    if model.encoder is not None:
        fields["encoder"] = model.encoder.to_json()
    if model.regression is not None:
        fields["regression"] = _pack_regression(model.regression, arrays)
    if model.classes is not None:
        labels = {"type": _label_type(model.classes), "labels": model.classes.tolist()}
        fields["classes"] = labels
    if model.sampled is not None:
        fields["sampled"] = _pack_sampled(model.sampled, arrays)
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
    members = _unpack_members(found.object("ensemble"), arrays, number)
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
        sampled = _unpack_sampled(found.object("sampled"), arrays)
        if not (found.absent("regression") and found.absent("classes")):
            raise found.wrong("sampled", sampled.name, "null beside `regression` or `classes`")
    elif (given := found.optional_object("regression")) is not None:
        regression = _unpack_regression(given, arrays, network, n_features, number)
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
        prior_mean=_take_leaves("prior/mean", arrays, like),
        prior_scale=_take_leaves("prior/scale", arrays, like, finite=False),
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


# Members


def _below(where: str, leaves: Leaves) -> dict[str, np.ndarray]:
    return {f"{where}/{name}": leaf for name, leaf in leaves.items()}


def _take_leaves(where: str, arrays: Arrays, like: dict[str, tuple], finite=True) -> Leaves:
    return {
        name: arrays.take(f"{where}/{name}", shape, None, finite=finite)
        for name, shape in like.items()
    }


def _pack_network(network: NetworkRecord) -> dict:
    fields = network.fields
    in_order = None if fields is None else dict(sorted(fields.items()))
    packed = dataclasses.asdict(network) | {"fields": in_order}
    if network.inputs is None:  # as in files before there were several arrays
        del packed["inputs"]
    return packed


def _pack_members(members: Members, arrays: dict) -> dict:
    arrays |= _below("ensemble/params", members.params)
    arrays |= _below("ensemble/centres", members.centres)
    arrays["ensemble/status"] = np.asarray(members.status, np.int64)
    arrays["ensemble/objective"] = np.asarray(members.objective, np.float64)
    arrays["ensemble/steps"] = np.asarray(members.steps, np.int64)
    packed = {
        "network": _pack_network(members.network),
        "member_ids": members.member_ids,
        "retrained": members.retrained,
    }
    # Files of single precision are as they were before there was another.
    return packed if members.dtype == "float32" else packed | {"dtype": members.dtype}


def _unpack_members(found: Fields, arrays: Arrays, number: int) -> Members:
    network = _unpack_network(found.object("network"), number)
    member_ids = found.wholes("member_ids")
    if not member_ids or len(set(member_ids)) < len(member_ids):
        raise found.wrong("member_ids", member_ids, "a list of numbers, each once")
    status = arrays.take("ensemble/status", (None,), np.int64, least=0)
    if max(member_ids) >= len(status) or status.max() > 2:
        raise found.wrong("member_ids", member_ids, "among the members trained")
    steps = arrays.take("ensemble/steps", (None,), np.int64, least=0)
    shape = (len(steps), len(status))
    objective = arrays.take("ensemble/objective", shape, finite=False)  # of diverged members
    dtype = "float32" if found.absent("dtype") else found.text("dtype", DTYPES)
    real = np.float64 if dtype == "float64" else np.float32
    params = _unpack_leaves("ensemble/params", network, arrays, len(member_ids), real)
    like = {name: leaf.shape for name, leaf in params.items()}
    retrained = found.wholes("retrained")
    found.close()
    centres = _take_leaves("ensemble/centres", arrays, like)
    kept = member_ids, retrained, status, objective, steps, dtype
    return Members(network, params, centres, *kept)


def _unpack_leaves(
    where: str, network: NetworkRecord, arrays: Arrays, n_members: int, real: Any = np.float32
) -> Leaves:
    """Stacked parameters; their shapes are known here for dense networks only."""
    if network.is_dense:
        assert network.fields is not None
        assert network.row_shape is not None
        widths = (*network.row_shape, *network.fields["hidden"], network.n_outputs)
        shapes = dense_shapes(widths)
        return {
            name: arrays.take(f"{where}/{name}", (n_members, *shape), real)
            for name, shape in shapes.items()
        }
    found = arrays.below(f"{where}/")
    if not found:
        raise ModelFileError(f"there is no tensor below `{where}`.")
    return _take_leaves(where, arrays, {n: (n_members, *shape[1:]) for n, shape in found.items()})


def _unpack_network(found: Fields, number: int) -> NetworkRecord:
    name = found.text("name")
    given = found.optional_object("fields")
    fields = None if given is None else _unpack_network_fields(name, given)
    if number == 1:
        sizes = found.wholes("sizes", 1)
        row_shape = sizes if name == "MLP" else None
        n_outputs = 0 if fields is None else fields["n_outputs"]
    else:
        row_shape = None if found.absent("row_shape") else found.wholes("row_shape", 1)
        n_outputs = found.whole("n_outputs", 1)
    if name == "MLP" and (row_shape is None or len(row_shape) != 1):
        raise found.wrong("row_shape", row_shape, "a list of one number")
    if fields is not None and fields["n_outputs"] != n_outputs:
        raise found.wrong("n_outputs", n_outputs, f"{fields['n_outputs']}, as in `fields`")
    inputs = None
    if not found.absent("inputs"):
        inputs = _unpack_inputs(found.object("inputs"), row_shape)
    found.close()
    return NetworkRecord(name, fields, n_outputs, row_shape, inputs)


def _unpack_inputs(found: Fields, row_shape: tuple[int, ...] | None) -> dict[str, Any]:
    """How several arrays lie in a row."""
    parts = []
    for part in found.objects("parts"):
        kind = part.text("kind", ("f", "i", "b"))
        made = {"name": part.text("name"), "shape": part.wholes("shape", 0), "kind": kind}
        part.close()
        parts.append(made)
    size = sum(math.prod(part["shape"]) for part in parts)
    if row_shape != (size,):
        raise found.wrong("parts", size, f"of {row_shape} values, as `row_shape` has it")
    made = {"named": found.flag("named"), "parts": parts}
    found.close()
    return made


def _unpack_network_fields(name: str, given: Fields) -> dict[str, Any]:
    if name not in ("MLP", "ConvNet", "TextCNN"):
        raise given.fault("", f"`{given.path('')}` must be null for a network named {name}.")
    fields: dict[str, Any] = {"activation": given.text("activation", ACTIVATIONS)}
    whole = ["n_outputs"]
    if name == "TextCNN":
        whole += ["vocabulary", "embedding", "filters", "window", "hidden"]
    else:
        fields["hidden"] = given.wholes("hidden", 1, _MAX_LAYERS)
    if name == "ConvNet":
        blocks = [Fields({"blocks": b}) for b in given.items("blocks", _MAX_LAYERS)]
        try:
            fields["blocks"] = tuple(block.wholes("blocks", 1, _MAX_LAYERS) for block in blocks)
        except ValueError as error:
            raise given.fault("blocks", str(error)) from None
    fields |= {field: given.whole(field, 1) for field in whole}
    given.close()
    return fields


# Regression


def _pack_regression(part: Regression, arrays: dict) -> dict:
    for name in ("mean", "scale", "training_noise_var", "noise_var"):
        if getattr(part, name) is not None:
            arrays[f"regression/{name}"] = np.asarray(getattr(part, name), np.float64)
    noise = part.noise
    if noise is not None:
        noise = [_pack_noise(one, f"regression/noise/{i}", arrays) for i, one in enumerate(noise)]
    plain = {name: getattr(part, name) for name in ("family", "one_target", "floor")}
    warp = None if part.warp is None else dataclasses.asdict(part.warp)
    return plain | {"noise": noise, "warp": warp}


def _pack_noise(noise: Noise, where: str, arrays: dict) -> dict:
    names = ("factor", "noise_var", "noise_dof")
    fields: dict[str, Any] = {name: float(getattr(noise, name)) for name in names}
    fields["shape"] = None
    if noise.shape is not None:
        arrays |= _below(f"{where}/shape", noise.shape.params)
        fields["shape"] = {
            "network": _pack_network(noise.shape.network),
            "least": float(noise.shape.least),
            "most": float(noise.shape.most),
        }
    if noise.conformal is not None:
        arrays[f"{where}/levels"] = noise.conformal.levels
        arrays[f"{where}/scores"] = noise.conformal.scores
    return fields


def _unpack_regression(
    found: Fields, arrays: Arrays, network: NetworkRecord, n_features: int, number: int
) -> Regression:
    n_outputs = network.n_outputs
    floor = None if found.absent("floor") else found.number("floor", above=0)
    if floor is not None and n_outputs % 2:
        raise found.wrong("floor", floor, f"null for a network of {n_outputs} outputs")
    n_targets = n_outputs if floor is None else n_outputs // 2
    one_target = found.flag("one_target")
    if one_target and n_targets > 1:
        raise found.wrong("one_target", one_target, f"false for {n_targets} outputs")
    noise = None
    if not found.absent("noise"):
        parts = found.objects("noise")
        if floor is not None or len(parts) != n_targets:
            raise found.wrong("noise", len(parts), f"one for each of {n_targets} outputs")
        noise = tuple(
            _unpack_noise(part, f"regression/noise/{i}", arrays, n_features, number)
            for i, part in enumerate(parts)
        )
        knots = {None if n.conformal is None else tuple(n.conformal.levels) for n in noise}
        if len(knots) > 1:
            raise found.wrong("noise", len(noise), "of the same rows for each output")
    variances: dict[str, Any] = {"training_noise_var": None, "noise_var": None}
    if floor is None:
        for name in variances:
            variances[name] = arrays.take(f"regression/{name}", (n_targets,), least=0)
    made = Regression(
        family=found.text("family", FAMILIES),
        one_target=one_target,
        mean=arrays.take("regression/mean", (n_targets,)),
        scale=arrays.take("regression/scale", (n_targets,), above=0),
        floor=floor,
        noise=noise,
        warp=None if found.absent("warp") else _unpack_warp(found.object("warp"), n_targets),
        **variances,
    )
    found.close()
    return made


def _pack_sampled(part: Sampled, arrays: dict) -> dict:
    arrays["sampled/mean"] = np.asarray(part.mean, np.float64)
    arrays["sampled/scale"] = np.asarray(part.scale, np.float64)
    names = ("name", "one_target", "standardises")
    return {name: getattr(part, name) for name in names}


def _unpack_sampled(found: Fields, arrays: Arrays) -> Sampled:
    scale = arrays.take("sampled/scale", (None,), above=0)
    mean = arrays.take("sampled/mean", scale.shape)
    flags = found.flag("one_target"), found.flag("standardises")
    made = Sampled(found.text("name"), *flags, mean, scale)
    found.close()
    return made


def _unpack_warp(found: Fields, n_targets: int) -> Warp:
    if n_targets > 1:
        raise found.wrong("shift", n_targets, "of a single target")
    shift, least = found.within("shift", 0.0, math.inf), found.number("least")
    warp = Warp(shift, least, found.number("most", above=least), found.number("raised", above=0))
    if not warp.least + warp.shift > 0:
        raise found.wrong("least", least, "above the shift's negative")
    found.close()
    return warp


def _unpack_noise(found: Fields, where: str, arrays: Arrays, n_features: int, number: int) -> Noise:
    take_conformal = _old_conformal if number == 1 else _unpack_conformal
    conformal = take_conformal(where, arrays)
    shape, given = None, found.optional_object("shape")
    if given is not None:
        shape = _unpack_shape(given, f"{where}/shape", arrays, n_features, number)
    made = Noise(
        found.number("factor", above=0),
        found.number("noise_var", above=0),
        found.number("noise_dof", above=2),
        shape,
        conformal,
    )
    found.close()
    return made


def _unpack_shape(
    found: Fields, where: str, arrays: Arrays, n_features: int, number: int
) -> NoiseShape:
    most = found.number("most", above=-_MAX_LOG_NOISE, most=_MAX_LOG_NOISE)
    least = found.number("least", -_MAX_LOG_NOISE, most)
    inner = found.object("ensemble") if number == 1 else found
    network = _unpack_network(inner.object("network"), number)
    if not network.is_dense or (network.row_shape, network.n_outputs) != ((n_features,), 1):
        raise found.wrong("network", network.name, f"MLP of {n_features} inputs and one output")
    if number == 1:
        where = _old_shape(inner, where, arrays)
    n_members = next(iter(arrays.below(f"{where}/").values()), (0,))[:1]
    params = _unpack_leaves(where, network, arrays, *n_members)
    found.close()
    return NoiseShape(network, params, least, most)


def _unpack_conformal(where: str, arrays: Arrays) -> Conformal | None:
    if f"{where}/levels" not in arrays:
        return None
    levels = arrays.take(f"{where}/levels", (None,), above=0)
    scores = arrays.take(f"{where}/scores", (len(levels),))
    growing = np.all(np.diff(levels) > 0) and np.all(np.diff(scores) > 0)
    if len(levels) < 2 or not growing or levels[-1] >= 1 or np.any(np.abs(scores) > _MAX_SCORE):
        raise ModelFileError(f"the tensor `{where}/levels` has values that are impossible there.")
    return Conformal(levels, scores)


def _old_conformal(where: str, arrays: Arrays) -> Conformal | None:
    """Distances of held-out rows, whose correction is the same on both sides."""
    weight = arrays.take(f"{where}/weight", (None,), above=0)
    distance = arrays.take(f"{where}/distance", (len(weight),), least=0)
    dof = arrays.take(f"{where}/dof", (len(weight),), above=0)
    if not len(weight):
        raise ModelFileError(f"the tensor `{where}/weight` has no rows.")
    from anchored.prediction.student import score

    scores, knots = score(distance, dof), []
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.99):
        upper = order_statistic(scores, weight, coverage)
        if upper is not None:
            knots += [((1 - coverage) / 2, -upper), ((1 + coverage) / 2, upper)]
    return Conformal.through(sorted(knots))


def _old_shape(found: Fields, where: str, arrays: Arrays) -> str:
    """Pass over what format 1 keeps beside the parameters, whose place is returned."""
    n_members = len(found.wholes("member_ids"))
    found.wholes("retrained")
    found.close()
    for name in ("status", "objective", "steps"):
        shape = arrays.below(f"{where}/{name}").get("", (0,))
        arrays.take(f"{where}/{name}", shape, None, finite=False)
    for name, shape in arrays.below(f"{where}/centres/").items():
        arrays.take(f"{where}/centres/{name}", (n_members, *shape[1:]), np.float32)
    return f"{where}/params"


# Classes, the encoder, and rows for a report


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
