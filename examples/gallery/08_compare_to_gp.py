"""
How Bayesian is it? Compare with the exact answer
=================================================

The infinitely wide network is a Gaussian process, whose posterior can be computed exactly.
``compare_to_gp`` compares your ensemble with it, using the ensemble's own prior and noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-2, -0.5, (25, 1)), rng.uniform(0.5, 2, (25, 1))])
y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=50)
grid = np.linspace(-3, 3, 200)[:, None]

# %%
# Three methods with the same known noise. ``random-features`` trains the last layer only, and its
# limit is exactly this Gaussian process.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for ax, method in zip(axes, ("anchored", "rms", "random-features"), strict=True):
    model = AnchoredRegressor(
        hidden=(200,), method=method, noise_var=0.01, n_members=10, random_state=0
    ).fit(x, y)
    dist = model.predict_dist(grid)
    spread = 2 * np.sqrt(dist.epistemic_var)
    ax.fill_between(grid[:, 0], dist.mean - spread, dist.mean + spread, alpha=0.3)
    ax.plot(grid[:, 0], dist.mean)
    ax.plot(x, y, ".", color="black")
    ax.set(title=method, xlabel="x")
    print(f"{method}: {model.compare_to_gp(grid)}")
plt.show()
