import dataclasses
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anchored import (
    MLP,
    Bernoulli,
    Categorical,
    ConvNet,
    Data,
    Gaussian,
    HeteroskedasticGaussian,
    Poisson,
    Prior,
    Schedule,
    TextCNN,
    fit_ensemble,
)
from anchored.core.loss import METHODS, Folds
from anchored.core.priors import draw_anchors
from anchored.core.tree import as_pytree, from_pytree
from anchored.errors import Status
from anchored.exact import rms


def fit(data, method="anchored", network=None, likelihood=None, schedule=None, **kwargs):
    network = network or MLP((8,))
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    return fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        likelihood or Gaussian(0.05),
        data,
        method=method,
        n_members=kwargs.pop("n_members", 3),
        schedule=schedule or Schedule(60, 16, 0.01),
        **kwargs,
    )


def assert_trees(check, a, b):
    jax.tree.map(check, a, b)


def test_member_j_is_the_same_whatever_the_ensemble(line_data):
    few, many = (fit(line_data, n_members=n) for n in (2, 7))
    assert_trees(lambda a, b: np.testing.assert_array_equal(a, b[:2]), few.centres, many.centres)
    close = lambda a, b: np.testing.assert_allclose(a, b[:2], rtol=1e-3, atol=1e-5)  # noqa: E731
    assert_trees(close, few.params, many.params)


def test_start_is_independent_of_the_anchor(line_data):
    one_step = Schedule(1, 64, 1e-9)
    ensemble = fit(line_data, schedule=one_step, n_members=400)
    w, a = (np.asarray(tree[0]["weight"]).ravel() for tree in (ensemble.params, ensemble.centres))
    assert abs(np.corrcoef(w, a)[0, 1]) < 4 / np.sqrt(len(w))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(line_data, method):
    deep = method == "deep"
    likelihood = HeteroskedasticGaussian() if deep else Gaussian(0.05)
    ensemble = fit(line_data, method, MLP((8,), 2 if deep else 1), likelihood)
    dist = ensemble.predict(np.asarray(line_data.x[:5]))
    assert dist.mean.shape == (5, 1)
    assert np.all(dist.epistemic_var > 0)
    assert np.all(ensemble.info.objective[-1] < ensemble.info.objective[0])


def test_table_of_methods(line_data):
    """Centres are anchors or the prior mean; no penalty means the prior does not matter."""
    for method in ("regularised", "unconstrained"):
        centres = fit(line_data, method).centres
        assert all(np.all(np.asarray(c) == 0) for c in jax.tree.leaves(centres))
    for method in ("anchored", "rms"):
        assert np.ptp(np.asarray(fit(line_data, method).centres[0]["bias"]), axis=0).min() > 0
    same = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # noqa: E731
    network = MLP((8,))
    priors = [Prior.for_network(network, line_data.x[:1], v) for v in (0.1, 50.0)]
    fits = [
        fit_ensemble(
            jax.random.key(0), network, p, Gaussian(0.05), line_data,
            method="unconstrained", n_members=2, schedule=Schedule(30, 64, 0.01),
        )
        for p in priors
    ]  # fmt: skip
    assert_trees(same, fits[0].params, fits[1].params)


def test_one_member_is_the_single_regularised_network(line_data):
    single = fit(line_data, "anchored", n_members=1)
    regularised = fit(line_data, "regularised", n_members=3)
    close = lambda a, b: np.testing.assert_allclose(a, b[:1], rtol=1e-3, atol=1e-5)  # noqa: E731
    assert_trees(close, single.params, regularised.params)
    dist = single.predict(np.asarray(line_data.x[:4]))
    np.testing.assert_array_equal(dist.epistemic_var, 0)
    np.testing.assert_allclose(dist.variance, 0.05, rtol=1e-6)


def test_members_taken_alone_pool_to_the_whole(line_data):
    ensemble = fit(line_data)
    x = np.asarray(line_data.x[:6])
    alone = np.concatenate([ensemble.member(j).moments(x)[0] for j in range(3)])
    np.testing.assert_allclose(alone, ensemble.moments(x)[0], rtol=1e-5, atol=1e-6)


