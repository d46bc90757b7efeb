"""The loss of one member, and the table of methods.

Member j minimises the negative log posterior divided by N, whatever the batch size:

    -(1/B) sum_batch log p(y | f(theta, x)) + (1/2N) sum_i (theta_i - centre_i)^2 / var_i

Equation (10) of the paper is this times 2 noise_var. The methods differ only in the centre
of the penalty, in its weight, in noise added to the score of each row (`score_noise`), and in
whether hidden layers are trained (`last_layer`).
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from anchored.core import last_layer
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.score_noise import row_bits, score_noise, sign_of
from anchored.core.state import Batch
from anchored.core.tree import Carried, Raveller, from_pytree, squared_distance
from anchored.errors import bad_value, unknown_name
from anchored.typing import Array, Likelihood, Network, Number, Params


@dataclasses.dataclass(frozen=True)
class Method:
    """A row of the table of methods: where the penalty is centred, whether it counts, and so on."""

    anchors: bool = False  # centre: each member's own anchor, or else the prior mean
    penalised: bool = True
    score_noise: bool = False  # each member feels noise in the outputs, that of the data
    variance_head: bool = False  # regression predicts its own noise
    hidden_fixed: bool = False  # hidden layers stay at the centre; only the last is trained


METHODS: dict[str, Method] = {
    "anchored": Method(anchors=True),
    "regularised": Method(),
    "unconstrained": Method(penalised=False),
    "deep": Method(penalised=False, variance_head=True),
    "rms": Method(anchors=True, score_noise=True),
    "random-features": Method(anchors=True, score_noise=True, hidden_fixed=True),
}


def checked_method(method: str, likelihood: Likelihood, n_members: int) -> Method:
    """The row of a method in the table; a single member is a regularised network."""
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if not (isinstance(n_members, int) and n_members >= 1):
        raise bad_value("n_members", n_members, "a positive whole number")
    row = METHODS[method]
    if row.variance_head and isinstance(likelihood, Gaussian):
        raise ValueError(
            f"`method` {method!r} learns the noise: give it "
            f"`{HeteroskedasticGaussian.__name__}()` and a network with two outputs a target."
        )
    if n_members == 1:
        row = dataclasses.replace(row, anchors=False, score_noise=False, hidden_fixed=False)
    return row


class Folds(NamedTuple):
    """Rows held out from some members: member j does not see the rows of fold ``of_member[j]``.

    Its objective is then the negative log posterior given the other rows. Folds are numbered
    from 0; a row of `IN_NONE` is seen by all, and a member of `SEES_ALL` sees all rows.
    """

    of_row: np.ndarray  # [row] of whole numbers
    of_member: np.ndarray  # [member]

    IN_NONE = -1  # as a row's fold
    SEES_ALL = -2  # as a member's

    def joined(self, n_members: int) -> "Folds":
        """The same folds, with that many members in front that see all rows."""
        first = np.full(n_members, self.SEES_ALL)
        return self._replace(of_member=np.concatenate([first, self.of_member]))


class Own(NamedTuple):
    """What the loss needs of one member."""

    centre: Params
    seed: Array | None  # of the score noise, three words; none if there is no noise
    fold: Array | None  # rows of this fold count for nothing


class Extra(NamedTuple):
    """What the loss needs that all members share."""

    scale: Params
    likelihood: Carried
    penalty: Number  # 1, or 0 if the prior does not count
    folds: Array | None  # [row]
    numbers: Array | None = None  # [row] that its noise is made from, -1 for none; or its place
    noise: Number = np.float32(1)  # 1, or 0 as long as there is no score noise


@dataclasses.dataclass(frozen=True)
class MemberLoss:
    """The loss of the scaling contract, for one member."""

    network: Network
    raveller: Raveller | None  # set if parameters come as one vector
    hidden_fixed: bool = False

    def __call__(self, params: Params, own: Own, extra: Extra, batch: Batch) -> Array:
        network_params = params if self.raveller is None else self.raveller.unravel(params)
        if self.hidden_fixed:
            network_params = last_layer.last_alone(network_params)
        outputs = self.network.apply(network_params, batch.x)
        likelihood = from_pytree(extra.likelihood)
        weight = batch.weight
        if own.fold is not None and extra.folds is not None:
            weight = weight * (extra.folds[batch.rows] != own.fold)
        gain = weight * likelihood.log_prob(outputs, batch.y)
        if own.seed is not None:  # a row of weight w is w rows: so is the variance of its noise
            numbers = batch.rows if extra.numbers is None else extra.numbers[batch.rows]
            noise = score_noise(likelihood, outputs, row_bits(own.seed, numbers))
            share = extra.noise * sign_of(own.seed) * jnp.sqrt(weight) * (numbers >= 0)
            gain = gain + share * jnp.sum(noise * outputs, axis=-1)
        pull = 0.5 * squared_distance(params, own.centre, extra.scale) / batch.total
        return extra.penalty * pull - batch.scale * jnp.sum(gain)
