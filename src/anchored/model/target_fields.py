"""Converts targets, their noise and its correction to fields and arrays of a file, and back."""

import dataclasses
import math
from typing import Any

import numpy as np

from anchored._json import Fields
from anchored.errors import ModelFileError
from anchored.model.network_fields import below, pack_network, unpack_leaves, unpack_network
from anchored.model.record import NetworkRecord, Noise, NoiseShape, Regression, Sampled
from anchored.model.tensors import Arrays
from anchored.prediction.conformal import Conformal, order_statistic
from anchored.prediction.warp import Warp

FAMILIES = ("gaussian", "student-t")
_MAX_LOG_NOISE = 100.0
_MAX_SCORE = 1e3  # of a knot of the correction


def pack_regression(part: Regression, arrays: dict) -> dict:
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
        arrays |= below(f"{where}/shape", noise.shape.params)
        fields["shape"] = {
            "network": pack_network(noise.shape.network),
            "least": float(noise.shape.least),
            "most": float(noise.shape.most),
        }
    if noise.conformal is not None:
        arrays[f"{where}/levels"] = noise.conformal.levels
        arrays[f"{where}/scores"] = noise.conformal.scores
    return fields


def unpack_regression(
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


def pack_sampled(part: Sampled, arrays: dict) -> dict:
    arrays["sampled/mean"] = np.asarray(part.mean, np.float64)
    arrays["sampled/scale"] = np.asarray(part.scale, np.float64)
    names = ("name", "one_target", "standardises")
    return {name: getattr(part, name) for name in names}


def unpack_sampled(found: Fields, arrays: Arrays) -> Sampled:
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
    network = unpack_network(inner.object("network"), number)
    if not network.is_dense or (network.row_shape, network.n_outputs) != ((n_features,), 1):
        raise found.wrong("network", network.name, f"MLP of {n_features} inputs and one output")
    if number == 1:
        where = _old_shape(inner, where, arrays)
    n_members = next(iter(arrays.below(f"{where}/").values()), (0,))[:1]
    params = unpack_leaves(where, network, arrays, *n_members)
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
