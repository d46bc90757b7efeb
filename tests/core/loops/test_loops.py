"""The penalty of one's own loop is the library's, whatever the batch size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchored
from anchored import MLP, Data, Gaussian, Prior, StudentT, init_ensemble, objective
from tests.core.adapters.zoo import import_torch

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
Y = X[:, :1] ** 2
NETWORK = MLP((5,))
PRIOR = Prior.for_network(NETWORK, X, first_var=3.0)


def test_the_penalty_in_jax_makes_the_objective_of_the_library():
    state = init_ensemble(
        jax.random.key(0), NETWORK, PRIOR, Gaussian(0.2), Data.make(X, Y), n_members=2
    )
    member, anchor = (jax.tree.map(lambda a: a[1], t) for t in (state.params, state.centres))

    def mean_loss(rows):
        log_prob = Gaussian(0.2).log_prob(NETWORK.apply(member, X[rows]), Y[rows])
        return -jnp.mean(log_prob) + anchored.jax.anchor_penalty(member, anchor, PRIOR, len(X))

    whole = mean_loss(slice(None))
    np.testing.assert_allclose(whole, objective(state, Data.make(X, Y))[1], rtol=1e-5)
    batches = [mean_loss(slice(i, i + 6)) for i in range(0, 24, 6)]
    np.testing.assert_allclose(np.mean(batches), whole, rtol=1e-5)  # whatever the batch size


def test_bad_arguments_of_the_penalty_are_named():
    params = NETWORK.init(jax.random.key(0), X)
    anchor = anchored.jax.draw_anchor(jax.random.key(1), PRIOR)
    with pytest.raises(ValueError, match="`n_rows` must be the number of training rows"):
        anchored.jax.anchor_penalty(params, anchor, PRIOR, 0)
    with pytest.raises(ValueError, match="`anchor` must be shaped like `params`"):
        anchored.jax.anchor_penalty(params, anchor[:1], PRIOR, 10)


def test_predictives_of_outputs():
    outputs = np.random.default_rng(0).normal(size=(4, 10, 1))
    found = anchored.jax.predictive(outputs, Gaussian(0.3))
    np.testing.assert_allclose(found.mean, outputs.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.epistemic_var, outputs.var(axis=0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(found.aleatoric_var, 0.3, rtol=1e-6)
    heavy = anchored.jax.predictive(np.concatenate([outputs, outputs], axis=2), StudentT())
    assert heavy.family == "samples"
    with pytest.raises(ValueError, match=r"of shape \[member, batch, out\]"):
        anchored.jax.predictive(outputs[0], Gaussian(0.3))


def test_the_penalty_in_pytorch_is_that_in_jax():
    torch = import_torch()
    nn = torch.nn
    module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1, bias=False))
    prior = anchored.torch.prior(module, torch.from_numpy(X), first_var=3.0)
    anchor = anchored.torch.draw_anchor(prior, torch.Generator().manual_seed(0))
    found = anchored.torch.anchor_penalty(module, anchor, prior, 24)
    params = {name: p.detach().numpy() for name, p in module.named_parameters()}
    expected = anchored.jax.anchor_penalty(
        params, {name: a.numpy() for name, a in anchor.items()}, prior, 24
    )
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="`anchor` must name the parameters of the module"):
        anchored.torch.anchor_penalty(module, {}, prior, 24)


def test_a_loop_in_pytorch_finds_the_minimum_of_the_linear_model():
    """Its closed form, and the predictive of the modules."""
    torch = import_torch()
    x, y = torch.from_numpy(X), torch.from_numpy(X @ np.float32([[1.0], [-0.5], [0.2]]))
    prior, noise = anchored.torch.prior(torch.nn.Linear(3, 1, bias=False), x, 2.0), 0.1
    modules, anchors = [], []
    for j in range(2):
        torch.manual_seed(j)
        module = torch.nn.Linear(3, 1, bias=False)
        anchors.append(anchored.torch.draw_anchor(prior, torch.Generator().manual_seed(j)))
        optimiser = torch.optim.LBFGS(module.parameters(), max_iter=100)

        def loss(module=module, anchor=anchors[-1], optimiser=optimiser):
            optimiser.zero_grad()
            mse = torch.mean((module(x) - y) ** 2)
            total = mse / (2 * noise) + anchored.torch.anchor_penalty(module, anchor, prior, 24)
            total.backward()
            return total

        optimiser.step(loss)
        modules.append(module)
    precision = np.eye(3) / np.asarray(prior.scale["weight"])[0, 0] ** 2
    for module, anchor in zip(modules, anchors, strict=True):
        right = X.T @ y.numpy() / noise + precision @ anchor["weight"].numpy().T
        exact = np.linalg.solve(X.T @ X / noise + precision, right)
        np.testing.assert_allclose(module.weight.detach().numpy().T, exact, atol=1e-4)
    dist = anchored.torch.predictive(modules, x, Gaussian(noise))
    with torch.no_grad():
        each = np.stack([module(x).numpy() for module in modules])
    np.testing.assert_allclose(dist.mean, each.mean(axis=0), atol=1e-6)
