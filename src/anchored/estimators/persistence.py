"""Estimators to files and back: `save` and `load`.

A file has everything that predicts, and how training went; it does not have the training rows.
What a file looks like is the business of `_saved` and `_fitted`; nothing in it is pickled.
"""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored import __version__
from anchored.core.ensembles import Ensemble
from anchored.core.likelihoods import Categorical, Gaussian, HeteroskedasticGaussian
from anchored.core.networks import MLP, ConvNet, TextCNN
from anchored.core.priors import Prior
from anchored.core.rows import Standardiser
from anchored.core.training import TrainInfo
from anchored.error_bars.calibration import Calibration
from anchored.error_bars.noise import NoiseModel, Residual, Shape
from anchored.errors import ModelFileError
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.model import record as _fitted
from anchored.model.record import (
    FittedEnsemble,
    FittedModel,
    FittedNetwork,
    FittedNoise,
    FittedRegression,
    FittedShape,
)
from anchored.model.runtime import restored_encoder
from anchored.tuning import Settings

_NETWORKS = {"MLP": MLP, "ConvNet": ConvNet, "TextCNN": TextCNN}
_IN_FILE = "in this file"  # in place of a parameter that the file holds as arrays


def save(
    estimator,
    path: str | Path,
    *,
    encoder=None,
    provenance: dict | None = None,
    held_out: tuple[Any, Any] | None = None,
) -> None:
    """Write a fitted estimator to one file, whole or not at all.

    Parameters
    ----------
    encoder : the `Encoder` that made the inputs of a table, kept so that tables can be predicted.
    provenance : anything JSON can hold. ``coverage`` in it is that of intervals of
        `anchored.model.runtime`; the rest is for you.
    held_out : inputs and targets that the estimator has not seen, kept for a report.
    """
    ensemble = estimator.ensemble_
    standardiser = estimator.x_standardiser_
    as_it_is = standardiser.keeps_type
    names = getattr(estimator, "feature_names_in_", None)
    scale = getattr(estimator, "novelty_scale_", None)
    is_regressor = isinstance(estimator, AnchoredRegressor)
    model = FittedModel(
        package=__version__,
        parameters=_packed_parameters(estimator),
        n_features=estimator.n_features_in_,
        feature_names=None if names is None else tuple(map(str, names)),
        ensemble=_packed_ensemble(ensemble),
        prior_mean=_packed_layers(estimator.prior_.mean),
        prior_scale=_packed_layers(estimator.prior_.scale),
        x_mean=None if as_it_is else standardiser.mean,
        x_scale=None if as_it_is else standardiser.scale,
        regression=_packed_regression(estimator) if is_regressor else None,
        classes=None if is_regressor else _checked_classes(estimator.classes_),
        temperature=_plain(getattr(estimator, "temperature_", None)),
        novelty_scale=None if scale is None else np.atleast_1d(scale),
        encoder=None if encoder is None else encoder.to_json(),
        provenance=provenance or {},
        held_out=None if held_out is None else _packed_held_out(estimator, *held_out),
    )
    _fitted.save(model, path)


