"""Figure 1: an ensemble of three before and after training, its predictive, and the GP's."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from anchored.baselines import InfiniteWidthGP, Problem
from anchored.core.ensembles import fit_ensemble
from anchored.core.networks import MLP
from anchored.core.outputs import member_moments
from anchored.core.priors import Prior, draw_anchors
from anchored.core.training import Schedule
from anchored.datasets import random_points
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures import toy
from anchored.paper.plotting import BLUE, GREEN, ORANGE, bands, data_points
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table

_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."))


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix E.1. The points, their range and the sizes beyond three are ours."""

    activation: str = "erf"
    width: int = 100
    first_var: float = 1.0
    noise_var: float = 0.003
    epochs: int = 400
    long_epochs: int = 4000  # also, to see what training has left to gain
    learning_rate: float = 0.005
    sizes: tuple[int, ...] = (3, 10, 30)  # the first is drawn
    n_runs: int = 10  # with other anchors and starts, on the same points
    data_reach: float = 2.0
    reach: float = 4.0
    n_grid: int = 161


ABOUT = CATALOGUE["fig-action"]
PRESETS = ABOUT.presets_of(Settings())


def problem(s: Settings, key) -> Problem:
    network = MLP((s.width,), activation=s.activation)
    prior = Prior.for_network(network, jnp.zeros((1, 1)), s.first_var)
    x, y = random_points(key, network, prior, s.noise_var, s.data_reach)
    grid = toy.line(s.reach, s.n_grid)
    return toy.problem(x, y, grid, s.activation, s.width, s.first_var, s.noise_var)


def functions(s: Settings, key, ask: Problem, epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """All members on the grid [member, batch, 1], before training and after.

    They start at draws from the prior that are independent of their anchors.
    """
    key_start, key_fit = jax.random.split(key)
    n_members = max(s.sizes)
    start = jax.jit(draw_anchors, static_argnums=2)(key_start, ask.prior, n_members)
    ensemble = fit_ensemble(
        key_fit,
        ask.network,
        ask.prior,
        ask.likelihood,
        ask.data,
        method="anchored",
        n_members=n_members,
        schedule=Schedule(epochs, learning_rate=s.learning_rate),
        start=start,
    )
    before, _ = member_moments(ask.network, ask.likelihood, start, ask.x)
    return before, ensemble.moments(ask.x)[0]


def plan(s: Settings, context: Context) -> list[Cell]:
    return [
        Cell(str(epochs), epochs, partial(_ensembles, s, context, epochs))
        for epochs in (s.epochs, s.long_epochs)
    ]


def _ensembles(s: Settings, context: Context, epochs: int) -> dict:
    """Panels of the first run, distances by number of networks over all runs."""
    key_data, key_runs = jax.random.split(jax.random.key(context.seed))
    ask = problem(s, key_data)
    exact = InfiniteWidthGP()(key_runs, ask)
    x, y = np.asarray(ask.rows.x), np.asarray(ask.rows.y)
    where = toy.regions(ask.x, x)
    keys = [jax.random.fold_in(key_runs, run) for run in range(s.n_runs)]
    runs = [functions(s, key, ask, epochs) for key in keys]
    distances = {
        n: [toy.distance(exact, toy.pooled(after[:n], s.noise_var), where) for _, after in runs]
        for n in s.sizes
    }
    n_shown, (before, after) = s.sizes[0], runs[0]
    return {
        "x": x[:, 0],
        "y": y[:, 0],
        "grid": ask.x[:, 0],
        "before": before[:n_shown, :, 0],
        "after": after[:n_shown, :, 0],
        "ensemble": toy.panel(toy.pooled(after[:n_shown], s.noise_var)),
        "gp": toy.panel(exact),
        "shown_kl": distances[n_shown][0]["kl"],
        "distance": {n: toy.mean_and_error(each) for n, each in distances.items()},
    }


def combine(s: Settings, results) -> dict:
    longer = results[str(s.long_epochs)]["distance"]
    return results[str(s.epochs)] | {"longer": longer}


def findings(record: Record) -> list[str]:
    n, s = record["numbers"], record["settings"]
    first, *_, last = n["distance"]
    return sentences(ABOUT.name, n=n, s=s, first=first, last=last, show=toy.show)


def tables(record: Record) -> list[Table]:
    numbers, s = record["numbers"], record["settings"]
    rows = [
        (str(epochs), n, *toy.distance_cells(d))
        for epochs, by_size in (
            (s["epochs"], numbers["distance"]),
            (s["long_epochs"], numbers["longer"]),
        )
        for n, d in by_size.items()
    ]
    title = (
        "Distance to the GP (KL in nats, W2 in target units); deviation divided by the GP's, by "
        "region"
    )
    return [Table(title, ("epochs", "networks", *toy.DISTANCE_HEADER), rows)]


def draw(figure, record: Record) -> None:
    numbers = record["numbers"]
    grid, n = numbers["grid"], len(numbers["after"])
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    words = {"before": "initialised", "after": "trained"}
    for ax, (members, word) in zip(axes[0], words.items(), strict=True):
        for j, values in enumerate(numbers[members]):
            colour, dash = _LINES[j % len(_LINES)]
            ax.plot(grid, values, color=colour, ls=dash, lw=1.8, label=f"NN$_{j + 1}$")
        ax.set_title(f"{n} networks, {word}")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=n, frameon=False
    )
    words = {"ensemble": f"{n} networks", "gp": "GP"}
    for ax, (name, word) in zip(axes[1], words.items(), strict=True):
        bands(ax, grid, toy.from_panel(numbers[name]))
        ax.set_title(f"{word}: predictive distribution")
    for ax in axes.flat:
        data_points(ax, numbers["x"], numbers["y"])
        ax.set_xlim(grid[0], grid[-1])


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (8, 5.2))
