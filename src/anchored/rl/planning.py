"""Planning with a model: chooses actions by simulating many candidates.

A model is a `Simulator`: each of its members advances many rows by one step. Each particle stays
with one member for the whole plan (trajectory sampling, "TS-infinity" of Chua et al. 2018), so a
plan is judged in coherent worlds, not in a mixture of them. All candidates of a round get the same
noise. So they are compared on equal terms, and far fewer numbers are drawn.

A decision is one compiled program: `decide`. Where JAX has several devices, each takes an equal
share of the candidates. A processor's cores count as devices if they are asked for before JAX
starts, by ``jax.config.update("jax_num_cpu_devices", 2)``.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from anchored.core.tree import Carried, as_pytree, from_pytree
from anchored.errors import bad_value
from anchored.typing import Array

_AXIS = "candidates"


class Simulator(Protocol):
    """A model to plan with: a pytree, or hashable."""

    @property
    def n_members(self) -> int: ...

    def step(
        self, member: Array, noise: Array, observation: Array, action: Array
    ) -> tuple[Array, Array]:
        """Next observations and rewards by one member, given by its number.

        Arrays are [row, ...]; ``noise`` are standard normals shaped like the observations.
        """
        ...


class Bounds(NamedTuple):
    """Least and largest values of the actions, [action] each."""

    low: Array
    high: Array


class Score(Protocol):
    """What a planner maximises: a function of plans [candidate, step, action] -> [candidate]."""

    def __call__(self, key: Array, plans: Array) -> Array: ...


class Planner(Protocol):
    """Hashable, because it is part of the compiled program."""

    @property
    def horizon(self) -> int: ...

    def plan(self, key: Array, score: Score, start: Array, bounds: Bounds) -> Array:
        """The best plan [step, action] found from ``start``."""
        ...


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy method: draw plans around a mean, move the mean to the best of them, repeat.

    The deviation starts at a quarter of the range of actions, but at most at half the distance from
    the mean to the nearer bound, so that few draws are cut off.

    Parameters
    ----------
    n_candidates, n_elites, n_rounds : plans in a round, the number of best plans that count, and
        rounds.
    smoothing : share of mean and variance that is kept from one round to the next.
    horizon : steps of a plan.
    """

    n_candidates: int = 400
    n_elites: int = 40
    n_rounds: int = 5
    smoothing: float = 0.1
    horizon: int = 25

    def __post_init__(self):
        _check_counts(self, "n_candidates", "n_elites", "n_rounds", "horizon")
        if self.n_elites > self.n_candidates:
            most = f"at most {self.n_candidates}, the number of candidates"
            raise bad_value("n_elites", self.n_elites, most)
        if not 0 <= self.smoothing < 1:
            raise bad_value("smoothing", self.smoothing, "at least 0 and below 1")

    def plan(self, key: Array, score: Score, start: Array, bounds: Bounds) -> Array:
        widest = jnp.square((bounds.high - bounds.low) / 4)

        def better(carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], None]:
            mean, var = carry
            key_draw, key_score = jax.random.split(key)
            room = jnp.minimum(mean - bounds.low, bounds.high - mean) / 2
            scale = jnp.sqrt(jnp.minimum(var, jnp.square(room)))
            shape = (self.n_candidates, *mean.shape)
            plans = mean + scale * jax.random.truncated_normal(key_draw, -2.0, 2.0, shape)
            _, best = jax.lax.top_k(score(key_score, plans), self.n_elites)
            elites = plans[best]
            keep = self.smoothing
            mean = keep * mean + (1 - keep) * jnp.mean(elites, axis=0)
            var = keep * var + (1 - keep) * jnp.var(elites, axis=0)
            return (mean, var), None

        begin = (start, jnp.broadcast_to(widest, start.shape))
        (mean, _), _ = jax.lax.scan(better, begin, jax.random.split(key, self.n_rounds))
        return mean


@dataclasses.dataclass(frozen=True)
class RandomShooting:
    """The best of many plans drawn evenly between the bounds."""

    n_candidates: int = 2000
    horizon: int = 25

    def __post_init__(self):
        _check_counts(self, "n_candidates", "horizon")

    def plan(self, key: Array, score: Score, start: Array, bounds: Bounds) -> Array:
        key_draw, key_score = jax.random.split(key)
        shape = (self.n_candidates, *start.shape)
        plans = bounds.low + (bounds.high - bounds.low) * jax.random.uniform(key_draw, shape)
        return plans[jnp.argmax(score(key_score, plans))]


