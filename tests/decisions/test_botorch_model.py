"""In BoTorch: the members' values, gradients and acquisition functions."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("botorch")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def fitted():
    from anchored import AnchoredRegressor
    from anchored.decisions import AnchoredModel

    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(80, 2))
    model = AnchoredRegressor(
        n_members=4, hidden=(10,), epochs=30, noise_var=0.01, target_scale="linear", random_state=0
    ).fit(x, 5 + 3 * np.sin(3 * x[:, 0]))
    return model, AnchoredModel(model)


def test_values_are_those_of_the_members(fitted):
    model, ours = fitted
    x = np.random.default_rng(1).uniform(-3, 3, size=(5, 7, 2))
    values = ours.posterior(torch.tensor(x)).values
    assert values.shape == (5, 4, 7, 1)
    members = model.predict_dist(x.reshape(-1, 2)).members
    np.testing.assert_allclose(
        values[..., 0].numpy(), members.reshape(4, 5, 7).transpose(1, 0, 2), rtol=1e-4, atol=1e-4
    )
    marginal = ours.student_t(torch.tensor(x))
    assert marginal.distribution.df.unique().tolist() == [3.0]
    np.testing.assert_allclose(
        marginal.mean[..., 0].numpy(), members.mean(0).reshape(5, 7), rtol=1e-4
    )


def test_gradients_are_those_of_finite_differences(fitted):
    _, ours = fitted
    x = torch.tensor([[0.2, 0.4], [-0.3, 0.1]], dtype=torch.float64, requires_grad=True)
    ours(x).sum().backward()
    step = 1e-2
    for place in np.ndindex(2, 2):
        nudge = torch.zeros(2, 2, dtype=torch.float64)
        nudge[place] = step
        with torch.no_grad():
            slope = (ours(x + nudge).sum() - ours(x - nudge).sum()) / (2 * step)
        # Networks of rectifiers have kinks: few lie within a step.
        assert float(x.grad[place]) == pytest.approx(float(slope), rel=0.1, abs=0.3)


def test_batches_are_found_by_monte_carlo_acquisition(fitted):
    from botorch.acquisition import qSimpleRegret
    from botorch.optim import optimize_acqf

    _, ours = fitted
    bounds = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    torch.manual_seed(0)
    found, value = optimize_acqf(qSimpleRegret(ours), bounds, q=2, num_restarts=2, raw_samples=32)
    assert found.shape == (2, 2)
    assert 7 < float(value) < 9  # 8 at sin(3 x) = 1


def test_other_models_are_refused(fitted):
    from anchored import AnchoredRegressor
    from anchored.decisions import AnchoredModel

    x = np.random.default_rng(0).uniform(1, 2, size=(30, 1))
    log = AnchoredRegressor(n_members=2, hidden=(4,), epochs=2, target_scale="log", random_state=0)
    with pytest.raises(ValueError, match='`model` must be a regressor with target_scale="linear"'):
        AnchoredModel(log.fit(x, x[:, 0]))
