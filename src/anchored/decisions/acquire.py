"""Which rows to label next, in batches whose rows do not repeat each other.

Each member j is a function f_j. Let A [member, row] be the members' deviations from their mean,
divided by sqrt(M - 1). Then A' A is the covariance of the predictions of all rows. A label of row
i, with noise v_i, lowers the variance of row t by

    cov(t, i)^2 / (cov(i, i) + v_i)

The first row is the one that lowers the variance of all rows most. Then A is conditioned on its
label, whose value does not matter, and the next row is chosen. For classes, the chosen rows are
those whose labels together say most about which member is right (mutual information: BALD of one
row, BatchBALD of several).
"""

from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted

from anchored.errors import bad_value, unknown_name
from anchored.estimators.inputs import encoded_inputs
from anchored.prediction.predictive import CONTINUOUS, Predictive

METHODS = ("auto", "variance", "bald", "diverse", "random")
_CONFIGURATIONS = 256  # most joint labels of a batch that are followed
_BLOCK = 2**22  # numbers at a time


def acquire(
    model: Any,
    X,
    n: int,
    *,
    method: str = "auto",
    targets=None,
    labelled=None,
    random_state: int = 0,
) -> np.ndarray:
    """Numbers [n] of the rows of ``X`` to label next, the most useful first.

    Parameters
    ----------
    model : a fitted `AnchoredRegressor` or `AnchoredClassifier`.
    X : rows without labels.
    n : number of rows to choose.
    method : "variance" (reduces the variance of all predictions most; for classes, that of the
        probabilities), "bald" (for classes: the most joint information about the members),
        "diverse" (far from each other and from ``labelled`` rows, without asking the members),
        "random", or "auto": variance for numbers and bald for classes.
    targets : rows whose predictions matter, for "variance"; by default ``X``.
    labelled : rows that have labels; "diverse" stays away from them.
    random_state : seed of everything random.

    Examples
    --------
    >>> import numpy as np
    >>> from anchored import AnchoredRegressor
    >>> from anchored.decisions import acquire
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = AnchoredRegressor(n_members=8, epochs=50, random_state=0).fit(X, X[:, 0] ** 2)
    >>> acquire(model, np.array([[0.0], [3.0]]), 1).tolist()
    [1]
    """
    check_is_fitted(model, "model_")
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    n_rows = _n_rows(X)
    if not (isinstance(n, (int, np.integer)) and 1 <= n <= n_rows):
        raise bad_value("n", n, f"a whole number from 1 to {n_rows}, the number of rows")
    rng = np.random.default_rng(random_state)
    if method == "random":
        return rng.permutation(n_rows)[:n]
    if method == "diverse":
        seen = None if labelled is None else features(model, labelled)
        return diverse(rng, features(model, X), n, seen)
    dist = _with_members(model.predict_dist(X))
    if method == "bald" or (method == "auto" and dist.family == "categorical"):
        if dist.family != "categorical":
            raise bad_value("method", method, '"variance" for numbers; "bald" is for classes')
        assert dist.members is not None
        return most_information(rng, dist.members, n)
    deviations, noise = _deviations(dist)
    matter = None
    if targets is not None:
        matter, _ = _deviations(_with_members(model.predict_dist(targets)))
    return variance_reduction(deviations, noise, n, matter)


def variance_reduction(
    deviations: np.ndarray, noise: np.ndarray, n: int, targets: np.ndarray | None = None
) -> np.ndarray:
    """Rows by greedy conditioning.

    Parameters
    ----------
    deviations : [out, member, row], of which products over members are covariances.
    noise : [out, row] variance of a label.
    targets : [out, member, target], deviations of the rows whose variance is to fall.
    """
    a = deviations.copy()
    t = a if targets is None else targets.copy()
    taken: list[int] = []
    for _ in range(n):
        gram = t @ np.swapaxes(t, 1, 2)  # [out, member, member]
        explained = np.einsum("oir,oij,ojr->or", a, gram, a)
        own = np.sum(a * a, axis=1) + noise
        gain = np.divide(explained, own, out=np.zeros_like(own), where=own > 0).sum(axis=0)
        gain[taken] = -np.inf
        taken.append(int(np.argmax(gain)))
        for o in range(len(a)):
            row = a[o, :, taken[-1]].copy()
            variance, label = row @ row, noise[o, taken[-1]]
            if variance <= 0:
                continue
            # The square of (I - c r r') takes r r' / (variance + label) away.
            c = (1 - np.sqrt(label / (variance + label))) / variance
            a[o] -= c * np.outer(row, row @ a[o])
            if targets is not None:
                t[o] -= c * np.outer(row, row @ t[o])
        t = a if targets is None else t
    return np.array(taken)


