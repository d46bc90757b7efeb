"""
Training that continues when rows arrive
========================================

Training is a state and a pure function that advances it. Stop, look, add rows and continue: nothing
is compiled again.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

from anchored import MLP, Data, Ensemble, Gaussian, Prior, advance, init_ensemble

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-1, 1, (60, 1)), axis=0)
y = np.sin(4 * x) + 0.05 * rng.normal(size=(60, 1))
grid = np.linspace(-1.2, 1.2, 150)[:, None]
network = MLP((50,))
prior = Prior.for_network(network, x, first_var=4.0)

data = Data.make(x[:20], y[:20]).with_capacity(64)
state = init_ensemble(jax.random.key(0), network, prior, Gaussian(0.01), data, n_members=8)

# %%
# Twenty rows, then forty, then sixty. Each panel continues from the one before.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for i, ax in enumerate(axes):
    if i:
        data = data.append(x[20 * i : 20 * (i + 1)], y[20 * i : 20 * (i + 1)])
    state = advance(state, data, 1_000)
    dist = Ensemble.of_state(state).predict(grid)
    mean, spread = dist.mean[:, 0], 2 * np.sqrt(dist.epistemic_var[:, 0])
    ax.fill_between(grid[:, 0], mean - spread, mean + spread, alpha=0.3)
    ax.plot(grid[:, 0], mean)
    ax.plot(x[: 20 * (i + 1)], y[: 20 * (i + 1)], ".", color="black")
    ax.set(xlabel="x", title=f"{20 * (i + 1)} rows")
plt.show()
