import dataclasses
import itertools
import math
import subprocess
import sys
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from anchored import (
    MLP,
    ConvNet,
    Data,
    Gaussian,
    Prior,
    Schedule,
    TextCNN,
    advance,
    fit_ensemble,
    init_ensemble,
)
from anchored.core import members, training
from anchored.core.loss import Extra, MemberLoss, Own
from anchored.core.members import OneByOne, Threaded, Vmapped, _wrapped_around, best_member_map
from anchored.core.state import DECAY_EVERY, Batch, rate_at
from anchored.core.training import begin, train
from anchored.core.tree import as_pytree
from anchored.errors import Status
from anchored.typing import traits


def fit(data, schedule, network=None, noise=0.05, n_members=4, **kwargs):
    network = network or MLP((8,))
    prior = Prior.for_network(network, data.x[:1], first_var=2.0)
    return fit_ensemble(
        jax.random.key(0),
        network,
        prior,
        Gaussian(noise),
        data,
        n_members=n_members,
        schedule=schedule,
        **kwargs,
    )


def leaves(ensemble):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(ensemble.params)]


class CountingMLP(MLP):
    """Counts how often its forward pass is traced."""

    traces = 0

    def apply(self, params, x):
        type(self).traces += 1
        return super().apply(params, x)


def traced_by(run):
    before = CountingMLP.traces
    run()
    return CountingMLP.traces - before


def test_compilations(rng):
    """Fits and predictions of the same shapes compile once; members do not add traces."""
    network, schedule = CountingMLP((6,)), Schedule(5, 8, 0.01, 0.99)
    make = [Data.make(rng.normal(size=(n, 3)), rng.normal(size=n)) for n in (31, 32)]
    first = traced_by(lambda: fit(make[0], schedule, network, n_members=2))
    assert first >= 1
    assert traced_by(lambda: fit(make[0], schedule, network, n_members=2)) == 0
    other = Schedule(7, 8, 0.02, 0.9)
    assert traced_by(lambda: fit(make[0], other, network, noise=0.3, n_members=2)) == 0
    assert traced_by(lambda: fit(make[1], schedule, network, n_members=2)) == 0
    assert traced_by(lambda: fit(make[0], schedule, network, n_members=50)) <= first
    ensemble = fit(make[0], schedule, network, n_members=2)
    assert traced_by(lambda: ensemble.predict(np.zeros((10, 3)))) == 1
    assert traced_by(lambda: ensemble.predict(np.zeros((200, 3)))) == 0


def test_fits_of_many_lengths_share_three_programs(rng):
    """Of 50 to 100 rows: a loop over steps for each padded length, and nothing grows after."""
    before = members._vmapped_loop._cache_size()
    for n in np.linspace(50, 100, 50).astype(int):
        data = Data.make(rng.normal(size=(n, 2)), rng.normal(size=n))
        fit(data, Schedule(1, 32, 0.01), MLP((5,)), n_members=2, member_map=Vmapped())
    assert members._vmapped_loop._cache_size() - before == 3


