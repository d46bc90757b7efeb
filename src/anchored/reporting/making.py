"""How the model was made: what was fitted, how members trained, how close to exact it is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import anchored
from anchored.errors import Status
from anchored.estimators import AnchoredRegressor
from anchored.metrics import GPComparison
from anchored.prediction.predictive import Predictive
from anchored.reporting import figures
from anchored.reporting.inputs import take_rows
from anchored.reporting.words import counted, number

_GP_ROWS = 500  # most that are compared
_STATUS = {
    Status.CONVERGED: "converged",
    Status.STEP_LIMIT: "still improving at the last step",
    Status.DIVERGED: "diverged, left out",
}


def facts(estimator, about: Mapping[str, str]) -> dict[str, str]:
    """What was fitted, and what else the caller knows."""
    ensemble = estimator.ensemble_
    found = {
        "estimator": type(estimator).__name__,
        "method": estimator.method,
        "members": f"{ensemble.n_members} of {len(ensemble.info.status)} trained",
        "network": _network(ensemble.network),
        "inputs": f"{estimator.model_.n_features:,} features",
    }
    if estimator.encoder_ is not None:
        found["inputs"] += f" made of {counted(len(estimator.encoder_.names), 'column')}"
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        found["classes"] = f"{len(classes)}"
        found["temperature"] = number(estimator.temperature_)
    noise = getattr(estimator, "noise_var_", None)
    if noise is not None:
        warp = estimator.model_.regression.warp
        if warp is not None:
            found["scale of the target"] = f"log(target + {number(warp.shift)})"
        found["noise (deviation)"] = ", ".join(number(np.sqrt(v)) for v in np.ravel(noise))
        found["predictive"] = estimator.predictive
    n_rows = estimator.model_.n_rows
    if n_rows is not None:
        found["distinct training rows"] = f"{n_rows:,}"
    found["steps of training"] = f"{int(ensemble.info.steps[-1]):,}"
    found["package"] = f"anchored {anchored.__version__}"
    return found | {str(name): str(value) for name, value in about.items()}


def _network(network) -> str:
    hidden, activation = (getattr(network, name, None) for name in ("hidden", "activation"))
    if not isinstance(hidden, tuple):
        return type(network).__name__
    layers = "-".join(map(str, hidden)) or "no"
    return f"{layers} hidden nodes, {activation}"


def members(estimator) -> dict[str, Any]:
    """How training went."""
    ensemble = estimator.ensemble_
    info, n = ensemble.info, len(ensemble.info.status)
    tries = [", second try" if j in ensemble.retrained else "" for j in range(n)]
    status = [_STATUS[Status(int(s))] + t for s, t in zip(info.status, tries, strict=True)]
    return {
        "n": n,
        "n_settled": int(np.sum(info.status == Status.CONVERGED)),
        "dropped": ensemble.dropped,
        "curves": figures.loss_curves(info.steps, info.objective, ensemble.member_ids),
        "table": [
            ("member", [str(j) for j in range(n)]),
            ("status", status),
            ("at first", [number(v, 4) for v in info.objective[0]]),
            ("at last", [number(v, 4) for v in info.objective[-1]]),
        ],
    }


def comparison(estimator, X, dist: Predictive) -> GPComparison | str | None:
    """A regressor compared with the exact answer on some rows, or why not; None for classes."""
    if not isinstance(estimator, AnchoredRegressor):
        return None
    own = dist.on_own_scale.members
    assert own is not None
    members = own[:, :_GP_ROWS]
    some = Predictive.from_members(members, np.zeros_like(members))
    try:
        return estimator.compare_to_gp(take_rows(X, np.arange(members.shape[1])), some)
    except (TypeError, ValueError) as error:  # no exact limit for this network, method or size
        return str(error)
