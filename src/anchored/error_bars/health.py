"""What is wrong with a fitted ensemble, in words, each with its repair.

Training that diverged or did not settle has its own warnings. The faults here do not show in the
numbers of training.
"""

import warnings

import numpy as np

from anchored.errors import HealthWarning
from anchored.exact import gp
from anchored.exact.evidence import FIRST_VAR_RANGE, Twin, tune_regression

_DEAD = 0.01  # a member that varies less than this share of the others' middle
_CONFLICT = 0.1  # nats a row by which a given prior is worse than the best
_CONFLICT_ROWS = 500
_AT_THE_END = 1.01  # within 1 % of the end of the range searched
_LEAST_TO_LEARN = 0.2  # share of the variance the exact GP explains, for there to be a signal
_LEAST_LEARNED = 0.5  # share of that which members should explain at least


def report(*found: str | None) -> None:
    """Warn of every fault found."""
    for message in found:
        if message is not None:
            warnings.warn(message, HealthWarning, stacklevel=3)


def collapsed_members(means: np.ndarray, member_ids: tuple[int, ...]) -> str | None:
    """Members [member, row, out] that predict the same for every row while others do not."""
    varied = means.std(axis=1).max(axis=-1)
    usual = np.median(varied)
    dead = [member_ids[j] for j in np.flatnonzero(varied < _DEAD * usual)]
    if not dead:
        return None
    return (
        f"Members {dead} predict nearly the same for every row: their units are dead, and they "
        'distort the spread. Use activation="leaky_relu" or a lower `learning_rate`.'
    )


def prior_at_the_end(first_var: float) -> str | None:
    """A prior variance at the end of its range: the evidence asks for one beyond it."""
    least, most = FIRST_VAR_RANGE
    if least * _AT_THE_END < first_var < most / _AT_THE_END:
        return None
    flat = first_var <= least * _AT_THE_END
    about = (
        "the inputs explain little of the target, or only a straight line"
        if flat
        else "the target changes faster than a smooth function of the inputs would"
    )
    return (
        f"The evidence pushes the prior variance to the end of its range ({first_var:.3g}): "
        f"{about}. Check the inputs for mistakes and outliers, and the error on held-out rows."
    )


def prior_conflict(twin: Twin, x, y, weight, first_var: float, noise_var) -> str | None:
    """A given prior under which the rows are far less probable than under the best one."""
    x, y, weight = x[:_CONFLICT_ROWS], y[:_CONFLICT_ROWS], weight[:_CONFLICT_ROWS]
    best = tune_regression(twin, x, y, weight)
    given = gp.log_evidence(twin(np.log([first_var])), x, y, noise_var, weight)
    top = gp.log_evidence(twin(np.log([best.first_var])), x, y, best.noise_var, weight)
    lost = (top - given) / (weight.sum() * y.shape[1])
    if lost < _CONFLICT:
        return None
    return (
        f"The given prior and noise contradict the data: a row is exp({lost:.2f}) times less "
        f'probable than with prior={best.first_var:.3g} and the noise left at "auto". Use those, '
        "or check the units of the values that you gave."
    )


def penalty_dominates(left: np.ndarray, expected: np.ndarray) -> str | None:
    """Shares of the variance of training targets [out]: unexplained by members, and noise by
    evidence.
    """
    learned, signal = 1 - left, 1 - expected
    behind = (signal > _LEAST_TO_LEARN) & (learned < _LEAST_LEARNED * signal)
    if not behind.any():
        return None
    worst = int(np.argmax(np.where(behind, signal - learned, -np.inf)))
    return (
        f"The members leave {left[worst]:.0%} of the target's variance unexplained on the rows "
        f"they were trained on; the exact Gaussian process leaves {expected[worst]:.0%}. The "
        "penalty outweighs the data, or training was too short: raise `prior` or `epochs`."
    )
