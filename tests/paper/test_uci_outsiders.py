"""The boosted trees of other packages: error bars that fit, in the target's units, repeatable."""

import contextlib
import io
from importlib.util import find_spec

import numpy as np
import pytest

from anchored import metrics
from anchored.paper.tables import uci_outsiders as outsiders

PACKAGES = {"ngboost": outsiders.ngboost, "catboost": outsiders.catboost}
SCALE = 1e-3  # of the target: a package that is not blind to units would do badly


def heteroskedastic(n, rng):
    """Targets with a noise that grows threefold along the first feature."""
    x = rng.uniform(-1, 1, size=(n, 3))
    std = 0.4 * 3 ** x[:, 0]
    return x, SCALE * (5 + 2 * x[:, 1] + std * rng.normal(size=n)), SCALE * std


@pytest.fixture(scope="module", params=PACKAGES)
def run(request):
    """One package's predictive of unseen rows, the rows' targets and true deviations."""
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: pip install 'anchored[outsiders]'")
    rng = np.random.default_rng(0)
    x, y, _ = heteroskedastic(500, rng)
    x_test, y_test, std = heteroskedastic(500, rng)

    def predict(seed):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            dist = PACKAGES[request.param](x, y, x_test, seed)
        assert printed.getvalue() == ""
        return dist

    return request.param, predict, predict(0), y_test, std


def test_error_bars_are_those_of_the_noise(run):
    name, _, dist, y, std = run
    assert dist.family == "gaussian"
    assert dist.members is None
    for values in (dist.mean, dist.epistemic_var, dist.aleatoric_var):
        assert values.shape == y.shape
        assert np.isfinite(values).all()
    assert (dist.epistemic_var > 0).all() if name == "catboost" else not dist.epistemic_var.any()
    assert 0.85 < metrics.coverage(dist, y, 0.9) < 0.95  # 500 rows: standard error 0.013
    assert metrics.rmse(dist, y) < 1.2 * np.sqrt(np.mean(std**2))
    assert np.corrcoef(np.log(dist.std), np.log(std))[0, 1] > 0.8
    exact = np.mean(np.log(std)) + 0.5 * (1 + np.log(2 * np.pi))
    assert metrics.nll(dist, y) < exact + 0.3


def test_the_seed_settles_everything_and_nothing_is_written(run, tmp_path, monkeypatch):
    _, predict, dist, _, _ = run
    monkeypatch.chdir(tmp_path)
    again, other = predict(0), predict(1)
    np.testing.assert_array_equal(again.mean, dist.mean)
    np.testing.assert_array_equal(again.variance, dist.variance)
    assert not np.array_equal(other.mean, dist.mean)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fit", PACKAGES.values(), ids=PACKAGES)
def test_a_missing_package_is_named_with_its_extra(fit, monkeypatch):
    monkeypatch.setattr(outsiders, "find_spec", lambda name: None)
    x = np.zeros((5, 1))
    with pytest.raises(
        ModuleNotFoundError, match=r"is not installed: pip install 'anchored\[outsi"
    ):
        fit(x, x[:, 0], x, 0)
