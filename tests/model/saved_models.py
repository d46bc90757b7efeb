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
    Prior,
    Schedule,
    fit_ensemble,
)
from anchored.core import networks
from anchored.core.records import as_leaves, members_record, network_record
from anchored.error_bars.noise import Residual
from anchored.model.record import FittedModel, NoiseShape
from anchored.prediction.warp import Warp
from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table

QUICK = {"hidden": (6,), "n_members": 3, "epochs": 20, "prior": 4.0, "random_state": 0}
MEAN, SCALE = np.array([5.0, -300.0, 0.01]), np.array([1.0, 40.0, 0.003])
# One fit, of two outputs, is enough: the others are made of another, by changes.
REGRESSORS = {
    "two outputs": (None, None),
    "two outputs, given noise": ("two outputs", lambda m: of_target(m, noise=None)),
    "learned noise": ("two outputs", lambda m: _first_output(m)),
    "shape of the noise": ("learned noise", lambda m: of_target(m, noise=(_with_shape(m),))),
    "gaussian, learned noise": ("learned noise", lambda m: of_target(m, family="gaussian")),
    "given noise": ("learned noise", lambda m: of_target(m, noise=None)),
    "gaussian, given noise": ("given noise", lambda m: of_target(m, family="gaussian")),
    "targets as a column": ("given noise", lambda m: of_target(m, one_target=False)),
    "one member": ("given noise", lambda m: _one_member(m)),
    "limits of the inputs": ("given noise", lambda m: _limited(m)),
    "reach of the inputs": ("given noise", lambda m: _reached(m)),
    "logarithmic scale": ("learned noise", lambda m: _logarithmic(m)),
    "logarithmic scale, given noise": ("given noise", lambda m: _logarithmic(m)),
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
        made = with_model(regressor(base), changes(regressor(base).model_))
        made.predictive = made.model_.regression.family
        return made
    x = inputs(90)  # too few for a shape of the noise
    z = (x - MEAN) / SCALE
    noise = np.random.default_rng(1).normal(size=(2, len(x)))
    first = 10 + 3 * np.sin(z[:, 0]) + z[:, 1] + 0.5 * noise[0]
    second = 100 * z[:, 2] + 4 * noise[1]
    return _fitted(AnchoredRegressor(**QUICK), x, np.stack([first, second], axis=1))


@functools.cache
def classifier(name: str) -> AnchoredClassifier:
    labels = LABELS[name]
    return changed(_classifier(len(labels)), classes=labels)


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


def with_model(estimator, model: FittedModel):
    """A copy that holds another model."""
    other = copy.copy(estimator)
    other.model_ = model
    return other


def changed(estimator, **fields):
    """A copy whose model has other fields."""
    return with_model(estimator, dataclasses.replace(estimator.model_, **fields))


def of_target(model: FittedModel, **fields) -> FittedModel:
    """A model whose part on the target has other fields."""
    return dataclasses.replace(model, regression=dataclasses.replace(model.regression, **fields))


def untrained(model: FittedModel, network, x, dtype=np.float32) -> FittedModel:
    """A model whose members are ``network`` as it starts."""
    keys = jax.random.split(jax.random.key(0), model.members.n_members)
    params = jax.tree.map(lambda *leaves: np.stack(leaves), *[network.init(k, x) for k in keys])
    prior = Prior.for_network(network, x)
    members = dataclasses.replace(
        model.members,
        network=network_record(network, x.shape[1:], dtype),
        params=as_leaves(params),
        centres=as_leaves(params),
    )
    return dataclasses.replace(
        model,
        members=members,
        n_features=x.shape[1],
        prior_mean=as_leaves(prior.mean),
        prior_scale=as_leaves(prior.scale),
    )


def _limited(model: FittedModel) -> FittedModel:
    """With inputs that stay within a limit in one column."""
    return dataclasses.replace(model, x_limit=np.array([1.5, np.inf, np.inf]))


def _reached(model: FittedModel) -> FittedModel:
    """With inputs that are cut off close to their middle."""
    return dataclasses.replace(model, x_reach=np.array([[-0.5] * 3, [0.2, 0.5, 1.0]]))


def _logarithmic(model: FittedModel) -> FittedModel:
    warp = Warp(2.0, 0.0, 50.0, 1.1)
    return of_target(model, warp=warp, mean=np.array([1.5]), scale=np.array([0.4]))


def _one_member(model: FittedModel) -> FittedModel:
    members = model.members
    first = {
        name: {path: leaf[:1] for path, leaf in getattr(members, name).items()}
        for name in ("params", "centres")
    }
    members = dataclasses.replace(members, member_ids=members.member_ids[:1], **first)
    return dataclasses.replace(model, members=members)


def _variance_head(model: FittedModel) -> FittedModel:
    made = untrained(model, MLP((6,), 2), inputs(9))
    return of_target(made, floor=2e-6, noise_var=None, training_noise_var=None)


def _first_output(model: FittedModel) -> FittedModel:
    def first(leaves):
        return leaves | {"1/weight": leaves["1/weight"][..., :1]}

    record, target = model.members, model.regression
    fields = record.network.fields | {"n_outputs": 1}
    members = dataclasses.replace(
        record,
        network=dataclasses.replace(record.network, fields=fields, n_outputs=1),
        params=first(record.params),
        centres=first(record.centres),
    )
    made = dataclasses.replace(
        model,
        members=members,
        prior_mean=first(model.prior_mean),
        prior_scale=first(model.prior_scale),
        novelty_scale=model.novelty_scale[:1],
    )
    vectors = ("mean", "scale", "noise_var", "training_noise_var", "noise")
    parts = {name: getattr(target, name)[:1] for name in vectors}
    return of_target(made, one_target=True, **parts)


def _with_shape(model: FittedModel):
    z = model.standardised(inputs(90))
    return dataclasses.replace(model.regression.noise[0], shape=shape(z))


def shape(z: np.ndarray) -> NoiseShape:
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
    record = members_record(ensemble, z.shape[1:], np.float32)
    return NoiseShape(record.network, record.params, -1.5, 0.8)


def table(rows: np.ndarray, names: str = "abc") -> Table:
    """Inputs as columns of one letter each, in the order of ``names``."""
    columns = {name: rows[:, "abc".index(name)] for name in names}
    return Table(columns, len(rows))


@functools.cache
def encoder() -> Encoder:
    return Encoder.fit(table(inputs(60)))
