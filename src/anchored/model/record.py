"""A fitted model: everything needed to predict, as one frozen record of NumPy arrays.

Estimators hold such a record as ``model_``, and `file` writes and reads it. JAX, NumPy (`forward`)
and ONNX are three ways to compute the members' outputs. Only `FittedModel.predictive` turns outputs
into a predictive distribution.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchored.model import forward
from anchored.model.forward import Leaves
from anchored.prediction import special
from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive
from anchored.prediction.warp import Warp
from anchored.tables.encoder import Encoder

LOG_NOISE_CLIP = 8.0  # log noise is kept within this many nats
_BLOCK_ROWS = 16_384  # that go through the networks of the noise at a time


@dataclass(frozen=True, eq=False)
class NetworkRecord:
    """A network by name and fields.

    Attributes
    ----------
    name : of its class.
    fields : its constructor's arguments; None for a network of the user's own, which must be given
        again when a file is loaded.
    n_outputs : of the network.
    row_shape : shape of one input row; None in files of version 0.1.0 for images and texts.
    inputs : if inputs are several arrays, how they lie in a row: ``named`` and the ``parts``, each
        with ``name``, ``shape`` and ``kind``.
    """

    name: str
    fields: dict[str, Any] | None
    n_outputs: int
    row_shape: tuple[int, ...] | None
    inputs: dict[str, Any] | None = None

    @property
    def is_dense(self) -> bool:
        """Whether NumPy alone can compute its outputs."""
        return self.name == "MLP" and self.fields is not None


@dataclass(frozen=True, eq=False)
class Members:
    """The members, and how their training ended.

    Attributes
    ----------
    params, centres : parameters and what the penalty pulls them to, by path, stacked.
    member_ids : numbers of the members kept, in order; ``retrained`` those that diverged once.
    status, objective, steps : of the training of all members (`anchored.core.training`).
    dtype : what they were trained in. Parameters are float64 if it is that, else float32; those
        of bfloat16 have values that it holds.
    """

    network: NetworkRecord
    params: Leaves
    centres: Leaves
    member_ids: tuple[int, ...]
    retrained: tuple[int, ...]
    status: np.ndarray
    objective: np.ndarray
    steps: np.ndarray
    dtype: str = "float32"

    @property
    def n_members(self) -> int:
        return len(self.member_ids)


@dataclass(frozen=True, eq=False)
class NoiseShape:
    """Where the noise is larger: the average output of small networks is the logarithm of the
    noise.
    """

    network: NetworkRecord
    params: Leaves
    least: float  # log noise at the rows it was learned from;
    most: float  # beyond them it is not extrapolated

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Noise relative to its level at standardised rows, by their features alone."""
        starts = range(0, len(z), _BLOCK_ROWS)
        return np.concatenate([self._block(z[i : i + _BLOCK_ROWS]) for i in starts] or [np.ones(0)])

    def _block(self, z: np.ndarray) -> np.ndarray:
        assert self.network.fields is not None
        assert self.network.row_shape is not None
        z = z[:, : self.network.row_shape[0]]
        outputs = forward.outputs(self.params, self.network.fields["activation"], z)[..., 0]
        log_noise = np.clip(outputs, -LOG_NOISE_CLIP, LOG_NOISE_CLIP).mean(axis=0)
        return np.exp(np.clip(log_noise, self.least, self.most))


@dataclass(frozen=True, eq=False)
class Noise:
    """What held-out rows say about the spread and the noise of one output, standardised.

    Attributes
    ----------
    factor : on the variance of the members.
    noise_var, noise_dof : level of the noise, and its degrees of freedom as a Student-t.
    shape : where it is larger; None if it is the same everywhere.
    conformal : correction of the quantiles; None if too few rows were held out for one.
    """

    factor: float
    noise_var: float
    noise_dof: float
    shape: NoiseShape | None
    conformal: Conformal | None

    def at(self, z: np.ndarray) -> np.ndarray:
        """Variance of the noise at standardised rows."""
        return self.noise_var * (np.ones(len(z)) if self.shape is None else self.shape(z))


@dataclass(frozen=True, eq=False)
class Regression:
    """What only a regressor has.

    Attributes
    ----------
    family : of the predictive, gaussian or student-t.
    one_target : whether targets came without an axis of outputs.
    mean, scale : [out] of the targets.
    floor : least variance if the networks predict the noise themselves, else None.
    training_noise_var : [out], the noise in training, standardised; None if there is a floor.
    noise_var : [out], the noise in squared units of the target; None if there is a floor.
    noise : what held-out rows said about each output; None if none were held out.
    warp : the scale of the target that the networks predict, whose units mean, scale and noise
        have; None if they predict the target itself.
    """

    family: str
    one_target: bool
    mean: np.ndarray
    scale: np.ndarray
    floor: float | None
    training_noise_var: np.ndarray | None
    noise_var: np.ndarray | None
    noise: tuple[Noise, ...] | None
    warp: Warp | None = None

    def predictive(self, outputs: np.ndarray, z: np.ndarray) -> Predictive:
        """Pool outputs [member, row, out] at standardised rows, in the units of the target."""
        n_targets = len(self.scale)
        means = outputs[..., :n_targets]
        if self.floor is not None:
            var = special.softplus(outputs[..., n_targets:]) + self.floor
        elif self.noise is not None:
            var = np.stack([noise.at(z) for noise in self.noise], axis=-1)[None]
        else:
            assert self.noise_var is not None
            var = np.broadcast_to(self.noise_var / self.scale**2, means.shape[1:])[None]
        dist = Predictive.from_members(means, var, self.family)
        if self.noise is not None:
            dist = dataclasses.replace(
                dist,
                epistemic_var=dist.epistemic_var * [noise.factor for noise in self.noise],
                noise_dof=np.array([noise.noise_dof for noise in self.noise]),
                conformal=Conformal.stacked([noise.conformal for noise in self.noise]),
            )
        dist = dist.rescaled(self.scale, self.mean)
        if self.warp is not None:
            dist = dist.unwarped(self.warp)
        return dist.output(0) if self.one_target else dist


