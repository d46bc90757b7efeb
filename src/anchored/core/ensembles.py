"""Ensembles: trained members, fit and predict.

The loss of a member is in `loss`, its start in `drawing`, and its steps in `state`.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core import last_layer, wide
from anchored.core.adapters import as_network
from anchored.core.checkpoints import Checkpoint
from anchored.core.chunks import Chunk, Job, as_numpy, in_chunks, joined, joined_info
from anchored.core.drawing import Drawn, draw, draw_keys, initial_params
from anchored.core.loss import METHODS, Folds, MemberLoss
from anchored.core.measuring import vmappable
from anchored.core.members import OneByOne, best_member_map, n_members_of
from anchored.core.outputs import member_moments, member_outputs
from anchored.core.packing import on_parts
from anchored.core.precision import Rounded, doubled, is_double, rounded_members
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.sampled import (
    FAMILY,
    family_of,
    sample_predictive,
)
from anchored.core.state import EnsembleState
from anchored.core.training import OnCheck, Schedule, TrainInfo, begin, finite_members, train
from anchored.core.tree import (
    Raveller,
    from_pytree,
    on_device,
    put_members,
    take_members,
)
from anchored.errors import Status
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Executor, Likelihood, MemberMap, Network, Params

_AGAIN = 2**31 - 1  # takes the place of a member's number in the key of second tries
_LONG_RUN = 5_000  # steps; half of fewer may be too few to follow the noise
_LONG_FADING = 1_000  # the same for a fading rate, of which half is left half-way
_RETRY_RATE = 0.1  # a diverged member is trained once more at this share of the rate


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Trained members. ``params`` and ``centres`` are stacked: axis 0 is the member.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> network = MLP((8,))
    >>> ensemble = fit_ensemble(
    ...     jax.random.key(0),
    ...     network,
    ...     Prior.for_network(network, x),
    ...     Gaussian(0.01),
    ...     Data.make(x, x),
    ...     n_members=3,
    ...     schedule=Schedule(epochs=5),
    ... )
    >>> ensemble.n_members, ensemble.predict(x).mean.shape
    (3, (20, 1))
    """

    network: Network
    likelihood: Likelihood
    params: Params
    centres: Params  # the anchors, or copies of the prior mean
    member_ids: tuple[int, ...]  # numbers of the members kept, in order
    info: TrainInfo  # of all members trained, dropped ones included; objectives of first tries
    retrained: tuple[int, ...]  # members that diverged and were trained again
    dtype: str = "float32"  # what they were trained in

    @classmethod
    @doubled(lambda cls, state, *given: is_double(state.theta))
    def of_state(cls, state: EnsembleState, info: TrainInfo | None = None) -> "Ensemble":
        """The ensemble of those members of a state that did not diverge."""
        if info is None:
            finite = finite_members(state.theta)
            status = np.where(finite, Status.STEP_LIMIT, Status.DIVERGED)
            info = TrainInfo(status, np.zeros((0, len(status))), np.array([int(state.step)]))
        kept = np.flatnonzero(info.status != Status.DIVERGED)
        network, params = state.plan.loss.network, take_members(state.params, kept)
        half = isinstance(network, Rounded)
        return cls(
            network.network if half else network,
            from_pytree(state.extra.likelihood),
            rounded_members(params) if half else params,
            take_members(state.centres, kept),
            tuple(int(j) for j in kept),
            info,
            (),
            "bfloat16" if half else "float64" if is_double(params) else "float32",
        )

    @property
    def n_members(self) -> int:
        """Number of members that were kept."""
        return len(self.member_ids)

    @property
    def dropped(self) -> tuple[int, ...]:
        """Members that diverged twice and are not part of the ensemble."""
        return tuple(sorted(set(range(len(self.info.status))) - set(self.member_ids)))

    def take(self, index: Iterable[int]) -> "Ensemble":
        """An ensemble of some of the kept members."""
        index = np.fromiter(index, int)
        return dataclasses.replace(
            self,
            params=take_members(self.params, index),
            centres=take_members(self.centres, index),
            member_ids=tuple(self.member_ids[i] for i in index),
        )

    def member(self, index: int) -> "Ensemble":
        """An ensemble of only one of the kept members."""
        return self.take([range(self.n_members)[index]])

    def predict(self, x) -> Predictive:
        """Pooled predictive at ``x`` [batch, ...], in the units the ensemble was trained in."""
        if family_of(self.likelihood) == FAMILY:
            return sample_predictive(self.likelihood, self.outputs(x))
        mean, var = self.moments(x)
        return Predictive.from_members(mean, var, self.likelihood.family)

    def outputs(self, x) -> np.ndarray:
        """Outputs of the networks [member, batch, out], before the likelihood is applied."""
        return member_outputs(self.network, self.params, x)

    def moments(self, x) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [member, batch, target] of the target under each member."""
        return member_moments(self.network, self.likelihood, self.params, x)


def _on_double_data(key, network, prior, likelihood, data, **given) -> bool:
    return data.is_double


@doubled(_on_double_data)
def init_ensemble(
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
) -> EnsembleState:
    """Members before their first step: `advance` trains them, `objective` evaluates them.

    The arguments are those of `fit_ensemble`. Of ``data`` only the shapes,
    the capacity and the rows of ``folds`` matter; of ``schedule`` only the batch size, the rates
    and the optimiser. All members see rows that are added later.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import MLP, Data, Gaussian, Prior, init_ensemble
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> network = MLP((8,))
    >>> prior = Prior.for_network(network, x)
    >>> data, key = Data.make(x, x), jax.random.key(0)
    >>> state = init_ensemble(key, network, prior, Gaussian(0.01), data, n_members=3)
    >>> int(state.step)
    0
    """
    network, schedule = network_on(network, data), schedule or Schedule()
    numbers = range(n_members) if members is None else tuple(members)
    drawn = draw(key, network, prior, likelihood, data, method, numbers, start, folds)
    if drawn.hidden_fixed:
        schedule = schedule.of_last_layer()
    return _begun(network, drawn, data, schedule, member_map)


@doubled(_on_double_data)
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
    checkpoint: Checkpoint | str | Path | None = None,
    executor: Executor | None = None,
) -> Ensemble:
    """Train an ensemble.

    The anchor, initial draw and score noise of member j depend only on ``key`` and j, so member j
    is the same for every ``n_members``. A single member is a regularised network: its penalty is
    centred on the prior mean. A member that diverges is trained once more from a new initial draw,
    with the same anchor and a tenth of the rate; if it diverges again it is left out
    (`Ensemble.dropped`).

    Parameters
    ----------
    key : random key for the anchors, initial draws, score noise and batch order.
    network : a `Network`, written for one member; a module of Equinox, Flax or PyTorch; or plain
        functions.
    prior, likelihood, data : the rest of the model, and the rows.
    method : a row of `METHODS`.
    members : numbers of the members to train, instead of the first ``n_members``. A number may
        occur more than once, for example with other rows (``folds``): its members then have the
        same anchor, noise and initial draw.
    schedule : how long and how fast to train.
    start : initial parameters [member, ...] instead of draws from ``network.init``; ignored for
        layers that stay at their anchor.
    folds : rows that some members must not see, for predictions out of sample.
    member_map : how members run on this machine; by default the fastest known way.
    on_check : called with a `Progress` between the segments of training.
    checkpoint : folder, or its URL (whatever `pyarrow.fs` or fsspec reads), that keeps the state of
        training while it runs. If training is killed, the same call continues from there and ends
        with the same bits. If the checkpoint belongs to other rows or settings, a
        `CheckpointWarning` says so and training starts again. The files are removed at the end. A
        `Checkpoint` object also keeps the finished training, until its owner removes it.
    executor : trains chunks of members elsewhere, such as `anchored.cluster.RayExecutor`; see
        `anchored.core.chunks`. The folder of a checkpoint must then be shared by all workers.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> network = MLP((8,))
    >>> prior = Prior.for_network(network, x)
    >>> short = Schedule(epochs=5)
    >>> data, key = Data.make(x, x), jax.random.key(0)
    >>> ensemble = fit_ensemble(
    ...     key, network, prior, Gaussian(0.01), data, n_members=3, schedule=short
    ... )
    >>> ensemble.predict(x).std.shape
    (20, 1)
    """
    place = Checkpoint.of(checkpoint)
    numbers = tuple(range(n_members) if members is None else members)
    if executor is None:
        model = (network, prior, likelihood, data)
        how = {"method": method, "schedule": schedule, "start": start, "folds": folds}
        run = {"member_map": member_map, "on_check": on_check, "place": place}
        ensemble = _trained(key, *model, numbers, **how, **run)
    else:
        chunks = in_chunks(
            executor,
            train_chunk,
            key,
            (network, prior, likelihood, data),
            numbers,
            method=method,
            schedule=schedule,
            start=start,
            folds=folds,
            place=place,
            on_check=on_check,
        )
        ensemble = _joined(chunks)
    if place is not None and place is not checkpoint:
        place.clear_all()
    return ensemble


@doubled(lambda job, chunk, report: job.data.is_double)
def train_chunk(job: Job, chunk: Chunk, report: OnCheck) -> Ensemble:
    """Train some members, and return them in NumPy; a worker calls this."""
    place = Checkpoint(job.folder, f"{job.name}-{chunk.first}", interval=job.interval)
    folds = None
    if job.of_row is not None and chunk.of_member is not None:
        folds = Folds(job.of_row, chunk.of_member)
    key, model = jax.random.wrap_key_data(jnp.asarray(job.key)), job[1:5]
    how = {"method": job.method, "schedule": job.schedule, "start": chunk.start, "folds": folds}
    run = {"on_check": report, "place": place, "at_least": chunk.at_least}
    return as_numpy(_trained(key, *model, chunk.numbers, **how, **run))


def _joined(chunks: list[Ensemble]) -> Ensemble:
    """One ensemble of those of its chunks."""
    firsts = np.cumsum([0, *(len(chunk.info.status) for chunk in chunks[:-1])]).tolist()

    def placed(name: str) -> tuple[int, ...]:
        pairs = zip(firsts, chunks, strict=True)
        return tuple(first + j for first, chunk in pairs for j in getattr(chunk, name))

    return dataclasses.replace(
        chunks[0],
        params=joined([chunk.params for chunk in chunks]),
        centres=joined([chunk.centres for chunk in chunks]),
        member_ids=placed("member_ids"),
        info=joined_info([chunk.info for chunk in chunks]),
        retrained=placed("retrained"),
    )


def _trained(
    key: Array,
    network: Any,
    prior: Prior,
    likelihood: Likelihood,
    data: Data,
    numbers: Sequence[int],
    *,
    method: str,
    schedule: Schedule | None,
    start: Params | None,
    folds: Folds | None,
    member_map: MemberMap | None = None,
    on_check: OnCheck | None = None,
    place: Checkpoint | None = None,
    at_least: int = 0,
) -> Ensemble:
    """Members by number, trained in this process."""
    network, schedule = network_on(network, data), schedule or Schedule()
    drawn = draw(key, network, prior, likelihood, data, method, numbers, start, folds)
    if drawn.hidden_fixed:
        schedule = schedule.of_last_layer()
    way = wide.narrowed(network, prior, data) if schedule.optimiser is None else None
    rows = data if way is None else way.data
    inner = drawn if way is None else drawn.narrowed(way)
    state = _begun(network, inner, rows, schedule, member_map)
    turn, n_steps = None, schedule.n_steps(rows.n_rows)
    is_long = n_steps >= (_LONG_FADING if schedule.fades else _LONG_RUN)
    waits = is_long and start is None  # members that are given a start have their features
    if METHODS[method].score_noise and not drawn.hidden_fixed and waits:
        # Features form without the noise, which they would else fit; the minimum is the same.
        state, turn = _with_noise(state, 0), partial(_with_noise, share=1)
    state, info = train(state, rows, schedule, on_check, turn, place, at_least)
    failed = np.flatnonzero(info.status == Status.DIVERGED)
    if len(failed):  # once more, with a new initial draw, the same anchor and a lower rate
        key_again = jax.random.fold_in(draw_keys(jax.random.clone(key))[1], _AGAIN)
        new = initial_params(network, key_again, [numbers[int(j)] for j in failed], data)
        if drawn.hidden_fixed:
            new = last_layer.with_hidden(new, take_members(drawn.own.centre, failed))
        drawn = drawn._replace(start=put_members(drawn.start, failed, new))
        slower = schedule.slower(_RETRY_RATE)
        inside = new if way is None else way.inner(new)
        again = _restarted(state, failed, inside, slower, rows.n_rows)
        second_place = None if place is None else place.part(f"{place.name}-again")
        again, second = train(again, rows, slower, checkpoint=second_place)
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
    made = on_parts(as_network(network), data.layout)
    return cast(Network, Rounded(made)) if data.dtype == "bfloat16" else made


def _begun(
    network: Network, drawn: Drawn, data: Data, schedule: Schedule, member_map: MemberMap | None
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
    by_leaf = schedule.optimiser is not None or schedule.rule != "adam"
    if by_leaf or isinstance(member_map, OneByOne):
        extra = extra._replace(scale=jax.tree.map(_one_for_all, extra.scale))
        unit = _unit(extra.scale, schedule)
        loss = MemberLoss(network, None, hidden_fixed)
        return begin(seed, loss, start, own, extra, schedule, data.n_rows, member_map, unit=unit)
    # Adam does not: one vector for each small member compiles and runs faster.
    start, centre = raveller.ravel_members(start), raveller.ravel_members(own.centre)
    scale = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(extra.scale)])
    own, extra = own._replace(centre=centre), extra._replace(scale=on_device(scale))
    loss, unit = MemberLoss(network, raveller, hidden_fixed), _unit(extra.scale, schedule)
    run = schedule, data.n_rows, member_map
    return begin(seed, loss, start, own, extra, *run, raveller, unit)


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
    state: EnsembleState, members: np.ndarray, start: Params, schedule: Schedule, n_rows: int
) -> EnsembleState:
    """Some members before their first step, with another start and schedule."""
    plan, own = state.plan, take_members(state.own, members)
    theta = start if plan.raveller is None else plan.raveller.ravel_members(start)
    given = (state.seed, plan.loss, theta, own, state.extra)
    return begin(*given, schedule, n_rows, plan.member_map, plan.raveller, state.unit)