def test_prediction_goes_in_blocks(line_data):
    ensemble = fit(line_data)
    x = np.random.default_rng(0).normal(size=(40_000, 3))
    whole = ensemble.moments(x)[0]
    assert whole.shape == (3, 40_000, 1)
    np.testing.assert_allclose(whole[:, :10], ensemble.moments(x[:10])[0], rtol=1e-5, atol=1e-6)
    assert ensemble.moments(x[:0])[0].shape == (3, 0, 1)


@pytest.mark.parametrize(
    ("likelihood", "n_outputs", "make_y"),
    [
        (Categorical(), 3, lambda x: (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)),
        (Bernoulli(), 1, lambda x: (x[:, 0] > 0).astype(float)),
        (Poisson(), 1, lambda x: np.round(np.exp(x[:, 0]))),
    ],
)
def test_other_likelihoods(likelihood, n_outputs, make_y, rng):
    x = rng.normal(size=(60, 2))
    data = Data.make(x, make_y(x))
    dist = fit(data, network=MLP((8,), n_outputs), likelihood=likelihood).predict(x)
    y = make_y(x) if n_outputs == 3 else make_y(x)[:, None]
    base = np.bincount(make_y(x).astype(int)) / 60
    entropy = -np.sum(base[base > 0] * np.log(base[base > 0]))
    assert -dist.log_density(y).mean() < entropy  # better than the marginal


def test_each_likelihood_has_a_program_of_its_own():
    """Structures without arrays are equal to JAX, so a Poisson fit once ran as a Bernoulli one."""
    kinds = [Categorical(), Bernoulli(), Poisson(), HeteroskedasticGaussian(), Laplace(0.3)]
    structures = [jax.tree.structure(as_pytree(kind)) for kind in kinds]
    for i, one in enumerate(structures):
        assert [one == other for other in structures] == [i == j for j in range(len(kinds))]
    assert [from_pytree(as_pytree(kind)) for kind in kinds] == kinds


@dataclasses.dataclass(frozen=True)
class Laplace:
    """A user's own likelihood: a plain object, not a pytree."""

    scale: float
    family = "gaussian"

    def log_prob(self, outputs, y):
        return jnp.sum(-jnp.abs(y - outputs) / self.scale - jnp.log(2 * self.scale), axis=-1)

    def mean(self, outputs):
        return outputs

    def variance(self, outputs):
        return jnp.full_like(outputs, 2 * self.scale**2)

    def sample(self, key, outputs):
        return outputs + self.scale * jax.random.laplace(key, outputs.shape)


def test_own_likelihood(line_data):
    ensemble = fit(line_data, likelihood=Laplace(0.1))
    assert np.all(ensemble.info.objective[-1] < ensemble.info.objective[0])
    np.testing.assert_allclose(ensemble.predict(np.zeros((2, 3))).aleatoric_var, 0.02, rtol=1e-5)


@pytest.mark.parametrize(
    ("network", "x"),
    [
        (ConvNet(((4,),), (8,), 2), np.random.default_rng(0).normal(size=(24, 6, 6, 1))),
        (TextCNN(12, 4, 5, 3, 6, 2), np.random.default_rng(0).integers(0, 12, (24, 7))),
    ],
)
def test_the_core_knows_nothing_of_layers(network, x):
    y = (x.reshape(24, -1).mean(axis=1) > np.median(x)).astype(int)
    ensemble = fit(Data.make(x, y), network=network, likelihood=Categorical())
    assert np.all(ensemble.info.objective[-1] < ensemble.info.objective[0])
    dist = ensemble.predict(x)
    assert dist.probabilities.shape == (24, 2)
    assert np.all(dist.mutual_information >= 0)


@dataclasses.dataclass(frozen=True)
class Explosive(MLP):
    """Members whose first initial draw explodes; ``hopeless`` ones always do."""

    hopeless: bool = False

    def init(self, key, x):
        params = super().init(key, x)
        # The first bit of the key decides, so about half of the draws are bad.
        bad = jnp.logical_or(jax.random.bernoulli(jax.random.fold_in(key, 7)), self.hopeless)
        return jax.tree.map(lambda leaf: jnp.where(bad, jnp.inf, leaf), params)