@dataclass(frozen=True, eq=False)
class Sampled:
    """What only a regressor with a ``likelihood`` has; its predictive consists of samples.

    Attributes
    ----------
    name : of the likelihood's class; files hold no code, so the likelihood must be given again.
    one_target : whether targets came without an axis of outputs.
    standardises : whether the likelihood was that of standardised targets.
    mean, scale : [target] that they were standardised with; else 0 and 1.
    """

    name: str
    one_target: bool
    standardises: bool
    mean: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, eq=False)
class FittedModel:
    """All that predicts; one of ``regression``, ``classes`` and ``sampled`` is not None.

    Attributes
    ----------
    package : version of anchored that made it.
    parameters : the estimator's constructor arguments, as JSON can say them.
    n_rows : different rows that it was trained on; None in files of version 0.1.0.
    n_features, feature_names : of the inputs, once a table is encoded.
    columns : names of the data frame's columns; None if it was fitted on an array.
    members, prior_mean, prior_scale : in standardised units.
    x_mean, x_scale : of the inputs, None if they are used as they are.
    x_reach : [2, feature], standardised: inputs beyond these ends are moved to them; None in old
        files.
    x_limit : [feature] that standardised inputs stay within, infinite for none; None if all are.
    x_ramps : [4, ramp], inputs of the networks behind the features (`special.with_ramps`); None if
        there are none.
    classes : labels of a classifier.
    temperature : probabilities p are turned into p^(1 / temperature), normalised.
    novelty_scale : what counts as much: epistemic deviation [out], or for classes mutual
        information and spread of the logits [2].
    encoder : how a table becomes inputs.
    provenance : what the user wants kept.
    held_out : inputs and targets kept for a report.
    sampled : of a regressor with a likelihood of its own.
    """

    package: str
    parameters: dict[str, Any]
    n_rows: int | None
    n_features: int
    feature_names: tuple[str, ...] | None
    columns: tuple[str, ...] | None
    members: Members
    prior_mean: Leaves
    prior_scale: Leaves
    x_mean: np.ndarray | None
    x_scale: np.ndarray | None
    x_reach: np.ndarray | None
    x_limit: np.ndarray | None
    x_ramps: np.ndarray | None
    regression: Regression | None
    classes: np.ndarray | None
    temperature: float = 1.0
    novelty_scale: np.ndarray | None = None
    encoder: Encoder | None = None
    provenance: dict = dataclasses.field(default_factory=dict)
    held_out: tuple[np.ndarray, np.ndarray] | None = None
    sampled: Sampled | None = None

    @property
    def task(self) -> str:
        """regression or classification."""
        return "regression" if self.classes is None else "classification"

    def standardised(self, x: np.ndarray) -> np.ndarray:
        """Inputs as the networks take them."""
        if self.x_mean is None:
            return x
        z = special.limited((x - self.x_mean) / self.x_scale, self.x_reach, self.x_limit)
        return special.with_ramps(z, self.x_ramps)

    def further_out(self, z: np.ndarray, times: float) -> np.ndarray:
        """Standardised rows moved away from the mean of the training rows."""
        return special.with_ramps(times * z[:, : self.n_features], self.x_ramps)

    def predictive(self, outputs: np.ndarray, z: np.ndarray) -> Predictive:
        """The predictive of outputs [member, row, out] at standardised rows."""
        outputs = np.asarray(outputs, np.float64)
        if self.regression is not None:
            return self.regression.predictive(outputs, z)
        members = special.softmax(outputs)
        dist = Predictive.from_members(members, members * (1 - members), "categorical")
        return dataclasses.replace(dist, mean=special.tempered(dist.mean, self.temperature))

    def novelty(self, outputs: np.ndarray, dist: Predictive) -> np.ndarray:
        """How unlike the training rows each row is [row], from its outputs and its predictive."""
        assert self.novelty_scale is not None
        return special.unlikeness(disagreement(outputs, dist), self.novelty_scale)


def disagreement(outputs: np.ndarray, dist: Predictive) -> np.ndarray:
    """How far apart the members are [row, measure].

    For continuous targets the epistemic deviation of each output, on the networks' own scale. For
    classes the mutual information and the spread of the logits. Softmax saturates, so far from the
    data all members may be sure of the same class although their logits differ widely.
    """
    if dist.family == "categorical":
        return np.stack([dist.mutual_information, special.logit_spread(outputs)], axis=1)
    deviation = np.sqrt(dist.on_own_scale.epistemic_var)
    return deviation[:, None] if deviation.ndim == 1 else deviation
