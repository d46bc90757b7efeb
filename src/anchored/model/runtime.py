"""Predictions from a saved model with NumPy alone: starts quickly, needs no JAX.

    model = anchored.model.runtime.load("model.safetensors")
    model.predict(x)["mean"]

The numbers are those of the estimator that was saved, up to the rounding of single precision.
Rows go through the networks in blocks that fit a processor's cache.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchored.errors import ModelFileError, bad_value
from anchored.model import record as _fitted
from anchored.model.file import quoted
from anchored.model.record import FittedEnsemble, FittedModel, FittedNoise, FittedRegression
from anchored.prediction.conformal import Conformal
from anchored.prediction.special import (
    combined,
    erf,
    half_width,
    logit_spread,
    tempered,
    unlikeness,
)

COVERAGE = 0.9  # of intervals, if the file does not say another
LOG_NOISE_CLIP = 8.0  # as in `anchored.error_bars.noise`
LEAKY_SLOPE = 0.2  # as in `anchored.core.networks`
MAX_INPUT = 1e30  # standardised, as in the estimators
_FLOAT = np.float32  # of the networks
_BLOCK_VALUES = 1 << 18  # values of a hidden layer held at a time: one megabyte
_BLOCK_ROWS = (64, 8_192)

Columns = dict[str, np.ndarray]


def load(path: str | Path) -> "Model":
    """The model of a file that `save` of an estimator wrote.

    A `ModelFileError` of one line says what is wrong with the file.
    """
    fitted = _fitted.load(path)
    if fitted.ensemble.network.name != "MLP":
        raise ModelFileError(
            f"{path} holds a {fitted.ensemble.network.name}, and only MLP networks are predicted "
            "without JAX. Use `anchored.load` for this one."
        )
    return Model(fitted, restored_encoder(fitted, path), _coverage(fitted, path))


def restored_encoder(fitted: FittedModel, path: str | Path) -> Any:
    """The encoder of a file, None if it has none."""
    if fitted.encoder is None:
        return None
    from anchored.tables.encoder import Encoder

    try:
        encoder = Encoder.from_json(fitted.encoder)
    except ValueError as error:
        raise ModelFileError(f"{path} cannot be used as a model: its encoder: {error}") from error
    if len(encoder.feature_names) != fitted.n_features:
        raise ModelFileError(
            f"{path} cannot be used as a model: its encoder makes {len(encoder.feature_names)} "
            f"features, its networks take {fitted.n_features}."
        )
    return encoder


def _coverage(fitted: FittedModel, path: str | Path) -> float:
    coverage = fitted.provenance.get("coverage", COVERAGE)
    if not (isinstance(coverage, float) and 0 < coverage < 1):
        raise ModelFileError(
            f"{path} cannot be used as a model: `provenance/coverage` must be a number between "
            f"0 and 1, not {quoted(coverage)}."
        )
    return coverage


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model that predicts with NumPy alone.

    Attributes
    ----------
    fitted : all that the file holds.
    encoder : turns a table into inputs; None if the model was saved without one.
    coverage : that of intervals, if none is asked for.
    """

    fitted: FittedModel
    encoder: Any
    coverage: float

    @property
    def task(self) -> str:
        """regression or classification."""
        return "classification" if self.fitted.regression is None else "regression"

    @property
    def classes(self) -> np.ndarray | None:
        """Labels in the order of the probabilities; None for regression."""
        return self.fitted.classes

    @property
    def provenance(self) -> dict:
        """What was saved with the model."""
        return self.fitted.provenance

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self.fitted.feature_names

    def predict_table(self, table, coverage: float | None = None) -> Columns:
        """`predict` for a `Table` with the columns that the model was fitted on."""
        if self.encoder is None:
            raise ValueError(
                "This model was saved without an encoder, so it cannot read tables. Give "
                "`predict` the array of features, or save with `encoder`."
            )
        self.encoder.check(table.columns)
        return self.predict(self.encoder.transform(table), coverage)

    def predict(self, x, coverage: float | None = None) -> Columns:
        """Columns of predictions [row] for inputs ``x`` [row, feature], by name.

        Regression: mean, std, epistemic_std, aleatoric_std, and lower and upper of intervals that
        should hold ``coverage`` of the targets; with several outputs, mean_0 and so on.
        Classification: prediction, p(label) of each label, entropy and mutual_information in
        nats. If the file has its scale also novelty: above 1, a row is unlike those of training.
        """
        coverage = self.coverage if coverage is None else coverage
        if not (isinstance(coverage, (float, np.floating)) and 0 < coverage < 1):
            raise bad_value("coverage", coverage, "a number between 0 and 1, both excluded")
        blocks = _blocks(self.fitted, self._checked(x))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.fitted.regression is None:
                parts = [_classification(self.fitted, z) for z in blocks]
            else:
                coverage, factor = float(coverage), self._factor(float(coverage))
                parts = [_regression(self.fitted, coverage, factor, z) for z in blocks]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _checked(self, x) -> np.ndarray:
        x, n_features = np.asarray(x), self.fitted.n_features
        if x.ndim != 2 or x.shape[1] != n_features or x.dtype.kind not in "fiub":
            raise bad_value("x", x, f"an array of numbers [row, {n_features}]")
        return x

    @functools.lru_cache(maxsize=16)  # noqa: B019 - a model is small and mostly lives on
    def _factor(self, coverage: float) -> np.ndarray | float:
        """What half-widths are multiplied by, [out]."""
        regression = self.fitted.regression
        if regression is None or regression.noise is None:
            return 1.0
        together = Conformal.stacked([noise.conformal for noise in regression.noise])
        return together.factor(coverage, half_width)


