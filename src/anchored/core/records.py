"""Converts between the JAX trees of training and the NumPy leaves of a `FittedModel`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.adapters import as_network
from anchored.core.checks import title_of
from anchored.core.drawing import model_shapes
from anchored.core.ensembles import Ensemble
from anchored.core.networks import MLP, ConvNet, TextCNN
from anchored.core.packing import Layout, Packed, Part, on_parts
from anchored.core.training import TrainInfo
from anchored.core.tree import leaf_paths
from anchored.errors import ModelFileError
from anchored.model.forward import Leaves, type_of
from anchored.model.record import Members, NetworkRecord
from anchored.typing import Likelihood, Network, Params

_NETWORKS: dict[str, Any] = {"MLP": MLP, "ConvNet": ConvNet, "TextCNN": TextCNN}


def as_leaves(tree: Params) -> Leaves:
    """Arrays of a tree by path, in NumPy."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return dict(zip(leaf_paths(tree), leaves, strict=True))


def as_tree(leaves: Leaves, record: NetworkRecord, network: Network, dtype) -> Params:
    """The tree of a network's parameters (stacked or not) from its leaves."""
    if record.fields is not None:  # ours are tuples of layers
        layers: list[dict] = []
        for path, leaf in leaves.items():
            number, _, name = path.partition("/")
            layers += [{} for _ in range(int(number) + 1 - len(layers))]
            layers[int(number)][name] = jnp.asarray(leaf)
        return tuple(layers)
    assert record.row_shape is not None
    shapes, _ = model_shapes(network, record.row_shape, dtype)
    paths, wanted = leaf_paths(shapes), jax.tree.leaves(shapes)
    if set(paths) != set(leaves):
        odd = sorted(set(paths) ^ set(leaves))[0]
        where = "file" if odd in leaves else "network"
        raise ModelFileError(
            f"`network` does not fit the file: only the {where} has the parameter `{odd}`. Give "
            "the network that the model was fitted with."
        )
    real = type_of(leaves)  # members are all of one type, whatever the network starts with
    for path, want in zip(paths, wanted, strict=True):
        found = leaves[path]
        if found.shape[found.ndim - want.ndim :] != want.shape or found.dtype != real:
            raise ModelFileError(
                f"`network` does not fit the file: its parameter `{path}` is {real} of "
                f"shape {want.shape}, but the file has {found.dtype} of shape {found.shape[1:]}."
            )
    made = [jnp.asarray(leaves[path]) for path in paths]
    return jax.tree.unflatten(jax.tree.structure(shapes), made)


def network_record(network: Network, row_shape: tuple[int, ...], dtype) -> NetworkRecord:
    """The record of a network: name and fields; a network of the user's own has no fields."""
    ours = _NETWORKS.get(type(network).__name__) is type(network)
    fields = dataclasses.asdict(network) if ours else None  # pyright: ignore
    _, outputs = model_shapes(network, row_shape, dtype)
    layout = network.layout if isinstance(network, Packed) else None
    inputs = None if layout is None else dataclasses.asdict(layout)
    return NetworkRecord(title_of(network), fields, outputs.shape[-1], row_shape, inputs)


def layout_of(record: NetworkRecord) -> Layout | None:
    """Where several arrays of inputs lie in a row."""
    if record.inputs is None:
        return None
    parts = (Part(p["name"], tuple(p["shape"]), p["kind"]) for p in record.inputs["parts"])
    return Layout(record.inputs["named"], tuple(parts))


def restored_network(record: NetworkRecord, given: Any) -> Network:
    """The network of a record; a network of the user's own must be ``given`` again."""
    if record.fields is not None:
        return _NETWORKS[record.name](**record.fields)
    if given is None:
        raise ModelFileError(
            f"the file has a network of your own, {record.name}, and files contain no code. Give "
            f"it again: anchored.load(path, network={record.name}(...))."
        )
    return on_parts(as_network(given), layout_of(record))


def members_record(ensemble: Ensemble, row_shape: tuple[int, ...], dtype) -> Members:
    """The members of an ensemble, for inputs of one row's shape and type."""
    info = ensemble.info
    return Members(
        network_record(ensemble.network, row_shape, dtype),
        as_leaves(ensemble.params),
        as_leaves(ensemble.centres),
        ensemble.member_ids,
        ensemble.retrained,
        np.asarray(info.status, np.int64),
        np.asarray(info.objective, np.float64),
        np.asarray(info.steps, np.int64),
        ensemble.dtype,
    )


def restored_ensemble(
    members: Members, network: Network, likelihood: Likelihood, dtype
) -> Ensemble:
    """The ensemble of a record."""
    params, centres = (
        as_tree(leaves, members.network, network, dtype)
        for leaves in (members.params, members.centres)
    )
    info = TrainInfo(members.status, members.objective, members.steps)
    kept = members.member_ids, info, members.retrained, members.dtype
    return Ensemble(network, likelihood, params, centres, *kept)
