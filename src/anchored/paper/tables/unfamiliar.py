"""One table: ensembles of each method and seed, scored on familiar and on unfamiliar inputs.

Members depend on the seed and their number alone, so five anchored members are the first five of
ten, and the single regularised network is the first of five.
"""

import base64
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from anchored import metrics
from anchored.core.ensembles import Ensemble, fit_ensemble
from anchored.core.likelihoods import Categorical
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.training import Schedule, dropping_adam
from anchored.datasets.shifts import HeldOut
from anchored.error_bars.calibration import fit_temperature
from anchored.paper.runner import Cell, Context
from anchored.paper.tables.unfamiliar_published import METHODS
from anchored.prediction.predictive import Predictive
from anchored.prediction.special import tempered
from anchored.typing import Network

SURE = 0.9  # probability from which a prediction counts as confident
SIZES = {"regularised": (1, 5), "unconstrained": (5,), "anchored": (5, 10)}
SIGNS = ("max probability", "entropy", "mutual information")  # of an unfamiliar input
_N_BINS = 20  # of the histograms of confidence
_N_TRAIN = 8_000  # most training inputs that are scored


@dataclasses.dataclass(frozen=True)
class Settings:
    """How one table is made; epochs differ by method to bring accuracies in line, as published.

    Attributes
    ----------
    first_var, later_var : prior variances are these over the fan-in; biases of the first layer
        have ``first_var`` itself.
    drops : pairs of an epoch and the factor the rate is multiplied by from then on.
    n_train, n_test : most rows to train on, and to score of each kind of input.
    narrower : divides the width of the convolutional network.
    """

    n_seeds: int
    epochs: Mapping[str, int]
    batch_size: int
    learning_rate: float
    first_var: float
    later_var: float = 1.0
    drops: tuple[tuple[int, float], ...] = ()
    n_train: int = 10**9
    n_test: int = 10**9
    narrower: int = 1


class Task(NamedTuple):
    """A classification problem and inputs that do not belong to it."""

    network: Network
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    shifts: dict[str, np.ndarray]
    examples: dict[str, Any]  # for the picture: an image, or words, of each kind


def image_task(
    s: Settings,
    network: Network,
    train: HeldOut,
    test: HeldOut,
    pictures: Mapping[str, np.ndarray],
    far: Callable[[np.ndarray], dict[str, np.ndarray]],
    row_shape: tuple[int, ...],
) -> Task:
    """Images standardised by the training pixels; ``far`` makes others of standardised rows."""
    pixels = train.x[: s.n_train]
    mean, scale = pixels.mean(), pixels.std()

    def standard(images: np.ndarray) -> np.ndarray:
        return ((images - mean) / scale).astype(np.float32).reshape(len(images), *row_shape)

    def shown(row: np.ndarray) -> np.ndarray:
        return np.clip(row * scale + mean, 0, 255).astype(np.uint8).reshape(pixels.shape[1:])

    x_test = standard(test.x[: s.n_test])
    shifted = {name: standard(images[: s.n_test]) for name, images in pictures.items()}
    shifted |= far(x_test)
    examples = {"train": pixels[0]} | {name: shown(x[0]) for name, x in shifted.items()}
    labels = train.y[: s.n_train], test.y[: s.n_test]
    return Task(network, standard(pixels), labels[0], x_test, labels[1], shifted, examples)


def plan(make: Callable[[Settings, Any], Task], s: Settings, context: Context) -> list[Cell]:
    """A cell for each seed and method."""
    task = lru_cache(1)(partial(make, s, context.data_dir))
    cells = [
        Cell(
            f"{method} {seed}",
            s.epochs[method] * max(sizes),
            partial(_cell, s, context.seed, task, seed, method),
        )
        for seed in range(s.n_seeds)
        for method, sizes in SIZES.items()
    ]
    return [*cells, Cell("examples", 0.0, lambda: {"inputs": _as_text(task().examples)})]


def _cell(s: Settings, seed: int, make: Callable[[], Task], run: int, method: str) -> dict:
    task = make()
    data = Data.make(task.x, task.y)
    key = jax.random.fold_in(jax.random.key(seed), run)
    ensemble = fit_ensemble(
        key,
        task.network,
        prior_of(s, task.network, data),
        Categorical(),
        data,
        method=method,
        n_members=max(SIZES[method]),
        schedule=schedule_of(s, method, data.n_rows),
    )
    return _scores(task, ensemble, method)


def prior_of(s: Settings, network: Network, data: Data) -> Prior:
    """The paper's prior, wider by ``later_var`` after the first layer."""
    prior = Prior.for_network(network, data.x[:1], s.first_var)
    wider = jax.tree.map(lambda scale: scale * np.sqrt(s.later_var), prior.scale[1:])
    return dataclasses.replace(prior, scale=(prior.scale[0], *wider))


