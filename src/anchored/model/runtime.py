"""Predictions from a saved model with NumPy alone, which starts quickly and needs no JAX.

    model = runtime.load("model.safetensors")
    model.predict(x)["mean"]

The numbers equal those of the saved estimator up to the rounding of single precision. Rows go
through the networks in blocks that fit a processor's cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anchored._json import quoted
from anchored.errors import ModelFileError, bad_value
from anchored.model import file, forward
from anchored.model.record import FittedModel
from anchored.prediction.predictive import Predictive, checked_coverage
from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table

COVERAGE = 0.9  # of intervals, if the file does not say another
MAX_INPUT = 1e30  # standardised; single precision ends at 3e38
_BLOCK_VALUES = 1 << 18  # values of a hidden layer held at a time: one megabyte
_BLOCK_ROWS = (64, 8_192)

Columns = dict[str, np.ndarray]


def load(path: str | Path) -> "Predictor":
    """Load a model file that an estimator's `save` wrote.

    If the file cannot be used, a `ModelFileError` says why in one line.
    """
    return of(file.load(path), str(path))


def of(fitted: FittedModel, name: str = "the model") -> "Predictor":
    """The predictor of a fitted model, such as ``model_`` of an estimator; errors show ``name``."""
    network = fitted.members.network
    if not network.is_dense:
        raise ModelFileError(
            f"{name} contains a {network.name}; only MLP networks can predict without JAX. Use "
            "`anchored.load` for this one."
        )
    if fitted.sampled is not None:
        raise ModelFileError(
            f"{name} has its own likelihood, {fitted.sampled.name}, which cannot predict without "
            "JAX. Use `anchored.load` for this one."
        )
    coverage = fitted.provenance.get("coverage", COVERAGE)
    if not (isinstance(coverage, float) and 0 < coverage < 1):
        raise ModelFileError(
            f"{name} cannot be used as a model: `provenance/coverage` must be a number between "
            f"0 and 1, not {quoted(coverage)}."
        )
    return Predictor(fitted, coverage)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted model that predicts with NumPy alone.

    Attributes
    ----------
    fitted : the content of the file.
    coverage : coverage of the intervals, unless `predict` is given another.
    """

    fitted: FittedModel
    coverage: float = COVERAGE

    @property
    def task(self) -> str:
        """regression or classification."""
        return self.fitted.task

    @property
    def classes(self) -> np.ndarray | None:
        """Labels in the order of the probabilities; None for regression."""
        return self.fitted.classes

    @property
    def encoder(self) -> Encoder | None:
        """Turns a table into inputs; None if the model was fitted on arrays."""
        return self.fitted.encoder

    @property
    def provenance(self) -> dict:
        """What was saved with the model."""
        return self.fitted.provenance

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the inputs, if they were known when the model was fitted."""
        return self.fitted.feature_names

    def predict_table(self, table: Table, coverage: float | None = None) -> Columns:
        """`predict` for a `Table` with the columns that the model was fitted on."""
        if self.encoder is None:
            raise ValueError(
                "This model was fitted on arrays, so it cannot read tables. Give `predict` the "
                "array of features, or fit on a data frame."
            )
        return self.predict(self.encoder.transform(table), coverage)

    def predict(self, x, coverage: float | None = None) -> Columns:
        """Columns of predictions [row] for inputs ``x`` [row, feature], by name.

        Regression: mean, std, epistemic_std, aleatoric_std, and lower and upper of intervals that
        should contain ``coverage`` of the targets; with several outputs, mean_0 and so on.
        Classification: prediction, p(label) of each label, entropy and mutual_information in nats.
        Both: novelty, if the file has a scale for it; above 1, a row is unlike the training rows.
        """
        coverage = checked_coverage(self.coverage if coverage is None else coverage)
        parts = []
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for outputs, dist in self._predictives(x):
                columns = _classes(self.fitted, dist) or _regression(dist, coverage)
                if self.fitted.novelty_scale is not None:
                    columns["novelty"] = self.fitted.novelty(outputs, dist)
                parts.append(columns)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _predictives(self, x) -> Iterator[tuple[np.ndarray, Predictive]]:
        """Outputs and predictive of some rows at a time; at least once, if of no rows."""
        members = self.fitted.members
        assert members.network.fields is not None
        activation = members.network.fields["activation"]
        for z in _blocks(self.fitted, x):
            outputs = forward.outputs(members.params, activation, z)
            yield outputs, self.fitted.predictive(outputs, z)


def _blocks(fitted: FittedModel, x) -> Iterator[np.ndarray]:
    """Standardised inputs, some rows at a time."""
    x, n_features = np.asarray(x), fitted.n_features
    if x.ndim != 2 or x.shape[1] != n_features or x.dtype.kind not in "fiub":
        raise bad_value("x", x, f"an array of numbers [row, {n_features}]")
    widest = max(leaf.shape[-1] for leaf in fitted.members.params.values())
    n_rows = int(np.clip(_BLOCK_VALUES // (fitted.members.n_members * widest), *_BLOCK_ROWS))
    for start in range(0, max(len(x), 1), n_rows):
        block = x[start : start + n_rows]
        z = fitted.standardised(block)
        fine = np.isfinite(block) & (np.abs(z[:, :n_features]) < MAX_INPUT)
        if not fine.all():
            row, feature = np.argwhere(~fine)[0]
            raise ValueError(
                f"`x` has {x[start + row, feature]} in row {start + row}, feature {feature}: it "
                f"must be a number within {MAX_INPUT:.0e} deviations of the training data."
            )
        yield z.astype(forward.type_of(fitted.members.params))


def _regression(dist: Predictive, coverage: float) -> Columns:
    lower, upper = dist.interval(coverage)
    found = {
        "mean": dist.mean,
        "std": dist.std,
        "epistemic_std": np.sqrt(dist.epistemic_var),
        "aleatoric_std": np.sqrt(dist.aleatoric_var),
        "lower": lower,
        "upper": upper,
    }
    n_outputs = 1 if dist.mean.ndim == 1 else dist.mean.shape[1]
    if n_outputs == 1:
        return {name: array.reshape(-1) for name, array in found.items()}
    return {f"{name}_{i}": array[:, i] for i in range(n_outputs) for name, array in found.items()}


def _classes(fitted: FittedModel, dist: Predictive) -> Columns | None:
    """None for a regression."""
    if fitted.classes is None:
        return None
    columns = {"prediction": fitted.classes[np.argmax(dist.mean, axis=1)]}
    for label, p in zip(fitted.classes.tolist(), dist.mean.T, strict=True):
        columns[f"p({label})"] = p
    columns["entropy"] = dist.entropy
    columns["mutual_information"] = dist.mutual_information
    return columns
