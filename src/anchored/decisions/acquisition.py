"""Where to evaluate next: the worth of a point, and the search for the point of highest worth.

Low values are good. Under a Student-t of location m, scale s and d degrees of freedom, with
z = (best - m) / s, the expected improvement on the best value so far is

    EI = s (z T_d(z) + (d + z^2) / (d - 1) t_d(z))

and a draw of the function is worth minus its value (Thompson sampling). The search is one compiled
program. It tries many candidates, climbs by gradients from the best of them, and then changes whole
numbers and categories one at a time.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaln

from anchored.decisions.space import Integer, Space, features
from anchored.typing import Array

_N_SPREAD, _N_NEAR = 1_024, 512  # candidates all over the space, and near the best points
_N_STARTS = 8
_CLIMB_STEPS = 60
_STEPS = (0.05, 1e-5)  # of a climb, first and last, in shares of the space
_SWAPS = 40  # changes of whole numbers and categories that are tried
_NEAR = (0.2, 0.05, 0.01, 0.002)  # deviations of candidates near the best points
_BREACH = 10.0  # what a deviation beyond a constraint costs a drawn function


class Belief(NamedTuple):
    """What is known of the objective and its best value, and of each constraint and its limit.

    Either moments (for the expected improvement) or functions (for Thompson sampling), all
    standardised. While there is no feasible point, ``best`` is NaN, and only feasibility counts.
    """

    objective: Any
    best: Any
    constraints: tuple[Any, ...]
    limits: Any  # [constraint]


def student_cdf(z: Array, dof) -> Array:
    tail = 0.5 * betainc(0.5 * dof, 0.5, dof / (dof + jnp.square(z)))
    return jnp.where(z > 0, 1 - tail, tail)


def expected_improvement(mean: Array, scale: Array, dof, best) -> Array:
    """By how much a value of a Student-t is expected to fall below ``best``."""
    dof = jnp.asarray(dof, jnp.result_type(mean))
    return scale * _unit_improvement((best - mean) / scale, dof)


@jax.custom_jvp
def _unit_improvement(z: Array, dof) -> Array:
    log_norm = gammaln(0.5 * (dof + 1)) - gammaln(0.5 * dof) - 0.5 * jnp.log(dof * jnp.pi)
    density = jnp.exp(log_norm - 0.5 * (dof + 1) * jnp.log1p(jnp.square(z) / dof))
    return z * student_cdf(z, dof) + (dof + jnp.square(z)) / (dof - 1) * density


@_unit_improvement.defjvp
def _unit_improvement_jvp(primals, tangents):
    # The derivative is the distribution function: cheaper than JAX's through `betainc`.
    z, dof = primals
    return _unit_improvement(z, dof), student_cdf(z, dof) * tangents[0]


def _log_probability(moments, limit, z: Array) -> Array:
    """That a constraint is at or below its limit."""
    mean, scale = moments(z)
    return jax.scipy.stats.norm.logcdf((limit - mean) / scale)


def improvement_worth(belief: Belief, z: Array) -> Array:
    """Logarithm of the expected improvement times the probability of all constraints."""
    mean, scale = belief.objective(z)
    gain = expected_improvement(mean, scale, belief.objective.dof, belief.best)
    worth = jnp.where(jnp.isnan(belief.best), 0.0, jnp.log(jnp.maximum(gain, 1e-300)))
    for moments, limit in zip(belief.constraints, belief.limits, strict=True):
        worth = worth + _log_probability(moments, limit, z)
    return worth


def draw_worth(belief: Belief, z: Array) -> Array:
    """Minus the value of a drawn function, minus the violation of drawn constraints."""
    worth = -belief.objective(z)
    for function, limit in zip(belief.constraints, belief.limits, strict=True):
        worth = worth - _BREACH * jnp.maximum(function(z) - limit, 0.0)
    return worth


class Steps(NamedTuple):
    """A whole number: the place of its coordinate, and its meaning."""

    place: int
    dimension: Integer


@dataclasses.dataclass(frozen=True)
class Shape:
    """All that a compiled search knows about a space; equal shapes share a program."""

    is_choice: tuple[bool, ...]  # [coordinate]
    integers: tuple[Steps, ...]

    @classmethod
    def of(cls, space: Space) -> "Shape":
        starts = np.cumsum([0, *space.widths[:-1]]).tolist()
        found = [
            Steps(start, dimension)
            for start, dimension in zip(starts, space.dimensions, strict=True)
            if isinstance(dimension, Integer)
        ]
        return cls(tuple(space.is_choice.tolist()), tuple(found))

    def snap(self, u: Array) -> Array:
        """Whole numbers at their places; categories stay."""
        for place, dimension in self.integers:
            low, high = dimension.ends
            value = low + u[..., place] * (high - low)
            value = jnp.exp(value) if dimension.log else value
            value = jnp.clip(jnp.round(value), dimension.low, dimension.high)
            value = jnp.log(value) if dimension.log else value
            u = u.at[..., place].set((value - low) / (high - low))
        return u

    def features(self, u: Array) -> Array:
        return features(u, np.array(self.is_choice))


class Trials(NamedTuple):
    """Random parts of a search, drawn outside the compiled program."""

    candidates: Any  # [candidate, coordinate]
    masks: Any  # [swap, start, coordinate]: what is changed
    choices: Any  # [swap, start, coordinate]: to what, of categories
    shifts: Any  # [swap, start, 1]: by how much, of whole numbers, as shares of the space


def draw_trials(space: Space, rng: np.random.Generator, best: np.ndarray) -> Trials:
    """Candidates all over the space and near the ``best`` points [point, coordinate]."""
    spread = space.spread(rng.integers(2**31, size=2).tolist(), _N_SPREAD)
    near = np.empty((0, space.n_coordinates))
    if len(best):
        near = best[rng.integers(len(best), size=_N_NEAR)]
        other = space.random(rng, _N_NEAR)
        width = rng.choice(_NEAR, size=(_N_NEAR, 1))
        moved = np.clip(near + width * rng.normal(size=near.shape), 0, 1)
        changed = rng.random((_N_NEAR, len(space.dimensions)))[:, space.columns]
        near = np.where(space.is_choice, np.where(changed < 0.1, other, near), moved)
        keep = (changed < 0.5) | space.is_choice  # about half of the numbers stay
        near = space.snapped(np.where(keep, near, best[rng.integers(len(best), size=_N_NEAR)]))
    shape = (_SWAPS if discrete(space).any() else 0, _N_STARTS)
    columns = (
        rng.choice(np.flatnonzero(discrete(space)), size=shape) if shape[0] else np.zeros(shape)
    )
    choices = space.random(rng, int(np.prod(shape))).reshape(*shape, space.n_coordinates)
    steps = rng.choice([-2, -1, 1, 2], size=(*shape, 1)) / np.maximum(space.steps, 1)
    return Trials(
        np.concatenate([spread, near, best]),
        columns[..., None] == space.columns,
        choices,
        steps,
    )


def discrete(space: Space) -> np.ndarray:
    """Which dimensions are whole numbers or categories."""
    flags = space.is_choice | (space.steps > 0)
    return np.array([flags[space.columns == c].any() for c in range(len(space.dimensions))])


def search(worth, space: Space, belief: Belief, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
    """Points [end, coordinate] of high worth, and their worth, best first."""
    with jax.enable_x64(True):
        ends, worths = _search_one(worth, Shape.of(space), belief, trials)
    order = np.argsort(-np.asarray(worths), kind="stable")
    return np.asarray(ends)[order], np.asarray(worths)[order]


def search_functions(space: Space, belief: Belief, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
    """The same for each of some drawn functions: [function, end, ...]."""
    with jax.enable_x64(True):
        ends, worths = _search_many(Shape.of(space), belief, trials)
    order = np.argsort(-np.asarray(worths), axis=1, kind="stable")
    ends = np.take_along_axis(np.asarray(ends), order[..., None], axis=1)
    return ends, np.take_along_axis(np.asarray(worths), order, axis=1)


@partial(jax.jit, static_argnums=(0, 1))
def _search_one(worth, shape: Shape, belief: Belief, trials: Trials):
    return _searched(partial(worth, belief), shape, trials)


@partial(jax.jit, static_argnums=0)
def _search_many(shape: Shape, belief: Belief, trials: Trials):
    def axes(functions):
        return dataclasses.replace(
            functions,
            **{
                field.name: None if field.name in functions.shared else 0
                for field in dataclasses.fields(functions)
                if not field.metadata.get("static")
            },
        )

    one_by_one = Belief(axes(belief.objective), None, tuple(map(axes, belief.constraints)), None)

    def one(belief: Belief):
        return _searched(partial(draw_worth, belief), shape, trials)

    return jax.vmap(one, in_axes=(one_by_one,))(belief)


def _searched(worth, shape: Shape, trials: Trials):
    """Ends of the search and its starts, with their worth.

    Each phase has the worth in its program once, because that is most of what is compiled.
    """
    moves = ~np.array(shape.is_choice)

    def value(u: Array) -> Array:
        return worth(shape.features(u))

    first = value(trials.candidates)
    _, top = jax.lax.top_k(first, _N_STARTS)
    starts = trials.candidates[top]
    ends, worths = _climbed(value, starts, moves)
    if len(trials.masks):
        ends, worths = _swapped(value, shape.snap(ends), shape, trials)
    return jnp.concatenate([ends, starts]), jnp.concatenate([worths, first[top]])


def _climbed(value, u: Array, moves: np.ndarray) -> tuple[Array, Array]:
    """Starts [start, coordinate] moved uphill by Adam, within the space; the best met is kept."""
    first, last = _STEPS

    def step(i, carry):
        u, mean, square, best, best_value = carry
        values, pull = jax.vjp(value, u)
        (grad,) = pull(jnp.ones_like(values))
        grad = jnp.where(jnp.isfinite(grad) & moves, grad, 0.0)
        better = values > best_value
        best = jnp.where(better[:, None], u, best)
        best_value = jnp.where(better, values, best_value)
        mean, square = 0.8 * mean + 0.2 * grad, 0.95 * square + 0.05 * jnp.square(grad)
        size = first * (last / first) ** (i / (_CLIMB_STEPS - 1))
        move = mean / (1 - 0.8 ** (i + 1)) / (jnp.sqrt(square / (1 - 0.95 ** (i + 1))) + 1e-30)
        return jnp.clip(u + size * move, 0.0, 1.0), mean, square, best, best_value

    zero, lowest = jnp.zeros_like(u), jnp.full(len(u), -jnp.inf)
    # One more step than moves, to look at the last.
    *_, best, best_value = jax.lax.fori_loop(0, _CLIMB_STEPS + 1, step, (u, zero, zero, u, lowest))
    return best, best_value


def _swapped(value, u: Array, shape: Shape, trials: Trials) -> tuple[Array, Array]:
    """Whole numbers and categories changed one at a time, where that is better."""

    def step(i, carry):
        u, values = carry
        to = jnp.where(np.array(shape.is_choice), trials.choices[i], u + trials.shifts[i])
        changed = trials.masks[i] & (i > 0)  # the first look is at what is there
        tried = shape.snap(jnp.clip(jnp.where(changed, to, u), 0.0, 1.0))
        tried_values = value(tried)
        better = tried_values > values
        return jnp.where(better[:, None], tried, u), jnp.where(better, tried_values, values)

    lowest = jnp.full(len(u), -jnp.inf)
    return jax.lax.fori_loop(0, len(trials.masks), step, (u, lowest))
