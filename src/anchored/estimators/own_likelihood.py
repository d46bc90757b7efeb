"""`AnchoredRegressor(likelihood=...)`: any likelihood, with predictives of samples.

Targets are standardised if the likelihood has ``standardised(mean, scale)``; else they stay as they
are. The prior variance is that of highest evidence if the standardised targets were Gaussian, which
asks how fast the function changes; of the noise the likelihood knows itself.

Predictives of real numbers are corrected by held-out rows, as those of the default are. Whole
numbers are not: their intervals hold what steps of their probability allow.
"""

from typing import Any

import numpy as np

from anchored.core.rows import Standardiser
from anchored.core.sampled import check_likelihood, sample_predictive
from anchored.error_bars.folds import HeldOut
from anchored.errors import bad_value
from anchored.estimators.rows import Rows
from anchored.model.record import FittedModel, Sampled
from anchored.prediction.conformal import Conformal
from anchored.prediction.predictive import Predictive

_AT_ONCE = 1_000  # held-out rows whose draws are held


def check(estimator: Any) -> None:
    """What cannot go together is said before anything is trained."""
    check_likelihood(estimator.likelihood)
    for name, usual in (("noise_var", "auto"), ("target_scale", "auto"), ("settings", None)):
        if not isinstance(getattr(estimator, name), type(usual)):
            raise bad_value(name, getattr(estimator, name), f"{usual!r} beside a `likelihood`")
    if estimator.method == "deep":
        raise bad_value("method", "deep", 'another one, such as "rms", beside a `likelihood`')


def trained_on(likelihood: Any, sampled: Sampled) -> Any:
    """The likelihood of targets as the members were trained on them."""
    if not sampled.standardises:
        return likelihood
    return likelihood.standardised(sampled.mean, sampled.scale)


def targets(estimator: Any, rows: Rows, one_target: bool) -> tuple[Rows, Rows, Sampled]:
    """Rows to train on, rows with standardised targets, and what is to be remembered."""
    scaler = Standardiser.fit(rows.y, rows.weight)
    ordinary = rows._replace(y=scaler.forward(rows.y))
    standardises = hasattr(estimator.likelihood, "standardised")
    kept = scaler if standardises else Standardiser(0 * scaler.mean, np.ones_like(scaler.scale))
    name = type(estimator.likelihood).__name__
    sampled = Sampled(name, one_target, standardises, kept.mean, kept.scale)
    return (ordinary if standardises else rows), ordinary, sampled


def n_outputs(estimator: Any, n_targets: int, rows: Rows) -> int:
    """As many as the likelihood reads, or as the network of the user's own has."""
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
    dist = sample_predictive(trained, outputs, *units, sampled.one_target, atoms)
    if sampled.conformal is None:
        return dist
    return dist.corrected(sampled.conformal.output(0) if sampled.one_target else sampled.conformal)


def is_corrected(likelihood: Any) -> bool:
    """Whether held-out rows say anything of quantiles: not of whole numbers."""
    return not getattr(likelihood, "discrete", False)


def correction(likelihood: Any, held: HeldOut, y: np.ndarray, weight: np.ndarray):
    """What held-out rows say of predictives, for targets [row, target] as trained on."""
    scores, size = [], min(len(y), _AT_ONCE)
    atoms = getattr(likelihood, "atoms", ())
    for start in range(0, len(y), size):
        # The last row again where there are no more: one shape is one program.
        rows = np.minimum(np.arange(start, start + size), len(y) - 1)
        dist = sample_predictive(likelihood, held.outputs[:, rows], atoms=atoms)
        scores.append(dist.scores(y[rows]))
    found = np.concatenate(scores)[: len(y)]
    return Conformal.stacked([Conformal.fit(column, weight) for column in found.T])