def _check_counts(planner: Any, *names: str) -> None:
    for name in names:
        value = getattr(planner, name)
        if not (isinstance(value, int) and value >= 1):
            raise bad_value(name, value, "a positive whole number")


def returns(
    simulator: Simulator, n_particles: int, key: Array, observation: Array, plans: Array
) -> Array:
    """Mean reward summed over each plan [candidate, step, action] from one observation.

    Each device takes an equal share of the candidates, and every device gets all results.
    """
    devices = _devices_for(len(plans))
    if len(devices) == 1:
        return _returns(simulator, n_particles, key, observation, plans)

    def share(carried: Carried, key: Array, observation: Array, plans: Array) -> Array:
        found = _returns(from_pytree(carried), n_particles, key, observation, plans)
        return jax.lax.all_gather(found, _AXIS, tiled=True)

    whole, split = PartitionSpec(), PartitionSpec(_AXIS)
    of_all = jax.shard_map(
        share,
        mesh=Mesh(np.array(devices), (_AXIS,)),
        in_specs=(whole, whole, whole, split),
        out_specs=whole,
        check_vma=False,  # that all devices have the same after gathering is not seen by JAX
    )
    return of_all(as_pytree(simulator), key, observation, plans)


def _devices_for(n_plans: int) -> list[Any]:
    """Devices of this process, as many as share the plans equally; one if JAX was told which."""
    devices = jax.local_devices()
    if jax.config.jax_default_device is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return devices[:1]
    return devices[: max(n for n in range(1, len(devices) + 1) if n_plans % n == 0)]


def _returns(
    simulator: Simulator, n_particles: int, key: Array, observation: Array, plans: Array
) -> Array:
    """`returns` on one device.

    Particles are shared out equally among members. Members take turns, each with its particles of
    all candidates as the rows of one batch: what one needs stays in the processor's cache.
    """
    n_members = simulator.n_members
    each = -(-n_particles // n_members)
    n_plans, horizon, _ = plans.shape
    n_rows = each * n_plans
    noises = jax.random.normal(key, (horizon, n_members, each, *observation.shape))

    def of_member(given: tuple[Array, Array]) -> Array:
        member, noises = given

        def step(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[Any, None]:
            (seen, total), (noise, action) = carry, now
            noise = jnp.repeat(noise, n_plans, axis=0)  # the same for all candidates
            seen, reward = simulator.step(member, noise, seen, jnp.tile(action, (each, 1)))
            return (seen, total + reward), None

        first = (jnp.broadcast_to(observation, (n_rows, *observation.shape)), jnp.zeros(n_rows))
        return jax.lax.scan(step, first, (noises, jnp.swapaxes(plans, 0, 1)))[0][1]

    total = jax.lax.map(of_member, (jnp.arange(n_members), jnp.swapaxes(noises, 0, 1)))
    mean = jnp.mean(total.reshape(n_members * each, n_plans), axis=0)
    # A model may explode where it knows little.
    return jnp.where(jnp.isfinite(mean), mean, -jnp.inf)


def next_plan(
    planner: Planner,
    n_particles: int,
    simulator: Simulator,
    key: Array,
    observation: Array,
    plan: Array,
    bounds: Bounds,
) -> tuple[Array, Array]:
    """The action to take now, and the plan to start from at the next step: the rest of this one."""

    def score(key: Array, plans: Array) -> Array:
        return returns(simulator, n_particles, key, observation, plans)

    best = planner.plan(key, score, plan, bounds)
    return best[0], jnp.concatenate([best[1:], rest(planner, bounds)[:1]])


def rest(planner: Planner, bounds: Bounds) -> Array:
    """The plan [step, action] before there is one: half-way between the bounds."""
    middle = (bounds.low + bounds.high) / 2
    return jnp.broadcast_to(middle, (planner.horizon, *middle.shape))


@partial(jax.jit, static_argnums=(0, 1))
def _decide(planner, n_particles, carried: Carried, key, observation, plan, bounds):
    return next_plan(planner, n_particles, from_pytree(carried), key, observation, plan, bounds)


def decide(
    planner: Planner,
    n_particles: int,
    simulator: Simulator,
    key: Array,
    observation: Array,
    plan: Array,
    bounds: Bounds,
) -> tuple[Array, Array]:
    """`next_plan` as one compiled program."""
    return _decide(planner, n_particles, as_pytree(simulator), key, observation, plan, bounds)