def _blocks(fitted: FittedModel, x: np.ndarray) -> Iterator[np.ndarray]:
    """Standardised inputs, some rows at a time; at least one block, if an empty one."""
    ensemble = fitted.ensemble
    widest = max(layer["weight"].shape[-1] for layer in ensemble.params)
    n_rows = int(np.clip(_BLOCK_VALUES // (ensemble.n_members * widest), *_BLOCK_ROWS))
    for start in range(0, max(len(x), 1), n_rows):
        z = (x[start : start + n_rows] - fitted.x_mean) / fitted.x_scale
        if not np.all(np.abs(z) < MAX_INPUT):
            row, feature = np.argwhere(~(np.abs(z) < MAX_INPUT))[0]
            raise ValueError(
                f"`x` has {x[start + row, feature]} in row {start + row}, feature {feature}: it "
                f"must be a number within {MAX_INPUT:.0e} deviations of the training data."
            )
        yield z.astype(_FLOAT)


def _outputs(ensemble: FittedEnsemble, x: np.ndarray) -> np.ndarray:
    """Outputs [member, row, out] of the networks."""
    activation = ACTIVATIONS[ensemble.network.fields["activation"]]
    last = len(ensemble.params) - 1
    for i, layer in enumerate(ensemble.params):
        x = np.matmul(x, layer["weight"])
        if "bias" in layer:
            x += layer["bias"][:, None]
        if i < last:
            x = activation(x)
    return x.astype(np.float64)


def _leaky_relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, LEAKY_SLOPE * z, out=z)


def _gelu(z: np.ndarray) -> np.ndarray:
    """Its usual approximation by tanh."""
    inner = z * z
    inner *= 0.044715
    inner += 1
    inner *= z
    inner *= np.sqrt(2 / np.pi).astype(z.dtype)
    np.tanh(inner, out=inner)
    inner += 1
    inner *= 0.5
    inner *= z
    return inner


def _softplus(z: np.ndarray) -> np.ndarray:
    """log(1 + exp z), without overflow."""
    small = np.exp(-np.abs(z))
    return np.maximum(z, 0) + np.log1p(small, out=small)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda z: np.maximum(z, 0, out=z),
    "leaky_relu": _leaky_relu,
    "erf": erf,
    "tanh": lambda z: np.tanh(z, out=z),
    "gelu": _gelu,
    "softplus": _softplus,
}