def schedule_of(s: Settings, method: str, n_rows: int) -> Schedule:
    schedule = Schedule(s.epochs[method], s.batch_size, s.learning_rate)
    if not s.drops:
        return schedule
    per_epoch = max(1, n_rows // s.batch_size)
    drops = tuple((epoch * per_epoch, factor) for epoch, factor in s.drops)
    return dataclasses.replace(schedule, optimiser=dropping_adam(s.learning_rate, drops))


def _scores(task: Task, ensemble: Ensemble, method: str) -> dict:
    """Scores of the first so many members, by the name of their method."""
    inputs = {"test": task.x_test, "train": task.x[:_N_TRAIN], **task.shifts}
    moments = {name: ensemble.moments(x) for name, x in inputs.items()}
    return {
        f"{n}x {method}": _scores_of(
            task.y_test,
            {
                name: Predictive.from_members(mean[:n], var[:n], "categorical")
                for name, (mean, var) in moments.items()
            },
        )
        for n in SIZES[method]
    }


def _scores_of(labels: np.ndarray, dists: dict[str, Predictive]) -> dict:
    test, train = dists.pop("test"), dists.pop("train")
    return {
        "accuracy": 100 * metrics.accuracy(test, labels),
        "nll": metrics.log_loss(test, labels),
        "train": _sureness(train),
        "test": _sureness(test),
        "shifts": {name: _sureness(d) | _separation(test, d) for name, d in dists.items()},
        **_calibration(test, labels),
    }


def _sureness(dist: Predictive) -> dict:
    highest = dist.probabilities.max(axis=1)
    counts, _ = np.histogram(highest, _N_BINS, (0.0, 1.0))
    return {
        "share": np.mean(highest >= SURE),
        "entropy": np.mean(dist.entropy),
        "histogram": counts / len(highest),
    }


def signs(dist: Predictive) -> Iterator[tuple[str, np.ndarray]]:
    """Each score that may detect unfamiliar inputs; it is larger for less familiar ones."""
    yield SIGNS[0], -dist.probabilities.max(axis=1)
    yield SIGNS[1], dist.entropy
    if dist.n_members != 1:
        yield SIGNS[2], dist.mutual_information


def _separation(test: Predictive, shifted: Predictive) -> dict:
    familiar, strange = dict(signs(test)), dict(signs(shifted))
    return {
        "auroc": {sign: metrics.auroc(familiar[sign], strange[sign]) for sign in familiar},
        "aupr": {sign: metrics.aupr(familiar[sign], strange[sign]) for sign in familiar},
    }


def _calibration(test: Predictive, labels: np.ndarray) -> dict:
    """Calibration error on every second test row, before and after the others set a temperature."""
    known, probabilities = slice(0, None, 2), test.probabilities
    rest = slice(1, None, 2)
    temperature = fit_temperature(probabilities[known], labels[known], np.ones(len(labels[known])))
    cooled = tempered(probabilities[rest], temperature)
    return {
        "temperature": temperature,
        "ece": metrics.expected_calibration_error(probabilities[rest], labels[rest]),
        "ece_tempered": metrics.expected_calibration_error(cooled, labels[rest]),
    }


def combine(s: Settings, results: Mapping[str, dict]) -> dict:
    """Every score of every method as the list of its values over the seeds."""
    numbers: dict = {"examples": results["examples"]["inputs"], "seconds": {}, "methods": {}}
    for name in METHODS:
        method = name.split()[1]
        cells = [results[f"{method} {seed}"] for seed in range(s.n_seeds)]
        numbers["methods"][name] = _together([cell[name] for cell in cells])
        numbers["seconds"][method] = [cell["seconds"] for cell in cells]
    return numbers


def _together(runs: list) -> Any:
    if isinstance(runs[0], Mapping):
        return {key: _together([run[key] for run in runs]) for key in runs[0]}
    if isinstance(runs[0], (list, tuple, np.ndarray)):  # histograms: the mean is enough
        return np.mean(np.asarray(runs), axis=0)
    return list(runs)


def _as_text(examples: dict[str, Any]) -> dict[str, Any]:
    """Images as text that JSON can hold."""
    return {
        name: value
        if isinstance(value, str)
        else {
            "shape": value.shape,
            "bytes": base64.b64encode(value.astype(np.uint8).tobytes()).decode(),
        }
        for name, value in examples.items()
    }


def image(example: Mapping) -> np.ndarray:
    """An example of a record as uint8 [height, width] or [height, width, 3]."""
    flat = np.frombuffer(base64.b64decode(example["bytes"]), np.uint8)
    return flat.reshape(example["shape"])