def most_information(rng: np.random.Generator, p: np.ndarray, n: int) -> np.ndarray:
    """Rows whose labels together have most mutual information with the member, greedily.

    ``p`` [member, row, class] are probabilities. While there are few joint labels, all of them are
    enumerated. Later some are drawn, and weighted so that sums over them stay unbiased.
    """
    n_members, n_rows, n_classes = p.shape
    alone = -xlogy(p, p).sum(axis=2).mean(axis=0)  # entropy given the member
    joint, weight = np.ones((n_members, 1)), np.ones(1)
    taken: list[int] = []
    for _ in range(n):
        together = np.empty(n_rows)
        size = max(1, _BLOCK // (joint.shape[1] * n_classes))
        for start in range(0, n_rows, size):
            some = p[:, start : start + size]
            both = np.einsum("mc,mrk->crk", joint, some, optimize=True) / n_members
            together[start : start + size] = -weight @ xlogy(both, both).sum(axis=2)
        gain = together - alone
        gain[taken] = -np.inf
        taken.append(int(np.argmax(gain)))
        joint = (joint[:, :, None] * p[:, taken[-1], None, :]).reshape(n_members, -1)
        weight = np.repeat(weight, n_classes)
        if joint.shape[1] > _CONFIGURATIONS:
            share = weight * joint.mean(axis=0)
            share /= share.sum()
            drawn = rng.choice(len(share), size=_CONFIGURATIONS, p=share)
            weight = weight[drawn] / (_CONFIGURATIONS * share[drawn])
            joint = joint[:, drawn]
    return np.array(taken)


def diverse(
    rng: np.random.Generator, x: np.ndarray, n: int, labelled: np.ndarray | None = None
) -> np.ndarray:
    """Rows [n], each as far as possible from all earlier ones and from ``labelled`` rows."""
    away = np.full(len(x), np.inf)
    for row in [] if labelled is None else labelled:
        away = np.minimum(away, np.square(x - row).sum(axis=1))
    taken: list[int] = []
    for _ in range(n):
        far = np.isinf(away).all()
        taken.append(int(rng.integers(len(x))) if far else int(np.argmax(away)))
        away = np.minimum(away, np.square(x - x[taken[-1]]).sum(axis=1))
        away[taken] = -np.inf
    return np.array(taken)


def _with_members(dist: Predictive) -> Predictive:
    dist = dist.on_own_scale
    if dist.members is None or len(dist.members) < 2:
        raise ValueError("`model` must have two members or more: a single one cannot disagree.")
    if dist.family not in (*CONTINUOUS, "categorical"):
        raise ValueError(
            f"`model` must predict numbers or classes; this one is {dist.family!r}. Take "
            'method="diverse".'
        )
    return dist


def _deviations(dist: Predictive) -> tuple[np.ndarray, np.ndarray]:
    """[out, member, row] and the noise [out, row]; classes are outputs of 0 or 1."""
    assert dist.members is not None
    members = dist.members.reshape(len(dist.members), len(dist.mean), -1)
    shape = members.shape[1:]
    noise = dist.aleatoric_var.reshape(shape)
    spread = members.var(axis=0, ddof=1)
    # A regressor may trust the members' spread more or less than they say.
    ratio = np.divide(
        dist.epistemic_var.reshape(shape), spread, out=np.ones(shape), where=spread > 0
    )
    scaled = (members - members.mean(axis=0)) * np.sqrt(ratio / (len(members) - 1))
    return np.transpose(scaled, (2, 0, 1)), noise.T


def _n_rows(X) -> int:
    return X.n_rows if hasattr(X, "n_rows") else len(X)


def features(model: Any, X) -> np.ndarray:
    """Inputs as networks take them."""
    encoder = model.model_.encoder
    x = (
        np.asarray(X)
        if encoder is None
        else encoded_inputs(model, X, encoder, model.model_.columns)
    )
    return np.asarray(model.model_.standardised(x), np.float64).reshape(len(x), -1)
