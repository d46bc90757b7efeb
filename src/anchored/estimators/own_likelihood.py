"""`AnchoredRegressor(likelihood=...)`: any likelihood, with predictives made of samples.

Targets are standardised if the likelihood has ``standardised(mean, scale)``; else they stay as they
are. The prior variance has the highest evidence for standardised targets treated as Gaussian. This
evidence shows how fast the function changes; the likelihood itself describes the noise.
"""

from typing import Any

import numpy as np

from anchored.core.rows import Standardiser
from anchored.core.sampled import check_likelihood, sample_predictive
from anchored.errors import bad_value
from anchored.estimators.rows import Rows
from anchored.model.record import FittedModel, Sampled
from anchored.prediction.predictive import Predictive


def check(estimator: Any) -> None:
    """Raise an error if settings contradict each other, before anything is trained."""
    check_likelihood(estimator.likelihood)
    for name, usual in (("noise_var", "auto"), ("target_scale", "auto"), ("settings", None)):
        if not isinstance(getattr(estimator, name), type(usual)):
            raise bad_value(name, getattr(estimator, name), f"{usual!r} beside a `likelihood`")
    if estimator.method == "deep":
        raise bad_value("method", "deep", 'another method, such as "rms", with a `likelihood`')


def trained_on(likelihood: Any, sampled: Sampled) -> Any:
    """The likelihood of targets as the members were trained on them."""
    if not sampled.standardises:
        return likelihood
    return likelihood.standardised(sampled.mean, sampled.scale)


def targets(estimator: Any, rows: Rows, one_target: bool) -> tuple[Rows, Rows, Sampled]:
    """Rows to train on, rows with standardised targets, and the scales to keep."""
    scaler = Standardiser.fit(rows.y, rows.weight)
    ordinary = rows._replace(y=scaler.forward(rows.y))
    standardises = hasattr(estimator.likelihood, "standardised")
    kept = scaler if standardises else Standardiser(0 * scaler.mean, np.ones_like(scaler.scale))
    name = type(estimator.likelihood).__name__
    sampled = Sampled(name, one_target, standardises, kept.mean, kept.scale)
    return (ordinary if standardises else rows), ordinary, sampled


def n_outputs(estimator: Any, n_targets: int, rows: Rows) -> int:
    """Number of outputs: as many as the likelihood reads, or as the user's own network has."""
    likelihood = estimator.likelihood
    if hasattr(likelihood, "n_outputs"):
        return likelihood.n_outputs(n_targets)
    if estimator.network is None and not hasattr(likelihood, "family"):
        raise bad_value(
            "likelihood",
            likelihood,
            "one with `n_outputs(n_targets)`, unless you give a `network` of your own",
        )
    return n_targets if estimator.network is None else estimator._outputs_of_network(rows)


def predictive(likelihood: Any, model: FittedModel, outputs: np.ndarray) -> Predictive:
    """The predictive of outputs [member, row, out], in the units of the target."""
    sampled = model.sampled
    assert sampled is not None
    trained = trained_on(likelihood, sampled)
    units, atoms = (sampled.mean, sampled.scale), getattr(likelihood, "atoms", ())
    return sample_predictive(trained, outputs, *units, sampled.one_target, atoms)
