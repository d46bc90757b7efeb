"""Environments in processes of their own, each of which plays whole episodes.

In each round, the networks are sent to the processes once, and whole episodes come back, so no
process waits for a message at every step. An episode is the same whichever process plays it.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from anchored.errors import bad_value
from anchored.rl._gymnasium import spaces_of
from anchored.rl.collecting import Policy, Single
from anchored.rl.q_learning import Episodes

_SECONDS_TO_END = 5.0


class Processes:
    """Several processes that play; close them when done, or use it in a ``with``.

    Attributes
    ----------
    n_observed, n_actions : of the environments.
    """

    def __init__(self, make: Callable[[], Any], n: int, max_steps: int = 1000):
        if not (isinstance(n, int) and n >= 1):
            raise bad_value("n", n, "a positive whole number")
        context = multiprocessing.get_context("spawn")  # threads of JAX do not survive a fork
        self._workers = []
        for _ in range(n):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(theirs, make, max_steps), daemon=True)
            worker.start()
            theirs.close()
            self._workers.append((worker, ours))
        sizes = [self._received(pipe) for _, pipe in self._workers]
        self.n_observed, self.n_actions = sizes[0]

    def play(self, policy: Policy, numbers: Sequence[int]) -> list[Episodes]:
        policy, n = policy.placed(np.asarray), len(self._workers)
        shares = [list(numbers[k::n]) for k in range(n)]
        for (_, pipe), share in zip(self._workers, shares, strict=True):
            pipe.send((policy, share))
        answers = [self._received(pipe) for _, pipe in self._workers]
        of_number = {
            number: episode
            for share, answer in zip(shares, answers, strict=True)
            for number, episode in zip(share, answer, strict=True)
        }
        return [of_number[number] for number in numbers]

    def _received(self, pipe) -> Any:
        try:
            answer = pipe.recv()
        except EOFError as error:
            self.close()
            raise RuntimeError(
                "a process that plays episodes stopped without an error. If memory ran out, use "
                "fewer processes; if `make` is not in a module that can be imported, move it into "
                "one."
            ) from error
        if isinstance(answer, BaseException):
            self.close()
            raise answer
        return answer

    def close(self) -> None:
        for worker, pipe in self._workers:
            with suppress(OSError):
                pipe.send(None)
            pipe.close()
            worker.join(_SECONDS_TO_END)
            if worker.is_alive():
                worker.terminate()
        self._workers = []

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def in_processes(make: Callable[[], Any], n: int = 2, max_steps: int = 1000) -> Processes:
    """``n`` environments from ``make()``, a function in a module, each in its own process.

    Pass it to `QAgent.fit` instead of an environment.
    """
    return Processes(make, n, max_steps)


def _work(pipe, make: Callable[[], Any], max_steps: int) -> None:
    """What a process does until it is told to end."""
    try:
        env = make()
        pipe.send(spaces_of(env.observation_space, env.action_space))
        player = Single(env, max_steps)
        while (order := pipe.recv()) is not None:
            policy, numbers = order
            pipe.send(player.play(policy.placed(jax.device_put), numbers) if numbers else [])
    except (EOFError, KeyboardInterrupt):
        pass
    except Exception as error:
        pipe.send(error)
