"""
Which columns matter
====================

The evidence of the infinitely wide network gives each column a relevance: how much the function may
change with that column. Columns without influence get a small relevance, before any network is
trained.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from anchored import AnchoredRegressor

rng = np.random.default_rng(0)
names = ["dose", "age", "weight", "noise A", "noise B", "noise C"]
frame = pd.DataFrame(rng.normal(size=(250, 6)), columns=names)
effect = np.sin(2 * frame["dose"]) + 0.6 * frame["age"] + 0.2 * frame["weight"]
model = AnchoredRegressor(n_members=4, epochs=100, random_state=0)
model.fit(frame, effect + 0.2 * rng.normal(size=250))

# %%
# The relevance is a factor on the prior variance of a column's weights, so it can be read from the
# prior of the fitted model.

deviation = np.asarray(model.prior_.scale[0]["weight"])[: len(names), 0]
fig, ax = plt.subplots(figsize=(6.4, 3))
ax.barh(names[::-1], (deviation / deviation.max())[::-1])
ax.set(
    xlabel="prior deviation of the weights, largest = 1", title="How much each column may matter"
)
plt.show()
