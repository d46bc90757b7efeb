"""The training that nobody chose: what estimators do by default and a search tries first."""

from anchored.core.training import Schedule

N_STEPS = 10_000
FEW_ROWS = 500
MANY_ROWS = 5_000  # from here on a second hidden layer pays
TOLERANCE = 1e-4
_FEW_BATCH, _LEAST_BATCH, _MOST_BATCH = 32, 64, 1_024
_ROWS_PER_BATCH_ROW = 100
_RATES = (0.03, 0.01)  # of one hidden layer, and of more


def default_schedule(n_rows: int, n_layers: int = 1) -> Schedule:
    """For so many rows, and a network of so many hidden layers."""
    least = _FEW_BATCH if n_rows < FEW_ROWS else _LEAST_BATCH
    batch_size = min(max(n_rows // _ROWS_PER_BATCH_ROW, least), _MOST_BATCH)
    return Schedule.of_steps(N_STEPS, n_rows, batch_size, _RATES[n_layers > 1], TOLERANCE)
