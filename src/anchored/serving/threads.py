"""One thread for products of matrices.

The products of a prediction are small. Threads inside them gain little on a free machine. On a busy
machine they wait for each other: blocks of rows took 15 times as long. Engines use several cores by
predicting several batches at once.
"""

import functools
from contextlib import AbstractContextManager

import numpy  # noqa: F401  its library of products must be there to be found
from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager:
    """BLAS works with one thread until the end of a ``with`` block."""
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
