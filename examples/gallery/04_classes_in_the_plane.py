"""
Classes in the plane
====================

A classifier gives probabilities. The disagreement of its members also separates "the classes
overlap here" from "there was no data here".
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from anchored import AnchoredClassifier

X, y = make_moons(200, noise=0.25, random_state=0)
model = AnchoredClassifier(n_members=8, epochs=200, random_state=0).fit(X, y)

side = 60
axis = np.linspace(-3, 4, side)
grid = np.stack(np.meshgrid(axis, axis - 0.25), axis=-1).reshape(-1, 2)
dist = model.predict_dist(grid)

# %%
# Left: the probability of the second class. Right: the mutual information, which is high away from
# the data.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8))
panels = {
    "probability of class 1": dist.probabilities[:, 1],
    "mutual information, nats": dist.mutual_information,
}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    shown = ax.pcolormesh(axis, axis - 0.25, values.reshape(side, side), shading="auto")
    fig.colorbar(shown, ax=ax)
    ax.scatter(*X.T, c=y, cmap="cool", edgecolor="black", lw=0.4, s=14)
    ax.set(title=title, aspect="equal")
plt.show()
