"""How busy other programs keep this machine."""

import os

import psutil


def busy_cores(seconds: float = 3.0) -> float:
    """Cores that other programs keep busy, seen while this one does nothing.

    The load of the system is an average over the last minute, this program's own work included.
    """
    return psutil.cpu_percent(seconds) / 100 * (os.cpu_count() or 1)
