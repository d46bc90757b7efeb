"""
Categories that were not in the training rows
=============================================

Tomorrow's file may contain a town that today's file did not. The prediction still works, and its
error bar says that the town is unknown.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
towns = {f"town {i}": 10 * rng.normal() for i in range(60)}
names = rng.choice(list(towns), 600)
frame = pd.DataFrame({"town": names, "rooms": rng.integers(1, 6, 600)})
price = 50 + 12 * frame["rooms"] + frame["town"].map(towns) + 2 * rng.normal(size=600)
model = AnchoredRegressor(n_members=8, epochs=150, random_state=0).fit(frame, price)

# %%
# Two towns that were in the table and one that was not, three rooms each.

ask = pd.DataFrame({"town": ["town 0", "town 1", "a new town"], "rooms": 3})
dist = model.predict_dist(ask)
low, high = dist.interval(0.9)
fig, ax = plt.subplots(figsize=(6.4, 2.6))
ax.errorbar(dist.mean, ask["town"], xerr=[dist.mean - low, high - dist.mean], fmt="o", capsize=4)
ax.set(xlabel="price", title="90 % intervals for three rooms", ylim=(-0.5, 2.5))
plt.show()

# %%
# Novelty above 1 marks rows unlike the training rows.

for town, std, score in zip(ask["town"], dist.std, model.novelty(ask), strict=True):
    print(f"{town}: standard deviation {std:.1f}, novelty {score:.2f}")
