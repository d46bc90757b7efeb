"""Figure 8: the predictive of 3, 5, 10 and 20 networks on six points beside the GP's."""

import dataclasses
from functools import partial

import jax
import numpy as np

from anchored.baselines import EnsembleOf, InfiniteWidthGP, Problem
from anchored.core.training import Schedule
from anchored.datasets import six_points
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures import toy
from anchored.paper.plotting import bands, data_points
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table

TRAINED = {
    "anchored": "anchored",
    "slow": "anchored, the slower rate",
    "rms": "rms: anchors and target noise",
}
WORDS = TRAINED | {"ideal": "ideal: drawn from the GP"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix E.4. Runs, and the sets drawn from the GP itself, are ours."""

    activation: str = "relu"
    width: int = 100
    first_var: float = 20.0
    noise_var: float = 0.001
    epochs: int = 4000
    learning_rate: float = 0.005
    slow_rate: float = 0.0005  # also, to see what the rate has to do with it
    sizes: tuple[int, ...] = (3, 5, 10, 20)
    n_runs: int = 10
    n_ideal: int = 500  # sets of functions drawn from the GP
    n_grid: int = 151
    reach: float = 1.5


ABOUT = CATALOGUE["fig-convergence"]
PRESETS = ABOUT.presets_of(Settings())


def problem(s: Settings) -> Problem:
    grid = toy.line(s.reach, s.n_grid)
    return toy.problem(*six_points(), grid, s.activation, s.width, s.first_var, s.noise_var)


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = [Cell("ideal", 0.1, partial(_ideal, s, context))]
    for name in TRAINED:
        for run in range(s.n_runs):
            cells.append(Cell(f"{name}/{run}", 1.0, partial(_run, s, context, name, run)))
    return cells


def _run(s: Settings, context: Context, name: str, run: int) -> dict:
    """One ensemble of the largest size; the smaller ones are its first members."""
    ask = problem(s)
    key = jax.random.fold_in(jax.random.key(context.seed), run)
    rate = s.slow_rate if name == "slow" else s.learning_rate
    schedule = Schedule(s.epochs, learning_rate=rate)
    method = "rms" if name == "rms" else "anchored"
    members = EnsembleOf(method, max(s.sizes), schedule).fit(key, ask).moments(ask.x)[0]
    exact = InfiniteWidthGP().condition(ask).predict(ask.x)
    result: dict = {"distance": _by_size(s, exact, members)}
    if run == 0:  # what is drawn
        result["members"] = members[..., 0]
        result["panels"] = {n: toy.panel(toy.pooled(members[:n], s.noise_var)) for n in s.sizes}
    return result


def _ideal(s: Settings, context: Context) -> dict:
    """The GP's panel, and the distances of sets of functions drawn from it."""
    ask = problem(s)
    truth = InfiniteWidthGP().condition(ask)
    exact, size = truth.predict(ask.x), max(s.sizes)
    sets = truth.sample(context.seed, ask.x, s.n_ideal * size).reshape(s.n_ideal, size, -1, 1)
    return {"gp": toy.panel(exact), "distances": [_by_size(s, exact, each) for each in sets]}


def _by_size(s: Settings, exact, members: np.ndarray) -> dict:
    where = toy.regions(problem(s).x, six_points()[0])
    return {n: toy.distance(exact, toy.pooled(members[:n], s.noise_var), where) for n in s.sizes}


def combine(s: Settings, results) -> dict:
    x, y = six_points()
    by_method = {
        name: [results[f"{name}/{run}"]["distance"] for run in range(s.n_runs)] for name in TRAINED
    } | {"ideal": results["ideal"]["distances"]}
    first = results["anchored/0"]
    return {
        "x": x[:, 0],
        "y": y,
        "grid": toy.line(s.reach, s.n_grid)[:, 0],
        "members": first["members"],
        "panels": first["panels"] | {"gp": results["ideal"]["gp"]},
        "distance": {
            name: {str(n): toy.mean_and_error([run[str(n)] for run in runs]) for n in s.sizes}
            for name, runs in by_method.items()
        },
    }


def findings(record: Record) -> list[str]:
    by_method, s = record["numbers"]["distance"], record["settings"]
    few, *_, many = by_method["anchored"]
    return sentences(ABOUT.name, by_method=by_method, s=s, few=few, many=many, show=toy.show)


def tables(record: Record) -> list[Table]:
    by_method = record["numbers"]["distance"]
    sizes = list(by_method["anchored"])
    rows = [
        (WORDS[method], *(toy.show(by_size[n]["kl"]) for n in sizes))
        for method, by_size in by_method.items()
    ]
    title = "KL(GP, ensemble) by number of networks, mean ± standard error over runs"
    return [Table(title, ("", *(f"{n} networks" for n in sizes)), rows)]


def draw(figure, record: Record) -> None:
    numbers = record["numbers"]
    panels = numbers["panels"]
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True)
    for ax, (name, recorded) in zip(axes, panels.items(), strict=True):
        bands(ax, numbers["grid"], toy.from_panel(recorded))
        data_points(ax, numbers["x"], numbers["y"])
        ax.set_title("Ground truth: GP" if name == "gp" else f"{name} networks")
        ax.set(xlim=(numbers["grid"][0], numbers["grid"][-1]), ylim=(-4, 3))


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (13, 2.9))
