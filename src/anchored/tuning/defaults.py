"""The training that nobody chose: what estimators do by default and a search tries first."""

import dataclasses

from anchored.core.training import Schedule

N_STEPS = 10_000
_LITTLE_NOISE, _TIMES = 0.01, 3  # below, as a share of the variance, it takes longer to get there
FEW_ROWS = 500
MANY_ROWS = 5_000  # from here on a second hidden layer pays
TOLERANCE = 1e-4
_FEW_BATCH, _LEAST_BATCH, _MOST_BATCH = 32, 64, 1_024
_ROWS_PER_BATCH_ROW = 100
_RATE = 0.03


def default_schedule(n_rows: int, noise_var: float = 1.0) -> Schedule:
    """For a number of rows, and noise of a share of the targets' variance."""
    least = _FEW_BATCH if n_rows < FEW_ROWS else _LEAST_BATCH
    batch_size = min(max(n_rows // _ROWS_PER_BATCH_ROW, least), _MOST_BATCH)
    n_steps = N_STEPS * (_TIMES if noise_var < _LITTLE_NOISE else 1)
    schedule = Schedule.of_steps(n_steps, n_rows, batch_size, _RATE, TOLERANCE)
    return dataclasses.replace(schedule, in_prior_units=True)
