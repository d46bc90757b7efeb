"""Training as a state: an `EnsembleState` holds everything needed to continue.

`advance` takes steps, and `objective` computes the loss of each member. Both are pure functions of
a state and the rows. The rows of a step depend only on the state's seed, the number of the step and
the number of rows, so 300 steps and then 700 give the same bits as 1,000. If `Data` has room, rows
may be added between two calls, and nothing is compiled again.
"""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from anchored.core.members import Vmapped
from anchored.core.precision import doubled, is_double, real_type
from anchored.core.rows import Data, HostRows, rows_at_once
from anchored.core.score_noise import mixed
from anchored.core.tree import Raveller, is_traced, on_device
from anchored.errors import bad_value
from anchored.typing import Array, MemberMap, Params

DECAY_EVERY = 20  # steps between two decays of the learning rate, as in the paper
_BLOCK_BYTES = 2**24  # most inputs brought to the device at a time, of those that stay elsewhere
_BLOCK_STEPS = 1_000
_ROUNDS = 16  # two rows keep their distance through all of them in one epoch of 2^16


class Batch(NamedTuple):
    """The rows of one step."""

    x: Array
    y: Array
    weight: Array
    rows: Array  # their numbers in the data
    scale: Array | float  # times a weighted sum over the batch: estimates the mean over all rows
    total: Array | float = 1.0  # N of the scaling contract: the weight of all rows
    step: Array | int = 0  # number of the step, from which a random loss draws; 0 at looks


