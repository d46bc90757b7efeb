"""
Your own network in plain JAX
=============================

A function of ``(params, x)`` and an example of its parameters are enough. The prior, the members
and the training have defaults.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
years = np.sort(rng.uniform(-2, 2, (150, 1)), axis=0)
sales = 0.5 * years[:, 0] + np.sin(2 * np.pi * years[:, 0]) + 0.2 * rng.normal(size=150)
angle = 2 * np.pi * years.std()  # of a year: the network sees standardised inputs


def seasonal(params, x):
    """A trend by a small network, and a yearly wave whose height and phase are learned."""
    trend = jnp.tanh(x @ params["w0"] + params["b0"]) @ params["w1"]
    wave = jnp.concatenate([jnp.sin(angle * x), jnp.cos(angle * x)], axis=1) @ params["wave"]
    return trend + wave


shapes = {"w0": (1, 30), "b0": (30,), "w1": (30, 1), "wave": (2, 1)}
example = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

# %%
# Beyond the data the wave continues, because the network is built that way. The trend becomes
# uncertain.

model = AnchoredRegressor(
    network=(seasonal, example), noise_var=0.04, n_members=8, epochs=400, random_state=0
)
model.fit(years, sales)
grid = np.linspace(-2, 3.5, 300)[:, None]
dist = model.predict_dist(grid)
fig, ax = plt.subplots()
ax.fill_between(grid[:, 0], *dist.interval(0.9), alpha=0.25)
ax.plot(grid[:, 0], dist.mean)
ax.plot(years, sales, ".", color="black", ms=3)
ax.set(xlabel="years", ylabel="sales", title="Structure of your own, with error bars")
plt.show()
