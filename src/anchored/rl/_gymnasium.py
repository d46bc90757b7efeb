"""Gymnasium's only door: a clear word where it is missing, and checks of an environment."""

from typing import Any

_MISSING = (
    'Gymnasium is needed for this environment and is not installed; pip install "anchored[rl]". '
    "Environments in pure JAX (`anchored.rl.PureEnvironment`) do without."
)


def gymnasium() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import gymnasium
        import gymnasium.vector
    except ImportError as error:
        raise ImportError(_MISSING) from error
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


def checked_row(observation: Any, reward: Any, step: int) -> None:
    """An error if the environment gave a number that is none."""
    import numpy as np

    for name, value in (("observation", observation), ("reward", reward)):
        if not np.all(np.isfinite(value)):
            raise ValueError(
                f"`env` gave the {name} {value!r} at step {step} of an episode; it must be "
                "finite. What the agent learned before this round is kept."
            )