# For one member: loss(params, own, extra, batch). ``own`` is what it needs of this member,
# ``extra`` what all members share. Hashable, because it is part of the compiled program.
Loss = Callable[[Params, Any, Any, Batch], Array]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a compiled step depends on, in addition to the shapes of arrays."""

    loss: Loss
    optimiser: optax.GradientTransformation
    batch_size: int
    member_map: MemberMap
    raveller: Raveller | None = None  # set if a member's parameters are trained as one vector


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EnsembleState:
    """Everything that training needs to continue: a pytree of arrays, stacked over members.

    Make one with `init_ensemble`. You may replace an array with another of the same shape (a new
    rate, new centres), or write the arrays to a file. ``plan`` contains everything else.

    Attributes
    ----------
    theta : the trained values [member, ...]; `params` has them in the network's own form.
    opt_state : state of the optimiser [member, ...].
    own : what the loss needs for each member [member, ...], such as its ``centre``.
    extra : what the loss needs for all members together.
    step : steps taken so far.
    seed : seed of the order of the rows.
    log_rate, log_decay : logarithm of the learning rate, and of the factor on it every 20 steps.
    fade : share of the rate that each step takes off, in a straight line to zero; 0 for none.
    unit : unit of a step of Adam: the prior's scale of each parameter, or None for 1.
    plan : loss, optimiser, batch size and how members run; these are part of compiled programs.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import MLP, Data, Gaussian, Prior, advance, init_ensemble
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> network, data = MLP((8,)), Data.make(x, x)
    >>> prior = Prior.for_network(network, x)
    >>> state = init_ensemble(jax.random.key(0), network, prior, Gaussian(0.01), data, n_members=3)
    >>> int(advance(state, data, 50).step)
    50
    """

    theta: Params
    opt_state: Any
    own: Any
    extra: Any
    step: Any
    seed: Any
    log_rate: Any  # logarithms, because a power with a whole exponent is slow
    log_decay: Any
    fade: Any
    unit: Params | None
    plan: Plan = dataclasses.field(metadata={"static": True})

    @property
    def params(self) -> Params:
        """Parameters [member, ...] as the network takes them."""
        return self._tree(self.theta)

    @property
    def centres(self) -> Params:
        """Anchors [member, ...], or copies of the prior mean, as the network takes them."""
        return self._tree(self.own.centre)

    def _tree(self, stacked: Params) -> Params:
        raveller = self.plan.raveller
        return stacked if raveller is None else raveller.unravel_members(stacked)


@doubled(lambda state, data, n_steps: data.is_double)
def advance(state: EnsembleState, data: Data, n_steps: int) -> EnsembleState:
    """The state after ``n_steps`` more training steps on ``data``.

    It also works inside a compiled function; members are then vmapped.

    Examples
    --------
    >>> import anchored, jax, numpy as np
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> data = anchored.Data.make(x[:10], x[:10] ** 2).with_capacity(32)
    >>> network = anchored.MLP((16,))
    >>> state = anchored.init_ensemble(
    ...     jax.random.key(0), network, anchored.Prior.for_network(network, x),
    ...     anchored.Gaussian(0.01), data, n_members=3)
    >>> before = anchored.objective(state, data)
    >>> state = anchored.advance(state, data, 100)
    >>> bool((anchored.objective(state, data) < before).all())
    True
    >>> data = data.append(x[10:], x[10:] ** 2)  # compiles nothing again
    >>> state = anchored.advance(state, data, 100)
    >>> anchored.Ensemble.of_state(state).predict(x).mean.shape
    (20, 1)
    """
    if isinstance(n_steps, (int, np.integer)) and n_steps <= 0:
        if n_steps == 0:
            return state
        raise bad_value("n_steps", n_steps, "zero or a positive whole number")
    plan = state.plan
    _check_room(state, data)
    size = min(plan.batch_size, len(data.weight))
    brought = isinstance(data.x, HostRows)
    body = _Step(plan.loss, plan.optimiser, size, brought)
    members = Vmapped() if is_traced((state, data)) else plan.member_map
    moving = Moving(state.theta, state.opt_state)
    shared = _Shared.of(state, data)
    if not brought:
        moving = members.loop(body, moving, state.own, shared, n_steps)
    else:
        for first, count, x in _inputs(state, data, size, n_steps):
            here = shared._replace(x=x, step=np.int32(first))
            moving = members.loop(body, moving, state.own, here, count)
    return dataclasses.replace(
        state, theta=moving.theta, opt_state=moving.opt_state, step=state.step + n_steps
    )


def _check_room(state: EnsembleState, data: Data) -> None:
    """Folds must have a number for each place."""
    folds = getattr(state.extra, "folds", None)
    if folds is not None and len(folds) < len(data.weight):
        raise ValueError(
            f"`data` has room for {len(data.weight)} rows and the state for "
            f"{len(folds)}: give `init_ensemble` data of the capacity you need."
        )


@doubled(lambda state, data: data.is_double)
def objective(state: EnsembleState, data: Data) -> Array:
    """The loss [member] on all rows: the negative log posterior of each member divided by N.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import MLP, Data, Gaussian, Prior, init_ensemble, objective
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> network, data = MLP((8,)), Data.make(x, x)
    >>> prior = Prior.for_network(network, x)
    >>> state = init_ensemble(jax.random.key(0), network, prior, Gaussian(0.01), data, n_members=3)
    >>> objective(state, data).shape
    (3,)
    """
    n_rows, size = len(data.weight), rows_at_once(data.x)
    starts = range(0, n_rows, size)
    whole = len(starts) == 1 and not isinstance(data.x, HostRows)
    total = jnp.asarray(data.total_weight, real_type(data.dtype))
    # The mean over blocks of the loss at this scale is the loss on all rows.
    scale = len(starts) * _over(1.0, total)
    value = jnp.zeros(())
    for start in starts:
        rows = slice(start, min(start + size, n_rows))
        inputs, y, weight = data.x, data.y, data.weight
        if not whole:
            inputs, y, weight = inputs[rows], y[rows], weight[rows]
        numbers = on_device(np.arange(rows.start, rows.stop, dtype=np.int32))
        x: Any = on_device(inputs) if isinstance(inputs, np.ndarray) else inputs
        batch = Batch(x, y, weight, numbers, scale, _nonzero(total))
        value += objective_on(state, batch) / len(starts)
    return value


@doubled(lambda state, batch: is_double(state.theta))
def objective_on(state: EnsembleState, batch: Batch) -> Array:
    """The loss [member] on some rows."""
    members = Vmapped() if is_traced((state, batch)) else state.plan.member_map
    return members.apply(Objective(state.plan.loss), (state.theta, state.own), (state.extra, batch))


@partial(jax.jit, static_argnums=0)
def first_opt_state(optimiser: optax.GradientTransformation, theta: Params) -> Any:
    """State of the optimiser [member, ...] before the first step."""
    return jax.vmap(optimiser.init)(theta)


class Moving(NamedTuple):
    """What a step changes, for one member or stacked over all."""

    theta: Params
    opt_state: Any


class _Shared(NamedTuple):
    """What a step reads and all members share."""

    x: Array  # inputs of all rows, or of each step [step, batch, ...] if they are brought
    y: Array
    weight: Array
    n_rows: Array
    total: Array
    step: Array  # the first
    seed: Array
    log_rate: Array
    log_decay: Array
    fade: Array
    unit: Params | None
    extra: Any

    @classmethod
    def of(cls, state: EnsembleState, data: Data) -> "_Shared":
        return cls(
            x=data.x,
            y=data.y,
            weight=data.weight,
            n_rows=_number(data.n_rows, np.int32),
            total=_number(data.total_weight, real_type(data.dtype)),
            step=_number(state.step, np.int32),
            seed=_number(state.seed, np.uint32),
            log_rate=_number(state.log_rate, np.float32),
            log_decay=_number(state.log_decay, np.float32),
            fade=_number(state.fade, np.float32),
            unit=state.unit,
            extra=state.extra,
        )


@dataclasses.dataclass(frozen=True)
class _Step:
    """One optimiser step of one member."""

    loss: Loss
    optimiser: optax.GradientTransformation
    size: int  # of a batch
    brought: bool  # inputs come step by step

    def __call__(self, now: Moving, own: Params, s: _Shared, i: Array) -> Moving:
        step = s.step + i
        rows = batch_rows(s.seed, step, s.n_rows, self.size)
        x = s.x[i] if self.brought else s.x[rows]
        share = s.n_rows / jnp.clip(s.n_rows, 1, self.size)
        scale, total = _over(share, s.total), _nonzero(s.total)
        batch = Batch(x, s.y[rows], s.weight[rows], rows, scale, total, step)
        gradient = jax.grad(self.loss)(now.theta, own, s.extra, batch)
        return moved(self.optimiser, now, gradient, rate_at(s, step), s.unit)


def step_program(state: EnsembleState, data: Data) -> tuple[Callable, tuple]:
    """One member's step, and the shapes of what it takes."""
    plan, brought = state.plan, isinstance(data.x, HostRows)
    size = min(plan.batch_size, len(data.weight))
    shared = _Shared.of(state, data)
    if brought:
        x = jax.ShapeDtypeStruct((1, size, *data.x.shape[1:]), data.x.dtype)
        shared = shared._replace(x=x)  # pyright: ignore
    moving = Moving(state.theta, state.opt_state)
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), (moving, state.own))
    body = _Step(plan.loss, plan.optimiser, size, brought)
    return body, jax.eval_shape(lambda *given: given, *one, shared, np.int32(0))


