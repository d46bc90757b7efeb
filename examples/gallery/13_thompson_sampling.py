"""
Thompson sampling with function draws
=====================================

``sample_functions`` returns functions, each one coherent draw from the posterior. Evaluate where a
draw is highest, add the result, and repeat: the search explores what is unknown and returns to what
is good.
"""

import matplotlib.pyplot as plt
import numpy as np

from anchored import AnchoredRegressor


def objective(x):
    """The function to maximise; in practice an experiment that costs time or money."""
    return np.sin(1.5 * x) + 0.3 * x - 0.05 * x**2


grid = np.linspace(-3, 5, 400)[:, None]
tried = [-3.0, -2.0, -1.0, 0.0, 2.0, 3.0, 4.0, 5.0]

# %%
# Five rounds of two evaluations. The noise is known to be small, so it is set.

model = AnchoredRegressor(noise_var=0.01, random_state=0)
for step in range(5):
    x = np.array(tried)[:, None]
    model.fit(x, objective(x[:, 0]))
    for draw in model.sample_functions(2, random_state=step):
        tried.append(float(grid[np.argmax(draw(grid)), 0]))

# %%
# The evaluations gather around the maximum.

x = np.array(tried)
dist = model.predict_dist(grid)
fig, ax = plt.subplots()
ax.fill_between(grid[:, 0], *dist.interval(0.9), alpha=0.2)
ax.plot(grid[:, 0], objective(grid[:, 0]), "--", color="gray", label="true function")
shown = ax.scatter(x, objective(x), c=range(len(x)), cmap="plasma", zorder=3)
fig.colorbar(shown, label="order of evaluation")
ax.set(xlabel="x", ylabel="value", title="Where Thompson sampling looked")
ax.legend()
plt.show()
best = grid[np.argmax(objective(grid[:, 0])), 0]
print(f"best tried {x[np.argmax(objective(x))]:.2f}, true maximum at {best:.2f}")
