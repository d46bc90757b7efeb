"""
One member is one function
==========================

A band shows the spread at each input separately. Questions about several inputs at once, such as
"where is the peak?", need whole functions. Every member is one.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor

rng = np.random.default_rng(3)
x = np.concatenate([rng.uniform(0, 2.4, (12, 1)), rng.uniform(7.6, 10, (12, 1))])
y = np.exp(-((x[:, 0] - 5) ** 2) / 6) + 0.05 * rng.normal(size=24)
model = AnchoredRegressor(n_members=20, random_state=0).fit(x, y)
grid = np.linspace(0, 10, 300)[:, None]
functions = model.sample_functions(20, random_state=0)
values = np.stack([f(grid) for f in functions])

# %%
# Left: the functions. Right: where each of them peaks. No row lies near the peak, and the histogram
# says how well its place is known.

peaks = grid[np.argmax(values, axis=1), 0]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].plot(grid[:, 0], values.T, lw=0.8, color="tab:blue", alpha=0.6)
axes[0].plot(x, y, "o", color="black", ms=4)
axes[0].set(xlabel="x", ylabel="y", title="Twenty functions")
axes[1].hist(peaks, bins=12, range=(2.5, 7.5), edgecolor="white")
axes[1].set(xlabel="place of the peak", ylabel="functions", title="Where is the peak?")
plt.show()
print(f"the peak is at {peaks.mean():.1f} ± {peaks.std():.1f}; the true one is at 5")