def test_the_minimiser_does_not_depend_on_the_batch_size(rng):
    """The scaling contract: a linear model trained in batches of 8 and of all 64 rows."""
    x = rng.normal(size=(64, 2))
    data = Data.make(x, x @ [1.0, -2.0] + 0.5 * rng.normal(size=64))
    few, all_rows = (
        leaves(fit(data, Schedule(epochs, size, 0.05, 0.97), MLP(()), noise=0.25))
        for epochs, size in ((600, 8), (4000, 64))
    )
    for a, b in zip(few, all_rows, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)
    # Rows that count twice halve the pull of the prior: the contract is about N, not B.
    twice = leaves(
        fit(
            Data.make(x, data.y[:64, 0], np.full(64, 2.0)),
            Schedule(4000, 64, 0.05, 0.97),
            MLP(()),
            noise=0.5,
        )
    )
    for a, b in zip(twice, all_rows, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_loss_is_the_negative_log_posterior_over_n(line_data):
    """Against the prior's and the likelihood's own densities, constants aside."""
    network, likelihood = MLP((4,)), Gaussian(0.2)
    prior = Prior.for_network(network, line_data.x[:1], first_var=2.0)
    one, two = (network.init(jax.random.key(s), line_data.x[:1]) for s in (1, 2))
    n = line_data.n_rows
    x, y = line_data.x[:n], line_data.y[:n]

    def posterior(p):
        log_lik = likelihood.log_prob(network.apply(p, x), y).sum()
        return -(log_lik + prior.log_prob(p)) / n

    loss = MemberLoss(network, None)
    batch = Batch(x, y, jnp.ones(n), jnp.arange(n), 1 / n, n)
    extra = Extra(prior.scale, as_pytree(likelihood), 1.0, None)
    ours = [loss(p, Own(prior.mean, None, None), extra, batch) for p in (one, two)]
    np.testing.assert_allclose(ours[0] - ours[1], posterior(one) - posterior(two), rtol=1e-4)


def test_maps_agree(line_data):
    """Vmapped, threaded and one by one are the same computation."""
    schedule = Schedule(20, 16, 0.01, 0.99)
    # 4 members: 3 threads cannot share
    maps = Vmapped(), Threaded(2, 3), Threaded(2, 2), OneByOne(), OneByOne(looped=True)
    results = [leaves(fit(line_data, schedule, member_map=m)) for m in maps]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_maps_agree_on_a_prior_that_differs_within_a_layer(line_data):
    network = MLP((8,))
    prior = Prior.for_network(network, line_data.x[:1])
    narrow = jax.tree.map(lambda s: s.at[..., :4].multiply(0.05), prior.scale)
    params = [
        leaves(
            fit_ensemble(
                jax.random.key(0),
                network,
                dataclasses.replace(prior, scale=scale),
                Gaussian(0.05),
                line_data,
                n_members=2,
                schedule=Schedule(50, 16, 0.01),
                member_map=member_map,
            )
        )
        for scale, member_map in (
            (narrow, Vmapped()),
            (narrow, OneByOne(looped=True)),
            (prior.scale, OneByOne(looped=True)),
        )
    ]
    for one, other, wide in zip(*params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
        assert np.abs(one - wide).max() > 0.05


def test_best_map_knows_convolutions():
    assert best_member_map(ConvNet(), 10) == OneByOne()
    assert isinstance(best_member_map(MLP((5,)), 10), Vmapped | Threaded)
    assert best_member_map(MLP((5,)), 3) == Vmapped()
    assert best_member_map(MLP((5,)), 3, work=10**7) == OneByOne(looped=True)


@pytest.mark.parametrize(("n_members", "n_threads"), [(1, 1), (5, 2), (5, 3), (4, 4), (7, 3)])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 100])
def test_cores_share_all_steps_evenly(n_members, n_threads, n_steps):
    """Each member's steps are taken once and in order, and no thread has a step more to do."""
    shares = _wrapped_around(n_members, n_steps, n_threads)
    lengths = [sum(part.end - part.start for part in share) for share in shares]
    assert max(lengths) == -(-n_members * n_steps // n_threads)
    began: dict[int, list] = {}
    for share in shares:
        time = 0
        for part in share:
            began.setdefault(part.member, []).append((part.start, part.end, time))
            time += part.end - part.start
    for member in range(n_members):
        parts = sorted(began[member])
        ends = [0, *(end for _, end, _ in parts)]
        assert [start for start, _, _ in parts] == ends[:-1]
        assert ends[-1] == n_steps
        for (start, end, time), (_, _, later) in itertools.pairwise(parts):
            assert later >= time + end - start


def test_an_error_in_a_step_is_not_waited_for():
    class Failing(NamedTuple):
        def __call__(self, state, own, shared, i):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        OneByOne().loop(Failing(), jnp.zeros((5, 1)), jnp.zeros((5, 1)), None, 3)


def test_history_and_progress(line_data):
    seen = []
    ensemble = fit(line_data, Schedule(100, 16, 0.01), on_check=seen.append)
    info = ensemble.info
    assert info.objective.shape == (len(info.steps), 4)
    assert info.steps[-1] == Schedule(100, 16).n_steps(40) == 200
    assert [0, *(p.step for p in seen)] == list(info.steps)
    assert np.all(info.objective[-1] < info.objective[0])


def test_stops_when_the_objective_has_settled(line_data):
    long = Schedule(40_000, 64, 0.02, 0.99, tolerance=1e-3)
    ensemble = fit(line_data, long)
    assert ensemble.info.steps[-1] < 0.5 * long.n_steps(40)
    assert np.all(ensemble.info.status == Status.CONVERGED)


def test_stopped_too_early_is_said(line_data):
    ensemble = fit(line_data, Schedule(3, 16, 0.001))
    assert np.all(ensemble.info.status == Status.STEP_LIMIT)


def test_any_optax_optimiser(line_data):
    adam = Schedule(300, 64, 0.02)
    ours, theirs = (
        leaves(fit(line_data, s)) for s in (adam, Schedule(300, 64, optimiser=optax.adam(0.02)))
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    lbfgs_free = fit(line_data, Schedule(300, 64, optimiser=optax.sgd(1e-3, momentum=0.9)))
    assert np.all(lbfgs_free.info.objective[-1] < lbfgs_free.info.objective[0])


def test_the_staircase_is_the_paper_s(line_data):
    """Twenty steps at the full rate, then the decayed one."""
    staircase = optax.exponential_decay(0.02, 20, 0.5, staircase=True)
    ours, theirs = (
        leaves(fit(line_data, s))
        for s in (
            Schedule(100, 64, 0.02, 0.5),
            Schedule(100, 64, optimiser=optax.adam(staircase)),
        )
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epochs": 0}, "`epochs` must be a positive whole number; got 0"),
        ({"batch_size": 1.5}, "`batch_size` must be a positive whole number; got 1.5"),
        ({"learning_rate": -1.0}, "`learning_rate` must be a positive number"),
        ({"decay_rate": 1.2}, "`decay_rate` must be above 0 and at most 1"),
        ({"tolerance": -1.0}, "`tolerance` must be zero or a positive number"),
        ({"rule": "newton"}, "`rule` must be one of adam, muon; got 'newton'"),
    ],
)
def test_bad_schedules_are_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**kwargs)


