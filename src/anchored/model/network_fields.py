"""Converts networks and members to the fields and arrays of a model file, and back."""

import dataclasses
import math
from typing import Any

import numpy as np

from anchored._json import Fields
from anchored.errors import ModelFileError
from anchored.model.forward import ACTIVATIONS, Leaves, dense_shapes
from anchored.model.record import Members, NetworkRecord
from anchored.model.tensors import Arrays

DTYPES = ("float32", "float64", "bfloat16")  # that members are trained in
_MAX_LAYERS = 1_000


def below(where: str, leaves: Leaves) -> dict[str, np.ndarray]:
    return {f"{where}/{name}": leaf for name, leaf in leaves.items()}


def take_leaves(where: str, arrays: Arrays, like: dict[str, tuple], finite=True) -> Leaves:
    return {
        name: arrays.take(f"{where}/{name}", shape, None, finite=finite)
        for name, shape in like.items()
    }


def pack_network(network: NetworkRecord) -> dict:
    fields = network.fields
    in_order = None if fields is None else dict(sorted(fields.items()))
    packed = dataclasses.asdict(network) | {"fields": in_order}
    if network.inputs is None:  # as in files before there were several arrays
        del packed["inputs"]
    return packed


def pack_members(members: Members, arrays: dict) -> dict:
    arrays |= below("ensemble/params", members.params)
    arrays |= below("ensemble/centres", members.centres)
    arrays["ensemble/status"] = np.asarray(members.status, np.int64)
    arrays["ensemble/objective"] = np.asarray(members.objective, np.float64)
    arrays["ensemble/steps"] = np.asarray(members.steps, np.int64)
    packed = {
        "network": pack_network(members.network),
        "member_ids": members.member_ids,
        "retrained": members.retrained,
    }
    # Files of single precision are as they were before there was another.
    return packed if members.dtype == "float32" else packed | {"dtype": members.dtype}


def unpack_members(found: Fields, arrays: Arrays, number: int) -> Members:
    network = unpack_network(found.object("network"), number)
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
    params = unpack_leaves("ensemble/params", network, arrays, len(member_ids), real)
    like = {name: leaf.shape for name, leaf in params.items()}
    retrained = found.wholes("retrained")
    found.close()
    centres = take_leaves("ensemble/centres", arrays, like)
    kept = member_ids, retrained, status, objective, steps, dtype
    return Members(network, params, centres, *kept)


def unpack_leaves(
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
    return take_leaves(where, arrays, {n: (n_members, *shape[1:]) for n, shape in found.items()})


def unpack_network(found: Fields, number: int) -> NetworkRecord:
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
