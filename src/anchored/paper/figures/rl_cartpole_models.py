"""Why methods end at different rewards: the models without planning, fitted to the same rows.

Rows come from one trial with random actions, and from others that plan with the true equations. So
no method has better rows than another. Each model is compared with the equations on further trials,
at steps where the cart is away from the ends of its track. Only there is the next state normal
around the equations.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.rl.dynamics import DynamicsModel, DynamicsSettings, Features, Reward, Steps
from anchored.rl.environments.cartpole import CartPoleSwingUp, TrueModel
from anchored.rl.planning import Planner
from anchored.rl.trials import pure_trial

_N_TEST = 4  # trials
_CLEAR = 5.0  # deviations of the noise from an end of the track


class Source(NamedTuple):
    """Where rows come from."""

    env: CartPoleSwingUp
    planner: Planner
    n_particles: int
    n_trials: int
    seed: int


@lru_cache(maxsize=2)
def rows_of(source: Source) -> tuple[Steps, Steps]:
    """Steps to learn from, and others to be judged on."""
    key, trials = jax.random.key(source.seed), []
    for number in range(source.n_trials + _N_TEST):
        model = TrueModel(source.env) if number else None
        given = (source.env, source.planner, source.n_particles, model)
        trials.append(pure_trial(*given, jax.random.fold_in(key, number)).steps)
    return _joined(trials[: source.n_trials]), _joined(trials[source.n_trials :])


def _joined(trials: list[Steps]) -> Steps:
    """No episode of the cart-pole ends early, so every row counts."""
    *columns, counts = zip(*trials, strict=True)
    joined: Any = (jnp.concatenate(column) for column in columns)
    return Steps(*joined, count=sum(int(count) for count in counts))


def judged(
    source: Source,
    settings: DynamicsSettings,
    n_steps: int,
    reward: Reward,
    features: Features,
) -> dict[str, float]:
    """Scores of a model after ``n_steps`` steps of training.

    ``error`` is the distance of the mean from the equations, and ``spread`` is the deviation of the
    members, both in deviations of the noise. ``lost`` is the log density of a step under the true
    distribution minus that under the model, in nats.
    """
    known, others = rows_of(source)
    key = jax.random.fold_in(jax.random.key(source.seed), 2**30)
    model = DynamicsModel.begin(key, 4, 1, settings, features, reward).add(known).train(n_steps)
    clean = np.asarray(source.env.dynamics(others.observation, others.action))
    scale = float(np.sqrt(source.env.noise_var))
    inside = np.abs(clean[:, 0]) < source.env.track - _CLEAR * scale
    clean, reached = clean[inside], np.asarray(others.next_observation)[inside]
    found = model.predict(others.observation[inside], others.action[inside])
    truth = -0.5 * np.square((reached - clean) / scale) - np.log(scale * np.sqrt(2 * np.pi))
    density = found.log_density(reached)
    return {
        "error": float(np.sqrt(np.mean(np.square(found.mean - clean)))) / scale,
        "spread": float(np.sqrt(np.mean(found.epistemic_var))) / scale,
        "lost": float(np.mean(np.sum(truth, axis=-1) - density)),
    }
