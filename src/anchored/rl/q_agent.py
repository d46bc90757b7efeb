"""The agent for users: Bayesian Q-learning on any environment with discrete actions."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored._files import make_folder
from anchored.core.networks import MLP
from anchored.core.tree import on_device
from anchored.errors import ModelFileError, bad_value
from anchored.model.tensors import Arrays
from anchored.prediction.predictive import Predictive
from anchored.rl import keeping
from anchored.rl._gymnasium import spaces_of
from anchored.rl.collecting import Policy, Source, played_by, source_of, together
from anchored.rl.environments.pure import DiscreteEnvironment
from anchored.rl.q_learning import (
    Curve,
    Episodes,
    QState,
    curve_of,
    evaluated,
    init,
    learned,
    member_values,
    rounds,
)
from anchored.rl.q_loss import QLoss
from anchored.rl.q_settings import QSettings
from anchored.typing import Network

_KIND = "q-agent"  # of its files
_FILE = "q_agent.safetensors"  # in a checkpoint's folder
_SECONDS = 30.0  # between two writings of a checkpoint
_OTHERS = 2**30  # number of the first episode that is none of `fit`
_BLOCK = 1000  # most rounds of one call of a compiled program
_CALL_SECONDS = 1.0  # a call takes about as long
_NOT_FINITE = (
    "`env` gave an observation or a reward that is not finite, in one of the episodes {first:,} to "
    "{last:,}. What the agent learned before them is kept."
)


class Played(NamedTuple):
    """Passed to ``on_round``: episodes so far and in total, and the recent reward a step."""

    n_done: int
    n_episodes: int
    reward: float


OnRound = Callable[[Played], bool | None]


class QAgent:
    """An ensemble of Q-networks, each with its own anchor, that explores by Thompson sampling.

    Parameters
    ----------
    settings : a `QSettings`: the networks and how they learn.
    network : your own network instead of fully connected layers ``settings.hidden``, with one
        output for each action.
    seed : seed of everything random.

    Attributes
    ----------
    state : the `QState` after the rounds so far, None before the first.
    curve : total reward, length and last reward of each episode so far.

    Examples
    --------
    >>> from anchored.rl import DeepSea, QAgent, QSettings
    >>> settings = QSettings(n_members=3, hidden=(20,), train_every=1, n_updates=5, capacity=100)
    >>> agent = QAgent(settings, seed=0).fit(DeepSea(4), 20)
    >>> agent.predict([[0.0] * 16]).shape, agent.q_distribution([0.0] * 16).std.shape
    ((1,), (2,))
    """

    def __init__(
        self, settings: QSettings | None = None, *, network: Network | None = None, seed: int = 0
    ):
        self.settings, self.network, self.seed = settings or QSettings(), network, seed
        if not (isinstance(seed, (int, np.integer)) and 0 <= seed < 2**32):
            raise bad_value("seed", seed, "a whole number from 0 to 2^32 - 1")
        self.state: QState | None = None
        self.curve = Curve(*(np.zeros(0, np.float32) for _ in Curve._fields))
        self._sizes: tuple[int, int] | None = None  # observation, actions

    def fit(
        self,
        env: Any,
        n_episodes: int,
        *,
        checkpoint: str | Path | None = None,
        max_steps: int = 1000,
        on_round: OnRound | None = None,
        verbose: int = 0,
    ) -> "QAgent":
        """Play and learn until there are ``n_episodes`` episodes in total, including earlier calls.

        Parameters
        ----------
        env : a `PureEnvironment`, which runs inside the compiled program; a Gymnasium
            environment or vector of them with vectors as observations and discrete actions; or
            `in_processes` of those.
        n_episodes : a multiple of ``settings.train_every``. A second call with a larger number
            continues.
        checkpoint : folder. The run is saved there every half minute and at the end. An interrupted
            run continues from there, and its curve is the same, bit for bit.
        max_steps : a Gymnasium episode that takes longer is an error.
        on_round : called with a `Played` after rounds; if it returns True, the run stops there and
            is saved.
        """
        size = self.settings.train_every
        if not (isinstance(n_episodes, int) and n_episodes >= 1 and n_episodes % size == 0):
            raise bad_value("n_episodes", n_episodes, f"a multiple of `train_every`, {size}")
        source = None if _is_pure(env) else source_of(env, max_steps)
        self._begin(env, source)
        file = None
        if checkpoint is not None:
            make_folder(Path(checkpoint))
            file = Path(checkpoint) / _FILE
            if file.exists() and not self.n_episodes:
                self._resume(file)
        with _shown(verbose, on_round) as show:
            self._run(env, source, n_episodes, file, show)
        return self

    @property
    def n_episodes(self) -> int:
        """Episodes played so far."""
        return len(self.curve.total)

    def q_values(self, observation: Any) -> np.ndarray:
        """Q of each member [member, batch, action], or [member, action] for one observation."""
        state, x = self._fitted(), np.asarray(observation, np.float32)
        n_observed, _ = self._sizes or (0, 0)
        if x.shape[-1:] != (n_observed,) or x.ndim > 2 or not np.all(np.isfinite(x)):
            raise bad_value(
                "observation",
                observation,
                f"finite, of shape [batch, {n_observed}] or [{n_observed}]",
            )
        q = np.asarray(_values(state.members, np.atleast_2d(x)))
        return q if x.ndim == 2 else q[:, 0]

    def q_distribution(self, observation: Any) -> Predictive:
        """The distribution of Q [batch, action] or [action], from the spread of the members
        only.
        """
        q = self.q_values(observation)
        return Predictive.from_members(q, np.zeros_like(q))

    def predict(self, observation: Any) -> Any:
        """The best action [batch] by the mean of the members; a number for one observation."""
        best = self.q_values(observation).mean(axis=0).argmax(axis=-1)
        return int(best) if best.ndim == 0 else best

    def evaluate(self, env: Any, n_episodes: int, *, max_steps: int = 1000) -> Curve:
        """Play by the mean of the members, without exploring and without learning.

        ``env`` is a `PureEnvironment` or a Gymnasium environment; the episodes differ from those of
        `fit`. Returns the total reward, length and last reward of each episode.
        """
        state = self._fitted()
        numbers = np.arange(_OTHERS, _OTHERS + n_episodes, dtype=np.int32)
        if _is_pure(env):
            curve = evaluated(env, self.settings, state, jnp.asarray(numbers))
        else:
            curve = curve_of(together([self._shown_play(env, int(n), max_steps) for n in numbers]))
        return Curve(*(np.asarray(values, np.float32) for values in curve))

    def _shown_play(self, env: Any, seed: int, max_steps: int) -> Episodes:
        """One episode of Gymnasium by the mean of the members."""
        return played_by(env, lambda x, i: self.predict(x), seed, max_steps)

    def save(self, path: str | Path) -> None:
        """Write the agent, with everything it needs to continue, to one file."""
        trees = {"state": self._fitted(), "curve": self.curve}
        keeping.write(path, _KIND, self._about(), trees)

    @classmethod
    def load(cls, path: str | Path, *, network: Network | None = None) -> "QAgent":
        """Load an agent that `save` wrote; pass a network of your own again."""
        try:
            about, arrays = _read_about(path)
            agent = cls(about["settings"], network=network, seed=about["seed"])
            agent._make(about["n_observed"], about["n_actions"])
            if agent._about()["network"] != about["network"]:
                raise ModelFileError(f"give its network: it was {about['network']}.")
            agent._fill(arrays)
        except ModelFileError as error:
            raise ModelFileError(f"{path} cannot be loaded: {error}") from error
        return agent

    # What is inside

    def _fitted(self) -> QState:
        if self.state is None:
            raise RuntimeError("the agent has learned nothing yet; call `fit` first.")
        return self.state

    def _about(self) -> dict[str, Any]:
        n_observed, n_actions = self._sizes or (0, 0)
        return {
            "settings": dataclasses.asdict(self.settings),
            "seed": int(self.seed),
            "n_observed": n_observed,
            "n_actions": n_actions,
            "network": repr(self._network(n_actions)),
        }

    def _network(self, n_actions: int) -> Network:
        return self.network or MLP(self.settings.hidden, n_outputs=n_actions)

    def _make(self, n_observed: int, n_actions: int) -> None:
        """The state before the first episode, for an environment of these sizes."""
        network, x = self._network(n_actions), on_device(np.zeros((1, n_observed), np.float32))
        made = jax.eval_shape(lambda key: network.apply(network.init(key, x), x), jax.random.key(0))
        if made.shape != (1, n_actions):
            raise ValueError(
                f"`network` must give one output for each of the {n_actions} actions; it gives "
                f"{made.shape[-1]}."
            )
        self._sizes = (n_observed, n_actions)
        self.state = init(network, self.settings, int(self.seed), n_observed)

    def _begin(self, env: Any, source: Source | None) -> None:
        sizes = _sizes_of(env, source)
        if self.state is None:
            self._make(*sizes)
        elif sizes != self._sizes:
            raise ValueError(
                f"`env` has observations of length {sizes[0]} and {sizes[1]} actions; the agent "
                f"has learned on {self._sizes}. Make another `QAgent` for it."
            )
        if source is None and env.max_steps * self.settings.train_every > self.settings.capacity:
            raise bad_value(
                "capacity",
                self.settings.capacity,
                f"at least a round's rows, {env.max_steps * self.settings.train_every:,}",
            )

    def _fill(self, arrays: Arrays) -> None:
        self.state = keeping.tree_like(arrays, "state", self._fitted(), finite=False)
        self.curve = Curve(*keeping.vectors(arrays, "curve", Curve._fields))
        arrays.close()

    def _resume(self, file: Path) -> None:
        about, arrays = _read_about(file)
        mine = self._about()
        about["settings"] = dataclasses.asdict(about["settings"])
        if about != mine:
            other = [name for name in mine if mine[name] != about[name]]
            raise ValueError(
                f"`checkpoint` {file.parent} is from a run with another {', '.join(other)}; give "
                "another folder, or the agent of that run."
            )
        self._fill(arrays)

    def _run(self, env, source: Source | None, n_episodes: int, file: Path | None, show) -> None:
        written, n_rounds = time.monotonic(), 1
        while self.n_episodes < n_episodes:
            started = time.monotonic()
            left = (n_episodes - self.n_episodes) // self.settings.train_every
            if source is None:
                self._pure_rounds(env, min(n_rounds, left))
            else:
                self._played_round(source)
            now = time.monotonic()
            if now - started < _CALL_SECONDS / 2:
                n_rounds = min(2 * n_rounds, _BLOCK)
            recent = slice(-10 * self.settings.train_every, None)
            reward = self.curve.total[recent].sum() / self.curve.length[recent].sum()
            stop = bool(show(Played(self.n_episodes, n_episodes, float(reward))))
            stop = stop or self.n_episodes >= n_episodes
            if file is not None and (now - written > _SECONDS or stop):
                self.save(file)
                written = now
            if stop:
                return

    def _pure_rounds(self, env: DiscreteEnvironment, n_rounds: int) -> None:
        state, curve, n_done = rounds(
            env, self.settings, _BLOCK, self._fitted(), jnp.int32(n_rounds)
        )
        self.state = state
        self._remember(jax.tree.map(lambda a: np.asarray(a)[: int(n_done)].ravel(), curve))
        if int(n_done) < n_rounds:
            first = self.n_episodes + 1
            last = first + self.settings.train_every - 1
            raise ValueError(_NOT_FINITE.format(first=first, last=last))

    def _played_round(self, source: Source) -> None:
        state, settings = self._fitted(), self.settings
        members, loss = state.members, state.members.plan.loss
        assert isinstance(loss, QLoss)
        policy = Policy(loss, settings, members.theta, members.own, members.extra, state.seed)
        first = self.n_episodes
        played = source.play(policy, range(first, first + settings.train_every))
        n_rows = sum(len(each.valid) for each in played)
        if n_rows > settings.capacity:
            raise bad_value("capacity", settings.capacity, f"at least a round's rows, {n_rows:,}")
        self.state, curve, _ = learned(settings, state, together(played))
        self._remember(curve)

    def _remember(self, curve: Curve) -> None:
        pairs = zip(self.curve, curve, strict=True)
        self.curve = Curve(*(np.append(a, np.asarray(b, np.float32)) for a, b in pairs))


_values = jax.jit(member_values)


def _read_about(path: str | Path) -> tuple[dict[str, Any], Arrays]:
    """Settings, seed and sizes of the agent in a file, checked, and its arrays, unchecked."""
    fields, arrays = keeping.read(path, _KIND, QAgent.__name__)
    given = fields.plain_object("settings")
    names = {field.name for field in dataclasses.fields(QSettings)}
    if not set(given) <= names:  # one that did not exist yet has its default
        raise ModelFileError("its settings are not those of a `QSettings`.")
    try:
        settings = QSettings(**given)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"its settings are impossible: {error}") from error
    about = {
        "settings": settings,
        "seed": fields.whole("seed"),
        "n_observed": fields.whole("n_observed", 1),
        "n_actions": fields.whole("n_actions", 1),
        "network": fields.text("network"),
    }
    fields.close()
    return about, arrays


def _is_pure(env: Any) -> bool:
    return isinstance(env, DiscreteEnvironment)


def _sizes_of(env: Any, source: Source | None) -> tuple[int, int]:
    if source is None or hasattr(env, "n_observed"):
        return env.n_observed, env.n_actions
    if hasattr(env, "single_observation_space"):
        return spaces_of(env.single_observation_space, env.single_action_space)
    for name in ("observation_space", "action_space", "reset", "step"):
        if not hasattr(env, name):
            raise TypeError(
                f"`env` must be a Gymnasium environment, a vector of them, or a PureEnvironment; "
                f"{type(env).__name__} has no `{name}`."
            )
    return spaces_of(env.observation_space, env.action_space)


@contextmanager
def _shown(verbose: int, on_round: OnRound | None) -> Iterator[OnRound]:
    """A callback that draws a bar if asked to, and calls the user's."""
    if not verbose:
        yield on_round or (lambda played: None)
        return
    from anchored.estimators.progress import cell_bar

    with cell_bar("learning") as update:

        def show(played: Played) -> bool | None:
            words = f"episode {played.n_done:,}, reward a step {played.reward:.3f}"
            update(words, played.n_done, played.n_episodes)
            return None if on_round is None else on_round(played)

        yield show
