"""
Six points and ten networks
===========================

Ten networks see six points. Each is pulled towards its own draw from the prior, so they agree where
there is data and differ where there is none.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.datasets import six_points

x, y = six_points()
network = MLP((100,), activation="erf")
prior = Prior.for_network(network, x, first_var=10.0)
ensemble = fit_ensemble(
    jax.random.key(0),
    network,
    prior,
    Gaussian(0.001),
    Data.make(x, y),
    method="anchored",
    n_members=10,
    schedule=Schedule(epochs=5_000, learning_rate=0.02),
)

# %%
# The thin lines are the members. The band is the mean plus and minus two standard deviations.

grid = np.linspace(-1.4, 1.4, 200)[:, None]
dist = ensemble.predict(grid)
mean, std = dist.mean[:, 0], dist.std[:, 0]
fig, ax = plt.subplots()
ax.plot(grid[:, 0], dist.members[..., 0].T, lw=0.8, color="tab:blue", alpha=0.7)
ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.2)
ax.plot(x, y, "o", color="black")
ax.set(xlabel="x", ylabel="y", title="Ten networks: close at the data, apart beyond it")
plt.show()

# %%
# The epistemic standard deviation is the part that more data would remove.

inside, outside = np.sqrt(ensemble.predict(np.array([[0.0], [1.4]])).epistemic_var[:, 0])
print(f"epistemic deviation at x = 0: {inside:.2f}, at x = 1.4: {outside:.2f}")
