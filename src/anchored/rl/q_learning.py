"""Bayesian Q-learning as pure functions on a state.

Member j is a Q-network that minimises the loss of `q_loss`. One member plays a whole episode with
the actions that it considers best. It is a draw from the posterior over functions (Thompson
sampling). Members start at their anchors, where the loss is lowest as long as there are no rows.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.drawing import anchor_of, draw_keys, initial_of, noise_seed_of
from anchored.core.members import Vmapped
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.state import Batch, EnsembleState, Moving, batch_rows, moved, rate_at
from anchored.core.training import Schedule, begin
from anchored.core.tree import Raveller, leaf_paths, on_device
from anchored.rl.environments.pure import DiscreteEnvironment
from anchored.rl.q_loss import N_FIXED, Extra, Own, QLoss
from anchored.rl.q_settings import Q_METHODS, QSettings
from anchored.rl.replay import Replay
from anchored.typing import Array, Network

_BLOCK_ROWS = 1_000  # read at once for the next steps: they stay in the processor's cache


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QState:
    """Everything that learning needs to continue."""

    members: EnsembleState
    replay: Replay
    seed: Any
    episode: Any  # episodes played so far


class Episodes(NamedTuple):
    """Steps of some episodes [episode, step, ...]; steps after the end are not ``valid``."""

    x: Any  # observation before the step
    action: Any
    reward: Any
    following: Any  # observation after it
    terminal: Any  # nothing comes after it
    valid: Any


class Curve(NamedTuple):
    """What is remembered of each episode."""

    total: Any  # sum of the rewards
    length: Any
    last: Any  # the last reward


def prior_of(network: Network, settings: QSettings, n_observed: int) -> Prior:
    """The paper's prior, its last layer in units of ``prior_scale``."""
    prior = Prior.for_network(network, np.zeros((1, n_observed), np.float32), settings.first_var)
    if Q_METHODS[settings.method].prior_network:
        return prior  # its draw is multiplied by the scale
    last = leaf_paths(prior.scale)[-1]
    variance = np.square(settings.prior_scale * np.asarray(jax.tree.leaves(prior.scale)[-1]))
    return prior.with_leaf(last, variance=variance)


def init(network: Network, settings: QSettings, seed: int, n_observed: int) -> QState:
    """The state before the first episode. Member j depends on the seed and on j alone."""
    prior = prior_of(network, settings, n_observed)
    key_anchor, key_init, key_mask, order = draw_keys(jax.random.key(seed))
    raveller, row = Raveller.like(prior.scale), Q_METHODS[settings.method]
    ravel, like = jax.jit(raveller.ravel), np.zeros((1, n_observed), np.float32)

    def stacked(of_member: Callable[[int], Array]) -> Array:
        return on_device(np.stack([of_member(j) for j in range(settings.n_members)]))

    anchored = row.anchors and settings.n_members > 1
    drawn = stacked(lambda j: ravel(anchor_of(prior, key_anchor, j)))
    start = drawn if anchored else stacked(lambda j: ravel(initial_of(network, key_init, j, like)))
    own = Own(
        centre=drawn if anchored else stacked(lambda j: ravel(prior.mean)),
        target=start,
        prior=drawn if row.prior_network else None,
        seed=stacked(lambda j: noise_seed_of(key_mask, j, True)) if row.bootstrap else None,
    )
    schedule = Schedule(batch_size=settings.batch_size, learning_rate=settings.learning_rate)
    loss, extra = QLoss(network, raveller, settings.double), _extra(settings, ravel(prior.scale))
    unit = extra.scale if settings.in_prior_units else None
    run = schedule, settings.capacity, Vmapped()
    members = begin(int(order), loss, start, own, extra, *run, raveller, unit)
    members = jax.tree.map(jnp.copy, members)  # what is written in place must be owned once
    replay = Replay.make(settings.capacity, n_observed, N_FIXED + n_observed)
    return QState(members, replay, jnp.uint32(seed), jnp.int32(0))


def _extra(settings: QSettings, scale: Array) -> Extra:
    return Extra(
        scale=scale,
        penalty=jnp.float32(Q_METHODS[settings.method].penalised),
        noise_var=jnp.float32(settings.noise_var / settings.value_scale**2),
        value_scale=jnp.float32(settings.value_scale),
        prior_scale=jnp.float32(settings.prior_scale),
    )


def member_values(state: EnsembleState, x: Array) -> Array:
    """Q [member, batch, action] in units of reward."""
    loss, extra = state.plan.loss, state.extra
    each = jax.vmap(loss.values, in_axes=(0, 0, None, None))
    return extra.value_scale * each(state.theta, state.own, extra, x)


