"""Anchored ensembles and their relatives: one loss, a table of methods, fit and predict.

Member j minimises the negative log posterior divided by N, whatever the batch size:

    -(1/B) sum_batch log p(y | f(theta, x)) + (1/2N) sum_i (theta_i - centre_i)^2 / var_i

Equation (10) of the paper is this times 2 noise_var. The methods differ only in the centre
of the penalty, in its weight, in noise added to the score of each row (`score_noise`), and in
whether hidden layers are trained (`last_layer`).
"""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core import last_layer, wide
from anchored.core.adapters import as_network
from anchored.core.checks import check_start, check_uses_parameters
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.measuring import vmappable
from anchored.core.members import OneByOne, best_member_map, n_members_of
from anchored.core.outputs import member_moments, member_outputs
from anchored.core.packing import on_parts
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.sampled import (
    FAMILY,
    check_likelihood,
    family_of,
    n_targets_of,
    sample_predictive,
)
from anchored.core.score_noise import row_bits, score_noise, sign_of
from anchored.core.state import Batch, EnsembleState
from anchored.core.training import OnCheck, Schedule, TrainInfo, begin, finite_members, train
from anchored.core.tree import (
    Carried,
    Raveller,
    as_pytree,
    from_pytree,
    on_device,
    put_members,
    squared_distance,
    take_members,
)
from anchored.errors import Status, bad_value, unknown_name
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Likelihood, MemberMap, Network, Number, Params

_AGAIN = 2**31 - 1  # takes the place of a member's number in the key of second tries
_LONE = 2**30  # added to the number of a member that has no other of opposite noise
_LONG_RUN = 5_000  # steps; half of fewer may be too few to follow the noise
_RETRY_RATE = 0.1  # a diverged member is trained once more at this share of the rate


@dataclasses.dataclass(frozen=True)
class Method:
    """A row of the table: where the penalty is centred, whether it counts, what else."""

    anchors: bool = False  # centre: each member's own anchor, or else the prior mean
    penalised: bool = True
    score_noise: bool = False  # each member feels noise in the outputs, that of the data
    variance_head: bool = False  # regression predicts its own noise
    hidden_fixed: bool = False  # hidden layers stay at the centre; only the last is trained


METHODS: dict[str, Method] = {
    "anchored": Method(anchors=True),
    "regularised": Method(),
    "unconstrained": Method(penalised=False),
    "deep": Method(penalised=False, variance_head=True),
    "rms": Method(anchors=True, score_noise=True),
    "random-features": Method(anchors=True, score_noise=True, hidden_fixed=True),
}


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Trained members. ``params`` and ``centres`` are stacked: axis 0 is the member."""

    network: Network
    likelihood: Likelihood
    params: Params
    centres: Params  # the anchors, or copies of the prior mean
    member_ids: tuple[int, ...]  # numbers of the members kept, in order
    info: TrainInfo  # of all members trained, dropped ones included; objectives of first tries
    retrained: tuple[int, ...]  # members that diverged and were trained again

    @classmethod
    def of_state(cls, state: EnsembleState, info: TrainInfo | None = None) -> "Ensemble":
        """The members of a state that did not diverge, by what is known of their training."""
        if info is None:
            finite = finite_members(state.theta)
            status = np.where(finite, Status.STEP_LIMIT, Status.DIVERGED)
            info = TrainInfo(status, np.zeros((0, len(status))), np.array([int(state.step)]))
        kept = np.flatnonzero(info.status != Status.DIVERGED)
        return cls(
            state.plan.loss.network,
            from_pytree(state.extra.likelihood),
            take_members(state.params, kept),
            take_members(state.centres, kept),
            tuple(int(j) for j in kept),
            info,
            (),
        )

    @property
    def n_members(self) -> int:
        return len(self.member_ids)

    @property
    def dropped(self) -> tuple[int, ...]:
        """Members that diverged twice and are not part of the ensemble."""
        return tuple(sorted(set(range(len(self.info.status))) - set(self.member_ids)))

    def take(self, index: Iterable[int]) -> "Ensemble":
        """The ensemble of some kept members alone."""
        index = np.fromiter(index, int)
        return dataclasses.replace(
            self,
            params=take_members(self.params, index),
            centres=take_members(self.centres, index),
            member_ids=tuple(self.member_ids[i] for i in index),
        )

    def member(self, index: int) -> "Ensemble":
        """The ensemble of one kept member alone."""
        return self.take([range(self.n_members)[index]])

    def predict(self, x) -> Predictive:
        """Pooled predictive at ``x`` [batch, ...], in the units the ensemble was trained in."""
        if family_of(self.likelihood) == FAMILY:
            return sample_predictive(self.likelihood, self.outputs(x))
        mean, var = self.moments(x)
        return Predictive.from_members(mean, var, self.likelihood.family)

    def outputs(self, x) -> np.ndarray:
        """What the networks put out [member, batch, out], before the likelihood reads it."""
        return member_outputs(self.network, self.params, x)

    def moments(self, x) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [member, batch, target] of the target under each member."""
        return member_moments(self.network, self.likelihood, self.params, x)


