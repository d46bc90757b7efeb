"""Likelihoods that are plain objects with ``log_prob`` and ``sample``; draws give the rest."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.tree import as_pytree, from_pytree
from anchored.errors import bad_value
from anchored.prediction.samples import SamplePredictive
from anchored.typing import Array

FAMILY = "samples"
_MOMENT_DRAWS = 200  # of each row and member, where moments have no formula
_DRAWS = 2_000  # of a predictive, shared out among members
_SEED = 0


def check_likelihood(likelihood: Any) -> None:
    """There must be a density and a way to draw from it."""
    for name in ("log_prob", "sample"):
        if isinstance(likelihood, type) or not callable(getattr(likelihood, name, None)):
            need = (
                "an object with `log_prob(outputs, y)` and `sample(key, outputs)`, "
                "such as StudentT()"
            )
            raise bad_value("likelihood", likelihood, need)


def family_of(likelihood: Any) -> str:
    """How a `Predictive` of a likelihood is made: from its moments, or from samples."""
    return getattr(likelihood, "family", FAMILY)


def n_targets_of(likelihood: Any, outputs: Any) -> int:
    """Number of targets, or of classes, that a likelihood reads from outputs of a shape."""
    if hasattr(likelihood, "mean"):
        return jax.eval_shape(likelihood.mean, outputs).shape[-1]
    return jax.eval_shape(likelihood.sample, jax.random.key(0), outputs).shape[-1]


def moments_of(likelihood: Any, outputs: Array) -> tuple[Array, Array]:
    """Mean and variance [batch, target] of the target, given the outputs of one member."""
    if hasattr(likelihood, "mean") and hasattr(likelihood, "variance"):
        return likelihood.mean(outputs), likelihood.variance(outputs)
    keys = jax.random.split(jax.random.key(_SEED), _MOMENT_DRAWS)
    drawn = jax.vmap(lambda key: likelihood.sample(key, outputs))(keys)
    return drawn.mean(axis=0), drawn.var(axis=0)


def sample_predictive(
    likelihood: Any,
    outputs: np.ndarray,
    mean: Any = 0.0,
    scale: Any = 1.0,
    one_target: bool = False,
    atoms: Any = (),
) -> SamplePredictive:
    """The mixture of members with outputs [member, batch, out], for targets scale * z + mean.

    The same draws for the same outputs. ``atoms`` are targets of positive probability in the units
    of the target, such as limits: draws of these targets are exact.
    """
    carried, put_out = as_pytree(likelihood), jnp.asarray(outputs)
    n_members, n_each = len(outputs), max(1, _DRAWS // len(outputs))
    plain = np.asarray(_draws(carried, put_out, n_each), np.float64)
    drawn = plain * scale + mean
    for atom in atoms:
        drawn = np.where(plain == np.float32((atom - mean) / scale), atom, drawn)
    members, spread = drawn.mean(axis=1), drawn.var(axis=1, ddof=1)
    draws = drawn.reshape(-1, *drawn.shape[2:])
    pooled = SamplePredictive.from_members(members, spread, FAMILY)
    parts = [pooled.mean, pooled.epistemic_var, pooled.aleatoric_var, members, draws]
    # Means of draws are apart by chance too, which is not disagreement.
    parts[1] = np.maximum(parts[1] - parts[2] / n_each, 0.0) if n_members > 1 else parts[1]
    if one_target:
        parts = [part[..., 0] for part in parts]

    def log_prob(y: np.ndarray) -> np.ndarray:
        y = y.reshape(len(y), -1)
        targets = (y - mean) / scale
        found = np.asarray(_log_prob(carried, put_out, jnp.asarray(targets)), np.float64)
        # A density has a unit, a probability none.
        return found - np.sum(np.where(np.isin(y, atoms), 0.0, np.log(scale)), axis=1)

    return SamplePredictive(
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        FAMILY,
        draws=parts[4],
        log_prob=log_prob,
        discrete=getattr(likelihood, "discrete", False),
    )


@partial(jax.jit, static_argnums=2)
def _draws(carried: Any, outputs: Array, n_each: int) -> Array:
    """Draws [member, draw, batch, target]."""
    likelihood = from_pytree(carried)

    def of_member(number: Array, outputs: Array) -> Array:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(_SEED), number), n_each)
        return jax.vmap(lambda key: likelihood.sample(key, outputs))(keys)

    return jax.vmap(of_member)(jnp.arange(len(outputs)), outputs)


@jax.jit
def _log_prob(carried: Any, outputs: Array, y: Array) -> Array:
    """Log density [batch] of the equal mixture of members."""
    likelihood = from_pytree(carried)
    each = jax.vmap(lambda f: likelihood.log_prob(f, y))(outputs)
    return jax.scipy.special.logsumexp(each, axis=0) - jnp.log(len(outputs))
