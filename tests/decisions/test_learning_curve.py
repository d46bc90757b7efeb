"""What more rows buy: the exact curve against refits of the twin, and laws against their ends."""

import numpy as np
import pytest

from anchored import AnchoredClassifier, AnchoredRegressor, gp
from anchored.decisions import what_would_more_rows_buy
from anchored.decisions.learning_curve import epistemic_curve
from anchored.exact.kernels import Kernel

SHORT = {"n_members": 3, "hidden": (10,), "epochs": 30, "random_state": 0}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)


def test_the_curve_is_the_variance_of_the_gp_at_every_size():
    x, y = rows(60)
    kernel = Kernel.paper(10.0, 2, (50,), "relu")
    curve = epistemic_curve(kernel, x, 40, 0.09)
    for size in (1, 7, 40):
        exact = gp.condition(kernel, x[:size], y[:size], 0.09).predict(x[40:]).epistemic_var
        assert curve[size - 1] == pytest.approx(exact.mean(), rel=1e-6)


def test_the_law_meets_the_variance_with_more_rows():
    """From 150 rows to 450: the twin on three times the rows, within three error bars and 5 %."""
    x, y = rows(450)
    model = AnchoredRegressor(**SHORT, noise_var=0.09, prior=10.0).fit(x[:150], y[:150])
    found = what_would_more_rows_buy(model, x[:150], y[:150], 300)
    assert found.source == "twin"
    new, _ = rows(300, seed=1)
    mean, scale = (model.model_.x_mean, model.model_.x_scale)
    kernel = gp.twin(model.ensemble_.network, model.prior_)
    unit = float(model.model_.regression.scale[0])
    for estimate, n in ((found.error.now, 150), (found.error.then, 450)):
        exact = gp.condition(kernel, (x[:n] - mean) / scale, y[:n], 0.09 / unit**2)
        variance = exact.predict((new - mean) / scale).variance.mean()
        far = abs(estimate - unit * np.sqrt(variance))
        assert far < 3 * found.error.error + 0.05 * estimate
    assert found.error.then < found.error.now
    assert 0 < found.width.fall < 0.5
    assert "450" not in str(found)
    assert "150 rows and 300 more, by twin" in str(found)


def test_fits_on_parts_are_carried_on():
    x, y = rows(80)
    model = AnchoredRegressor(**SHORT, noise_var=0.09, prior=10.0).fit(x, y)
    found = what_would_more_rows_buy(model, x, y, 80, source="subsamples", n_repeats=2)
    assert found.source == "subsamples"
    assert found.errors.shape == (3, 2)
    assert found.error.then <= found.error.now
    assert found.error.error > 0
    classes = np.where(y > 0, "a", "b")
    own = AnchoredClassifier(**SHORT, prior=10.0).fit(x, classes)
    found = what_would_more_rows_buy(own, x, classes, 80, n_repeats=1)
    assert found.width is None
    assert 0 < found.error.now < 1


def test_what_is_wrong_is_named():
    x, y = rows(30)
    model = AnchoredRegressor(**SHORT, noise_var=0.09, prior=10.0, activation="tanh").fit(x, y)
    with pytest.raises(ValueError, match="`n` must be a positive"):
        what_would_more_rows_buy(model, x, y, 0)
    with pytest.raises(ValueError, match='`source` must be "subsamples"'):
        what_would_more_rows_buy(model, x, y, 5, source="twin")
    with pytest.raises(ValueError, match="at least 20 rows"):
        what_would_more_rows_buy(model, x[:5], y[:5], 5)
