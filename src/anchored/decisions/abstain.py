"""Decide by expected cost, or leave a row to somebody else.

With probabilities p_k of the classes and the cost c[k, a] of action a if the class is k,

    decision = argmin_a sum_k p_k c[k, a]

and a row whose least expected cost is above that of rejecting it is rejected. For numbers the
cost is a function of the target and the action, averaged over quantiles of the predictive.
"""

import dataclasses
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from anchored.errors import bad_value
from anchored.prediction.predictive import CONTINUOUS, Predictive

REJECTED = -1
_N_LEVELS = 199  # quantiles that an expectation is averaged over
_LEAST_ROWS = 20  # accepted rows from which a risk is told

Costs = Callable[[np.ndarray, Any], np.ndarray] | np.ndarray | Sequence | str


@dataclasses.dataclass(frozen=True)
class Decisions:
    """What to do with each row.

    Attributes
    ----------
    action : number [row] of the action of least expected cost, -1 for a rejected row.
    expected_cost : [row] expected cost of the decision; for a rejected row, the cost of rejecting.
    costs : [row, action] expected cost of each action.
    reject : cost of rejecting a row, or None.
    actions : what the numbers mean, or None if they are class numbers.
    """

    action: np.ndarray
    expected_cost: np.ndarray
    costs: np.ndarray
    reject: float | None
    actions: tuple | None = None

    @property
    def rejected(self) -> np.ndarray:
        """Whether each row is left to a person [row]."""
        return self.action == REJECTED

    @property
    def least_cost(self) -> np.ndarray:
        """Expected cost [row] of the best action, whether or not the row is rejected."""
        return self.costs.min(axis=1)

    @property
    def chosen(self) -> list:
        """The action of each row by its name; None for a rejected row."""
        names = range(self.costs.shape[1]) if self.actions is None else self.actions
        return [None if a == REJECTED else names[a] for a in self.action]

    def __str__(self) -> str:
        n, n_rejected = len(self.action), int(self.rejected.sum())
        text = f"{n} rows, {n_rejected} rejected ({n_rejected / n:.0%}). "
        text += f"Expected cost a row: {self.expected_cost.mean():.4g}"
        return text + f"; {self.least_cost.mean():.4g} if none were rejected."


def decide(
    dist: Predictive,
    costs: Costs = "errors",
    *,
    actions: Sequence | None = None,
    reject: float | None = None,
) -> Decisions:
    """The action of least expected cost for each row of a predictive.

    Parameters
    ----------
    dist : what ``predict_dist`` returns.
    costs : for classes, a matrix [class, action] or "errors" (0 if right, 1 if wrong). For numbers,
        a function ``cost(y, action)`` of an array of targets and one action.
    actions : names of the columns of the matrix; for numbers, the actions to choose from.
    reject : cost of rejecting a row; None rejects none.

    Examples
    --------
    >>> import numpy as np
    >>> from anchored import Predictive
    >>> from anchored.decisions import decide
    >>> p = np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> dist = Predictive.from_members(p[None], p[None] * (1 - p[None]), "categorical")
    >>> decide(dist, [[0, 1], [10, 0]], reject=1.0).action.tolist()  # a miss costs ten times
    [1, 1]
    >>> decide(dist, [[0, 1], [10, 0]], reject=0.7).action.tolist()
    [-1, 1]
    """
    if reject is not None and not np.isfinite(reject):
        raise bad_value("reject", reject, "a finite cost, or None")
    if dist.family in CONTINUOUS or dist.family == "samples":
        expected = _expected_of_numbers(dist, costs, actions)
    else:
        p = probabilities(dist)
        expected = p @ checked_costs(costs, p.shape[1], actions)
    best = expected.argmin(axis=1)
    least = expected[np.arange(len(best)), best]
    if reject is not None:
        best = np.where(least > reject, REJECTED, best)
        least = np.minimum(least, reject)
    return Decisions(best, least, expected, reject, None if actions is None else tuple(actions))


def probabilities(dist: Predictive) -> np.ndarray:
    """Probabilities of the classes [row, class]."""
    if dist.family == "categorical":
        return dist.mean
    if dist.family == "bernoulli":
        p = dist.mean.reshape(len(dist.mean), -1)[:, 0]
        return np.stack([1 - p, p], axis=1)
    raise TypeError(
        f"`dist` must have classes or be continuous; this one is {dist.family!r}. For counts, use "
        "a continuous predictive of their mean."
    )


