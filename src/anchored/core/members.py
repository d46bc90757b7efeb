"""How a function of one member is run for all members on this machine.

`Vmapped` is one compiled program for all members. `Sharded` splits the members over devices, and
`Threaded` over cores; each device or core runs one such program. `OneByOne` compiles a program for
a single member, and each core runs one member at a time. It suits networks that keep a core busy,
and convolutions on CPU, whose fast kernels exist neither under ``vmap`` nor in a loop.
"""

import dataclasses
import itertools
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from anchored.core.precision import in_threads_too
from anchored.core.tree import concatenate_members, member_of, stack_members, take_members
from anchored.typing import MemberMap, Network, traits

_LARGE_WORK = 300_000  # products of a step that keep a core busy
_AXIS = "share"
SHARES = (5, 4, 6, 7)  # members that one program trains on a core: the first that divides all


@dataclasses.dataclass(frozen=True)
class Vmapped:
    """All members in one compiled program: ``vmap`` over members, a loop over steps."""

    def loop(self, body, state, own, shared, n_steps):
        return _vmapped_loop(body, state, own, shared, n_steps)

    def apply(self, function, own, shared):
        return _vmapped_apply(function, own, shared)


@dataclasses.dataclass(frozen=True)
class Threaded:
    """Shares of ``size`` members each, as many at a time as there are threads, each vmapped.

    The program is that of one share, whatever the number of members. Members that cannot be divided
    equally run in one program.
    """

    n_threads: int
    size: int

    def loop(self, body, state, own, shared, n_steps):
        n_members = n_members_of(state)
        if n_members % self.size:
            return Vmapped().loop(body, state, own, shared, n_steps)

        def run(first):
            some = take_members((state, own), slice(first, first + self.size))
            return jax.block_until_ready(_vmapped_loop(body, *some, shared, n_steps))

        some = take_members((state, own), slice(0, self.size))
        _vmapped_loop(body, *some, shared, 0)  # compiled here, and not in every thread at once
        shares = range(0, n_members, self.size)
        return _join(list(_pool(self.n_threads).map(in_threads_too(run), shares)))

    def apply(self, function, own, shared):
        return _vmapped_apply(function, own, shared)


@dataclasses.dataclass(frozen=True)
class Sharded:
    """Equal shares of the members on each device (several GPUs), in one compiled program.

    Devices may be those of several processes that `jax.distributed` joined; all of them call with
    the same members and get all results. Members that cannot be divided equally run on one device.
    """

    n_devices: int

    def loop(self, body, state, own, shared, n_steps):
        if n_members_of(state) % self.n_devices:
            return _vmapped_loop(body, state, own, shared, n_steps)
        state, own = _placed((state, own), self.n_devices, PartitionSpec(_AXIS))
        shared = _replicated(shared, self.n_devices)
        return _gathered(_vmapped_loop(body, state, own, shared, n_steps))

    def apply(self, function, own, shared):
        if n_members_of(own) % self.n_devices:
            return _vmapped_apply(function, own, shared)
        own = _placed(own, self.n_devices, PartitionSpec(_AXIS))
        return _gathered(_vmapped_apply(function, own, _replicated(shared, self.n_devices)))


@dataclasses.dataclass(frozen=True)
class RowSharded:
    """Equal shares of the rows on each device, for few members with more rows than one device
    holds.

    Every device has the same parameters; the compiled program collects the rows of a batch. Rows
    that cannot be divided equally are copied to every device.
    """

    n_devices: int

    def loop(self, body, state, own, shared, n_steps):
        state, own = _replicated((state, own), self.n_devices)
        rows = PartitionSpec(_AXIS)
        whole = len(shared.weight) % self.n_devices
        split = {
            name: _placed(getattr(shared, name), self.n_devices, PartitionSpec() if whole else rows)
            for name in ("x", "y", "weight")
        }
        others = shared._replace(x=None, y=None, weight=None)
        shared = _replicated(others, self.n_devices)._replace(**split)
        return _gathered(_vmapped_loop(body, state, own, shared, n_steps))

    def apply(self, function, own, shared):
        return _vmapped_apply(function, own, shared)


def _placed(tree, n_devices: int, spec: PartitionSpec):
    """On the first devices, split along the first axis of every leaf as ``spec`` says."""
    mesh = Mesh(np.array(jax.devices()[:n_devices]), (_AXIS,))  # XLA decides what goes where
    sharding = NamedSharding(mesh, spec)
    if jax.process_count() == 1:
        return jax.device_put(tree, sharding)

    def of_all(leaf):  # every process has the whole, and gives its devices their part
        array = np.asarray(leaf, jnp.result_type(leaf))
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(of_all, tree)


def _replicated(tree, n_devices: int):
    return _placed(tree, n_devices, PartitionSpec())


def _gathered(tree):
    """What each process can read; of one process, the arrays as they are."""
    if jax.process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import process_allgather

    return process_allgather(tree, tiled=True)


