"""
A saved model that needs only NumPy
===================================

``save`` writes one file without pickle. ``anchored.runtime`` reads it and predicts with NumPy
alone, so the machine that serves the model does not need JAX.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from anchored import AnchoredRegressor, runtime

X, y = load_diabetes(return_X_y=True)
model = AnchoredRegressor(n_members=5, epochs=60, random_state=0).fit(X[:350], y[:350])
path = Path(tempfile.mkdtemp()) / "model.safetensors"
model.save(path)
print(f"{path.stat().st_size / 1024:.0f} KiB")

# %%
# The same numbers, up to rounding in single precision.

light = runtime.load(path)
columns = light.predict(X[350:], coverage=0.9)
difference = np.abs(columns["mean"] - model.predict(X[350:])).max()
print(f"largest difference from the estimator: {difference:.1e} (targets are about {y.mean():.0f})")

# %%
# Rows predicted per second, by the number of rows in one call.

sizes, speeds = (1, 10, 100, 1_000, 10_000), []
for size in sizes:
    rows = np.repeat(X[350:], 120, axis=0)[:size]
    start = time.perf_counter()
    light.predict(rows)
    speeds.append(size / (time.perf_counter() - start))
fig, ax = plt.subplots(figsize=(6.4, 3))
ax.loglog(sizes, speeds, "o-")
ax.set(xlabel="rows at once", ylabel="rows a second", title="Prediction with NumPy alone")
plt.show()
