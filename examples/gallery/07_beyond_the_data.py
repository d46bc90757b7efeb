"""
Beyond the range of the data
============================

What a network does outside its data depends on its activation. With ``relu`` the spread grows with
the distance; with ``erf`` it levels off.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, (120, 1))
y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=120)
grid = np.linspace(-7, 7, 250)[:, None]

# %%
# Two activations; everything else is the same.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
for ax, activation in zip(axes, ("relu", "erf"), strict=True):
    model = AnchoredRegressor(activation=activation, n_members=8, epochs=250, random_state=0)
    dist = model.fit(x, y).predict_dist(grid)
    low, high = dist.interval(0.9)
    ax.fill_between(grid[:, 0], low, high, alpha=0.25)
    ax.plot(grid[:, 0], dist.mean)
    ax.plot(x, y, ".", color="black", ms=3)
    ax.set(xlabel="x", title=activation, ylim=(-8, 8))
axes[0].set_ylabel("y")
plt.show()

# %%
# Far from the data, the width of the interval follows from the prior and the activation. Do not
# rely on 90 % meaning 90 % there; the page on limits says more.
