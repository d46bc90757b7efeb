"""The defaults of the estimators: the network, its prior, and the schedule of training."""

import dataclasses
import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from anchored import tuning
from anchored.core import optimisers
from anchored.core.adapters import as_network
from anchored.core.loss import METHODS
from anchored.core.networks import MLP
from anchored.core.packing import Layout, on_parts
from anchored.core.priors import Prior
from anchored.core.training import Schedule
from anchored.errors import bad_value
from anchored.estimators.rows import Rows
from anchored.estimators.validation import positive, whole
from anchored.exact import evidence
from anchored.exact.drawn import PriorFamily
from anchored.exact.evidence import Twin
from anchored.tuning import Settings
from anchored.typing import Likelihood, Network

_SCHEDULE = ("batch_size", "epochs", "decay_rate", "learning_rate")


class Defaults(BaseEstimator):
    """Fills in every parameter that was left at "auto"."""

    hidden: Any
    activation: str
    method: str
    network: Any
    prior: Any
    epochs: Any
    batch_size: Any
    learning_rate: Any
    decay_rate: Any
    max_seconds: Any
    optimiser: Any
    likelihood: Any = None  # the user's own, in place of the usual one
    _tuned: Settings | None = None  # settings of a search, for what is left at "auto"
    _layout: Layout | None = None  # of inputs that are several arrays
    _many_widths: tuple[int, ...] = (50,)  # hidden layers of many rows
    _chosen_widths: tuple[int, ...] | None = None  # by the evidence or by trials
    _chosen_steps: float = 1.0  # share of the usual steps: half of them after trials
    _matrix_rows: float = np.inf  # from which on steps are Muon's
    _relevance_rows: int = evidence.RELEVANCE_ROWS  # from which on columns have relevances

    def _make_network(self, n_outputs: int, n_rows: int) -> Network:
        if self.network is not None:
            return on_parts(as_network(self.network), self._layout)
        activation = self.activation if self._tuned is None else self._tuned.activation
        return MLP(self._widths(n_rows), n_outputs, activation)

    def _given(self, name: str) -> Any:
        """A parameter; if it is left at "auto", what a search found for it."""
        value = getattr(self, name)
        left = is_auto(value) and self._tuned is not None
        return getattr(self._tuned, name) if left else value

    def _widths(self, n_rows: int) -> tuple[int, ...]:
        """Hidden layers: as given, or by the number of rows."""
        hidden = self._given("hidden")
        if isinstance(hidden, str):
            if hidden != "auto":
                raise bad_value("hidden", hidden, '"auto", a width or several')
            if self._chosen_widths is not None:
                return self._chosen_widths
            return (50,) if n_rows < tuning.MANY_ROWS else self._many_widths
        widths = np.atleast_1d(np.asarray(hidden, dtype=object)).tolist()
        return tuple(whole("hidden", w) for w in widths)

    def _widths_are_free(self) -> bool:
        """Whether the rows may choose the number of hidden layers."""
        fixed = METHODS[self.method].hidden_fixed  # then the hidden layer is the method
        return self.network is None and is_auto(self._given("hidden")) and not fixed

    def _twin(self, rows: Rows, encoder=None, with_ramps: bool = True) -> Twin:
        """Kernel whose evidence tunes, of a network that has one."""
        network = self._make_network(1, len(rows.y))
        assert isinstance(network, MLP)
        ramps = rows.standardiser.ramps
        n_features = int(np.prod(rows.x.shape[1:])) - rows.standardiser.n_ramps
        columns = np.arange(n_features)
        if encoder is not None:
            columns = np.unique(encoder.feature_columns, return_inverse=True)[1]
        n_ramps = 0
        if ramps is not None and with_ramps:
            n_ramps = ramps.shape[1]
            of_ramps = np.unique(ramps[0], return_inverse=True)[1]
            columns = np.concatenate([columns, columns.max() + 1 + of_ramps])
        same = len(columns) == columns.max() + 1
        return Twin(
            n_features + n_ramps,
            network.hidden,
            network.activation,
            None if same else tuple(columns.tolist()),
            n_ramps,
        )

    def _drawn_prior(self, rows: Rows, n_outputs: int) -> tuple[Network, PriorFamily]:
        """A network without a twin, and its own prior by first_var."""
        network, x = self._make_network(n_outputs, len(rows.y)), rows.first(1)
        made = (self._made_prior(network, x, first_var) for first_var in (1.0, 4.0))
        return network, PriorFamily.of(*made)

    def _made_prior(self, network: Network, x, first_var: float) -> Prior:
        if isinstance(self.prior, Prior):
            return self.prior
        prior = Prior.for_network(network, x, first_var)
        return prior.with_leaves(self.prior) if isinstance(self.prior, dict) else prior

    def _given_first_var(self) -> float | None:
        """The input layer's prior variance if it was given as a number."""
        if isinstance(self.prior, Prior):
            return None
        if is_auto(self.prior) or isinstance(self.prior, dict):
            return None if self._tuned is None else self._tuned.first_var
        need = '"auto", a positive number, a `Prior` or a dict of variances by path'
        return positive("prior", self.prior, need)

    def _needs_first_var(self) -> bool:
        """Whether training depends on a first_var that nobody gave."""
        return self._given_first_var() is None and (
            METHODS[self.method].penalised and not isinstance(self.prior, Prior)
        )

    def _has_twin(self) -> bool:
        """Whether the network's own infinite width is known."""
        return self.network is None or isinstance(self.network, MLP)

    def _schedule(self, n_rows: int, likelihood: Likelihood | None = None) -> Schedule:
        """Fill in everything left at "auto"."""
        n_layers = len(self._widths(n_rows)) if self.network is None else 1
        noise_var = float(np.min(getattr(likelihood, "noise_var", 1.0)))
        uneven = evidence.RELEVANCE_ROWS if self._has_twin() else tuning.OWN_UNIT_ROWS
        matrices = self._matrix_rows if self._has_twin() and self._tuned is None else np.inf
        usual = tuning.default_schedule(n_rows, n_layers, noise_var, uneven, matrices)
        given = {name: self._given(name) for name in _SCHEDULE}
        given = {name: value for name, value in given.items() if not is_auto(value)}
        batch_size = whole("batch_size", given.get("batch_size", usual.batch_size))
        rate = positive("learning_rate", given.get("learning_rate", usual.learning_rate))
        n_steps = math.ceil(self._chosen_steps * usual.n_steps(n_rows))
        tolerance = usual.tolerance
        if "epochs" in given:
            epochs, tolerance = whole("epochs", given["epochs"]), 0.0
            n_steps = epochs * max(1, n_rows // batch_size)
        run = n_steps, n_rows, batch_size, rate
        schedule = Schedule.fading(*run) if usual.fades else Schedule.of_steps(*run, tolerance)
        if "decay_rate" in given:
            decay = positive("decay_rate", given["decay_rate"])
            schedule = dataclasses.replace(schedule, decay_rate=decay, fades=False)
        # What a search found, it found in the units of the parameters themselves.
        in_prior_units = usual.in_prior_units and self._tuned is None
        changes = {"in_prior_units": in_prior_units, "rule": usual.rule}
        schedule = dataclasses.replace(schedule, **changes)
        if self.optimiser is not None:
            n_steps = schedule.n_steps(n_rows)
            made = optimisers.named(self.optimiser, n_steps, schedule.learning_rate)
            schedule = dataclasses.replace(schedule, optimiser=made)
        if self.max_seconds is None:
            return schedule
        most = positive("max_seconds", self.max_seconds, "a positive number of seconds or None")
        return dataclasses.replace(schedule, max_seconds=most)

    def _may_be_short(self, schedule: Schedule) -> bool:
        """Whether nobody knows that the schedule is long enough.

        The length of a default one whose rate fades to zero was chosen on held-out rows, for the
        usual networks and likelihoods. More steps would still lower the objective, and nothing
        else.
        """
        given = self._tuned, self.optimiser, self.max_seconds, self.network, self.likelihood
        chosen = all(is_auto(getattr(self, name)) for name in ("hidden", *_SCHEDULE))
        return not (schedule.fades and chosen and all(value is None for value in given))


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the library."""
    return isinstance(value, str) and value == "auto"