def test_an_explosion_in_the_first_segment_is_a_divergence(line_data):
    ensemble = fit(line_data, Schedule(200, 16, 1e6))
    assert len(ensemble.retrained) == 4
    assert np.all(ensemble.info.status == Status.DIVERGED)


@pytest.mark.parametrize(("n_rows", "batch_size"), [(17, 17), (49, 50), (49, 48), (5, 500)])
def test_any_batch_size_goes(n_rows, batch_size, rng):
    data = Data.make(rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows))
    ensemble = fit(data, Schedule(30, batch_size, 0.01))
    assert np.isfinite(ensemble.info.objective).all()


def test_rows_without_weight_come_first(rng):
    weight = np.r_[np.zeros(5000), np.ones(50)]
    data = Data.make(rng.normal(size=(5050, 2)), rng.normal(size=5050), weight)
    assert np.isfinite(fit(data, Schedule(2, 64, 0.01)).info.objective).all()


@dataclasses.dataclass(frozen=True)
class _StepSum:
    """A loss whose gradient is the number of the step."""

    def __call__(self, params, own, extra, batch):
        return params * jnp.asarray(batch.step, jnp.float32) + 0.0 * own


def test_a_random_loss_sees_each_step_once(line_data):
    """Steps are numbered through all segments, so that no draw of a random loss is repeated."""
    n_steps = 2_500  # three segments
    schedule = Schedule(n_steps, 64, optimiser=optax.sgd(1.0))
    state = begin(0, _StepSum(), jnp.zeros(2), jnp.zeros(2), None, schedule, 64, Vmapped())
    state, _ = train(state, line_data, schedule)
    np.testing.assert_allclose(state.theta, -n_steps * (n_steps - 1) / 2, rtol=1e-6)