def test_a_diverged_member_is_trained_again_and_poisons_nothing(line_data):
    ensemble = fit(line_data, network=Explosive((8,)), n_members=12)
    assert 0 < len(ensemble.retrained) < 12
    # About half of the second draws are bad again: those members are gone, the rest stay.
    assert 0 < len(ensemble.dropped) < len(ensemble.retrained)
    assert set(ensemble.dropped) <= set(ensemble.retrained)
    assert ensemble.n_members == 12 - len(ensemble.dropped)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(ensemble.params))
    assert np.isfinite(ensemble.predict(np.zeros((3, 3))).mean).all()
    # Kept members have the anchors they always had.
    prior = Prior.for_network(MLP((8,)), line_data.x[:1], first_var=2.0)
    anchors = draw_anchors(jax.random.split(jax.random.key(0), 4)[0], prior, 12)
    kept = np.array(ensemble.member_ids)
    assert_trees(lambda a, b: np.testing.assert_array_equal(a, b[kept]), ensemble.centres, anchors)


def test_a_prior_of_another_network_is_named(line_data):
    prior = Prior.for_network(MLP((5,)), line_data.x[:1])
    with pytest.raises(ValueError, match="`prior` must be shaped like the parameters of `network`"):
        fit_ensemble(jax.random.key(0), MLP((8,)), prior, Gaussian(0.1), line_data)


def test_too_few_classes_are_named(rng):
    data = Data.make(rng.normal(size=(9, 2)), np.arange(9) % 3)
    with pytest.raises(ValueError, match="has 2 outputs, which Categorical reads as 2"):
        fit(data, network=MLP((8,), 2), likelihood=Categorical())


def test_hopeless_members_are_data_not_an_exception(line_data):
    ensemble = fit(line_data, network=Explosive((8,), hopeless=True))
    assert ensemble.n_members == 0
    assert np.all(ensemble.info.status == Status.DIVERGED)


def test_start_can_be_given(line_data):
    network = MLP((8,))
    prior = Prior.for_network(network, line_data.x[:1])
    start = draw_anchors(jax.random.key(5), prior, 3)
    ensemble = fit(line_data, schedule=Schedule(1, 64, 1e-9), start=start)
    close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6)  # noqa: E731
    assert_trees(close, ensemble.params, start)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"method": "anchor"}, r"`method` must be one of .*Did you mean 'anchored'\?"),
        ({"n_members": 0}, "`n_members` must be a positive whole number; got 0"),
        ({"method": "deep"}, r"give it `HeteroskedasticGaussian\(\)`"),
        ({"network": MLP((8,), 3)}, "`network` has 3 outputs, which Gaussian reads as 3 targets"),
    ],
)
def test_errors_name_the_argument(line_data, kwargs, message):
    with pytest.raises(ValueError, match=message):
        fit(line_data, **kwargs)


def test_retried_members_do_not_depend_on_the_number_of_members(line_data):
    few, many = (fit(line_data, network=Explosive((8,)), n_members=n) for n in (6, 9))
    again = set(few.retrained) & set(few.member_ids)
    assert again
    for j in again:
        one, two = (e.member(e.member_ids.index(j)).params for e in (few, many))
        assert_trees(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), one, two)


