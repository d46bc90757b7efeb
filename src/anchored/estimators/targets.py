"""Targets of a regressor in the form that members are trained on, and what held-out rows say about
them.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from anchored.core.checkpoints import Checkpoint
from anchored.core.ensembles import Ensemble
from anchored.core.rows import HostRows, Standardiser
from anchored.error_bars import novelty
from anchored.error_bars.folds import HeldOut
from anchored.error_bars.noise import Learned, learn_noise, with_level
from anchored.estimators.kept import Prepared, Scores
from anchored.estimators.rows import Rows
from anchored.model.record import Noise, Regression
from anchored.prediction.warp import Warp

Place = Callable[[str], Checkpoint | None]
LOOKED_AT = 20_000  # training rows on which residuals and health are looked at


@dataclasses.dataclass(frozen=True, eq=False)
class Targets:
    """How targets are turned into those that members are trained on.

    Attributes
    ----------
    one_target : whether they came without an axis of outputs.
    warp, scaler : the scale they are predicted on, and their mean and deviation there.
    noise_given : whether the noise was given rather than learned.
    n_tuned : how many numbers were chosen with all rows in sight.
    learned : the noise of each output, its values at rows [row], NaN of rows that were not held
        out (of rows that stay in a file, at held-out rows alone); None before it is learned.
    """

    one_target: bool
    warp: Warp | None
    scaler: Standardiser
    noise_given: bool
    n_tuned: int
    learned: tuple[Learned, ...] | None = None

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Targets [row, out] as members are trained on them."""
        return self.scaler.forward(y if self.warp is None else self.warp.forward(y))

    def learned_from(
        self,
        prepared: Prepared,
        ensemble: Ensemble,
        held: HeldOut | None,
        family: str,
        place: Place,
    ) -> "Found":
        """The noise and the scale of the target, learned from held-out rows if there are any.

        ``place`` says where a training of this name is kept.
        """
        rows, likelihood = prepared.rows, prepared.model.likelihood
        noise_var = known = getattr(likelihood, "noise_var", None)
        targets, warp, noise, usual = self, self.warp, None, None
        if held is not None:
            held = _that_count(held, rows.weight)
            targets = self._with_noise(prepared, held, family, place)
            noise, usual = targets._noise_and_spread(held, rows)
            noise_var, warp = _average_noise(noise, rows), self._with_mean(held, rows)
        elif not self.noise_given and noise_var is not None:
            noise_var = np.maximum(noise_var, _unexplained(ensemble, rows))
            if warp is not None:  # the mean of a log-normal over its median
                raised = float(np.exp(noise_var[0] * self.scaler.scale[0] ** 2 / 2))
                warp = dataclasses.replace(warp, raised=raised)
        n_targets = rows.y.shape[1]
        regression = Regression(
            family=family,
            one_target=self.one_target,
            mean=self.scaler.mean,
            scale=self.scaler.scale,
            floor=getattr(likelihood, "floor", None),
            training_noise_var=None if known is None else np.broadcast_to(known, (n_targets,)),
            noise_var=None if noise_var is None else noise_var * self.scaler.scale**2,
            noise=noise,
            warp=warp,
        )
        scores = None if held is None else Scores.of(_scores(regression, held, rows))
        return Found(targets, regression, usual, scores)

    def _with_noise(
        self, prepared: Prepared, held: HeldOut, family: str, place: Place
    ) -> "Targets":
        """With the noise of each output: learned, or of the shape that was learned before."""
        rows = prepared.rows
        x, y, weight = rows.x[held.rows], rows.y[held.rows], rows.weight[held.rows]
        if rows.standardiser.n_ramps:  # where the noise is larger, features alone can say
            x = x[:, : -rows.standardiser.n_ramps]
        n_outputs = y.shape[1]
        keys = jax.random.split(jax.random.fold_in(prepared.random, 1), n_outputs)
        learned = []
        for i in range(n_outputs):
            told = held.outputs[..., i], y[:, i], weight, family, self.n_tuned
            found = None
            if self.learned is None:
                found = learn_noise(keys[i], x, *told, checkpoint=place(f"noise-{i}"))
            else:
                shape = self.learned[i].noise.shape
                unseen = self._unseen(i, held.rows, x)
                found = Learned(with_level(shape, unseen, *told), unseen)
            if not isinstance(rows.x, HostRows):  # to which no rows can be added later
                of_row = np.full(len(rows.y), np.nan)
                of_row[held.rows] = found.unseen
                found = found._replace(unseen=of_row)
            learned.append(found)
        return dataclasses.replace(self, learned=tuple(learned))

    def _unseen(self, output: int, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The shape of the noise at held-out rows: as it was, and at new rows as it says."""
        assert self.learned is not None
        noise, before = self.learned[output]
        known = np.full(max(int(rows.max()) + 1, len(before)), np.nan)
        known[: len(before)] = before
        unseen = known[rows]
        new = np.isnan(unseen)
        if new.any():
            unseen[new] = 1.0 if noise.shape is None else noise.shape(np.asarray(x[new]))
        return unseen

    def _noise_and_spread(self, held: HeldOut, rows: Rows) -> tuple[tuple[Noise, ...], np.ndarray]:
        """The noise of each output, and the usual spread [out], standardised."""
        assert self.learned is not None
        noise = tuple(part.noise for part in self.learned)
        factor, weight = np.array([part.factor for part in noise]), rows.weight[held.rows]
        spread = factor * novelty.usual(held.outputs.var(axis=0, ddof=1), weight)
        return noise, np.sqrt(spread)

    def _with_mean(self, held: HeldOut, rows: Rows) -> Warp | None:
        """With the mean of the target that held-out rows say."""
        if self.warp is None:
            return None
        t = held.outputs[..., 0] * self.scaler.scale + self.scaler.mean
        y = self.warp.inverse(rows.y[held.rows, 0] * self.scaler.scale + self.scaler.mean)
        return self.warp.lifted(t, y, rows.weight[held.rows])


class Found(NamedTuple):
    """What was learned about the targets."""

    targets: Targets
    regression: Regression
    usual: np.ndarray | None  # spread [out] of members at held-out rows, standardised
    scores: Scores | None  # of held-out rows


def _that_count(held: HeldOut, weight: np.ndarray) -> HeldOut:
    counts = weight[held.rows] > 0
    return held if counts.all() else HeldOut(held.rows[counts], held.outputs[:, counts])


def _scores(regression: Regression, held: HeldOut, rows: Rows) -> np.ndarray:
    """Log densities of held-out targets, as `predict_dist` would give them."""
    dist: Any = regression.predictive(held.outputs, np.asarray(rows.x[held.rows]))
    y = rows.y[held.rows] * regression.scale + regression.mean
    if regression.warp is not None:
        y = regression.warp.inverse(y)
    return dist.log_density(y[:, 0] if regression.one_target else y)


def _average_noise(noise: tuple[Noise, ...], rows: Rows) -> np.ndarray:
    """Variance of the noise [out] averaged over training rows, standardised."""
    x = rows.unread(LOOKED_AT)
    return np.array([np.average(part.at(x), weights=rows.weight[: len(x)]) for part in noise])


def _unexplained(ensemble: Ensemble, rows: Rows) -> np.ndarray:
    """Mean squared residual [out] of the pooled members, standardised.

    The kernel may explain noise away that finite networks cannot; the noise is never less than
    what they leave.
    """
    return mean_square(ensemble.outputs(rows.unread(LOOKED_AT)), rows)


def mean_square(means: np.ndarray, rows: Rows) -> np.ndarray:
    """Mean squared residual [out] of the pooled means [member, row, out] of some rows."""
    n = means.shape[1]
    residual = rows.y[:n] - means.astype(np.float64).mean(axis=0)
    return np.average(np.square(residual), axis=0, weights=rows.weight[:n])
