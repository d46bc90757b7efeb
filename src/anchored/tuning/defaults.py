"""The default training of the estimators, which a search also tries first."""

import dataclasses
import math

from anchored.core.training import Schedule
from anchored.exact.evidence import RELEVANCE_ROWS

_FEW_STEPS = 3_000
_STEPS = (6_000, 10_000)  # of more rows: least and most; between them, as many as rows
FEW_ROWS = 500
OWN_UNIT_ROWS = 1_000  # from which on networks without relevances train in prior units
MANY_ROWS = 5_000  # from here on a second hidden layer pays
TOLERANCE = 1e-4
_FEW_BATCH, _LEAST_BATCH, _MOST_BATCH = 32, 64, 1_024
_ROWS_PER_BATCH_ROW = 100
_RATE = 0.03
_SLOW_RATE = 0.01  # of several layers, in the units of the parameters themselves
_LITTLE_NOISE = 0.01  # share of the variance
_LONG = 30_000  # steps in the units of the parameters themselves
_MATRIX_STEPS = (2_000, 4_000)  # of Muon: least and most; between them, a tenth of the rows
_MATRIX_BATCH = 200  # rows in each of them, at least
_ROWS_PER_STEP = 10
_MATRIX_RATE = 0.06  # in units of the prior
_HARDLY_ANY_NOISE = 0.001
WITH_ALL_ROWS = 3  # Muon takes one step with all rows for so many without those held out
_CLOSE_STEPS, _CLOSE_RATE = 6_000, 0.014  # of Muon in the units of the parameters


def default_schedule(
    n_rows: int,
    n_layers: int = 1,
    noise_var: float = 1.0,
    relevance_rows: int = RELEVANCE_ROWS,
    matrix_rows: float = math.inf,
) -> Schedule:
    """The schedule for a number of rows, a number of hidden layers, and a share of noise.

    The share is the noise variance divided by the targets' variance. From ``relevance_rows`` rows
    on, relevances make the prior uneven. So steps are in units of the prior's scale, and the rate
    falls evenly to zero. With fewer rows, or if little noise asks for a close fit, steps are in the
    units of the parameters, and there are 30,000 of them. From ``matrix_rows`` rows on, batches are
    large enough for Muon, which needs fewer steps.
    """
    least = _FEW_BATCH if n_rows < FEW_ROWS else _LEAST_BATCH
    batch_size = min(max(n_rows // _ROWS_PER_BATCH_ROW, least), _MOST_BATCH)
    if n_rows >= matrix_rows:
        usual = noise_var >= _HARDLY_ANY_NOISE
        n_steps, rate = _CLOSE_STEPS, _CLOSE_RATE
        if usual:
            n_steps = min(max(n_rows // _ROWS_PER_STEP, _MATRIX_STEPS[0]), _MATRIX_STEPS[1])
            rate, batch_size = _MATRIX_RATE, max(batch_size, _MATRIX_BATCH)
        schedule = Schedule.fading(n_steps, n_rows, batch_size, rate)
        return dataclasses.replace(schedule, rule="muon", in_prior_units=usual)
    if n_rows >= relevance_rows and noise_var >= _LITTLE_NOISE:
        n_steps = _FEW_STEPS if n_rows < FEW_ROWS else min(max(n_rows, _STEPS[0]), _STEPS[1])
        schedule = Schedule.fading(n_steps, n_rows, batch_size, _RATE)
        return dataclasses.replace(schedule, in_prior_units=True)
    rate = _RATE if n_layers <= 1 else _SLOW_RATE
    return Schedule.of_steps(_LONG, n_rows, batch_size, rate, TOLERANCE)