@dataclasses.dataclass(frozen=True)
class OneByOne:
    """Single members, one on each core; all members stop at the same step.

    Parameters
    ----------
    looped : one compiled loop over the steps of a member; otherwise one step is compiled, and
        taken again and again from Python.
    """

    looped: bool = False

    def loop(self, body, state, own, shared, n_steps):
        run = _single_loop if self.looped else _single_steps
        n_members = n_members_of(state)
        if self.looped:  # compiled here, and not in every thread at once
            member, mine = member_of((state, own), 0)
            _single_loop(body, member, mine, shared, 0, 0)
        shares = _wrapped_around(n_members, n_steps, min(n_cores(), n_members))
        done: dict[tuple[int, int], Future] = {
            (part.member, part.end): Future() for share in shares for part in share
        }

        def work(share):
            for part in share:
                if part.start == 0:
                    member = member_of(state, part.member)
                else:
                    member = done[part.member, part.start].result()
                mine = member_of(own, part.member)
                result = done[part.member, part.end]
                try:
                    member = run(body, member, mine, shared, part.start, part.end)
                    result.set_result(jax.block_until_ready(member))
                except BaseException as error:
                    result.set_exception(error)
                    raise

        # A share waits for the one after it at most, so that one must be taken up before.
        pool, work = _pool(n_cores()), in_threads_too(work)
        for future in [pool.submit(work, share) for share in reversed(shares)]:
            future.result()
        return stack_members([done[member, n_steps].result() for member in range(n_members)])

    def apply(self, function, own, shared):
        def run(j):
            return jax.block_until_ready(_single_apply(function, member_of(own, j), shared))

        first, *others = range(n_members_of(own))
        done = run(first)  # compiled here, and not in every thread at once
        return stack_members([done, *_pool(n_cores()).map(in_threads_too(run), others)])


class _Part(NamedTuple):
    """Steps ``start`` to ``end`` of a member."""

    member: int
    start: int
    end: int


def _wrapped_around(n_members: int, n_steps: int, n_threads: int) -> list[list[_Part]]:
    """Equal shares of all steps for each thread (McNaughton's rule), in the order to take them.

    The work of all members is laid end to end and cut. A member that is cut opens the one share
    and closes the other, so the two parts do not overlap in time: the opening has its first steps.
    """
    shares: list[list[_Part]] = []
    cuts = [n_members * n_steps * k // n_threads for k in range(n_threads + 1)]
    for low, high in itertools.pairwise(cuts):
        share = []
        for member in range(low // n_steps, -(-high // n_steps)):
            before = member * n_steps
            behind = max(0, before + n_steps - high)  # steps that open the next share
            ahead = max(0, low - before)  # steps that close the share before
            share.append(_Part(member, behind, n_steps - ahead))
        shares.append(share)
    return shares


def best_member_map(
    network: Network, n_members: int, work: int = 0, vmappable: bool | None = None
) -> MemberMap:
    """The fastest map for this network on this machine.

    ``work`` is roughly the number of multiplications in a step of one member. ``vmappable`` is the
    network's trait of that name, if it is known.
    """
    if jax.process_count() > 1:
        return Sharded(jax.device_count())
    if jax.default_backend() == "cpu":
        vmappable = traits(network).vmappable if vmappable is None else vmappable
        if not vmappable or work > _LARGE_WORK:
            return OneByOne(looped=vmappable)
        # Equal shares need one compilation only. They do not depend on the number of cores, on
        # which the last bits of members would depend otherwise.
        for size in SHARES:
            if n_members % size == 0 and n_members > size:
                return Threaded(n_cores(), size)
    elif jax.device_count() > 1:
        return Sharded(jax.device_count())
    return Vmapped()


def in_threads(function, own, shared):
    """Stack ``function(own_j, shared)`` over j, equal shares of them on each core.

    It suits work of many steps in one call, such as a Markov chain.
    """
    n_tasks = n_members_of(own)
    n_threads = next(n for n in range(n_cores(), 0, -1) if n_tasks % n == 0)
    size = n_tasks // n_threads

    def run(first):
        part = take_members(own, slice(first, first + size))
        return jax.block_until_ready(_vmapped_apply(function, part, shared))

    return concatenate_members(
        list(_pool(n_threads).map(in_threads_too(run), range(0, n_tasks, size)))
    )


def n_members_of(tree) -> int:
    """Length of the member axis of a stacked tree."""
    return len(jax.tree.leaves(tree)[0])


def n_cores() -> int:
    """Cores this process may use.

    In workers of joblib and Ray, ``OMP_NUM_THREADS`` sets this number.
    """
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    else:
        n_cores = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    share = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(n_cores, int(share))) if share.isdecimal() else n_cores


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="anchored")


_join = jax.jit(concatenate_members)


@partial(jax.jit, static_argnums=0)
def _vmapped_loop(body, state, own, shared, n_steps):
    """Members through ``n_steps`` steps."""
    step = jax.vmap(body, in_axes=(0, 0, None, None))
    return jax.lax.fori_loop(0, n_steps, lambda i, s: step(s, own, shared, i), state)


@partial(jax.jit, static_argnums=0)
def _vmapped_apply(function, own, shared):
    return jax.vmap(function, in_axes=(0, None))(own, shared)


def _single_steps(body, state, own, shared, start, end):
    for step in range(start, end):
        state = _single_step(body, state, own, shared, step)
    return state


@partial(jax.jit, static_argnums=0)
def _single_step(body, state, own, shared, step):
    return body(state, own, shared, step)


@partial(jax.jit, static_argnums=0)
def _single_loop(body, state, own, shared, start, end):
    return jax.lax.fori_loop(start, end, lambda i, s: body(s, own, shared, i), state)


@partial(jax.jit, static_argnums=0)
def _single_apply(function, own, shared):
    return function(own, shared)
