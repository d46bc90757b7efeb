"""The loss of one member of a Q-learning agent, and its gradient.

Given targets from the member's own target network, the loss is the negative log posterior divided
by N, the number of rows (s, a, r, s') seen so far:

    -(1/B) sum_batch log N(r + gamma max_a' Q_j'(s', a') | Q_j(s, a), noise_var)
        + (1/2N) sum_i (theta_i - anchor_ji)^2 / prior_var_i

The target network's values for rows do not change between two steps, so they are computed for many
steps at once (`QLoss.known`).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchored.core.likelihoods import Gaussian
from anchored.core.score_noise import row_bits
from anchored.core.state import Batch
from anchored.core.tree import Raveller, squared_distance
from anchored.rl.columns import outputs
from anchored.typing import Array, Network, Params

N_FIXED = 3  # columns of y before the next observation: action, reward, discount


class Own(NamedTuple):
    """What the loss needs of one member; parameters are vectors."""

    centre: Array
    target: Array  # parameters of the target network
    prior: Array | None  # of the fixed network that is added
    seed: Array | None  # of the rows it sees


class Extra(NamedTuple):
    """What the loss needs that all members share, in the units of the networks' outputs."""

    scale: Array
    penalty: Array
    noise_var: Array
    value_scale: Array
    prior_scale: Array


class Known(NamedTuple):
    """What is known about rows [batch, action] until the target network is replaced."""

    later: Array  # its Q of the next observation
    fixed: Array | None  # what the fixed network adds to Q


@dataclasses.dataclass(frozen=True)
class QLoss:
    """The loss above for one member."""

    network: Network
    raveller: Raveller
    double: bool

    def values(self, theta: Array, own: Own, extra: Extra, x: Array) -> Array:
        """Q [batch, action], in the units of the networks' outputs."""
        q = outputs(self.network, self.raveller.unravel(theta), x)
        fixed = self._fixed(own, extra, x)
        return q if fixed is None else q + fixed

    def known(self, own: Own, extra: Extra, batch: Batch) -> Known:
        """What is known of all rows of a batch, or of several batches at once."""
        later = self.values(own.target, own, extra, batch.y[:, N_FIXED:])
        return Known(later, self._fixed(own, extra, batch.x))

    def __call__(self, theta: Array, own: Own, extra: Extra, batch: Batch) -> Array:
        misfit = self._misfit(
            self.raveller.unravel(theta), own, extra, batch, self.known(own, extra, batch)
        )
        return self._pull(theta, own, extra, batch) + misfit

    def gradient(self, theta: Array, own: Own, extra: Extra, batch: Batch, known: Known) -> Array:
        """Gradient of the loss in theta, given what is known of the rows."""
        leaves = jax.grad(self._misfit)(self.raveller.unravel(theta), own, extra, batch, known)
        # Fused with the vector they become a part of, sums over rows would be slow.
        misfit = self.raveller.ravel(jax.lax.optimization_barrier(leaves))
        return misfit + jax.grad(self._pull)(theta, own, extra, batch)

    def _misfit(self, params: Params, own: Own, extra: Extra, batch: Batch, known: Known) -> Array:
        action, reward, discount = (batch.y[:, i] for i in range(N_FIXED))
        chooser = known.later
        if self.double:
            theta = self.raveller.ravel(jax.lax.stop_gradient(params))
            chooser = self.values(theta, own, extra, batch.y[:, N_FIXED:])
        target = reward / extra.value_scale + discount * _taken(known.later, chooser.argmax(-1))
        q = outputs(self.network, params, batch.x)
        q = _taken(q if known.fixed is None else q + known.fixed, action.astype(jnp.int32))
        gain = batch.weight * Gaussian(extra.noise_var).log_prob(q[:, None], target[:, None])
        if own.seed is not None:
            gain = gain * 2.0 * (row_bits(own.seed, batch.rows) >> 31)
        # The newest rows stand for those that the buffer let go: a mean, whatever N is.
        return -jnp.sum(gain) / jnp.maximum(batch.weight.sum(), 1.0)

    def _pull(self, theta: Array, own: Own, extra: Extra, batch: Batch) -> Array:
        distance = squared_distance(theta, own.centre, extra.scale)
        return extra.penalty * 0.5 * distance / batch.total

    def _fixed(self, own: Own, extra: Extra, x: Array) -> Array | None:
        """What the fixed network adds to Q [batch, action], if there is one."""
        if own.prior is None:
            return None
        return extra.prior_scale * outputs(self.network, self.raveller.unravel(own.prior), x)


def _taken(q: Array, action: Array) -> Array:
    """Q of the action of each row; a sum, whose gradient needs no scatter."""
    return jnp.sum(jnp.where(jnp.arange(q.shape[1]) == action[:, None], q, 0.0), axis=1)