class Folds(NamedTuple):
    """Rows held out from some members: member j does not see the rows of fold ``of_member[j]``.

    Its objective is then the negative log posterior given the other rows. Folds are numbered
    from 0; a row of `IN_NONE` is seen by all, and a member of `SEES_ALL` sees all rows.
    """

    of_row: np.ndarray  # [row] of whole numbers
    of_member: np.ndarray  # [member]

    IN_NONE = -1  # as a row's fold
    SEES_ALL = -2  # as a member's

    def joined(self, n_members: int) -> "Folds":
        """With as many members before the others that see all rows."""
        first = np.full(n_members, self.SEES_ALL)
        return self._replace(of_member=np.concatenate([first, self.of_member]))


def init_ensemble(
    key: Array,
    network: Any,
    prior: Prior,
    likelihood: Likelihood,
    data: Data,
    *,
    method: str = "anchored",
    n_members: int = 10,
    schedule: Schedule | None = None,
    start: Params | None = None,
    folds: Folds | None = None,
    member_map: MemberMap | None = None,
) -> EnsembleState:
    """Members before their first step: `advance` trains them, `objective` looks at them.

    Arguments are those of `fit_ensemble`. Of ``data`` shapes and capacity count, and the rows
    of ``folds``; of ``schedule`` the batch size, the rates and the optimiser. Rows that come
    later are seen by all members.
    """
    network, schedule = network_on(network, data), schedule or Schedule()
    numbers = range(n_members)
    drawn = _drawn(key, network, prior, likelihood, data, method, numbers, start, folds)
    if drawn.hidden_fixed:
        schedule = schedule.of_last_layer()
    return _begun(network, drawn, data, schedule, member_map)


def fit_ensemble(
    key: Array,
    network: Any,
    prior: Prior,
    likelihood: Likelihood,
    data: Data,
    *,
    method: str = "anchored",
    n_members: int = 10,
    members: Sequence[int] | None = None,
    schedule: Schedule | None = None,
    start: Params | None = None,
    folds: Folds | None = None,
    member_map: MemberMap | None = None,
    on_check: OnCheck | None = None,
) -> Ensemble:
    """Train an ensemble.

    Member j's anchor, initial draw and score noise depend on ``key`` and j alone, so it is
    the same member whatever ``n_members`` is. One member alone is the single regularised
    network: its penalty is centred on the prior mean. A member that diverges is trained
    once more from a new initial draw, with the same anchor and a tenth of the rate; if it
    diverges again it is left out (`Ensemble.dropped`).

    Parameters
    ----------
    key : of everything random: anchors, initial draws, score noise, batch order.
    network : a `Network`, written for one member, or what `anchored.core.adapters` makes one of:
        a module of Equinox, Flax or PyTorch, or plain functions.
    prior, likelihood, data : the rest of the model, and the rows.
    method : a row of `METHODS`.
    members : numbers of the members to train, in place of the first ``n_members``. A number may
        come more than once: the same anchor, noise and initial draw, on other rows (``folds``) say.
    schedule : how long and how fast to train.
    start : initial parameters [member, ...] in place of draws of ``network.init``; of layers
        that stay at their anchor it counts for nothing.
    folds : rows that some members are not to see, for predictions out of sample.
    member_map : how members are run on this machine; the fastest known if not given.
    on_check : called with a `Progress` between the segments of training.
    """
    network, schedule = network_on(network, data), schedule or Schedule()
    numbers = range(n_members) if members is None else tuple(members)
    drawn = _drawn(key, network, prior, likelihood, data, method, numbers, start, folds)
    if drawn.hidden_fixed:
        schedule = schedule.of_last_layer()
    way = wide.narrowed(network, prior, data) if schedule.optimiser is None else None
    rows = data if way is None else way.data
    inner = drawn if way is None else drawn.narrowed(way)
    state = _begun(network, inner, rows, schedule, member_map)
    turn, n_steps = None, schedule.n_steps(rows.n_rows)
    if METHODS[method].score_noise and not drawn.hidden_fixed and n_steps >= _LONG_RUN:
        # Features form without the noise, which they would else fit; the minimum is the same.
        state, turn = _with_noise(state, 0), partial(_with_noise, share=1)
    state, info = train(state, rows, schedule, on_check, turn)
    failed = np.flatnonzero(info.status == Status.DIVERGED)
    if len(failed):  # once more, with a new initial draw, the same anchor and a lower rate
        key_again = jax.random.fold_in(draw_keys(jax.random.clone(key))[1], _AGAIN)
        start = _initial_params(network, key_again, [numbers[j] for j in failed], data)
        if drawn.hidden_fixed:
            start = last_layer.with_hidden(start, take_members(drawn.own.centre, failed))
        drawn = drawn._replace(start=put_members(drawn.start, failed, start))
        slower = schedule.slower(_RETRY_RATE)
        again = _restarted(state, failed, start if way is None else way.inner(start), slower)
        again, second = train(again, rows, slower)
        state = dataclasses.replace(state, theta=put_members(state.theta, failed, again.theta))
        info.status[failed] = second.status
    ensemble = Ensemble.of_state(state, info)
    if way is not None:  # what no row meets stays where the penalty, or else the start, put it
        kept = list(ensemble.member_ids)
        centres = take_members(drawn.own.centre, kept)
        rest = centres if METHODS[method].penalised else take_members(drawn.start, kept)
        ensemble = dataclasses.replace(
            ensemble, params=way.outer(ensemble.params, rest), centres=centres
        )
    return dataclasses.replace(ensemble, retrained=tuple(map(int, failed)))


