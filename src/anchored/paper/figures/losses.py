"""Figure 6: ensemble loss choices, unconstrained, regularised and anchored beside the truth."""

import dataclasses
import time
from functools import partial

import jax
import numpy as np
from scipy import special

from anchored.baselines import NUTS, EnsembleOf, Inference, InfiniteWidthGP, Problem
from anchored.core.likelihoods import Categorical, Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.training import Schedule
from anchored.datasets import noisy_sine, two_blobs
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures import toy
from anchored.paper.plotting import bands, class_map, class_points, data_points
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table
from anchored.prediction.predictive import Predictive
from anchored.typing import Array

ROWS = {
    "unconstrained": "A. {m}x unconstrained NNs",
    "regularised": "B. {m}x regularised NNs",
    "anchored": "C. {m}x anchored NNs",
    "truth": "D. Ground truth",
}
ENSEMBLES = ("unconstrained", "regularised", "anchored")
TASKS = ("regression", "classes")
NEAR_CLASSES = 0.5  # a grid point this near to a data point is near the data


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix E.3, with NUTS in place of HMC. All members start at prior draws, so only the losses
    differ.

    The paper does not give the batch size: all rows in regression; 5 of the 30 rows for the
    classes, because 100 steps at a rate of 0.001 would hardly change the networks.
    """

    n_members: int = 10
    width: int = 1000
    noise_var: float = 0.08
    first_var: float = 10.0
    epochs: int = 2000
    learning_rate: float = 0.003
    class_widths: tuple[int, ...] = (50, 50)
    class_first_var: float = 15 / 2  # of weights and biases
    class_last_var: float = 10 / 50
    class_epochs: int = 100
    class_learning_rate: float = 0.001
    class_batch_size: int = 5
    n_chains: int = 4
    n_warmup: int = 500
    n_samples: int = 500
    n_repeats: int = 10  # ensembles of each kind; the first is drawn
    n_grid: int = 41  # a side, for the classes
    reach: float = 3.0


ABOUT = CATALOGUE["fig-losses"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = []
    for task in TASKS:
        cost = {"regression": 1.0, "classes": 20.0}[task]
        cells.append(Cell(f"{task}/truth", cost, partial(_truth, s, context, task)))
        for name in ENSEMBLES:
            cost = {"regression": 15.0, "classes": 1.0}[task]
            cells.append(Cell(f"{task}/{name}", cost, partial(_ensemble, s, context, task, name)))
    return cells


def problem(s: Settings, context: Context, task: str) -> Problem:
    if task == "regression":
        x, y = noisy_sine(context.seed)
        network = MLP((s.width,))
        prior = Prior.for_network(network, x, first_var=s.first_var)
        likelihood, grid = Gaussian(s.noise_var), np.linspace(-s.reach, s.reach, 151)[:, None]
        return Problem(network, prior, likelihood, Data.make(x, y), grid)
    x, y = two_blobs(context.seed)
    network = MLP(s.class_widths, n_outputs=2)
    prior = (
        Prior.for_network(network, x, first_var=s.class_first_var)
        .with_leaf("0/weight", variance=s.class_first_var)
        .with_leaf("2/weight", variance=s.class_last_var)
    )
    side = np.linspace(-s.reach, s.reach, s.n_grid)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return Problem(network, prior, Categorical(), Data.make(x, y), grid)


def _truth(s: Settings, context: Context, task: str) -> dict:
    ask = problem(s, context, task)
    started = time.perf_counter()
    dist, diagnosis = _exact(s, context, task, ask)
    return {
        "panel": _panel(task, dist),
        "method_seconds": time.perf_counter() - started,
        "diagnosis": diagnosis,
        "x": ask.rows.x,
        "y": ask.rows.y[:, 0],
        "grid": ask.x,
    }


def _exact(s: Settings, context: Context, task: str, ask: Problem) -> tuple[Predictive, dict]:
    if task == "regression":
        return InfiniteWidthGP()(_key(context), ask), {}
    chains = NUTS(s.n_chains, s.n_warmup, s.n_samples).sample(_key(context), ask)
    return chains.predictive, {"rhat": chains.rhat, "ess": chains.ess}


def _key(context: Context) -> Array:
    return jax.random.key(context.seed)


def _ensemble(s: Settings, context: Context, task: str, name: str) -> dict:
    """Panels of all repeats; distances to the truth are taken when the cells are combined."""
    ask = problem(s, context, task)
    if task == "regression":
        schedule = Schedule(s.epochs, ask.data.n_rows, s.learning_rate)
    else:
        schedule = Schedule(s.class_epochs, s.class_batch_size, s.class_learning_rate)
    infer: Inference = EnsembleOf(name, s.n_members, schedule)
    panels, seconds = [], 0.0
    for repeat in range(s.n_repeats):
        started = time.perf_counter()
        panels.append(_panel(task, infer(jax.random.fold_in(_key(context), repeat), ask)))
        seconds = seconds or time.perf_counter() - started
    return {"panels": panels, "method_seconds": seconds}


def _panel(task: str, dist: Predictive) -> dict:
    if task == "regression":
        return toy.panel(dist)
    return {"probability": dist.mean[:, 1], "spread": np.sqrt(dist.epistemic_var[:, 1])}


def _class_distance(truth: dict, ours: dict, where: dict[str, np.ndarray]) -> dict:
    """KL of the class probabilities, their difference, and the ratio of the spreads."""
    p = np.clip(np.asarray(truth["probability"]), 1e-6, 1 - 1e-6)
    q = np.clip(np.asarray(ours["probability"]), 1e-6, 1 - 1e-6)
    kl = special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)
    spreads = np.maximum([np.asarray(ours["spread"]), np.asarray(truth["spread"])], 1e-6)
    ratio = np.log(spreads[0] / spreads[1])
    return {
        "kl": kl.mean(),
        "difference": np.abs(p - q).mean(),
        **{f"ratio_{name}": np.exp(ratio[mask].mean()) for name, mask in where.items()},
    }


def _regions(task: str, grid, x) -> dict[str, np.ndarray]:
    grid, x = np.asarray(grid), np.asarray(x)
    if task == "regression":
        return toy.regions(grid, x)
    near = np.min(np.linalg.norm(grid[:, None] - x, axis=-1), axis=1) <= NEAR_CLASSES
    return {"at": near, "outside": ~near}


def combine(s: Settings, results) -> dict:
    numbers: dict = {}
    for task in TASKS:
        truth = results[f"{task}/truth"]
        where = _regions(task, truth["grid"], truth["x"])
        cells = {"truth": truth}
        for name in ENSEMBLES:
            result = results[f"{task}/{name}"]
            if task == "regression":
                exact = toy.from_panel(truth["panel"])
                each = [toy.distance(exact, toy.from_panel(p), where) for p in result["panels"]]
            else:
                each = [_class_distance(truth["panel"], p, where) for p in result["panels"]]
            cells[name] = {
                "panel": result["panels"][0],
                "method_seconds": result["method_seconds"],
                "distance": toy.mean_and_error(each),
            }
        numbers[task] = cells
    return numbers


def findings(record: Record) -> list[str]:
    return sentences(ABOUT.name, n=record["numbers"], losses=ENSEMBLES, show=toy.show)


def tables(record: Record) -> list[Table]:
    columns = {
        "regression": {"kl": "KL(GP, ensemble)", "reverse_kl": "KL(ensemble, GP)", "w2": "W2"}
        | {f"ratio_{region}": region for region in toy.REGIONS},
        "classes": {"kl": "KL(NUTS, ensemble)", "difference": "difference of probabilities"}
        | {"ratio_at": "spread near data", "ratio_outside": "spread far away"},
    }
    out = []
    for task in TASKS:
        names, cells = columns[task], record["numbers"][task]
        rows = []
        for name in ENSEMBLES:
            numbers = [toy.show(cells[name]["distance"][column]) for column in names]
            rows.append((name, *numbers, f"{cells[name]['method_seconds']:.1f}"))
        title = (
            f"{task.capitalize()}: distance to the truth; spread divided by the true one, by region"
        )
        out.append(Table(title, ("loss", *names.values(), "seconds"), rows))
    return out


def draw(figure, record: Record) -> None:
    regression, classes = (record["numbers"][task] for task in TASKS)
    axes = figure.subplots(len(ROWS), 2, width_ratios=(1.65, 1))
    for (left, right), (name, title) in zip(axes, ROWS.items(), strict=True):
        truth = regression["truth"]
        bands(left, np.ravel(truth["grid"]), toy.from_panel(regression[name]["panel"]))
        data_points(left, np.ravel(truth["x"]), truth["y"])
        reach = record["settings"]["reach"]
        left.set(xlim=(-reach, reach), ylim=(-4, 4))
        truth = classes["truth"]
        shown = class_map(right, truth["grid"], classes[name]["panel"]["probability"])
        class_points(right, truth["x"], truth["y"])
        words = title.format(m=record["settings"]["n_members"])
        left.set_title(words + (" (GP)" if name == "truth" else ""), loc="left")
        right.set_title(words + (" (NUTS)" if name == "truth" else ""), loc="left")
        if name == "truth":
            figure.colorbar(shown, ax=axes[:, 1], label="probability of class 1", shrink=0.5)


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (8.4, 10.4))
