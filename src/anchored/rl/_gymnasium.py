"""Gymnasium's only door: a clear word where it is missing, and checks of an environment."""

from typing import Any

import numpy as np

from anchored.errors import missing_package

_ADVICE = {
    "observation_space": "Wrap it with gymnasium.wrappers.FlattenObservation.",
    "action_space": "For discrete actions use `anchored.rl.QAgent`.",
}


def gymnasium() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import gymnasium
        import gymnasium.vector
    except ImportError as error:
        need = (
            "Environments that are not in pure JAX (`anchored.rl.PureEnvironment`) need Gymnasium"
        )
        raise missing_package(need, "rl") from error
    return gymnasium


def spaces_of(observed: Any, acted: Any) -> tuple[int, int]:
    """Length of an observation and number of actions of single spaces, checked."""
    spaces = gymnasium().spaces
    if not (isinstance(observed, spaces.Box) and len(observed.shape) == 1):
        raise ValueError(
            f"`env` must have vectors as observations (a Box of one axis); it has {observed}. "
            "Wrap it: gymnasium.wrappers.FlattenObservation makes vectors of other spaces."
        )
    if not isinstance(acted, spaces.Discrete):
        raise ValueError(
            f"`env` must have discrete actions (Discrete); it has {acted}. Wrap it in a "
            "gymnasium.ActionWrapper that turns a whole number into an action of yours."
        )
    return int(observed.shape[0]), int(acted.n)


def box_sizes(env: Any) -> tuple[int, np.ndarray, np.ndarray]:
    """Numbers in an observation, and the bounds of actions, of a Gymnasium environment."""
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise TypeError(
            f"`env` must be a Gymnasium environment, or one written in JAX as "
            f"`anchored.rl.PureEnvironment` says; got {type(env).__name__}."
        )
    box = gymnasium().spaces.Box
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)
        if not (isinstance(space, box) and len(space.shape) == 1):
            raise ValueError(
                f"`env.{name}` must be a Box of one dimension to plan in; got {space}. "
                + _ADVICE[name]
            )
    low, high = env.action_space.low, env.action_space.high
    if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low < high)):
        raise ValueError(
            f"`env.action_space` must have finite bounds, low below high; got {env.action_space}. "
            "Wrap it with gymnasium.wrappers.RescaleAction."
        )
    return env.observation_space.shape[0], low.astype(np.float32), high.astype(np.float32)


def checked_numbers(what: str, value: Any, step: int | None = None) -> np.ndarray:
    """What an environment gave as numbers, at a step of an episode, which must be finite."""
    array = np.asarray(value, np.float32)
    if not np.isfinite(array).all():
        when = "" if step is None else f" at step {step} of an episode"
        raise ValueError(
            f"`env` gave the {what} {array.tolist()}{when}; it must be finite. What the agent "
            "learned before is kept: fix the environment and fit again, from the checkpoint if "
            "there is one."
        )
    return array