def network_on(network: Any, data: Data) -> Network:
    """Whatever users bring, as a `Network` on the rows of ``data``."""
    return on_parts(as_network(network), data.layout)


class Own(NamedTuple):
    """What the loss needs of one member."""

    centre: Params
    seed: Array | None  # of the score noise, three words; none if there is no noise
    fold: Array | None  # rows of this fold count for nothing


class Extra(NamedTuple):
    """What the loss needs that all members share."""

    scale: Params
    likelihood: Carried
    penalty: Number  # 1, or 0 if the prior does not count
    folds: Array | None  # [row]
    numbers: Array | None = None  # [row] that its noise is made from, -1 for none; or its place
    noise: Number = np.float32(1)  # 1, or 0 as long as there is no score noise


@dataclasses.dataclass(frozen=True)
class MemberLoss:
    """The loss of the scaling contract, for one member."""

    network: Network
    raveller: Raveller | None  # set if parameters come as one vector
    hidden_fixed: bool = False

    def __call__(self, params: Params, own: Own, extra: Extra, batch: Batch) -> Array:
        network_params = params if self.raveller is None else self.raveller.unravel(params)
        if self.hidden_fixed:
            network_params = last_layer.last_alone(network_params)
        outputs = self.network.apply(network_params, batch.x)
        likelihood = from_pytree(extra.likelihood)
        weight = batch.weight
        if own.fold is not None and extra.folds is not None:
            weight = weight * (extra.folds[batch.rows] != own.fold)
        gain = weight * likelihood.log_prob(outputs, batch.y)
        if own.seed is not None:  # a row of weight w is w rows: so is the variance of its noise
            numbers = batch.rows if extra.numbers is None else extra.numbers[batch.rows]
            noise = score_noise(likelihood, outputs, row_bits(own.seed, numbers))
            share = extra.noise * sign_of(own.seed) * jnp.sqrt(weight) * (numbers >= 0)
            gain = gain + share * jnp.sum(noise * outputs, axis=-1)
        pull = 0.5 * squared_distance(params, own.centre, extra.scale) / batch.total
        return extra.penalty * pull - batch.scale * jnp.sum(gain)


class _Drawn(NamedTuple):
    """Members before their first step, as trees [member, ...], and what they share."""

    seed: int
    start: Params
    own: Own
    extra: Extra
    hidden_fixed: bool

    def narrowed(self, way: wide.Narrow) -> "_Drawn":
        return self._replace(
            start=way.inner(self.start),
            own=self.own._replace(centre=way.inner(self.own.centre)),
            extra=self.extra._replace(scale=way.inner_scale(self.extra.scale)),
        )


