"""The paper's toy: an anchored ensemble beside its exact infinite-width limit.

Run: python examples/six_points.py picture.png
"""

import sys

import jax
import matplotlib
import numpy as np

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.datasets import six_points
from anchored.exact import gp
from anchored.paper import plotting

NOISE_VAR = 0.001

x, y = six_points()
grid = np.linspace(-1.3, 1.3, 200)[:, None]
network = MLP((100,), activation="erf")
prior = Prior.for_network(network, x, first_var=10.0)
ensemble = fit_ensemble(
    jax.random.key(0),
    network,
    prior,
    Gaussian(NOISE_VAR),
    Data.make(x, y),
    method="anchored",
    n_members=10,
    schedule=Schedule(epochs=10_000, learning_rate=0.02, decay_rate=0.99),
)
ours = ensemble.predict(grid)
exact = gp.condition(gp.twin(network, prior), x, y, NOISE_VAR).predict(grid)

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), sharey=True, layout="constrained")
axes[0].plot(grid[:, 0], ours.members[..., 0].T, lw=1.2)
axes[0].set_title("ten networks, each held by its anchor")
plotting.bands(axes[1], grid[:, 0], ours).set_title("their mean ± 1, 2, 3 deviations")
plotting.bands(axes[2], grid[:, 0], exact, plotting.ORANGE).set_title("exact: infinitely wide")
for ax in axes:
    ax.plot(x, y, "o", color="black", ms=5, zorder=3)
    ax.set(xlabel="x", xlim=(-1.3, 1.3), ylim=(-2.2, 2.2))
axes[0].set_ylabel("y")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "six_points.png", dpi=110)
