"""Cart-pole swing-up with noise: a pole hangs from a cart, which must swing it up and hold it.

The equations are those of the classic cart-pole (Barto, Sutton and Anderson 1983), integrated by
Euler steps, with a force of any size instead of a push to the left or right. Noise is added to the
next state, as in the paper:

    s' ~ N(dynamics(s, a), noise_var),   s = (place, angle, speed, turning speed)

The angle is zero for an upright pole, and is not wrapped: a full turn adds 2 pi. The track has
ends, where the cart stops: on an endless track it could drift away from all reward. The reward is
that of Chua et al. 2018, with the length of the pole as its scale:

    exp(-|tip - goal|^2 / length^2) - 0.01 a^2,   a in [-1, 1]

at the state that was reached; the goal is the tip of an upright pole in the middle of the track.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from anchored.errors import bad_value
from anchored.typing import Array, Number

_HANGING = (0.0, math.pi, 0.0, 0.0)
_SPREAD = 0.05  # deviation of the first state around the hanging pole


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CartPoleSwingUp:
    """Swing a pole up by pushing its cart; changing ``noise_var`` needs no new compilation.

    Parameters
    ----------
    noise_var : variance of the noise added to each of the four numbers of the next state.
    max_steps : steps of an episode, which ends for no other reason.
    force : force of the action 1, in newtons.
    cart_mass, pole_mass, length : masses in kilograms, and length of the pole in metres.
    track : metres from the middle to either end.
    time_step, n_inner : seconds of a step, and the number of Euler steps it consists of.

    Examples
    --------
    >>> import jax
    >>> env = CartPoleSwingUp(noise_var=0.001)
    >>> state = env.reset(jax.random.key(0))
    >>> state, observation, reward, done = env.step(jax.random.key(1), state, jax.numpy.ones(1))
    >>> observation.shape, bool(done)
    ((4,), False)
    """

    noise_var: Number = 0.0
    max_steps: int = dataclasses.field(default=200, metadata={"static": True})
    force: float = dataclasses.field(default=10.0, metadata={"static": True})
    cart_mass: float = dataclasses.field(default=1.0, metadata={"static": True})
    pole_mass: float = dataclasses.field(default=0.1, metadata={"static": True})
    length: float = dataclasses.field(default=0.6, metadata={"static": True})
    track: float = dataclasses.field(default=1.5, metadata={"static": True})
    gravity: float = dataclasses.field(default=9.8, metadata={"static": True})
    time_step: float = dataclasses.field(default=0.04, metadata={"static": True})
    n_inner: int = dataclasses.field(default=2, metadata={"static": True})

    def __post_init__(self):
        if isinstance(self.noise_var, (int, float)) and not 0 <= self.noise_var < math.inf:
            raise bad_value("noise_var", self.noise_var, "zero or a positive number")
        if self.max_steps < 1:
            raise bad_value("max_steps", self.max_steps, "a positive whole number")

    @property
    def n_observed(self) -> int:
        return len(_HANGING)

    @property
    def action_low(self) -> np.ndarray:
        return np.array([-1.0], np.float32)

    @property
    def action_high(self) -> np.ndarray:
        return np.array([1.0], np.float32)

    def reset(self, key: Array) -> Array:
        return jnp.asarray(_HANGING) + _SPREAD * jax.random.normal(key, (self.n_observed,))

    def observe(self, state: Array) -> Array:
        return state

    def step(self, key: Array, state: Array, action: Array) -> tuple[Array, Array, Array, Array]:
        """The next state, its observation (the state itself), the reward, and False: no early
        end.
        """
        new = self.noisy(jax.random.normal(key, state.shape), state, action)
        return new, new, self.reward(state, action, new), jnp.array(False)

    def noisy(self, noise: Array, physics: Array, action: Array) -> Array:
        """The next state [..., 4] with noise, made from standard normals of the same shape."""
        return self._on_track(self.dynamics(physics, action) + jnp.sqrt(self.noise_var) * noise)

    def dynamics(self, physics: Array, action: Array) -> Array:
        """The next state [..., 4] without noise."""
        force = self.force * jnp.clip(action[..., 0], -1.0, 1.0)
        step = self.time_step / self.n_inner
        for _ in range(self.n_inner):
            physics = self._on_track(self._euler(physics, force, step))
        return physics

    def _on_track(self, physics: Array) -> Array:
        """At an end the cart stops, unless it is on its way back."""
        place, speed = physics[..., 0], physics[..., 2]
        outward = (jnp.abs(place) >= self.track) & (place * speed > 0)
        place = jnp.clip(place, -self.track, self.track)
        speed = jnp.where(outward, 0.0, speed)
        return jnp.stack([place, physics[..., 1], speed, physics[..., 3]], axis=-1)

    def _euler(self, physics: Array, force: Array, step: float) -> Array:
        angle, speed, turning = (physics[..., i] for i in (1, 2, 3))
        mass, half = self.cart_mass + self.pole_mass, self.length / 2
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = (force + self.pole_mass * half * turning**2 * sine) / mass
        turn = (self.gravity * sine - cosine * push) / (
            half * (4.0 / 3.0 - self.pole_mass * cosine**2 / mass)
        )
        acceleration = push - self.pole_mass * half * turn * cosine / mass
        change = jnp.stack([speed, turning, acceleration, turn], axis=-1)
        return physics + step * change

    def reward(self, observation: Array, action: Array, next_observation: Array) -> Array:
        """The reward of a step [...], from the state that it reached."""
        place, angle = next_observation[..., 0], next_observation[..., 1]
        across = place + self.length * jnp.sin(angle)
        below = self.length * (jnp.cos(angle) - 1.0)
        near = jnp.exp(-(across**2 + below**2) / self.length**2)
        return near - 0.01 * jnp.sum(jnp.square(jnp.clip(action, -1.0, 1.0)), axis=-1)

    def features(self, observation: Array) -> Array:
        """What a network sees of an observation: the angle as its sine and cosine."""
        angle = observation[..., 1:2]
        rest = (observation[..., :1], observation[..., 2:])
        return jnp.concatenate([rest[0], jnp.sin(angle), jnp.cos(angle), rest[1]], axis=-1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrueModel:
    """The environment itself as a model to plan with: the most that learning can reach."""

    env: CartPoleSwingUp

    @property
    def n_members(self) -> int:
        return 1

    def step(
        self, member: Array, noise: Array, observation: Array, action: Array
    ) -> tuple[Array, Array]:
        reached = self.env.noisy(noise, observation, action)
        return reached, self.env.reward(observation, action, reached)