def load(path: str | Path) -> AnchoredRegressor | AnchoredClassifier:
    """The estimator of a file that `save` wrote.

    It predicts as it did; ``encoder_``, ``provenance_`` and ``held_out_`` are what was saved
    with it, or None. A `ModelFileError` of one line says what is wrong with a file.
    """
    fitted = _fitted.load(path)
    network = _NETWORKS[fitted.ensemble.network.name](**fitted.ensemble.network.fields)
    prior = Prior(_layers(fitted.prior_mean), _layers(fitted.prior_scale))
    kind: Any = AnchoredClassifier if fitted.regression is None else AnchoredRegressor
    try:
        estimator = kind(**_parameters(fitted, network, prior))
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} has parameters of no estimator: {error}") from error
    estimator.n_features_in_ = fitted.n_features
    if fitted.feature_names is not None:
        estimator.feature_names_in_ = np.array(fitted.feature_names, dtype=object)
    estimator.prior_ = prior
    estimator.x_standardiser_ = _standardiser(fitted.x_mean, fitted.x_scale)
    if fitted.regression is not None:
        _restore_regression(estimator, fitted.regression)
        likelihood = _likelihood(fitted.regression)
        estimator.ensemble_ = _ensemble(fitted.ensemble, network, likelihood)
    else:
        estimator.ensemble_ = _ensemble(fitted.ensemble, network, Categorical())
        estimator.classes_ = fitted.classes
    if fitted.temperature is not None:
        estimator.temperature_ = fitted.temperature
    if fitted.novelty_scale is not None:
        estimator.novelty_scale_ = fitted.novelty_scale
    estimator.encoder_ = restored_encoder(fitted, path)
    estimator.provenance_ = fitted.provenance
    estimator.held_out_ = _held_out(fitted)
    return estimator


# Parameters of the constructor


def _packed_parameters(estimator) -> dict:
    parameters = dict(estimator.get_params(deep=False))
    parameters.pop("augment", None)  # a function, and of no use to what is trained
    for name in ("network", "prior"):
        if not isinstance(parameters[name], (type(None), str, int, float, np.number)):
            parameters[name] = _IN_FILE
    if parameters.get("settings") is not None:
        parameters["settings"] = dataclasses.asdict(estimator._tuned)
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None  # a generator's state has moved on in any case
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _parameters(fitted: FittedModel, network, prior: Prior) -> dict:
    parameters = dict(fitted.parameters)
    if parameters.get("network") is not None or not isinstance(network, MLP):
        parameters["network"] = network
    if parameters.get("prior") == _IN_FILE:
        parameters["prior"] = prior
    if isinstance(parameters.get("hidden"), list):
        parameters["hidden"] = tuple(parameters["hidden"])
    if parameters.get("settings") is not None:
        parameters["settings"] = Settings(**parameters["settings"])
    if fitted.regression is not None:
        parameters["predictive"] = fitted.regression.family
    return parameters


# Networks and their members


def _packed_network(network, params) -> FittedNetwork:
    """By its name and fields; ``params`` tell the sizes of its inputs."""
    name = type(network).__name__
    if _NETWORKS.get(name) is not type(network):
        raise TypeError(
            f"`network` is a {name}, and files hold only {', '.join(_NETWORKS)}: code is never "
            "saved. Keep its parameters, `ensemble_.params`, by a way of your own."
        )
    fields = dataclasses.asdict(network)
    if name == "MLP":
        return FittedNetwork(name, fields, (params[0]["weight"].shape[-2],))
    if name == "TextCNN":
        return FittedNetwork(name, fields, ())
    filters = [n for block in network.blocks for n in block]
    n_inputs = params[len(filters)]["weight"].shape[-2]
    if not filters:
        return FittedNetwork(name, fields, (1, n_inputs))
    return FittedNetwork(name, fields, (params[0]["weight"].shape[-2], n_inputs // filters[-1]))


def _packed_layers(params) -> tuple[dict[str, np.ndarray], ...]:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), tuple(params))


def _layers(layers):
    return jax.tree.map(jnp.asarray, layers)


def _packed_ensemble(ensemble: Ensemble) -> FittedEnsemble:
    return FittedEnsemble(
        _packed_network(ensemble.network, ensemble.params),
        _packed_layers(ensemble.params),
        _packed_layers(ensemble.centres),
        ensemble.member_ids,
        ensemble.retrained,
        np.asarray(ensemble.info.status, np.int64),
        np.asarray(ensemble.info.objective, np.float64),
        np.asarray(ensemble.info.steps, np.int64),
    )


def _ensemble(fitted: FittedEnsemble, network, likelihood) -> Ensemble:
    return Ensemble(
        network,
        likelihood,
        _layers(fitted.params),
        _layers(fitted.centres),
        fitted.member_ids,
        TrainInfo(fitted.status, fitted.objective, fitted.steps),
        fitted.retrained,
    )