def _regression(fitted: FittedModel, coverage: float, factor, z: np.ndarray) -> Columns:
    """Predictions at standardised inputs; ``factor`` is on the half-widths of intervals."""
    regression = fitted.regression
    assert regression is not None
    members, noise = _members(fitted.ensemble, regression, z)
    n_members = len(members)
    mean = members.mean(axis=0)
    variance = members.var(axis=0, ddof=1) if n_members > 1 else np.zeros_like(mean)
    epistemic, noise_dof = variance, np.inf
    if regression.noise is not None:
        epistemic = variance * [part.factor for part in regression.noise]
        noise_dof = np.array([part.noise_dof for part in regression.noise])
    scale2, dof = epistemic + noise, np.inf
    if regression.family == "student-t":
        spread = epistemic + variance / n_members
        scale2, dof = combined(spread, n_members - 1 or np.inf, noise, noise_dof)
    half = np.sqrt(scale2) * half_width(coverage, dof) * factor * regression.scale
    mean = regression.scale * mean + regression.mean
    by_output = {
        "mean": mean,
        "std": regression.scale * np.sqrt(epistemic + noise),
        "epistemic_std": regression.scale * np.sqrt(epistemic),
        "aleatoric_std": regression.scale * np.sqrt(noise),
        "lower": mean - half,
        "upper": mean + half,
    }
    columns = _columns(by_output, mean.shape[1])
    if fitted.novelty_scale is not None:
        columns["novelty"] = unlikeness(by_output["epistemic_std"], fitted.novelty_scale)
    return columns


def _members(ensemble: FittedEnsemble, regression: FittedRegression, z: np.ndarray):
    """Means [member, row, out], and variance of the noise [row, out], both standardised."""
    outputs = _outputs(ensemble, z)
    n_targets = len(regression.scale)
    members = outputs[..., :n_targets]
    if regression.floor is not None:
        return members, (_softplus(outputs[..., n_targets:]) + regression.floor).mean(axis=0)
    if regression.noise is not None:
        return members, np.stack([_noise_at(part, z) for part in regression.noise], axis=-1)
    assert regression.noise_var is not None
    return members, np.broadcast_to(regression.noise_var / regression.scale**2, members.shape[1:])


def _columns(by_output: Columns, n_targets: int) -> Columns:
    if n_targets == 1:
        return {name: array[:, 0] for name, array in by_output.items()}
    return {
        f"{name}_{i}": array[:, i] for i in range(n_targets) for name, array in by_output.items()
    }


def _noise_at(noise: FittedNoise, z: np.ndarray) -> np.ndarray:
    """Variance of the noise at each row, standardised."""
    if noise.shape is None:
        return np.full(len(z), noise.noise_var)
    outputs = _outputs(noise.shape.ensemble, z)[..., 0]
    log_noise = np.clip(outputs, -LOG_NOISE_CLIP, LOG_NOISE_CLIP).mean(axis=0)
    return noise.noise_var * np.exp(np.clip(log_noise, noise.shape.least, noise.shape.most))


def _classification(fitted: FittedModel, z: np.ndarray) -> Columns:
    assert fitted.classes is not None
    logits = _outputs(fitted.ensemble, z)
    members = np.exp(logits - logits.max(axis=-1, keepdims=True))
    members /= members.sum(axis=-1, keepdims=True)
    mean = members.mean(axis=0)
    mutual_information = np.maximum(_entropy(mean) - _entropy(members).mean(axis=0), 0.0)
    probabilities = tempered(mean, fitted.temperature or 1.0)
    columns = {"prediction": fitted.classes[np.argmax(probabilities, axis=1)]}
    for label, p in zip(fitted.classes.tolist(), probabilities.T, strict=True):
        columns[f"p({label})"] = p
    columns["entropy"] = _entropy(probabilities)
    columns["mutual_information"] = mutual_information
    if fitted.novelty_scale is not None:
        apart = np.stack([mutual_information, logit_spread(logits)], axis=1)
        columns["novelty"] = unlikeness(apart, fitted.novelty_scale)
    return columns


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    return -(probabilities * logs).sum(axis=-1)
