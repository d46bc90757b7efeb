"""
Noise that depends on the input
===============================

Measurements may be precise in one place and poor in another. With nothing set by hand, the
regressor learns from held-out rows where the noise is larger.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, (300, 1))
noise = 0.08 + 0.35 * (x[:, 0] > 0) * x[:, 0] / 3
y = np.sin(2 * x[:, 0]) + noise * rng.normal(size=300)
model = AnchoredRegressor(n_members=6, epochs=200, random_state=0).fit(x, y)

# %%
# The 90 % interval widens with the noise on the right.

grid = np.linspace(-3, 3, 200)[:, None]
dist = model.predict_dist(grid)
low, high = dist.interval(0.9)
fig, ax = plt.subplots()
ax.fill_between(grid[:, 0], low, high, alpha=0.25, label="90 % interval")
ax.plot(grid[:, 0], dist.mean, label="mean")
ax.plot(x, y, ".", color="black", ms=3)
ax.set(xlabel="x", ylabel="y", title="Intervals follow the noise")
ax.legend()
plt.show()

# %%
# The aleatoric standard deviation that was learned, and the true one.

fig, ax = plt.subplots(figsize=(6.4, 2.6))
true = 0.08 + 0.35 * (grid[:, 0] > 0) * grid[:, 0] / 3
ax.plot(grid[:, 0], true, "--", color="black", label="true")
ax.plot(grid[:, 0], np.sqrt(dist.aleatoric_var), label="learned")
ax.set(xlabel="x", ylabel="noise deviation", ylim=(0, None), title="The noise, learned and true")
ax.legend()
plt.show()
