"""Noise in the outputs that makes a trained member a draw from the posterior.

A likelihood pulls the outputs f of a row by its score, the gradient of log p(y | f). In the method
``rms``, noise of covariance F(f), the Fisher information of the outputs, is added to this pull. The
score of a newly drawn target would have the same covariance. For a Gaussian this is noise of its
variance on the targets.

The noise of a row depends on the member's seed and the row's number alone. Each step computes it
again, so nothing is stored, and rows may come in any order, in any batch, and at a later time.

Members come in pairs of opposite noise. Each member is still a draw. In the mean of a pair the
noise cancels to first order, so the mean of few members is nearly as good as that of many. Members
that do not see some rows are not in pairs, because their spread is learned from few of them.
"""

import jax
import jax.numpy as jnp

from anchored.typing import Array, Likelihood

_STRIDE = 0x9E3779B9  # between the bits of two outputs before they are mixed
# The inverse of the normal distribution is u times this polynomial of -log(1 - u^2), highest power
# first, within a share of 2e-4; JAX's own takes five times as long.
_NORMAL = (
    3.86209e-7,
    -2.221996e-5,
    5.0119405e-4,
    -5.3447879e-3,
    0.018766321,
    0.32749278,
    1.2531525,
)


def mixed(bits: Array) -> Array:
    """A hash of 32 bits, the last mixing of MurmurHash3."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> shift)) * jnp.uint32(factor)
    return bits ^ (bits >> 16)


def row_bits(seed: Array, rows: Array) -> Array:
    """Random bits [batch] of rows by their numbers, for the first two words of a ``seed``."""
    return mixed(mixed(rows.astype(jnp.uint32) ^ seed[0]) ^ seed[1])


def sign_of(seed: Array) -> Array:
    """Plus or minus one, according to the third word of a member's ``seed``."""
    return 1.0 - 2.0 * seed[2].astype(jnp.float32)


def normals(bits: Array, n: int) -> Array:
    """Standard normals [batch, n] made from random ``bits`` [batch]."""
    strides = jnp.arange(1, n + 1, dtype=jnp.uint32) * jnp.uint32(_STRIDE)
    whole = mixed(bits[:, None] + strides).astype(jnp.int32) >> 8
    return inverse_normal((whole.astype(jnp.float32) + 0.5) * 2.0**-23)  # exact, never -1 or 1


def inverse_normal(u: Array) -> Array:
    """The quantile of a standard normal at the level (1 + u) / 2, for u in (-1, 1)."""
    return u * jnp.polyval(jnp.array(_NORMAL), -jnp.log((1 - u) * (1 + u)), unroll=len(_NORMAL))


def score_noise(likelihood: Likelihood, outputs: Array, bits: Array) -> Array:
    """A draw of mean zero and covariance F(outputs) for each row [batch, out].

    It is normal if the likelihood has `score_noise(outputs, z)`, a root of F times standard
    normals z. For any other likelihood, it is the score of a label that the likelihood draws.
    """
    outputs = jax.lax.stop_gradient(outputs)
    closed_form = getattr(likelihood, "score_noise", None)
    if closed_form is not None:
        return closed_form(outputs, normals(bits, outputs.shape[-1]))

    def score(bits: Array, outputs: Array) -> Array:
        y = likelihood.sample(jax.random.key(bits), outputs)
        return jax.grad(lambda f: jnp.sum(likelihood.log_prob(f, y)))(outputs)

    return jax.vmap(score)(bits, outputs[:, None])[:, 0]
