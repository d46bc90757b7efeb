"""How much noise there is, and where, learned from rows held out of the training.

The noise at x is a level times a shape, exp g(x). Small anchored networks learn g from the
residuals of held-out rows, with the members' spread taken into account; whether they help is
decided on rows that they have not seen either. Level, tails and the factor on the spread are
then fitted to all held-out rows (`calibration`).
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.checkpoints import Checkpoint
from anchored.core.ensembles import fit_ensemble
from anchored.core.loss import Folds
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.records import members_record
from anchored.core.rows import Data
from anchored.core.training import Schedule
from anchored.error_bars.calibration import calibrate, moderated
from anchored.model.record import LOG_NOISE_CLIP, Noise, NoiseShape
from anchored.typing import Array, Number

MIN_SHAPE_ROWS = 100  # held-out rows below which the noise is a constant
_NETWORK = MLP((50,))
_FIRST_VAR = 1.0  # of the prior of log noise: a deviation of about one
_DOF = 5.0  # tails while the shape is learned, so that single rows do not rule it
_N_MEMBERS = 5
_N_FOLDS = 3
_STEPS, _RATE = 1_300, 0.01
_BATCH_SIZES, _ROWS_PER_BATCH_ROW = (64, 1_024), 20


class Learned(NamedTuple):
    """The noise, and its shape at each held-out row, predicted by networks that did not see the
    row.
    """

    noise: Noise
    unseen: np.ndarray  # [batch]; ones if the noise is the same everywhere


def learn_noise(
    key: Array,
    x: np.ndarray,
    members: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    family: str = "student-t",
    n_tuned: int = 0,
    checkpoint: Checkpoint | None = None,
) -> Learned:
    """Learn the noise from held-out rows: inputs, member means [member, batch], targets and weights
    [batch].

    ``family`` is the family of the later predictives, which affects the width of intervals.
    ``n_tuned`` is how many numbers were chosen with these rows in sight. ``checkpoint`` is where
    the training is kept.
    """
    told = members, y, weight, family, n_tuned
    same = np.ones(len(y))
    constant = Learned(with_level(None, same, *told), same)
    residual = y - members.mean(axis=0)
    # Tokens, whole numbers, say nothing by their size.
    plain = x.ndim == 2 and np.issubdtype(x.dtype, np.floating)
    if len(y) < MIN_SHAPE_ROWS or not plain or not residual.any():
        return constant
    folds = np.arange(len(y)) % _N_FOLDS
    spread = (constant.noise.factor + 1 / len(members)) * moderated(members, weight)[0]
    learned = _learn_shape(key, x, residual, spread, weight, folds, checkpoint)
    if learned is None:
        return constant
    shape, unseen = learned
    gains = _gains(members, y, weight, unseen, folds)
    gain = np.average(gains, weights=weight)
    error = np.sqrt(np.average(np.square(gains - gain), weights=weight) / len(y))
    if not gain > error:
        return constant
    return Learned(with_level(shape, unseen, *told), unseen)


def with_level(
    shape: NoiseShape | None, unseen: np.ndarray, members, y, weight, family: str, n_tuned: int
) -> Noise:
    """The noise of a known shape: its level, its tails and the width of intervals.

    ``unseen`` is the shape at the held-out rows, predicted by networks that did not see them; the
    rest is as in `learn_noise`.
    """
    fitted, n_rows = calibrate(members, y, weight, unseen), weight.sum()
    seen = fitted.learned_from(n_rows)
    conformal = seen.predictive(members, unseen, family).held_out(y, weight)
    found = fitted.learned_from(n_rows, n_tuned)
    return Noise(found.factor, found.noise_var, found.noise_dof, shape, conformal)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Residual:
    """Residuals with known spread; outputs are log noise relative to ``level``."""

    level: Number = 0.5
    family: ClassVar[str] = "gaussian"

    def log_prob(self, outputs: Array, y: Array) -> Array:
        residual, spread = y[..., 0], y[..., 1]
        scale2 = spread + self.level * jnp.exp(self.mean(outputs)[..., 0])
        return -0.5 * (jnp.log(scale2) + (_DOF + 1) * jnp.log1p(residual**2 / (scale2 * _DOF)))

    def mean(self, outputs: Array) -> Array:
        log_noise = jnp.clip(outputs, -LOG_NOISE_CLIP, LOG_NOISE_CLIP)
        return jnp.concatenate([log_noise, log_noise], axis=-1)

    def variance(self, outputs: Array) -> Array:
        return jnp.zeros_like(self.mean(outputs))

    def sample(self, key: Array, outputs: Array) -> Array:
        """Residuals of rows without spread."""
        scale = jnp.sqrt(self.level * jnp.exp(self.mean(outputs)[..., :1]))
        residual = scale * jax.random.t(key, _DOF, scale.shape, scale.dtype)
        return jnp.concatenate([residual, jnp.zeros_like(residual)], axis=-1)


def _learn_shape(
    key, x, residual, spread, weight, folds, checkpoint=None
) -> tuple[NoiseShape, np.ndarray] | None:
    """The shape, and its values at each row by networks that did not see the row.

    None if a network diverged.
    """
    unit = np.average(np.square(residual), weights=weight)
    targets = np.stack([residual / np.sqrt(unit), spread / unit], axis=-1)
    held = Folds(folds, np.repeat(np.arange(_N_FOLDS), _N_MEMBERS)).joined(_N_MEMBERS)
    who = held.of_member
    batch_size = int(np.clip(len(x) // _ROWS_PER_BATCH_ROW, *_BATCH_SIZES))
    ensemble = fit_ensemble(
        key,
        _NETWORK,
        Prior.for_network(_NETWORK, x[:1], _FIRST_VAR),
        Residual(),
        Data.make(x, targets, weight),
        n_members=len(who),
        schedule=Schedule.fading(_STEPS, len(x), batch_size, _RATE),
        folds=held,
        checkpoint=checkpoint,
    )
    if ensemble.dropped:
        return None
    log_noise = ensemble.moments(x)[0][..., 0].astype(np.float64)
    unseen = np.empty(len(x))
    for fold in range(_N_FOLDS):
        unseen[folds == fold] = log_noise[who == fold][:, folds == fold].mean(axis=0)
    kept = np.flatnonzero(who == Folds.SEES_ALL)
    seen = log_noise[kept].mean(axis=0)
    record = members_record(ensemble.take(kept), x.shape[1:], np.float32)
    shape = NoiseShape(record.network, record.params, float(seen.min()), float(seen.max()))
    return shape, np.exp(unseen)


def _gains(members, y, weight, shape, folds) -> np.ndarray:
    """What the shape adds to the log density of each row, given the other folds."""
    gains = np.empty(len(y))
    variance, dof = moderated(members, weight)
    for fold in range(_N_FOLDS):
        here, rest = folds == fold, folds != fold
        with_shape = calibrate(members[:, rest], y[rest], weight[rest], shape[rest])
        without = calibrate(members[:, rest], y[rest], weight[rest])
        held = members[:, here], y[here]
        gains[here] = with_shape.log_density(*held, shape[here], (variance[here], dof))
        gains[here] -= without.log_density(*held, 1.0, (variance[here], dof))
    return gains
