"""
A skewed target: prices
=======================

Prices are positive and have a long upper tail. If the rows support it, the networks predict the
logarithm. Error bars then grow with the price, and no interval reaches below zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor, metrics

rng = np.random.default_rng(1)
area = rng.uniform(20, 160, (400, 1))
price = 1.2 * area[:, 0] * np.exp(0.35 * rng.normal(size=400))
model = AnchoredRegressor(n_members=6, epochs=150, random_state=0).fit(area[:300], price[:300])

# %%
# The interval is not symmetric around the mean: its upper side is longer.

grid = np.linspace(20, 160, 150)[:, None]
dist = model.predict_dist(grid)
low, high = dist.interval(0.9)
fig, ax = plt.subplots()
ax.fill_between(grid[:, 0], low, high, alpha=0.25, label="90 % interval")
ax.plot(grid[:, 0], dist.mean, label="mean")
ax.plot(area, price, ".", color="black", ms=3)
ax.set(xlabel="area in square metres", ylabel="price in 1,000", title="Prices and their intervals")
ax.legend()
plt.show()

# %%
# On rows that the model has not seen:

held_out = model.predict_dist(area[300:])
print(f"scale of the target: {model.model_.regression.warp}")
print(f"90 % intervals cover {metrics.coverage(held_out, price[300:], 0.9):.0%} of 100 new prices")