def epsilon_at(settings: QSettings, episode: Array) -> Array:
    """Share of random actions in an episode, by its number."""
    if not settings.epsilon_episodes:
        return jnp.float32(settings.epsilon)
    left = 1.0 - episode / settings.epsilon_episodes
    return jnp.maximum(settings.epsilon, settings.epsilon + (1.0 - settings.epsilon) * left)


def episode_keys(settings: QSettings, seed: Array, episode: Array) -> tuple[Array, Array, Array]:
    """The member that plays an episode, and the keys of the world and of the player."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), episode)
    key_member, key_world, key_player = jax.random.split(key, 3)
    return jax.random.randint(key_member, (), 0, settings.n_members), key_world, key_player


def chosen_action(q: Array, key: Array, epsilon: Array) -> Array:
    """The best action by q [action] or, with probability epsilon, a random one."""
    key_whether, key_which = jax.random.split(key)
    other = jax.random.randint(key_which, (), 0, len(q))
    return jnp.where(jax.random.uniform(key_whether) < epsilon, other, q.argmax())


def play(
    env: DiscreteEnvironment, settings: QSettings, state: QState, episode: Array, best: bool = False
) -> Episodes:
    """One episode [step, ...] by one member or, with ``best``, by the mean of all members."""
    member, key_world, key_player = episode_keys(settings, state.seed, episode)
    loss, extra = state.members.plan.loss, state.members.extra
    theta, own = jax.tree.map(lambda leaf: leaf[member], (state.members.theta, state.members.own))
    epsilon = jnp.float32(0.0) if best else epsilon_at(settings, episode)
    key_reset, key_steps = jax.random.split(key_world)
    at = env.reset(key_reset)

    def step(carry, i):
        at, x, over = carry
        if best:
            q = member_values(state.members, x[None]).mean(axis=0)[0]
        else:
            q = loss.values(theta, own, extra, x[None])[0]
        action = chosen_action(q, jax.random.fold_in(key_player, i), epsilon)
        then, seen, reward, done = env.step(jax.random.fold_in(key_steps, i), at, action)
        row = Episodes(x, action, reward, seen, done, ~over)
        return (then, seen, over | done), row

    first = (at, env.observe(at).astype(jnp.float32), jnp.zeros((), bool))
    _, rows = jax.lax.scan(step, first, jnp.arange(env.max_steps))
    return rows


def learn(settings: QSettings, state: QState, episodes: Episodes) -> tuple[QState, Curve, Array]:
    """The state after the rows of a round were added and trained on, and whether all are finite.

    A round with a number that is not finite changes nothing.
    """
    valid = episodes.valid
    finite = jnp.isfinite(episodes.reward) & jnp.isfinite(episodes.following).all(-1)
    finite = jnp.all(jnp.where(valid, finite & jnp.isfinite(episodes.x).all(-1), True))
    x, y = jax.vmap(partial(_rows, settings))(episodes)
    flat = (a.reshape(-1, *a.shape[2:]) for a in (x, y, valid & finite))
    state = dataclasses.replace(
        state,
        replay=state.replay.add(*flat),
        episode=state.episode + jnp.where(finite, len(valid), 0),
    )
    members = _trained(settings, state, jnp.where(finite, settings.n_updates, 0))
    return dataclasses.replace(state, members=members), curve_of(episodes), finite


def curve_of(episodes: Episodes) -> Curve:
    """What is recorded about episodes."""
    reward = jnp.where(episodes.valid, episodes.reward, 0.0)
    length = episodes.valid.sum(axis=1)
    last = jnp.take_along_axis(reward, length[:, None] - 1, axis=1)[:, 0]
    return Curve(reward.sum(axis=1), length, last)


def _rows(settings: QSettings, steps: Episodes) -> tuple[Array, Array]:
    """Inputs and targets [step, ...] of one episode: rewards of n steps, and what comes then."""
    n, gamma = settings.n_step, settings.gamma
    length, at = steps.valid.sum(), jnp.arange(len(steps.valid))
    reward = jnp.zeros_like(steps.reward)
    for k in range(n):
        later = jnp.take(steps.reward, at + k, mode="fill", fill_value=0.0)
        reward = reward + gamma**k * jnp.where(at + k < length, later, 0.0)
    last = jnp.clip(jnp.minimum(at + n, length) - 1, 0)
    discount = gamma ** (last - at + 1.0) * (1.0 - steps.terminal[last])
    y = [steps.action.astype(jnp.float32), reward, discount]
    return steps.x, jnp.concatenate([jnp.stack(y, axis=1), steps.following[last]], axis=1)


def _trained(settings: QSettings, state: QState, n_updates: Array) -> EnsembleState:
    """Members after ``n_updates`` steps, with target networks replaced when it is time."""
    data, every = state.replay.data, settings.target_every
    most = min(settings.n_updates, every, max(1, _BLOCK_ROWS // settings.batch_size))

    def go_on(carry: tuple[EnsembleState, Array]) -> tuple[EnsembleState, Array]:
        members, left = carry
        count = jnp.minimum(jnp.minimum(left, most), every - members.step % every)
        members = _some_steps(members, data, most, count)
        renew = members.step % every == 0
        target = jnp.where(renew, members.theta, members.own.target)
        own = members.own._replace(target=target)
        return dataclasses.replace(members, own=own), left - count

    start = (state.members, n_updates.astype(jnp.int32))
    return jax.lax.while_loop(lambda carry: carry[1] > 0, go_on, start)[0]


def _some_steps(members: EnsembleState, data: Data, most: int, count: Array) -> EnsembleState:
    """Members after ``count`` steps, at most ``most``, in which target networks stay.

    The rows of all of them are read, and given to the target networks, at once: those of one step
    would come from memory one by one.
    """
    plan, loss, total = members.plan, members.plan.loss, jnp.maximum(data.total_weight, 1.0)
    size, n_rows = min(plan.batch_size, len(data.weight)), jnp.asarray(data.n_rows)
    steps = members.step + jnp.arange(most, dtype=jnp.int32)
    rows = jax.vmap(lambda step: batch_rows(members.seed, step, n_rows, size))(steps).ravel()
    batch = Batch(data.x[rows], data.y[rows], data.weight[rows], rows, 1.0, total)
    # Copies, or XLA makes one product of the first layers of all members and turns it round.
    batch = jax.tree.map(partial(_copied, len(members.theta)), batch)
    known = jax.vmap(loss.known, in_axes=(0, None, 0))(members.own, members.extra, batch)

    def step(i: Array, now: Moving) -> Moving:
        def part(array: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(array, i * size, size, axis=1)

        some = Batch(*map(part, batch[:4]), *batch[4:])
        slope = jax.vmap(loss.gradient, in_axes=(0, 0, None, 0, 0))
        given = (members.extra, some, jax.tree.map(part, known))
        slopes = slope(now.theta, members.own, *given)
        rate = rate_at(members, members.step + i)
        take = partial(moved, plan.optimiser, rate=rate, unit=members.unit)
        return jax.vmap(take)(now, slopes)

    now = jax.lax.fori_loop(0, count, step, Moving(members.theta, members.opt_state))
    then: Any = members.step + count
    return dataclasses.replace(members, theta=now.theta, opt_state=now.opt_state, step=then)


def _copied(n_members: int, array: Array) -> Array:
    many = jnp.broadcast_to(array, (n_members, *jnp.shape(array)))
    return jax.lax.optimization_barrier(many)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=3)
def rounds(
    env: DiscreteEnvironment, settings: QSettings, most: int, state: QState, n_rounds: Array
) -> tuple[QState, Curve, Array]:
    """The state after ``n_rounds`` rounds, at most ``most``, and their curve [round, episode].

    It stops after a round with a number that is not finite; the rounds before it count. The last
    result is the number of these rounds.
    """
    shape = (most, settings.train_every)
    numbers = jnp.arange(settings.train_every)

    def one(carry):
        i, state, curve, _ = carry
        episodes = jax.vmap(partial(play, env, settings, state))(state.episode + numbers)
        state, some, finite = learn(settings, state, episodes)
        curve = jax.tree.map(lambda all_, now: all_.at[i].set(now), curve, some)
        return i + finite, state, curve, finite

    empty = Curve(jnp.zeros(shape), jnp.zeros(shape, jnp.int32), jnp.zeros(shape))
    carry = (jnp.int32(0), state, empty, jnp.ones((), bool))
    n_done, state, curve, _ = jax.lax.while_loop(
        lambda carry: (carry[0] < n_rounds) & carry[3], one, carry
    )
    return state, curve, n_done


learned = jax.jit(learn, static_argnums=0, donate_argnums=1)


@partial(jax.jit, static_argnums=(0, 1))
def evaluated(
    env: DiscreteEnvironment, settings: QSettings, state: QState, numbers: Array
) -> Curve:
    """Play the episodes of these numbers by the mean of the members; their curve [episode]."""
    return curve_of(jax.vmap(lambda number: play(env, settings, state, number, True))(numbers))
