"""Estimators from files."""

from pathlib import Path
from typing import Any

import numpy as np

from anchored.core.networks import MLP
from anchored.core.records import restored_network
from anchored.errors import ModelFileError
from anchored.estimators.base import IN_FILE
from anchored.estimators.classification import AnchoredClassifier
from anchored.estimators.regression import AnchoredRegressor
from anchored.model import file
from anchored.model.record import FittedModel
from anchored.tuning import Settings


def load(path: str | Path, network=None, likelihood=None) -> AnchoredRegressor | AnchoredClassifier:
    """Load an estimator from a file that its `save` wrote.

    Files contain no code. If the model has a network or a likelihood of your own, pass it again as
    ``network`` or ``likelihood``; its parameters are checked against those in the file. If the file
    cannot be used, a `ModelFileError` says why in one line.

    >>> import os, tempfile
    >>> import anchored
    >>> model = anchored.AnchoredRegressor(n_members=2, epochs=5, noise_var=0.1, random_state=0)
    >>> model = model.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model.save(path)
    >>> bool(abs(anchored.load(path).predict([[0.5]]) - model.predict([[0.5]])).max() < 1e-5)
    True
    """
    model = file.load(path)
    kind: Any = AnchoredRegressor if model.classes is None else AnchoredClassifier
    try:
        given = _parameters(model, restored_network(model.members.network, network), network)
        if model.sampled is not None:
            given["likelihood"] = _same_likelihood(model.sampled.name, likelihood)
        estimator = kind(**given)
        estimator.model_ = model
        prior = estimator.prior_  # a network that does not fit the file is refused now
        if estimator.prior == IN_FILE:
            estimator.prior = prior
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be used as a model: {error}") from error
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} has parameters that fit no estimator: {error}") from error
    names, n_columns = model.feature_names, model.n_features
    if model.encoder is not None:
        names, n_columns = model.columns, len(model.columns or model.encoder.names)
    estimator.n_features_in_ = n_columns
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def _same_likelihood(name: str, given: Any) -> Any:
    if type(given).__name__ != name:
        got = "nothing" if given is None else type(given).__name__
        raise ModelFileError(
            f"the file has the likelihood {name}, and files contain no code; got {got}. Give it "
            f"again: anchored.load(path, likelihood={name}(...))."
        )
    return given


def _parameters(model: FittedModel, network, handed) -> dict:
    """The constructor's arguments; the network as it was ``handed``, if it was."""
    given = dict(model.parameters)
    if given.get("network") is not None or not isinstance(network, MLP):
        given["network"] = network if handed is None else handed
    if isinstance(given.get("hidden"), list):
        given["hidden"] = tuple(given["hidden"])
    if given.get("settings") is not None:
        given["settings"] = Settings(**given["settings"])
    if model.regression is not None:
        given["predictive"] = model.regression.family
    return given