def test_members_by_number_are_those_of_the_ensemble(line_data):
    """Some members alone, in any order and more than once, are what they are among all."""
    every = fit(line_data, "rms", n_members=4)
    some = fit(line_data, "rms", members=[3, 1, 3])
    for one, number in ((0, 3), (1, 1), (2, 3)):
        pair = [jax.tree.leaves(e.params) for e in (some.member(one), every.member(number))]
        for a, b in zip(*pair, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


FOLDS = Folds(np.arange(40) % 4, np.array([0, 1, 3, Folds.SEES_ALL, 3])).joined(1)


@pytest.mark.parametrize("weight", [np.ones(40), 0.5 + np.arange(40) % 3])
def test_a_member_of_a_fold_is_the_map_given_the_other_rows(line_data, weight):
    """A linear model has closed forms, and the anchors are those of a fit without folds."""
    x, y = np.asarray(line_data.x)[:40], np.asarray(line_data.y)[:40]
    data = Data.make(x, y, weight)
    slow = Schedule(3000, 64, 0.05, 0.95)
    folded, whole = (
        fit(data, network=MLP(()), n_members=6, schedule=slow, folds=f) for f in (FOLDS, None)
    )
    assert_trees(np.testing.assert_array_equal, folded.centres, whole.centres)
    anchors, found, unfolded = (
        np.column_stack([tree[0]["bias"], tree[0]["weight"][..., 0]])
        for tree in (folded.centres, folded.params, whole.params)
    )
    prior = rms.Normal(np.zeros(4), np.diag([2.0, *[2.0 / 3] * 3]))
    design = np.column_stack([np.ones(40), x]) * np.sqrt(weight)[:, None]
    target = y[:, 0] * np.sqrt(weight)
    for j, fold in enumerate(FOLDS.of_member):
        seen = FOLDS.of_row != fold
        likelihood = rms.linear_likelihood(design[seen], target[seen], 0.05)
        exact = rms.map_solutions(anchors[j : j + 1], prior, *likelihood)[0]
        np.testing.assert_allclose(found[j], exact, atol=1e-4)
        if fold == Folds.SEES_ALL:
            np.testing.assert_allclose(found[j], unfolded[j], atol=1e-6)
        else:
            assert np.abs(found[j] - unfolded[j]).max() > 1e-3  # the rows left out matter


@pytest.mark.parametrize("method", ["anchored", "rms"])
def test_rows_held_out_do_not_matter_in_batches_either(line_data, method):
    """Other targets in a fold change the members that see it and no others."""
    other = dataclasses.replace(line_data, y=line_data.y.at[:40:4].add(3.0))  # rows of fold 0
    one, two = (fit(data, method, n_members=6, folds=FOLDS) for data in (line_data, other))
    weights = [np.asarray(e.params[0]["weight"]).reshape(6, -1) for e in (one, two)]
    apart = np.abs(weights[0] - weights[1]).max(axis=1)
    np.testing.assert_array_equal(apart == 0, FOLDS.of_member == 0)


@pytest.mark.parametrize(
    ("folds", "named"),
    [
        (Folds(np.zeros(3, int), np.zeros(2, int)), "`folds.of_row` must be an array of"),
        (Folds(np.zeros(40, int), np.zeros(3, int)), "`folds.of_member` must be an array of 2"),
        (Folds(np.zeros(40), np.zeros(2, int)), "`folds.of_row` must be an array of 40 whole"),
        (Folds(np.full(40, -2), np.zeros(2, int)), "`folds.of_row` must be numbers of folds"),
        (Folds(np.zeros(40, int), np.full(2, -1)), "`folds.of_member` must be numbers of folds"),
    ],
)
def test_folds_must_fit_rows_and_members(folds, named):
    x = np.linspace(-1, 1, 40)[:, None]
    network = MLP((4,))
    prior = Prior.for_network(network, x)
    with pytest.raises(ValueError, match=re.escape(named)):
        fit_ensemble(
            jax.random.key(0),
            network,
            prior,
            Gaussian(0.1),
            Data.make(x, x),
            n_members=2,
            folds=folds,
        )


def test_diverged_members_keep_their_fold(line_data):
    other = dataclasses.replace(line_data, y=line_data.y.at[:40:4].add(3.0))
    folds = Folds(FOLDS.of_row, np.zeros(12, int))
    one, two = (
        fit(data, network=Explosive((8,)), n_members=12, folds=folds) for data in (line_data, other)
    )
    assert set(one.retrained) & set(one.member_ids)
    assert_trees(np.testing.assert_array_equal, one.params, two.params)


SHARDED = """
import jax, numpy as np
from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
from anchored.core.members import RowSharded, Sharded, Vmapped, _placed
from jax.sharding import PartitionSpec
rng = np.random.default_rng(0)
data, network = Data.make(rng.normal(size=(40, 3)), rng.normal(size=40)), MLP((6,))
prior = Prior.for_network(network, data.x[:1])
assert jax.device_count() == 4
found = []
for member_map in (Vmapped(), Sharded(4), RowSharded(4)):
    ensemble = fit_ensemble(jax.random.key(0), network, prior, Gaussian(0.1), data, n_members=4,
                            schedule=Schedule(20, 10), member_map=member_map)
    found.append(jax.tree.leaves(ensemble.params))
state = _placed(found[1], 4, PartitionSpec("share"))
assert len({shard.device for shard in state[0].addressable_shards}) == 4
for first, second, third in zip(*found):
    np.testing.assert_allclose(first, second, atol=1e-5)
    np.testing.assert_allclose(first, third, atol=1e-5)
print("same")
"""


def test_members_sharded_over_devices_are_the_same_members():
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "same", done.stderr