def rate_at(state: "EnsembleState | _Shared", step: Array) -> Array:
    """The learning rate at a step."""
    left = jnp.maximum(1 - state.fade * step, 0)
    return left * jnp.exp(state.log_rate + state.log_decay * (step // DECAY_EVERY))


def moved(
    optimiser: optax.GradientTransformation,
    now: Moving,
    gradient: Params,
    rate: Array,
    unit: Params | None,
) -> Moving:
    """A member after one step of the optimiser."""
    if unit is not None:
        gradient = jax.tree.map(jnp.multiply, gradient, unit)
    updates, opt_state = optimiser.update(gradient, now.opt_state, now.theta)
    if unit is not None:
        updates = jax.tree.map(jnp.multiply, updates, unit)
    return Moving(jax.tree.map(lambda p, u: p + rate * u, now.theta, updates), opt_state)


@dataclasses.dataclass(frozen=True)
class Objective:
    """The loss of one member over many rows at once; steps never compute it."""

    loss: Loss

    def __call__(self, member: tuple[Params, Any], shared: tuple[Any, Batch]) -> Array:
        (theta, own), (extra, batch) = member, shared
        return self.loss(theta, own, extra, batch)


def _number(value: Any, dtype: Any) -> Any:
    """A number of one type, so that no other compiles the program again."""
    return value.astype(dtype) if isinstance(value, jax.Array) else dtype(value)


def _nonzero(total: Array) -> Array:
    """N, or 1 if there are no rows: the penalty is all there is then."""
    return jnp.where(total > 0, total, 1.0)


def _over(value: Array | float, total: Array) -> Array:
    return jnp.where(total > 0, value / _nonzero(total), 0.0)


def batch_rows(seed: Array, step: Array, n_rows: Array, size: int) -> Array:
    """Numbers [size] of the rows of a step; they depend only on the seed, the step and ``n_rows``.

    An epoch visits rows in random order, none twice. Rows that do not fill a batch at its end are
    left out of this epoch, so every batch is an unbiased sample. If there are at most ``size``
    rows, every step takes the first ``size`` places; places beyond the last row have no weight.
    """
    per_epoch = jnp.maximum(n_rows // size, 1)
    places = jnp.arange(size, dtype=jnp.int32)
    at = shuffled(seed, step // per_epoch, step % per_epoch * size + places, n_rows)
    return jnp.where(n_rows <= size, places, at)


def shuffled(seed: Array, epoch: Array, places: Array, n_rows: Array) -> Array:
    """The numbers at some ``places`` in a random order of ``n_rows`` numbers.

    The order is computed only where it is needed, so it is never stored. In each round of this
    "swap-or-not" shuffle (Hoang, Morris and Rogaway 2012) all places are paired by a random sum
    modulo ``n_rows``, and a random bit decides whether a pair swaps.
    """
    n_rows = jnp.maximum(n_rows, 1)
    base = mixed(mixed(jnp.asarray(seed, jnp.uint32)) ^ epoch.astype(jnp.uint32))
    keys = mixed(base + jnp.arange(1, 2 * _ROUNDS + 1, dtype=jnp.uint32))
    sums = (keys[:_ROUNDS] % n_rows.astype(jnp.uint32)).astype(jnp.int32)

    def swapped(i: Array, places: Array) -> Array:
        other = sums[i] - places
        other = jnp.where(other < 0, other + n_rows, other)
        pair = jnp.maximum(places, other).astype(jnp.uint32)
        return jnp.where(mixed(pair ^ keys[_ROUNDS + i]) >> 31 == 1, other, places)

    # A loop of its own: fused with what reads the rows it would run again for every column.
    return jax.lax.fori_loop(0, _ROUNDS, swapped, places)


@partial(jax.jit, static_argnums=(3, 4))
def _rows_of_steps(seed, first, n_rows, size, n_steps):
    steps = first + jnp.arange(n_steps, dtype=jnp.int32)
    return jax.vmap(lambda step: batch_rows(seed, step, n_rows, size))(steps)


def _inputs(
    state: EnsembleState, data: Data, size: int, n_steps: int
) -> Iterator[tuple[int, int, Array]]:
    """First step, number of steps and their inputs [step, batch, ...], read a few at a time."""
    x, seed = data.x, int(state.seed)
    most = int(np.clip(_BLOCK_BYTES // (x.row_bytes * size), 1, _BLOCK_STEPS))
    end = int(state.step) + n_steps

    def read(first: int) -> tuple[int, np.ndarray]:
        rows = np.asarray(_rows_of_steps(np.uint32(seed), first, data.n_rows, size, most))
        found, count = np.zeros((most, size, *x.shape[1:]), x.dtype), min(most, end - first)
        rngs = (np.random.default_rng([seed, first + i]) for i in range(count))
        for i, batch in enumerate(x.batches(rows[:count], rngs)):
            found[i] = batch
        return count, found

    firsts = range(int(state.step), end, most)
    with ThreadPoolExecutor(1, thread_name_prefix="anchored-rows") as pool:
        coming = pool.submit(read, firsts[0])
        for first in firsts:  # the next rows are read while steps are taken
            count, found = coming.result()
            if first + most < end:
                coming = pool.submit(read, first + most)
            yield first, count, on_device(found)