def test_a_deadline_shortens_the_run_and_still_brings_the_rate_down(line_data, monkeypatch):
    """A clock of a second a step: 400 seconds of 1,000 steps, decayed to 1 % by the last."""
    done, rates = [0], []
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: float(done[0])))

    class Counting(Vmapped):
        def loop(self, body, state, own, shared, n_steps):
            last = (int(shared.step) + n_steps - 1) // DECAY_EVERY
            rates.append(float(np.exp(shared.log_rate + shared.log_decay * last)))
            done[0] += n_steps
            return super().loop(body, state, own, shared, n_steps)

    schedule = Schedule(1_000, 64, 0.1, training.decay_over(1_000), max_seconds=400)
    ensemble = fit(line_data, schedule, member_map=Counting())
    assert ensemble.info.steps[-1] == 400
    assert rates[-1] == pytest.approx(0.001, rel=0.2)
    assert np.all(np.diff(rates) < 0)
    assert np.all(np.diff(ensemble.info.steps) > 0)


def test_a_fading_rate_falls_in_a_straight_line_also_when_time_is_short(line_data, monkeypatch):
    """A clock of a second a step: the last of 400 steps in place of 1,000 is the smallest."""
    done, steps = [0], []
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: float(done[0])))

    class Counting(Vmapped):
        def loop(self, body, state, own, shared, n_steps):
            at = int(shared.step) + np.arange(n_steps)
            steps.extend(np.asarray(rate_at(shared, at)).tolist())
            done[0] += n_steps
            return super().loop(body, state, own, shared, n_steps)

    n_rows = line_data.n_rows
    whole = Schedule.fading(1_000, n_rows, n_rows, 0.1)
    assert fit(line_data, whole, member_map=Counting()).info.steps[-1] == 1_000
    np.testing.assert_allclose(steps, 0.1 * (1 - np.arange(1_000) / 1_000), rtol=1e-4)
    steps.clear()
    done[0] = 0
    short = dataclasses.replace(whole, max_seconds=400)
    assert fit(line_data, short, member_map=Counting()).info.steps[-1] == 400
    assert steps[0] == pytest.approx(0.1)
    assert np.all(np.diff(steps) < 0)
    assert steps[-1] == pytest.approx(0.1 / 400, rel=0.5)  # about one step before zero


