"""Episodes from environments that JAX cannot trace: those of Gymnasium, one at a time or
vectorised.

Episode number i of a seed is the same wherever it is played: the environment is reset with a seed
made from both, and both decide the member and its random actions.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.rows import padded_size
from anchored.rl._gymnasium import checked_numbers, gymnasium
from anchored.rl.q_learning import Episodes, chosen_action, epsilon_at
from anchored.rl.q_learning import episode_keys as _keys_of
from anchored.rl.q_loss import Extra, Own, QLoss
from anchored.rl.q_settings import QSettings
from anchored.typing import Array

_NO_END = (
    "an episode of `env` has not ended after {n:,} steps, `max_steps`. Give the environment a time "
    "limit (gymnasium.wrappers.TimeLimit), or raise `max_steps`. What the agent learned before "
    "this round is kept."
)


class Policy(NamedTuple):
    """What is needed to play: the members as they are in a round, and the run's settings."""

    loss: QLoss
    settings: QSettings
    theta: Array  # [member, ...]
    own: Own  # [member, ...]
    extra: Extra
    seed: Array

    def placed(self, place: Callable[[Array], Any]) -> "Policy":
        """The same with converted arrays, for example NumPy arrays for another process."""
        arrays = jax.tree.map(place, (self.theta, self.own, self.extra, self.seed))
        return Policy(self.loss, self.settings, *arrays)


class Source(Protocol):
    """Where episodes come from."""

    def play(self, policy: Policy, numbers: Sequence[int]) -> list[Episodes]:
        """Episodes [step, ...] of these numbers, in order."""
        ...


class Single(NamedTuple):
    """One Gymnasium environment."""

    env: Any
    max_steps: int

    def play(self, policy: Policy, numbers: Sequence[int]) -> list[Episodes]:
        return [self._episode(policy, number) for number in numbers]

    def _episode(self, policy: Policy, number: int) -> Episodes:
        player = begin_episode(policy, number)

        def choose(x: np.ndarray, i: int) -> int:
            return int(act(policy.loss, player, policy.extra, x, i))

        return played_by(self.env, choose, int(player.world), self.max_steps)


def played_by(
    env: Any, choose: Callable[[np.ndarray, int], int], seed: int, max_steps: int
) -> Episodes:
    """One episode [step, ...] in which ``choose(observation, step)`` gives the action."""
    first = int(env.action_space.start)
    x, _ = env.reset(seed=seed)
    x = checked_numbers("observation", x, 0)
    steps: list[Any] = []
    for i in range(max_steps):
        action = choose(x, i)
        seen, reward, terminated, truncated, _ = env.step(first + action)
        seen = checked_numbers("observation", seen, i + 1)
        reward = checked_numbers("reward", reward, i + 1)
        steps.append((x, action, reward, seen, terminated, True))
        if terminated or truncated:
            return _stacked(steps)
        x = seen
    raise RuntimeError(_NO_END.format(n=max_steps))


class InStep(NamedTuple):
    """A `gymnasium.vector.VectorEnv`: as many episodes at a time as it has environments."""

    env: Any
    max_steps: int

    def play(self, policy: Policy, numbers: Sequence[int]) -> list[Episodes]:
        size, played = self.env.num_envs, []
        for start in range(0, len(numbers), size):
            some = list(numbers[start : start + size])
            # The last few of a round may leave environments idle: they repeat an episode.
            played += self._episodes(policy, some + some[-1:] * (size - len(some)))[: len(some)]
        return played

    def _episodes(self, policy: Policy, numbers: list[int]) -> list[Episodes]:
        players = [begin_episode(policy, number) for number in numbers]
        together: Any = jax.tree.map(lambda *leaves: jnp.stack(leaves), *players)
        first = int(self.env.single_action_space.start)
        x, _ = self.env.reset(seed=[int(player.world) for player in players])
        steps: list[list[Any]] = [[] for _ in numbers]
        over = np.zeros(len(numbers), bool)
        for i in range(self.max_steps):
            x = np.asarray(x, np.float32)
            actions = np.asarray(_act_all(policy.loss, together, policy.extra, x, i))
            seen, reward, terminated, truncated, info = self.env.step(first + actions)
            # In the mode that resets at once the last observation of an episode is beside.
            last = info.get("final_obs", seen)
            for j in np.flatnonzero(~over):
                end = terminated[j] or truncated[j]
                then = checked_numbers("observation", last[j] if end else seen[j], i + 1)
                gain = checked_numbers("reward", reward[j], i + 1)
                steps[j].append((x[j], actions[j], gain, then, terminated[j], True))
            over |= terminated | truncated
            if over.all():
                return [_stacked(each) for each in steps]
            x = seen
        raise RuntimeError(_NO_END.format(n=self.max_steps))


class Player(NamedTuple):
    """The member that plays an episode, and what is random in it."""

    theta: Array
    own: Own
    world: Array  # seed of the environment
    key: Array
    epsilon: Array


@partial(jax.jit, static_argnums=(0,))
def _begun(settings: QSettings, theta, own, seed, number) -> Player:
    member, key_world, key_player = _keys_of(settings, seed, number)
    theta, own = jax.tree.map(lambda leaf: leaf[member], (theta, own))
    world = jax.random.bits(key_world) >> 1
    return Player(theta, own, world, key_player, epsilon_at(settings, number))


def begin_episode(policy: Policy, number: int) -> Player:
    return _begun(policy.settings, policy.theta, policy.own, policy.seed, np.int32(number))


def _act(loss: QLoss, player: Player, extra: Extra, x: Array, i: Array) -> Array:
    q = loss.values(player.theta, player.own, extra, x[None])[0]
    return chosen_action(q, jax.random.fold_in(player.key, i), player.epsilon)


act = jax.jit(_act, static_argnums=0)
_act_all = jax.jit(jax.vmap(_act, in_axes=(None, 0, None, 0, None)), static_argnums=0)


def _stacked(steps: list[tuple]) -> Episodes:
    x, action, reward, following, terminal, valid = zip(*steps, strict=True)
    return Episodes(
        np.asarray(x, np.float32),
        np.asarray(action, np.int32),
        np.asarray(reward, np.float32),
        np.asarray(following, np.float32),
        np.asarray(terminal, bool),
        np.asarray(valid, bool),
    )


def together(played: Sequence[Episodes]) -> Episodes:
    """Episodes [episode, step, ...] padded to one of a few lengths, so that programs are shared."""
    length = padded_size(max(len(each.valid) for each in played))

    def padded(array: np.ndarray) -> np.ndarray:
        spare = [(0, length - len(array))] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, spare)

    return jax.tree.map(lambda *arrays: np.stack([padded(a) for a in arrays]), *played)


def source_of(env: Any, max_steps: int) -> Source:
    """How to play in ``env``, whatever it is."""
    if hasattr(env, "play"):
        return env
    gym = gymnasium()
    if isinstance(env, gym.vector.VectorEnv):
        if env.metadata.get("autoreset_mode") == gym.vector.AutoresetMode.DISABLED:
            raise ValueError(
                "`env` must reset itself: make it with the autoreset mode NEXT_STEP or SAME_STEP."
            )
        return InStep(env, max_steps)
    return Single(env, max_steps)