def _standardiser(mean: np.ndarray | None, scale: np.ndarray | None) -> Standardiser:
    return Standardiser.identity() if mean is None or scale is None else Standardiser(mean, scale)


# Regression


def _packed_regression(estimator: AnchoredRegressor) -> FittedRegression:
    scaler, known = estimator.y_standardiser_, estimator._training_noise_var
    noise = estimator._noise
    return FittedRegression(
        family=estimator.predictive,
        one_target=estimator._one_target,
        mean=scaler.mean,
        scale=scaler.scale,
        floor=getattr(estimator.ensemble_.likelihood, "floor", None),
        training_noise_var=None if known is None else np.broadcast_to(known, scaler.scale.shape),
        noise_var=estimator.noise_var_,
        noise=None if noise is None else tuple(map(_packed_noise, noise)),
    )


def _packed_noise(noise: NoiseModel) -> FittedNoise:
    shape, level = noise.shape, dataclasses.asdict(noise.calibration)
    if shape is not None:
        ensemble = _packed_ensemble(shape.ensemble)
        shape = FittedShape(ensemble, float(shape.least), float(shape.most))
    level = {name: float(value) for name, value in level.items()}
    return FittedNoise(**level, shape=shape, conformal=noise.conformal)


def _restore_regression(estimator: AnchoredRegressor, fitted: FittedRegression) -> None:
    estimator.y_standardiser_ = Standardiser(fitted.mean, fitted.scale)
    estimator.noise_var_ = fitted.noise_var
    estimator._one_target = fitted.one_target
    estimator._training_noise_var = fitted.training_noise_var
    estimator._tuned = estimator.settings
    estimator._noise = None if fitted.noise is None else [_noise(part) for part in fitted.noise]


def _likelihood(fitted: FittedRegression):
    if fitted.floor is not None:
        return HeteroskedasticGaussian(fitted.floor)
    return Gaussian(fitted.training_noise_var)


def _noise(fitted: FittedNoise) -> NoiseModel:
    shape = None
    if fitted.shape is not None:
        network = MLP(**fitted.shape.ensemble.network.fields)
        ensemble = _ensemble(fitted.shape.ensemble, network, Residual())
        shape = Shape(ensemble, fitted.shape.least, fitted.shape.most)
    calibration = Calibration(fitted.factor, fitted.noise_var, fitted.noise_dof)
    return NoiseModel(calibration, shape, fitted.conformal)


# Classes


def _checked_classes(classes: np.ndarray) -> np.ndarray:
    if _fitted.label_type(classes) is None:
        raise TypeError(
            f"`classes_` are of type {classes.dtype}; files hold labels that are text, whole "
            "numbers, numbers or booleans. Fit with such labels."
        )
    return classes


# Rows for a report


def _packed_held_out(estimator, x, y) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x), np.asarray(y)
    if len(x) != len(y) or x.ndim < 2 or x.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"`held_out` must be inputs [row, {estimator.n_features_in_}] and as many targets; "
            f"got shapes {x.shape} and {y.shape}."
        )
    x = x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)
    if isinstance(estimator, AnchoredRegressor):
        y = y.astype(np.float64)
        n_targets = len(estimator.y_standardiser_.scale)
        return x, y.reshape(-1) if estimator._one_target else y.reshape(-1, n_targets)
    classes = estimator.classes_
    number = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    known = classes[number] == y
    if not np.all(known):
        raise ValueError(
            f"`held_out` has the label {y[~known].tolist()[0]!r}, which was not in training. "
            "Leave such rows out."
        )
    return x, number.astype(np.int64)


def _held_out(fitted: FittedModel) -> tuple[np.ndarray, np.ndarray] | None:
    if fitted.held_out is None or fitted.classes is None:
        return fitted.held_out
    x, number = fitted.held_out
    return x, fitted.classes[number]