def checked_costs(costs: Costs, n_classes: int, actions: Sequence | None = None) -> np.ndarray:
    """A matrix [class, action]."""
    if isinstance(costs, str):
        if costs != "errors":
            raise bad_value("costs", costs, 'a matrix [class, action] or "errors"')
        return 1.0 - np.eye(n_classes)
    if callable(costs):
        raise bad_value("costs", costs, "a matrix [class, action] for classes")
    matrix = np.asarray(costs, np.float64)
    n_actions = matrix.shape[-1] if actions is None else len(actions)
    if matrix.shape != (n_classes, n_actions) or not np.isfinite(matrix).all():
        raise bad_value(
            "costs", costs, f"finite numbers [{n_classes} classes, {n_actions} actions]"
        )
    return matrix


def _expected_of_numbers(dist: Predictive, costs: Costs, actions: Sequence | None) -> np.ndarray:
    if not callable(costs) or actions is None or not len(actions):
        raise TypeError(
            "A predictive of numbers needs `costs`, a function of targets and an action, and "
            "`actions`: decide(dist, lambda y, a: abs(y - a), actions=[0, 1, 2])."
        )
    if dist.mean.ndim > 1:
        raise bad_value("dist", dist.mean.shape, "of one target: take `dist.output(i)`")
    levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
    y = dist.quantiles(levels)  # [level, row]
    return np.stack([np.mean(costs(y, action), axis=0) for action in actions], axis=1)


def realised_costs(decisions: Decisions, y, costs: Costs) -> np.ndarray:
    """What each row cost [row], given the observed class numbers or numbers ``y``.

    Rejected rows have NaN.
    """
    y, accepted = np.asarray(y), np.flatnonzero(~decisions.rejected)
    found = np.full(len(y), np.nan)
    if callable(costs):
        assert decisions.actions is not None
        for row in accepted:
            action = decisions.actions[decisions.action[row]]
            found[row] = np.asarray(costs(y[row : row + 1], action))[0]
        return found
    n_classes = max(int(y.max()) + 1, 2 if not isinstance(costs, str) else decisions.costs.shape[1])
    matrix = checked_costs(costs, n_classes) if isinstance(costs, str) else np.asarray(costs)
    found[accepted] = matrix[y[accepted].astype(int), decisions.action[accepted]]
    return found


@dataclasses.dataclass(frozen=True)
class CostCoverage:
    """Cost of the accepted rows against the share of rows that is accepted.

    Attributes
    ----------
    threshold : [point] expected cost up to which rows are accepted, in rising order.
    coverage : [point] share of the rows that are accepted.
    risk : [point] their mean cost.
    risk_error : [point] its standard error.
    """

    threshold: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    risk_error: np.ndarray

    @property
    def area(self) -> float:
        """Mean cost over all shares of accepted rows; low if the rejected rows are costly."""
        steps = np.diff(self.coverage, prepend=0.0)
        return float(np.sum(steps * self.risk) / self.coverage[-1])


def cost_coverage(dist: Predictive, y, costs: Costs = "errors", *, actions=None) -> CostCoverage:
    """The curve on rows with known targets ``y``, which the model must not have seen."""
    decisions = decide(dist, costs, actions=actions)
    cost = realised_costs(decisions, y, costs)
    order = np.argsort(decisions.least_cost, kind="stable")
    cost, n = cost[order], np.arange(1, len(order) + 1)
    risk = np.cumsum(cost) / n
    spread = np.maximum(np.cumsum(np.square(cost)) / n - np.square(risk), 0.0)
    error = np.sqrt(spread / np.maximum(n - 1, 1))
    threshold = decisions.least_cost[order]
    last = np.append(threshold[1:] > threshold[:-1], True)  # equal ones are accepted together
    return CostCoverage(threshold[last], (n / len(n))[last], risk[last], error[last])


def choose_reject(
    dist: Predictive,
    y,
    costs: Costs = "errors",
    *,
    most_cost: float,
    confidence: float = 0.9,
    actions=None,
) -> float:
    """The highest `reject` at which accepted rows cost at most ``most_cost`` on average.

    It is chosen on held-out rows: an upper bound on the mean cost of accepted rows, at the level
    ``confidence``, is at most ``most_cost``.
    """
    if not 0.5 <= confidence < 1:
        raise bad_value("confidence", confidence, "from 0.5 to 1, 1 excluded")
    curve = cost_coverage(dist, y, costs, actions=actions)
    n = curve.coverage * len(dist.mean)
    told = n >= min(_LEAST_ROWS, len(dist.mean))
    # One row of the largest cost more: no run of rows without an error is taken for sureness.
    largest = float(np.max(decide(dist, costs, actions=actions).costs))
    bound = (n * curve.risk + largest) / (n + 1)
    bound = bound + NormalDist().inv_cdf(confidence) * curve.risk_error
    fine = np.flatnonzero(told & (bound <= most_cost))
    if not len(fine):
        raise ValueError(
            f"`most_cost` {most_cost:g} cannot be met: even the surest rows cost "
            f"{curve.risk[told][0]:.4g} on average. Raise it, or reject all rows."
        )
    return float(curve.threshold[fine[-1]])
