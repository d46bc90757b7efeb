"""A level that no training row has is a fresh draw from the prior, so error bars widen."""

import numpy as np
import pytest

from anchored import AnchoredRegressor
from anchored.exact import gp
from anchored.exact.kernels import EXACT, Kernel
from anchored.tables.table import Table

N_LEVELS, SPREAD = 12, 2.0
LAYERS = {(): (), (50,): ((0.0, 1.0),)}


def towns(n_rows, seed, rare):
    """Rows, targets and the deviation of the effects of levels; three of ``rare`` rows each."""
    rng = np.random.default_rng(seed)
    effect = np.random.default_rng(3).normal(0, SPREAD, size=N_LEVELS)
    level = rng.integers(N_LEVELS - 3, size=n_rows)
    level[: 3 * rare] = N_LEVELS - 1 - np.arange(3 * rare) % 3
    x = rng.normal(size=n_rows)
    cells = np.array([f"town {k}" for k in level], object)
    table = Table({"x": x, "town": cells}, n_rows)
    return table, effect[level] + np.sin(2 * x) + 0.5 * rng.normal(size=n_rows)


@pytest.mark.parametrize(("hidden", "rare"), [((), 0), ((50,), 3)])
def test_error_bars_of_new_levels_widen_as_the_twin_says(hidden, rare):
    table, y = towns(400, 0, rare)
    model = AnchoredRegressor(hidden=hidden, n_members=40, random_state=0).fit(table, y)
    later, _ = towns(100, 1, 0)
    never = np.array(["never seen"] * 100, object)
    new = Table({"x": later.columns["x"], "town": never}, 100)
    usual, unseen = (
        np.sqrt(model.predict_dist(rows).epistemic_var.mean()) for rows in (later, new)
    )
    assert unseen > 3 * usual
    first = model.prior_.scale[0]
    kernel = Kernel(
        float(np.square(first["bias"][0])),
        np.square(np.asarray(first["weight"])[:, 0], dtype=np.float64),
        LAYERS[hidden],
        EXACT["relu"],
    )
    regression = model.model_.regression
    x, t, _ = model._train_rows
    exact = gp.condition(kernel, x, t, regression.training_noise_var)
    z = np.asarray(model._standardised(new))
    twin = regression.scale[0] * np.sqrt(exact.predict(z).epistemic_var.mean())
    factor = np.sqrt(regression.noise[0].factor)
    # A deviation told by 40 draws is off by an eighth or so.
    assert abs(np.log(unseen / (factor * twin))) < 3 / np.sqrt(2 * 39)
