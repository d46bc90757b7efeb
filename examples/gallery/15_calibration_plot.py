"""
Do the intervals keep their promise?
========================================

Count how many unseen rows lie inside their intervals. The curve should follow the diagonal up to
chance; the grey band shows how much chance allows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from anchored import AnchoredRegressor, metrics

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
model = AnchoredRegressor(n_members=6, epochs=100, random_state=0).fit(X_train, y_train)
dist = model.predict_dist(X_test)

# %%
# Left: the share of targets inside the central interval of each level. Right: the probability
# integral transform, flat if the whole distribution is right.

levels, shares, (low, high) = metrics.calibration_curve(dist, y_test)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6))
axes[0].plot([0, 1], [0, 1], "--", color="gray")
axes[0].fill_between(levels, low, high, color="gray", alpha=0.2, label="95 % by chance")
axes[0].plot(levels, shares, "o-", ms=4, label="this model")
axes[0].set(xlabel="level asked for", ylabel="share inside", title="Calibration", aspect="equal")
axes[0].legend()
axes[1].hist(metrics.pit(dist, y_test), bins=10, range=(0, 1), edgecolor="white")
axes[1].axhline(len(y_test) / 10, color="gray", ls="--")
axes[1].set(xlabel="probability integral transform", ylabel="rows", title="Should be flat")
plt.show()

print(f"90 % intervals cover {metrics.coverage(dist, y_test, 0.9):.0%} of {len(y_test)} rows")