def _drawn(
    key: Array,
    network: Network,
    prior: Prior,
    likelihood: Likelihood,
    data: Data,
    method: str,
    members: Sequence[int],
    start: Params | None,
    folds: Folds | None,
) -> _Drawn:
    """Check what belongs together and draw what is random."""
    row = checked_method(method, likelihood, len(members))
    _check_model(network, prior, likelihood, data)
    _check_folds(folds, data.n_rows, len(members))
    key_anchor, key_init, key_noise, seed = draw_keys(key)
    seeds = None
    if row.score_noise:
        seeds = _stacked([noise_seed_of(key_noise, j) for j in members])
    of_member = None if folds is None else on_device(folds.of_member)
    of_row = None if folds is None else _padded_folds(folds, data)
    own = Own(_centres(key_anchor, prior, members, row.anchors), seeds, of_member)
    if row.hidden_fixed:
        last_layer.check_hidden(method, network, prior)
        start = own.centre if start is None else last_layer.with_hidden(start, own.centre)
    elif start is None:
        start = _initial_params(network, key_init, members, data)
    check_start(network, start)
    extra = Extra(prior.scale, as_pytree(likelihood), np.float32(row.penalised), of_row)
    return _Drawn(int(seed), start, own, extra, row.hidden_fixed)


def _begun(
    network: Network, drawn: _Drawn, data: Data, schedule: Schedule, member_map: MemberMap | None
) -> EnsembleState:
    """The state of drawn members, in the form that trains fastest."""
    seed, start, own, extra, hidden_fixed = drawn
    raveller = Raveller.like(extra.scale)
    if member_map is None:
        work = raveller.size * min(schedule.batch_size, data.n_rows)
        n_rows = min(schedule.batch_size, data.n_rows)
        together = vmappable(network, data.x.shape[1:], data.x.dtype, n_rows)
        member_map = best_member_map(network, n_members_of(start), work, together)
    # An optimiser may treat leaves differently, and large ones take longer to join than to step.
    if schedule.optimiser is not None or isinstance(member_map, OneByOne):
        extra = extra._replace(scale=jax.tree.map(_one_for_all, extra.scale))
        unit = _unit(extra.scale, schedule)
        loss = MemberLoss(network, None, hidden_fixed)
        return begin(seed, loss, start, own, extra, schedule, member_map, unit=unit)
    # Adam does not: one vector for each small member compiles and runs faster.
    start, centre = raveller.ravel_members(start), raveller.ravel_members(own.centre)
    scale = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(extra.scale)])
    own, extra = own._replace(centre=centre), extra._replace(scale=on_device(scale))
    loss, unit = MemberLoss(network, raveller, hidden_fixed), _unit(extra.scale, schedule)
    return begin(seed, loss, start, own, extra, schedule, member_map, raveller, unit)


def _with_noise(state: EnsembleState, share: int) -> EnsembleState:
    """With all of the score noise, or without it."""
    return dataclasses.replace(state, extra=state.extra._replace(noise=np.float32(share)))


def _unit(scale: Params, schedule: Schedule) -> Params | None:
    """What Adam's steps are measured in; where the prior is flat, one."""
    if not schedule.in_prior_units or schedule.optimiser is not None:
        return None
    return jax.tree.map(lambda s: on_device(np.where(np.isinf(s), 1.0, s).astype(s.dtype)), scale)


def _one_for_all(scale: Array) -> Array:
    """A single number in place of equal ones, which every step would read."""
    return jnp.max(scale) if np.ptp(scale) == 0 else scale


def _restarted(
    state: EnsembleState, members: np.ndarray, start: Params, schedule: Schedule
) -> EnsembleState:
    """Some members before their first step, with another start and schedule."""
    plan, own = state.plan, take_members(state.own, members)
    theta = start if plan.raveller is None else plan.raveller.ravel_members(start)
    given = (state.seed, plan.loss, theta, own, state.extra)
    return begin(*given, schedule, plan.member_map, plan.raveller, state.unit)


def checked_method(method: str, likelihood: Likelihood, n_members: int) -> Method:
    """The row of a method; one member alone is the single regularised network."""
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if not (isinstance(n_members, int) and n_members >= 1):
        raise bad_value("n_members", n_members, "a positive whole number")
    row = METHODS[method]
    if row.variance_head and isinstance(likelihood, Gaussian):
        raise ValueError(
            f"`method` {method!r} learns the noise: give it "
            f"`{HeteroskedasticGaussian.__name__}()` and a network with two outputs a target."
        )
    if n_members == 1:
        row = dataclasses.replace(row, anchors=False, score_noise=False, hidden_fixed=False)
    return row


