"""The training that nobody chose: what estimators do by default and a search tries first."""

import dataclasses

from anchored.core.training import Schedule
from anchored.exact.evidence import RELEVANCE_ROWS

N_STEPS = 10_000
FEW_ROWS = 500
OWN_UNIT_ROWS = 1_000  # from which on networks without relevances train in prior units
MANY_ROWS = 5_000  # from here on a second hidden layer pays
TOLERANCE = 1e-4
_FEW_BATCH, _LEAST_BATCH, _MOST_BATCH = 32, 64, 1_024
_ROWS_PER_BATCH_ROW = 100
_RATE = 0.03
_SLOW_RATE = 0.01  # of several layers, in the units of the parameters themselves
_LITTLE_NOISE = 0.01  # share of the variance
_LONGER = 3


def default_schedule(
    n_rows: int, n_layers: int = 1, noise_var: float = 1.0, relevance_rows: int = RELEVANCE_ROWS
) -> Schedule:
    """The schedule for a number of rows, a number of hidden layers, and a share of noise.

    The share is the noise variance divided by the targets' variance. From ``relevance_rows`` rows
    on, relevances make the prior uneven, so steps are in units of its scale. With fewer rows, or if
    little noise asks for a close fit, they are in the units of the parameters, and there are three
    times as many.
    """
    least = _FEW_BATCH if n_rows < FEW_ROWS else _LEAST_BATCH
    batch_size = min(max(n_rows // _ROWS_PER_BATCH_ROW, least), _MOST_BATCH)
    in_prior_units = n_rows >= relevance_rows and noise_var >= _LITTLE_NOISE
    rate = _RATE if in_prior_units or n_layers == 1 else _SLOW_RATE
    n_steps = N_STEPS * (1 if in_prior_units else _LONGER)
    schedule = Schedule.of_steps(n_steps, n_rows, batch_size, rate, TOLERANCE)
    return dataclasses.replace(schedule, in_prior_units=in_prior_units)
