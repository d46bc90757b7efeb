"""Figure 11: learning to swing a pole up by planning, at three levels of noise.

A cell is one run of an agent, ``"<noise>:<method>/<seed>"``; if a method is stopped early, the
number of training steps follows its name, as in ``high:unconstrained@200``. For each seed, all
methods have the same first trial, with random actions. The record can be read before all cells are
done; cells run seed by seed, the highest noise first. ``--methods high:anchored,... --splits 20``
adds seeds of some of the methods. ``high:anchored-averaged`` plans with the mean of the members
(`rl_cartpole_averaged`). ``"models:<method>@<steps>/<seed>"`` are the models without planning, all
fitted to the same rows of the highest noise (`rl_cartpole_models`).
"""

import dataclasses
from functools import cache, partial

import jax

from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.rl_cartpole_averaged import AveragingAgent
from anchored.paper.figures.rl_cartpole_models import Source, judged
from anchored.paper.figures.rl_cartpole_record import (
    AVERAGED,
    MODELS,
    NOISES,
    draw,
    findings,
    tables,
)
from anchored.paper.runner import Cell, Context, Experiment, chosen
from anchored.rl.dynamics import DynamicsSettings
from anchored.rl.environments.cartpole import CartPoleSwingUp, TrueModel
from anchored.rl.planning import CrossEntropy
from anchored.rl.planning_agent import PlanningAgent, PlanningSettings
from anchored.rl.trials import pure_trial

METHODS = ("unconstrained", "regularised", "anchored")
EARLY = "unconstrained"  # what panel D stops early, at the highest noise


@dataclasses.dataclass(frozen=True)
class Settings:
    """Horizon, particles, layers and noises are the paper's; Chua et al. plan like this."""

    n_seeds: int = 10
    n_trials: int = 20
    n_last: int = 3  # trials whose mean is where a run ends
    max_steps: int = 200
    n_train_steps: int = 2_000  # after each trial
    early_steps: tuple[int, ...] = (50, 200, 500)
    more: tuple[str, ...] = ()  # further methods at the highest noise, as in a label
    n_particles: int = 10
    planner: CrossEntropy = CrossEntropy()  # noqa: RUF009
    dynamics: DynamicsSettings = DynamicsSettings(learning_rate=0.003)  # noqa: RUF009


ABOUT = CATALOGUE["fig-rl-cartpole"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    *others, high = NOISES
    early = [f"{EARLY}@{n}" for n in s.early_steps]
    main = [f"{high}:{name}" for name in (*METHODS, "true", "random", *early)]
    main += [f"{noise}:{name}" for noise in others for name in (*METHODS, "true", "random")]
    more = [f"{high}:{name}" for name in s.more]
    more += [f"{MODELS}:{name}@{n}" for name in METHODS for n in (*s.early_steps, s.n_train_steps)]
    picked = chosen("methods", context.methods, [*main, *more], [*main, *more])
    seeds = range(context.splits or s.n_seeds)
    return [
        _cell(s, context, seed, group)
        for groups in (main, more)
        for seed in seeds
        for group in groups
        if group in picked
    ]


def _cell(s: Settings, context: Context, seed: int, group: str) -> Cell:
    noise, _, name = group.partition(":")
    method, _, early = name.partition("@")
    n_steps = int(early or s.n_train_steps)
    if noise == MODELS:
        compute, cost = partial(_fitted, s, context, method, n_steps, seed), 0.2
    elif name in ("true", "random"):
        compute, cost = partial(_unlearnt, s, context, noise, name, seed), 0.1
    else:
        compute = partial(_learnt, s, context, noise, method, n_steps, seed)
        cost = 1.0 + n_steps / s.n_train_steps
    used = dataclasses.replace(s, n_train_steps=n_steps, n_seeds=0, early_steps=(), more=())
    return Cell(f"{group}/{seed}", cost, compute, settings=used)


@cache
def _functions():
    """Reward and features, the same objects for all runs: they are part of compiled programs."""
    env = CartPoleSwingUp()
    return env.reward, env.features


def _learnt(
    s: Settings, context: Context, noise: str, method: str, n_steps: int, seed: int
) -> dict:
    env, at = CartPoleSwingUp(NOISES[noise], s.max_steps), _seed(context, seed)
    dynamics = _dynamics(s, method.removesuffix(AVERAGED))
    settings = PlanningSettings(dynamics, s.planner, s.n_particles, n_steps)
    kind = AveragingAgent if method.endswith(AVERAGED) else PlanningAgent
    agent = kind(*_functions(), settings, at)
    return {"returns": agent.fit(env, s.n_trials).returns_}


def _fitted(s: Settings, context: Context, method: str, n_steps: int, seed: int) -> dict:
    env = CartPoleSwingUp(max(NOISES.values()), s.max_steps)
    source = Source(env, s.planner, s.n_particles, s.n_trials, _seed(context, seed))
    return judged(source, _dynamics(s, method), n_steps, *_functions())


def _dynamics(s: Settings, method: str) -> DynamicsSettings:
    return dataclasses.replace(s.dynamics, method=method, capacity=s.max_steps * s.n_trials)


def _unlearnt(s: Settings, context: Context, noise: str, name: str, seed: int) -> dict:
    """Planning with the environment itself, or drawing actions: as many trials as count."""
    env = CartPoleSwingUp(NOISES[noise], s.max_steps)
    model = TrueModel(env) if name == "true" else None
    key = jax.random.key(_seed(context, seed))
    trials = [
        pure_trial(env, s.planner, s.n_particles, model, jax.random.fold_in(key, 1 + i))
        for i in range(s.n_last)
    ]
    return {"returns": [trial.total for trial in trials]}


def _seed(context: Context, seed: int) -> int:
    return 1_000 * context.seed + seed


EXPERIMENT = Experiment(
    ABOUT,
    PRESETS,
    plan,
    combine=None,
    findings=findings,
    tables=tables,
    draw=draw,
    size=(13.0, 3.6),
    options=("methods", "splits"),
)