@lru_cache
def model_shapes(network: Network, row_shape: tuple[int, ...], dtype) -> tuple[Params, Params]:
    """Shapes of the parameters and of the outputs for inputs of one row; nothing is computed."""
    x = jax.ShapeDtypeStruct((1, *row_shape), dtype)
    params = jax.eval_shape(network.init, jax.random.key(0), x)
    return params, jax.eval_shape(network.apply, params, x)


def _check_model(network: Network, prior: Prior, likelihood: Likelihood, data: Data) -> None:
    """Shapes that do not belong together would broadcast in silence or fail inside JAX."""
    params, outputs = model_shapes(network, data.x.shape[1:], data.x.dtype)
    shapes = [jax.tree.map(lambda leaf: leaf.shape, tree) for tree in (params, prior.scale)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "`prior` must be shaped like the parameters of `network`; make it with "
            f"Prior.for_network(network, x). The network has {shapes[0]}, the prior {shapes[1]}."
        )
    check_uses_parameters(network, data.x.shape[1:], data.x.dtype)
    check_likelihood(likelihood)
    n_predicted = n_targets_of(likelihood, outputs)
    classes = family_of(likelihood) == "categorical"  # y are class numbers; spare ones are fine
    n_targets = int(data.y.max()) + 1 if classes else data.y.shape[-1]
    if n_predicted < n_targets or (n_predicted > n_targets and not classes):
        raise ValueError(
            f"`network` has {outputs.shape[-1]} outputs, which {type(likelihood).__name__} reads "
            f"as {n_predicted} targets or classes; the data have {n_targets}."
        )


def _check_folds(folds: Folds | None, n_rows: int, n_members: int) -> None:
    if folds is None:
        return
    for name, numbers, length, other in (
        ("of_row", folds.of_row, n_rows, Folds.IN_NONE),
        ("of_member", folds.of_member, n_members, Folds.SEES_ALL),
    ):
        if np.shape(numbers) != (length,) or np.asarray(numbers).dtype.kind not in "iu":
            raise bad_value(f"folds.{name}", numbers, f"an array of {length} whole numbers")
        if not np.all((np.asarray(numbers) >= 0) | (np.asarray(numbers) == other)):
            raise bad_value(f"folds.{name}", numbers, f"numbers of folds, 0 and up, or {other}")


def _centres(key: Array, prior: Prior, members: Sequence[int], anchors: bool) -> Params:
    """Centres of the penalty: an anchor for each member, or the prior mean for all."""
    if anchors:
        return _stacked([anchor_of(prior, key, j) for j in members])
    return jax.tree.map(lambda m: jnp.broadcast_to(m, (len(members), *m.shape)), prior.mean)


def _initial_params(network: Network, key: Array, members: Iterable[int], data: Data) -> Params:
    like = np.zeros((1, *data.x.shape[1:]), data.x.dtype)
    return _stacked([initial_of(network, key, j, like) for j in members])


def _stacked(trees: list[Params]) -> Params:
    return jax.tree.map(lambda *leaves: on_device(np.stack(leaves)), *trees)


# Programs that draw take long to compile: one for a single member serves any number of them.


@jax.jit
def anchor_of(prior: Prior, key: Array, j: int) -> Params:
    """Member j's anchor."""
    return prior.sample(jax.random.fold_in(key, j))


@partial(jax.jit, static_argnums=0)
def initial_of(network: Network, key: Array, j: int, x: Array) -> Params:
    """Member j's initial parameters, for inputs shaped like ``x``."""
    return network.init(jax.random.fold_in(key, j), x)


@jax.jit
def noise_seed_of(key: Array, j: int, lone: bool = False) -> Array:
    """Three words that member j's score noise is made from: two of its pair, and 0 or 1.

    One that has no other beside it has words of its own.
    """
    number = jnp.where(lone, _LONE + j, j // 2)
    of_pair = jax.random.bits(jax.random.fold_in(key, number), (2,))
    return jnp.append(of_pair, jnp.where(lone, 0, j % 2).astype(of_pair.dtype))


@jax.jit
def draw_keys(key: Array) -> tuple[Array, Array, Array, Array]:
    """Keys of the anchors, of the initial draws and of score noise; seed of the batch order."""
    key_anchor, key_init, key_noise, key_order = jax.random.split(key, 4)
    return key_anchor, key_init, key_noise, jax.random.bits(key_order)


def _padded_folds(folds: Folds, data: Data) -> Array:
    of_row = np.full(len(data.weight), Folds.IN_NONE, np.int32)
    of_row[: data.n_rows] = folds.of_row
    return on_device(of_row)
