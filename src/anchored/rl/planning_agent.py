"""An agent that learns the dynamics of its environment and plans with them.

In each trial, the agent plans with the ensemble, stores the steps and continues training. Actions
of the first trials are random. A trial and the training after it depend only on the seed, the
number of the trial and what was learnt before. So a run that is resumed from its checkpoint has the
same curve.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.tree import on_device
from anchored.errors import ModelFileError, bad_value
from anchored.prediction.predictive import Predictive
from anchored.rl import keeping
from anchored.rl._gymnasium import box_sizes, checked_numbers
from anchored.rl.dynamics import (
    DynamicsModel,
    DynamicsSettings,
    Features,
    Reward,
    check_members,
    same,
)
from anchored.rl.environments.pure import ContinuousEnvironment
from anchored.rl.planning import Bounds, CrossEntropy, RandomShooting, Simulator, decide, rest
from anchored.rl.trials import Trial, gymnasium_trial, pure_trial

_KIND = "planning-agent"  # of its files
_PLANNERS: dict[str, Any] = {"CrossEntropy": CrossEntropy, "RandomShooting": RandomShooting}
_BEGIN, _ACT = 2**30, 2**30 + 1  # in place of a trial's number, in the keys of what is none

# Called after each trial with its number, how many there will be, and its sum of rewards.
OnTrial = Callable[[int, int, float], None]


@dataclasses.dataclass(frozen=True)
class PlanningSettings:
    """How an agent acts and learns.

    Parameters
    ----------
    dynamics : the ensemble.
    planner : `CrossEntropy` or `RandomShooting`.
    n_particles : simulated worlds in which a plan is tried, shared among the members.
    n_train_steps : training steps after each trial.
    n_random_trials : trials with random actions, before the first plan.
    max_steps : steps of a trial in a Gymnasium environment, which may never end by itself.
    """

    dynamics: DynamicsSettings = DynamicsSettings()  # noqa: RUF009
    planner: Any = CrossEntropy()  # noqa: RUF009
    n_particles: int = 10
    n_train_steps: int = 1000
    n_random_trials: int = 1
    max_steps: int = 1000

    def __post_init__(self):
        for name in ("n_particles", "n_train_steps", "n_random_trials", "max_steps"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1):
                raise bad_value(name, value, "a positive whole number")


class PlanningAgent:
    """Learns by planning in an environment with continuous actions.

    Parameters
    ----------
    reward : ``reward(observation, action, next_observation)`` in JAX, on arrays [..., number];
        if None, the ensemble predicts the reward too.
    features : what the networks see of observations, in JAX; if None, the observations themselves.
    settings : see `PlanningSettings`.
    seed : seed of everything random.

    Examples
    --------
    >>> from anchored.rl.environments.cartpole import CartPoleSwingUp
    >>> env = CartPoleSwingUp(noise_var=0.001, max_steps=20)
    >>> quick = PlanningSettings(planner=CrossEntropy(8, 4, 1, horizon=3), n_train_steps=5)
    >>> agent = PlanningAgent(env.reward, env.features, quick).fit(env, n_trials=2)
    >>> len(agent.returns_)
    2
    >>> agent.act(env.observe(env.reset(jax.random.key(0)))).shape
    (1,)
    """

    def __init__(
        self,
        reward: Reward | None = None,
        features: Features | None = None,
        settings: PlanningSettings = PlanningSettings(),  # noqa: B008
        seed: int = 0,
    ):
        self.reward, self.features = reward, features
        self.settings, self.seed = settings, seed

    def fit(
        self,
        env: Any,
        n_trials: int,
        *,
        checkpoint: str | Path | None = None,
        on_trial: OnTrial | None = None,
    ) -> "PlanningAgent":
        """Learn until there have been ``n_trials`` trials in total.

        Earlier trials count: to continue, call it again with a larger number.

        Parameters
        ----------
        env : pure (`anchored.rl.PureEnvironment`) or Gymnasium's.
        checkpoint : file written after each trial; if it exists, learning continues from it.
        on_trial : called with each trial.
        """
        if not (isinstance(n_trials, int) and n_trials >= 1):
            raise bad_value("n_trials", n_trials, "a positive whole number")
        sizes = _sizes(env)
        if checkpoint is not None and Path(checkpoint).exists():
            self._take(PlanningAgent.load(checkpoint, self.reward, self.features))
        if not hasattr(self, "model_"):
            self._begin(*sizes)
        if (self.model_.n_observed, len(self.bounds_.low)) != (sizes[0], len(sizes[1])):
            raise ValueError(
                f"`env` has {sizes[0]} observed numbers and {len(sizes[1])} actions; the agent "
                f"has learned with {self.model_.n_observed} and {len(self.bounds_.low)}."
            )
        for number in range(len(self.returns_), n_trials):
            trial = self._trial(env, number)
            model = self.model_.add(trial.steps).train(self.settings.n_train_steps)
            check_members(model)
            self.model_ = model
            self.returns_.append(trial.total)
            if checkpoint is not None:
                self.save(checkpoint)
            if on_trial is not None:
                on_trial(number + 1, n_trials, trial.total)
        self.reset()
        return self

    def reset(self) -> None:
        """Forget the plan, before the first observation of an episode."""
        self._plan, self._n_acts = rest(self.settings.planner, self.bounds_), 0

    def act(self, observation: Any) -> np.ndarray:
        """The action to take now; the search for the next one starts from the rest of its plan."""
        model = self._fitted()
        seen = checked_numbers("observation", observation)
        if seen.shape != (model.n_observed,):
            raise ValueError(
                f"`observation` must have shape ({model.n_observed},); got {seen.shape}."
            )
        key = jax.random.fold_in(self._key(_ACT), self._n_acts)
        return self._act(key, seen)

    def predict(self, observation: Any, action: Any) -> Predictive:
        """The distribution of the next observations, given observations and actions [batch,
        ...].
        """
        model = self._fitted()
        given = (jnp.asarray(np.asarray(value, np.float32)) for value in (observation, action))
        return model.predict(*given)

    def save(self, path: str | Path) -> None:
        """Write the agent to a file, except for its two functions."""
        model = self._fitted()
        s = self.settings
        about = {
            "seed": self.seed,
            "returns": self.returns_,
            "n_observed": model.n_observed,
            "own_reward": self.reward is not None,
            "own_features": self.features is not None,
            "planner": type(s.planner).__name__,
            "settings": dataclasses.asdict(s),
        }
        keeping.write(path, _KIND, about, {"model": model, "bounds": self.bounds_})

    @classmethod
    def load(
        cls, path: str | Path, reward: Reward | None = None, features: Features | None = None
    ) -> "PlanningAgent":
        """Load an agent from a file; files contain no code, so pass its functions again."""
        try:
            return _read(path, reward, features)
        except ModelFileError as error:
            raise ModelFileError(f"{path} cannot be used as an agent: {error}") from error

    def simulator(self) -> Simulator:
        """The simulator in which plans are tried: the model, unless a subclass has another."""
        return self.model_

    def _begin(self, n_observed: int, low: np.ndarray, high: np.ndarray) -> None:
        self.model_ = DynamicsModel.begin(
            self._key(_BEGIN),
            n_observed,
            len(low),
            self.settings.dynamics,
            self.features or same,
            self.reward,
        )
        self.bounds_ = Bounds(jnp.asarray(low), jnp.asarray(high))
        self.returns_: list[float] = []
        self.reset()

    def _take(self, other: "PlanningAgent") -> None:
        """Go on from another agent, which must have been made alike."""
        if (other.settings, other.seed) != (self.settings, self.seed):
            raise ValueError(
                "`checkpoint` is from an agent with other settings or another seed: give another "
                "file, or make the agent with the same settings and seed."
            )
        self.model_, self.bounds_, self.returns_ = other.model_, other.bounds_, other.returns_
        self.reset()

    def _fitted(self) -> DynamicsModel:
        if not hasattr(self, "model_"):
            raise RuntimeError(
                "the agent has learned nothing yet: call `fit(env, n_trials)` first."
            )
        return self.model_

    def _key(self, number: int):
        return jax.random.fold_in(jax.random.key(self.seed), number)

    def _act(self, key, seen: np.ndarray) -> np.ndarray:
        s = self.settings
        now = (key, on_device(seen), self._plan, self.bounds_)
        action, self._plan = decide(s.planner, s.n_particles, self.simulator(), *now)
        self._n_acts += 1
        return np.asarray(action)

    def _trial(self, env: Any, number: int) -> Trial:
        s, key = self.settings, self._key(number)
        at_random = number < s.n_random_trials
        if isinstance(env, ContinuousEnvironment):
            world = None if at_random else self.simulator()
            trial = pure_trial(env, s.planner, s.n_particles, world, key)
            for name in ("next_observation", "reward"):
                checked_numbers(name, getattr(trial.steps, name)[: trial.length])
            return trial
        self.reset()
        low, high = map(np.asarray, self.bounds_)
        rng = np.random.default_rng([self.seed, number])

        def act(seen: np.ndarray) -> np.ndarray:
            if at_random:
                return rng.uniform(low, high).astype(np.float32)
            return self._act(jax.random.fold_in(key, self._n_acts), seen)

        return gymnasium_trial(env, act, s.max_steps, self.seed + number)


def _sizes(env: Any) -> tuple[int, np.ndarray, np.ndarray]:
    if isinstance(env, ContinuousEnvironment):
        return env.n_observed, env.action_low, env.action_high
    return box_sizes(env)


def _read(path: str | Path, reward: Reward | None, features: Features | None) -> PlanningAgent:
    fields, arrays = keeping.read(path, _KIND, PlanningAgent.__name__)
    for name, given in (("reward", reward), ("features", features)):
        if fields.flag(f"own_{name}") != (given is not None):
            how = "again" if given is None else "only if it was saved with one"
            raise ModelFileError(f"files contain no code: give `{name}` {how}.")
    settings = _settings(fields.plain_object("settings"), fields.text("planner", _PLANNERS))
    agent = PlanningAgent(reward, features, settings, fields.whole("seed"))
    low, high = keeping.vectors(arrays, "bounds", Bounds._fields)
    agent._begin(fields.whole("n_observed", 1), low, high)
    agent.returns_ = [float(value) for value in fields.items("returns")]
    fields.close()
    agent.model_ = keeping.tree_like(arrays, "model", agent.model_, finite=True)
    arrays.close()
    return agent


def _settings(plain: dict, planner: str) -> PlanningSettings:
    """From what JSON holds; its lists were tuples."""
    try:
        dynamics = plain["dynamics"] | {"hidden": tuple(plain["dynamics"]["hidden"])}
        made = {
            "dynamics": DynamicsSettings(**dynamics),
            "planner": _PLANNERS[planner](**plain["planner"]),
        }
        return PlanningSettings(**(plain | made))
    except (TypeError, KeyError, ValueError) as error:
        raise ModelFileError(f"its settings cannot be read ({error}).") from error
