"""More columns than rows: train in the space of the rows, which is exact.

The rows X [row, column] enter the network only through X W, where W are the weights of the input
layer. For a prior whose scale s_i is the same for all weights of column i, write W = diag(s) Z and
diag(s) X' = V D U', V with orthonormal columns. The likelihood depends only on V'Z. The part of Z
that is orthogonal to V is affected only by the penalty, so it stays at the centre C. So a network
on the inputs X diag(s) V, with weights A = V'Z and centres V'C, has the same minimisers, and

    Z = V A + (C - V V'C)

A factor is moved from the inputs to A, so that both have the usual size for a network with as many
columns as V.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data, HostRows, padded_size
from anchored.core.tree import on_device
from anchored.typing import Network, Params

_LEAST_COLUMNS = 128  # fewer cost little as they are
_MOST_ROWS = 2_000  # whose singular vectors are quick to find
_NO_ROW = 1e-6  # singular values below this share of the largest


class Narrow(NamedTuple):
    """The map from all columns to those that span the rows, and back."""

    data: Data
    basis: np.ndarray  # [column, coordinate]: V, and zeros that keep to few lengths
    relevance: np.ndarray  # [column, 1]: s, as a share of ``scale``
    scale: float
    unit: float

    def inner(self, tree: Params) -> Params:
        """Parameters, centres or starts [member, ...] as the narrow network takes them."""
        weight = np.asarray(tree[0]["weight"], np.float64) / self.relevance
        return _with_weight(tree, self.unit * (self.basis.T @ weight))

    def inner_scale(self, scale: Params) -> Params:
        """The prior's scale as the narrow network takes it."""
        shape = (self.basis.shape[1], scale[0]["weight"].shape[1])
        return _with_weight(scale, np.full(shape, self.scale * self.unit))

    def outer(self, tree: Params, rest: Params) -> Params:
        """The inverse of `inner`; the part that no row affects is taken from ``rest``."""
        inside = np.asarray(tree[0]["weight"], np.float64) / self.unit
        left = np.asarray(rest[0]["weight"], np.float64) / self.relevance
        weight = self.basis @ (inside - self.basis.T @ left) + left
        return _with_weight(tree, self.relevance * weight)


def narrowed(network: Network, prior: Prior, data: Data) -> Narrow | None:
    """The narrow problem, if there is one and it is much smaller."""
    if type(network) is not MLP or isinstance(data.x, HostRows) or data.n_rows > _MOST_ROWS:
        return None
    n_columns, size = data.x.shape[-1], padded_size(data.n_rows)
    scale = np.asarray(prior.scale[0]["weight"], np.float64)
    if n_columns < max(_LEAST_COLUMNS, size + 1):
        return None
    if not np.isfinite(scale).all() or np.any(scale != scale[:, :1]):
        return None
    average = float(np.sqrt(np.mean(np.square(scale))))
    relevance = scale[:, :1] / average
    rows = np.asarray(data.x, np.float64)[: data.n_rows] * relevance[:, 0]
    # By way of a triangle, because singular vectors of a small square are quick to find.
    span, triangle = np.linalg.qr(rows.T)
    vectors, values, turned = np.linalg.svd(triangle.T)
    rank = max(1, int(np.sum(values > _NO_ROW * values[0])))
    basis, x = np.zeros((n_columns, size)), np.zeros((len(data.weight), size))
    basis[:, :rank] = span @ turned[:rank].T
    x[: data.n_rows, :rank] = vectors[:, :rank] * values[:rank]
    unit = float(np.sqrt(np.sum(np.square(x)) / (data.n_rows * rank))) or 1.0
    inputs = on_device((x / unit).astype(data.x.dtype))
    return Narrow(dataclasses.replace(data, x=inputs), basis, relevance, average, unit)


def _with_weight(tree: Params, weight: np.ndarray) -> Params:
    first = {**tree[0], "weight": on_device(weight.astype(tree[0]["weight"].dtype))}
    return (first, *tree[1:])
