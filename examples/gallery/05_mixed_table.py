"""
A table with text, dates and missing cells
==========================================

A data frame goes into ``fit`` as it is. The regressor decides what each column is and handles
categories, dates and missing cells.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
n = 400
area = rng.uniform(25, 140, n).round()
frame = pd.DataFrame(
    {
        "area": np.where(rng.random(n) < 0.15, np.nan, area),
        "heating": rng.choice(["gas", "electric", "district", None], n),
        "balcony": rng.choice(["yes", "no"], n),
        "listed": pd.date_range("2023-01-01", periods=n, freq="D"),
    }
)
rent = (
    300
    + 8 * area
    + 60 * (frame["balcony"] == "yes")
    - 80 * (frame["heating"] == "electric")
    + 40 * np.sin(2 * np.pi * np.arange(n) / 365)
    + 50 * rng.normal(size=n)
)
print(frame.head())

# %%
# Fit the first 300 rows, and predict the rest.

model = AnchoredRegressor(n_members=5, epochs=120, random_state=0).fit(frame[:300], rent[:300])
dist = model.predict_dist(frame[300:])
low, high = dist.interval(0.9)
inside = (low <= rent[300:]) & (rent[300:] <= high)
print(f"{inside.mean():.0%} of 100 later rents lie in their 90 % intervals")

# %%
# Where the area is missing, the interval is wider.

order = np.argsort(dist.mean)
known = frame["area"][300:].notna().to_numpy()[order]
fig, ax = plt.subplots()
place = np.arange(len(order))
for mask, label in ((known, "area known"), (~known, "area missing")):
    ax.errorbar(
        place[mask],
        dist.mean[order][mask],
        [(dist.mean - low)[order][mask], (high - dist.mean)[order][mask]],
        fmt="o",
        ms=3,
        lw=0.8,
        label=label,
    )
ax.plot(place, rent[300:].to_numpy()[order], "x", color="black", ms=4, label="observed")
ax.set(xlabel="rows, in order of the prediction", ylabel="rent", title="100 rents and intervals")
ax.legend()
plt.show()
