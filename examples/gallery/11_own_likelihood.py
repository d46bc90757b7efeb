"""
Your own likelihood: counts
===========================

Counts are whole numbers and never negative. ``NegativeBinomial`` is one of the likelihoods that
come with the library; any object with ``log_prob`` and ``sample`` works the same way.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor, NegativeBinomial

rng = np.random.default_rng(0)
hour = rng.uniform(0, 24, (300, 1))
rate = 3 + 12 * np.exp(-((hour[:, 0] - 18) ** 2) / 8)
calls = rng.negative_binomial(4, 4 / (4 + rate))
model = AnchoredRegressor(
    likelihood=NegativeBinomial(), n_members=4, epochs=60, random_state=0
).fit(hour, calls)

# %%
# Quantiles of a distribution over counts are counts.

grid = np.linspace(0, 24, 120)[:, None]
dist = model.predict_dist(grid)
low, high = dist.interval(0.9)
fig, ax = plt.subplots()
ax.fill_between(grid[:, 0], low, high, step="mid", alpha=0.25, label="90 % interval")
ax.plot(grid[:, 0], dist.mean, label="mean")
ax.plot(hour, calls, ".", color="black", ms=3)
ax.set(xlabel="hour of the day", ylabel="calls", title="Counts and their intervals")
ax.legend()
plt.show()
