"""An agent on an environment of your own: find the cheese in a corridor.

The environment is four functions that JAX can trace, so a whole run is one compiled program. Any
Gymnasium environment with vectors as observations and discrete actions can take its place.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from anchored.rl import QAgent, QSettings


@dataclasses.dataclass(frozen=True)  # hashable: it is part of the compiled program's key
class Corridor:
    """A mouse in the middle goes left or right; the cheese is at the right end."""

    length: int = 7
    n_actions: ClassVar[int] = 2
    n_observed: ClassVar[int] = 1
    max_steps: ClassVar[int] = 30

    def reset(self, key):
        return jnp.int32(self.length // 2)

    def observe(self, place):
        return (2.0 * place / (self.length - 1) - 1.0)[None]  # inputs of about one

    def step(self, key, place, action):
        slips = jax.random.uniform(key) < 0.1
        place = place + jnp.where(slips, 0, 2 * action - 1)
        cheese = place >= self.length - 1
        reward = jnp.where(cheese, 1.0, -0.01)
        return place, self.observe(place), reward, cheese | (place <= 0)


def main(folder: str) -> QAgent:
    settings = QSettings(
        gamma=0.95, noise_var=0.01, train_every=10, n_updates=50, target_every=50, capacity=5_000
    )
    agent = QAgent(settings, seed=0).fit(Corridor(), n_episodes=400, checkpoint=folder)
    rewards = agent.curve.total
    print(f"reward at first {rewards[:50].mean():.2f}, at last {rewards[-50:].mean():.2f}")
    for place in (0.0, 0.5, 3.0):
        q = agent.q_distribution(np.array([place]))
        spread = np.sqrt(q.epistemic_var).mean()
        print(f"at {place}: go {('left', 'right')[agent.predict([place])]}, spread {spread:.3f}")
    agent.save(Path(folder) / "mouse.safetensors")
    return QAgent.load(Path(folder) / "mouse.safetensors")


if __name__ == "__main__":
    main(tempfile.mkdtemp())
