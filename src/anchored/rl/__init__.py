"""Agents that know what they do not know: reinforcement learning with anchored ensembles.

Names load when first used. Anything that needs Gymnasium says so if it is missing; the environments
in pure JAX do not need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {
    "CartPoleSwingUp": "environments.cartpole",
    "CrossEntropy": "planning",
    "DeepSea": "environments.deep_sea",
    "DynamicsModel": "dynamics",
    "DynamicsSettings": "dynamics",
    "PlanarPush": "environments.planar_push",
    "PlanningAgent": "planning_agent",
    "PlanningSettings": "planning_agent",
    "PureEnvironment": "environments.pure",
    "QAgent": "q_agent",
    "QSettings": "q_settings",
    "RandomShooting": "planning",
    "Replay": "replay",
    "fetch_push": "environments.fetch_push",
    "in_processes": "processes",
    "shell": "environments.shell",
}

__all__ = [
    "CartPoleSwingUp",
    "CrossEntropy",
    "DeepSea",
    "DynamicsModel",
    "DynamicsSettings",
    "PlanarPush",
    "PlanningAgent",
    "PlanningSettings",
    "PureEnvironment",
    "QAgent",
    "QSettings",
    "RandomShooting",
    "Replay",
    "fetch_push",
    "in_processes",
    "shell",
]

if TYPE_CHECKING:
    from anchored.rl.dynamics import DynamicsModel as DynamicsModel
    from anchored.rl.dynamics import DynamicsSettings as DynamicsSettings
    from anchored.rl.environments.cartpole import CartPoleSwingUp as CartPoleSwingUp
    from anchored.rl.environments.deep_sea import DeepSea as DeepSea
    from anchored.rl.environments.fetch_push import fetch_push as fetch_push
    from anchored.rl.environments.planar_push import PlanarPush as PlanarPush
    from anchored.rl.environments.pure import PureEnvironment as PureEnvironment
    from anchored.rl.environments.shell import shell as shell
    from anchored.rl.planning import CrossEntropy as CrossEntropy
    from anchored.rl.planning import RandomShooting as RandomShooting
    from anchored.rl.planning_agent import PlanningAgent as PlanningAgent
    from anchored.rl.planning_agent import PlanningSettings as PlanningSettings
    from anchored.rl.processes import in_processes as in_processes
    from anchored.rl.q_agent import QAgent as QAgent
    from anchored.rl.q_settings import QSettings as QSettings
    from anchored.rl.replay import Replay as Replay


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'anchored.rl' has no attribute {name!r}")
    return getattr(import_module(f"anchored.rl.{_HOMES[name]}"), name)


def __dir__():
    return sorted(_HOMES)
