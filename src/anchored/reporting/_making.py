"""How the model came about: what was fitted, how members trained, how close to exact it is."""

from collections.abc import Mapping

import numpy as np

import anchored
from anchored.errors import Status
from anchored.metrics import GPComparison
from anchored.reporting import _figures, _page
from anchored.reporting._page import Section, key
from anchored.reporting._words import counted, number

GP_TRAINING_ROWS = 2_000  # most for which the exact answer is worth the wait
_GP_ROWS = 500  # most that are compared
_MOST_MEMBERS = 12  # in a table that is not folded
_STATUS = {
    Status.CONVERGED: "converged",
    Status.STEP_LIMIT: "still improving at the last step",
    Status.DIVERGED: "diverged, left out",
}


def fitted(estimator, about: Mapping[str, str]) -> Section:
    """What was fitted, and whatever the caller knows beside."""
    ensemble = estimator.ensemble_
    network = ensemble.network
    found = {
        "estimator": type(estimator).__name__,
        "method": estimator.method,
        "members": f"{ensemble.n_members} of {len(ensemble.info.status)} trained",
        "network": _network(network),
        "inputs": f"{estimator.n_features_in_:,} features",
    }
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        found["classes"] = f"{len(classes)}"
        found["temperature"] = number(estimator.temperature_)
    noise = getattr(estimator, "noise_var_", None)
    if noise is not None:
        found["noise (deviation)"] = ", ".join(number(np.sqrt(v)) for v in np.ravel(noise))
        found["predictive"] = estimator.predictive
    rows = getattr(estimator, "_train_rows", None)
    if rows is not None:
        found["different training rows"] = f"{len(rows[0]):,}"
    found["steps of training"] = f"{int(ensemble.info.steps[-1]):,}"
    found["package"] = f"anchored {anchored.__version__}"
    found |= {str(name): str(value) for name, value in about.items()}
    return Section("What was fitted", "", (_page.facts(found),))


def _network(network) -> str:
    hidden, activation = (getattr(network, name, None) for name in ("hidden", "activation"))
    if not isinstance(hidden, tuple):
        return type(network).__name__
    layers = "-".join(map(str, hidden)) or "no"
    return f"{layers} hidden nodes, {activation}"


def members(estimator) -> Section:
    """How training went."""
    ensemble = estimator.ensemble_
    info = ensemble.info
    settled = int(np.sum(info.status == Status.CONVERGED))
    n = len(info.status)
    finding = "All members converged." if settled == n else f"{settled} of {n} members converged."
    keys = [key("one", "members")]
    if ensemble.dropped:
        keys.append(key("two", "left out"))
    picture = _page.figure(
        "Objective of each member",
        _figures.loss_curves(info.steps, info.objective, ensemble.member_ids),
        finding,
        "Negative log posterior, in nats a row; the start is cut off. Members that are still "
        "falling at the right end would gain from more epochs.",
        keys,
    )
    tries = [", second try" if j in ensemble.retrained else "" for j in range(n)]
    table = _page.table(
        [
            ("member", [str(j) for j in range(n)]),
            (
                "status",
                [_STATUS[Status(int(s))] + t for s, t in zip(info.status, tries, strict=True)],
            ),
            ("at first", [number(v, 4) for v in info.objective[0]]),
            ("at last", [number(v, 4) for v in info.objective[-1]]),
        ]
    )
    shown = table if n <= _MOST_MEMBERS else _page.folded("Every member", table)
    return Section("Members", "", (_page.figures(picture, shown),))


def comparison(estimator, X, given: GPComparison | None) -> Section | None:
    """The ensemble beside the exact answer, where there is one that is quick to have."""
    found = given if given is not None else _compared(estimator, X)
    if found is None:
        return None
    close = found.mean_error < 0.5 and 0.5 < found.variance_ratio < 2
    lead = (
        "An infinitely wide network of this kind is a Gaussian process, whose answer is exact. "
        + ("The ensemble is close to it." if close else "The ensemble differs from it.")
        + " A difference is no fault by itself: finite networks may fit better."
    )
    tiles = _page.tiles(
        [
            ("means differ by", number(found.mean_error), "exact deviations, 0 is the same"),
            ("variance ratio", number(found.variance_ratio), "1 is the same, below it is surer"),
            ("KL divergence", number(found.kl), "nats a row, 0 is the same"),
            ("compared on", counted(found.n_rows, "row"), "noise as in training"),
        ]
    )
    return Section("Beside exact inference", lead, (tiles,))


def _compared(estimator, X) -> GPComparison | None:
    rows = getattr(estimator, "_train_rows", None)
    if rows is None or len(rows[0]) > GP_TRAINING_ROWS:
        return None
    try:
        return estimator.compare_to_gp(X[:_GP_ROWS])
    except (TypeError, ValueError):  # networks and methods that have no exact limit
        return None
