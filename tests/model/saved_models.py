"""Quickly fitted estimators of every kind that a file must hold, and a table."""

import copy
import dataclasses
import functools
import warnings

import jax
import numpy as np

from anchored import (
    MLP,
    AnchoredClassifier,
    AnchoredRegressor,
    Data,
    Gaussian,
    HeteroskedasticGaussian,
    Prior,
    Schedule,
    fit_ensemble,
)
from anchored.core import networks
from anchored.error_bars.noise import Residual, Shape
from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table

QUICK = {"hidden": (6,), "n_members": 3, "epochs": 20, "prior": 4.0, "random_state": 0}
MEAN, SCALE = np.array([5.0, -300.0, 0.01]), np.array([1.0, 40.0, 0.003])
# One fit, of two outputs, is enough: the others are made of another, by changes.
REGRESSORS = {
    "two outputs": (None, None),
    "two outputs, given noise": ("two outputs", lambda m: {"_noise": None}),
    "learned noise": ("two outputs", lambda m: _first_output(m)),
    "shape of the noise": ("learned noise", lambda m: {"_noise": [_with_shape(m)]}),
    "gaussian, learned noise": ("learned noise", lambda m: {"predictive": "gaussian"}),
    "given noise": ("learned noise", lambda m: {"_noise": None}),
    "gaussian, given noise": ("given noise", lambda m: {"predictive": "gaussian"}),
    "targets as a column": ("given noise", lambda m: {"_one_target": False}),
    "one member": ("given noise", lambda m: {"ensemble_": m.ensemble_.member(0)}),
    "linear": ("given noise", lambda m: untrained(m, MLP(()), inputs(9))),
    "networks that predict noise": ("given noise", lambda m: _variance_head(m)),
    **{
        f"two layers of {name}": (
            "given noise",
            lambda m, name=name: untrained(m, MLP((5, 4), 1, name), inputs(9)),
        )
        for name in networks.ACTIVATIONS
    },
}
LABELS = {
    "text": np.array(["no", "perhaps", "yes"]),
    "whole numbers": np.array([-3, 2, 7]),
    "reals": np.array([0.5, 1.5, 2.5]),
    "two whole numbers": np.array([0, 1]),
    "booleans": np.array([False, True]),
    "text in objects": np.array(["a", "bb"], dtype=object),
}


def inputs(n_rows: int, seed: int = 0) -> np.ndarray:
    return MEAN + SCALE * np.random.default_rng(seed).normal(size=(n_rows, len(MEAN)))


@functools.cache
def regressor(name: str) -> AnchoredRegressor:
    base, changes = REGRESSORS[name]
    if base is not None:
        return changed(regressor(base), **changes(regressor(base)))
    x = inputs(90)  # too few for a shape of the noise
    z = (x - MEAN) / SCALE
    noise = np.random.default_rng(1).normal(size=(2, len(x)))
    first = 10 + 3 * np.sin(z[:, 0]) + z[:, 1] + 0.5 * noise[0]
    second = 100 * z[:, 2] + 4 * noise[1]
    return _fitted(AnchoredRegressor(**QUICK), x, np.stack([first, second], axis=1))


@functools.cache
def classifier(name: str) -> AnchoredClassifier:
    labels = LABELS[name]
    return changed(_classifier(len(labels)), classes_=labels)


@functools.cache
def _classifier(n_classes: int) -> AnchoredClassifier:
    x = inputs(90, seed=2)
    z = (x - MEAN) / SCALE
    which = (z[:, 0] > 0).astype(int) + (z[:, 1] > 0.5)
    return _fitted(AnchoredClassifier(**QUICK), x, which % n_classes)


def _fitted(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(x, y)


def changed(estimator, **attributes):
    """A copy with other attributes."""
    other = copy.copy(estimator)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


def untrained(estimator, network, x) -> dict:
    """Attributes of an estimator whose members are ``network`` as it starts."""
    keys = jax.random.split(jax.random.key(0), estimator.ensemble_.n_members)
    params = jax.tree.map(lambda *leaves: np.stack(leaves), *[network.init(k, x) for k in keys])
    ensemble = dataclasses.replace(
        estimator.ensemble_, network=network, params=params, centres=params
    )
    return {"ensemble_": ensemble, "prior_": Prior.for_network(network, x)}


def _variance_head(estimator) -> dict:
    made = untrained(estimator, MLP((6,), 2), inputs(9))
    ensemble = dataclasses.replace(made["ensemble_"], likelihood=HeteroskedasticGaussian(2e-6))
    return made | {"ensemble_": ensemble, "noise_var_": None, "_training_noise_var": None}


def _first_output(estimator) -> dict:
    def first(layers):
        return (*layers[:-1], {"weight": layers[-1]["weight"][..., :1]})

    ensemble, prior, scaler = estimator.ensemble_, estimator.prior_, estimator.y_standardiser_
    return {
        "ensemble_": dataclasses.replace(
            ensemble,
            network=dataclasses.replace(ensemble.network, n_outputs=1),
            likelihood=Gaussian(estimator._training_noise_var[:1]),
            params=first(ensemble.params),
            centres=first(ensemble.centres),
        ),
        "prior_": Prior(first(prior.mean), first(prior.scale)),
        "y_standardiser_": type(scaler)(scaler.mean[:1], scaler.scale[:1]),
        "noise_var_": estimator.noise_var_[:1],
        "novelty_scale_": estimator.novelty_scale_[:1],
        "_training_noise_var": estimator._training_noise_var[:1],
        "_noise": estimator._noise[:1],
        "_one_target": True,
    }


def _with_shape(estimator):
    return estimator._noise[0]._replace(shape=shape(estimator.x_standardiser_.forward(inputs(90))))


def shape(z: np.ndarray) -> Shape:
    """Hardly trained, so about what the prior says, and clipped on both sides."""
    network = MLP((4,))
    ensemble = fit_ensemble(
        jax.random.key(3),
        network,
        Prior.for_network(network, z[:1], 9.0),
        Residual(),
        Data.make(z, np.stack([z[:, 0], np.ones(len(z))], axis=1)),
        n_members=2,
        schedule=Schedule(1, 64),
    )
    return Shape(ensemble, -1.5, 0.8)


def table(rows: np.ndarray, names: str = "abc") -> Table:
    """Inputs as columns of one letter each, in the order of ``names``."""
    columns = {name: rows[:, "abc".index(name)] for name in names}
    return Table(columns, len(rows))


@functools.cache
def encoder() -> Encoder:
    return Encoder.fit(table(inputs(60)))
