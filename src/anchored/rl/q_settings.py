"""The settings of a Q-learning agent."""

import dataclasses
import math

from anchored.errors import bad_value, unknown_name


@dataclasses.dataclass(frozen=True)
class QMethod:
    """A row of the table of methods: why the members differ."""

    anchors: bool = False  # the penalty is centred on each member's own draw from the prior
    penalised: bool = True
    prior_network: bool = False  # a fixed draw from the prior is added to each member's outputs
    bootstrap: bool = False  # each member sees half of the rows, twice


Q_METHODS: dict[str, QMethod] = {
    "anchored": QMethod(anchors=True),
    "randomised-priors": QMethod(penalised=False, prior_network=True),
    "bootstrap": QMethod(penalised=False, bootstrap=True),
    "regularised": QMethod(),
    "unconstrained": QMethod(penalised=False),
}


@dataclasses.dataclass(frozen=True)
class QSettings:
    """Settings of a `QAgent`; the defaults are those of the paper's robot arm.

    Parameters
    ----------
    method : anchored, randomised-priors (Osband et al. 2018), bootstrap, regularised or
        unconstrained.
    n_members : number of networks. A single one is centred on the prior mean: a plain Q-network.
    hidden : widths of the hidden layers, unless you give the agent your own network.
    gamma : discount factor of a step.
    n_step : rewards that are added up before a target network takes over.
    double : the network, not its target network, chooses the next action (double Q-learning).
    noise_var : variance of the target r + gamma max Q given the true Q, in squared units of reward.
    value_scale : reward that a network output of 1 means. Use about the largest possible return,
        for example 1 / (1 - gamma) for rewards of 1.
    prior_scale : prior deviation of an output, in units of ``value_scale``.
    first_var : prior variance of the first layer's biases; its weights have this variance divided
        by the number of inputs.
    learning_rate, batch_size : settings of Adam.
    in_prior_units : Adam's steps are in units of the prior's scale of each parameter. Layers that
        all inputs share then move little compared with the weights of a single input.
    train_every : episodes in a round. The networks stay fixed while a round is played, and are then
        trained.
    n_updates : steps of Adam after each round.
    target_every : steps of Adam after which the target networks are replaced by copies of the
        networks.
    capacity : rows of the replay buffer.
    epsilon : share of random actions, for exploration without an ensemble.
    epsilon_episodes : number of episodes over which the share falls from one to ``epsilon``.
    """

    method: str = "anchored"
    n_members: int = 5
    hidden: tuple[int, ...] = (50, 50)
    gamma: float = 0.98
    n_step: int = 1
    double: bool = False
    noise_var: float = 1.0
    value_scale: float = 1.0
    prior_scale: float = 1.0
    first_var: float = 1.0
    learning_rate: float = 0.001
    in_prior_units: bool = False
    batch_size: int = 100
    train_every: int = 100
    n_updates: int = 1000
    target_every: int = 5000
    capacity: int = 100_000
    epsilon: float = 0.0
    epsilon_episodes: int = 0

    def __post_init__(self):
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.method not in Q_METHODS:
            raise unknown_name("method", self.method, Q_METHODS)
        for name in _COUNTS:
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1):
                raise bad_value(name, value, "a positive whole number")
        for name in _SIZES:
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 < value < math.inf):
                raise bad_value(name, value, "a positive number")
        for name in ("gamma", "epsilon"):
            if not 0 <= getattr(self, name) <= 1:
                raise bad_value(name, getattr(self, name), "between 0 and 1")
        if not (isinstance(self.epsilon_episodes, int) and self.epsilon_episodes >= 0):
            raise bad_value("epsilon_episodes", self.epsilon_episodes, "a whole number, 0 or more")


_COUNTS = (
    "n_members",
    "n_step",
    "batch_size",
    "train_every",
    "n_updates",
    "target_every",
    "capacity",
)
_SIZES = ("noise_var", "value_scale", "prior_scale", "first_var", "learning_rate")