@pytest.mark.slow
def test_memory_is_flat_over_many_fits():
    code = """
import jax, numpy as np, psutil
from anchored import MLP, ConvNet, Data, Gaussian, Prior, Schedule, TextCNN, fit_ensemble
rng, network, sizes = np.random.default_rng(0), MLP((20,)), []
for i in range(100):
    data = Data.make(rng.normal(size=(50 + i % 51, 3)), rng.normal(size=50 + i % 51))
    prior = Prior.for_network(network, data.x[:1])
    fit_ensemble(jax.random.key(i), network, prior, Gaussian(0.1), data, schedule=Schedule(5, 32))
    sizes.append(psutil.Process().memory_info().rss / 1e6)
print(sizes[-1] - sizes[55])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 5  # megabytes in 45 fits, all programs compiled before


def test_cores_are_counted_without_affinity(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.process_cpu_count", lambda: 3, raising=False)
    assert members.n_cores() == 3
    monkeypatch.delattr("os.process_cpu_count")
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert members.n_cores() == 1


def test_traits_have_defaults():
    assert traits(object()) == (True, False, False)
    assert traits(ConvNet()) == (False, False, True)
    assert traits(TextCNN()) == (True, True, True)


def test_what_turns_half_way_does_so_once_and_before_any_early_stop(line_data):
    """Also if there is no time for half of the steps."""
    for limit in (math.inf, 1e-9):
        schedule = Schedule(60, 64, 0.01, tolerance=100.0, max_seconds=limit)
        network = MLP((4,))
        prior = Prior.for_network(network, line_data.x[:1])
        args = (jax.random.key(0), network, prior, Gaussian(0.1), line_data)
        state = init_ensemble(*args, n_members=2, schedule=schedule)
        turned = []

        def turn(state, turned=turned):
            turned.append(int(state.step))
            return state

        state, info = train(state, line_data, schedule, None, turn)
        n_steps = schedule.n_steps(line_data.n_rows)
        assert len(turned) == 1
        assert turned[0] < info.steps[-1]
        assert limit < math.inf or n_steps / 2 <= turned[0] < info.steps[-1] < n_steps


def test_prior_units_move_each_parameter_by_its_prior_s_scale(line_data):
    """The first step of Adam has the length of the rate in every direction."""
    network = MLP((4,))
    prior = Prior.for_network(network, line_data.x[:1], first_var=25.0)
    args = (network, prior, Gaussian(0.1), line_data)
    for in_prior_units in (False, True):
        schedule = Schedule(1, 64, 0.01, in_prior_units=in_prior_units)
        before = init_ensemble(jax.random.key(0), *args, n_members=1, schedule=schedule)
        after = advance(before, line_data, 1)
        trees = before.params, after.params, prior.scale
        for old, new, scale in zip(*map(jax.tree.leaves, trees), strict=True):
            unit = np.asarray(scale) if in_prior_units else 1.0
            moved = np.abs(np.asarray(new) - np.asarray(old))[0] / unit
            np.testing.assert_allclose(moved[moved > 1e-6], 0.01, rtol=1e-2)


@pytest.mark.parametrize("in_prior_units", [False, True])
def test_muon_finds_the_same_minimum(rng, in_prior_units):
    """That of the scaling contract: ridge regression, in closed form."""
    x = rng.normal(size=(64, 3))
    y, noise = x @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=64), 0.25
    prior = Prior.for_network(MLP(()), x, first_var=2.0).with_relevance(np.array([1.0, 9.0, 0.1]))
    schedule = Schedule(2_000, 64, 0.05, fades=True, rule="muon", in_prior_units=in_prior_units)
    args = (MLP(()), prior, Gaussian(noise), Data.make(x, y))
    (layer,) = fit_ensemble(jax.random.key(0), *args, n_members=1, schedule=schedule).params
    design = np.column_stack([x, np.ones(64)])
    scale = np.concatenate([np.ravel(prior.scale[0][name]) for name in ("weight", "bias")])
    exact = np.linalg.solve(design.T @ design / noise + np.diag(scale**-2.0), design.T @ y / noise)
    found = np.concatenate([np.ravel(layer["weight"]), np.ravel(layer["bias"])])
    np.testing.assert_allclose(found, exact, atol=1e-3)


def test_muon_s_first_step_has_equal_singular_values(line_data):
    network = MLP((4, 4))
    prior = Prior.for_network(network, line_data.x[:1], first_var=25.0)
    schedule = Schedule(1, 64, 0.01, rule="muon", in_prior_units=True)
    args = (network, prior, Gaussian(0.1), line_data)
    before = init_ensemble(jax.random.key(0), *args, n_members=1, schedule=schedule)
    after = advance(before, line_data, 1)
    for old, new, scale in zip(before.params, after.params, prior.scale, strict=True):
        moved = (np.asarray(new["weight"]) - np.asarray(old["weight"]))[0] / scale["weight"]
        rank = min(moved.shape)
        values = np.linalg.svd(moved, compute_uv=False) / (0.01 * 0.2 * np.sqrt(max(moved.shape)))
        # Five steps of Newton and Schulz bring singular values near one, not to it.
        assert np.all((values[:rank] > 0.3) & (values[:rank] < 1.3)), values
