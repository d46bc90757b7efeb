"""Figure 7: distance of the ensemble to the ReLU GP by width and number of members."""

import dataclasses
from functools import partial

import jax
import numpy as np

from anchored import gp
from anchored.baselines import EnsembleOf, Problem
from anchored.data import Data, Standardiser
from anchored.datasets import load_table
from anchored.experiments._runner import Cell, Context, Experiment, Record, Table
from anchored.experiments._toy import mean_and_error, show
from anchored.likelihoods import Gaussian
from anchored.metrics import kl
from anchored.networks import MLP
from anchored.plotting import SERIES, line_with_errors
from anchored.predictive import Predictive
from anchored.priors import Prior
from anchored.training import Schedule

METHODS = ("anchored", "rms")
IDEAL = "ideal"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix D.5; every step sees all rows."""

    data: str = "boston"
    widths: tuple[int, ...] = (4, 16, 64, 256, 1024)
    members: tuple[int, ...] = (3, 5, 10, 20, 40)
    n_runs: int = 10
    noise_var: float = 0.1
    bias_var: float = 2.0
    weight_var: float = 2.0
    epochs: int = 1000
    rate_narrow: float = 0.001  # below 20 nodes
    rate_wide: float = 0.0002
    narrow: int = 20


PRESETS = {
    "paper": Settings(),
    "smoke": Settings(
        data="diabetes",
        widths=(4, 64),
        members=(3, 10),
        n_runs=2,
        epochs=300,
        rate_narrow=0.01,
        rate_wide=0.002,
    ),
}


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = [
        Cell(f"run {run}/{IDEAL}", 1.0, partial(_ideal, s, context, run)) for run in range(s.n_runs)
    ]
    for width in s.widths:
        for run in range(s.n_runs):
            cost = 1.0 + width / 15.0
            cells.append(Cell(f"run {run}/{width}", cost, partial(_cell, s, context, width, run)))
    return cells


def _problem(s: Settings, context: Context, width: int, run: int) -> Problem:
    """A random half of the rows to train on, the other to compare on, both standardised."""
    x, y = load_table(s.data, context.data_dir)
    order = np.random.default_rng([context.seed, run]).permutation(len(y))
    train, test = np.split(order, [len(y) // 2])
    ones = np.ones(len(train))
    x_units, y_units = Standardiser.fit(x[train], ones), Standardiser.fit(y[train, None], ones)
    x_train, x_test = x_units.forward(x[train]), x_units.forward(x[test])
    network = MLP((width,))
    prior = Prior.for_network(network, x_train, first_var=s.bias_var)
    prior = prior.with_leaf("0/weight", variance=s.weight_var)
    data = Data.make(x_train, y_units.forward(y[train, None]))
    return Problem(network, prior, Gaussian(s.noise_var), data, x_test)


def _exact(problem: Problem, noise_var: float) -> gp.GP:
    kernel = gp.twin(problem.network, problem.prior)
    return gp.condition(kernel, problem.rows.x, problem.rows.y, noise_var)


def _by_members(s: Settings, exact: Predictive, functions: np.ndarray) -> dict:
    """Average KL of the first M functions, for each M."""
    noise = np.full_like(functions, s.noise_var)
    return {
        str(m): kl(exact, Predictive.from_members(functions[:m], noise[:m])).mean()
        for m in s.members
    }


def _ideal(s: Settings, context: Context, run: int) -> dict:
    problem = _problem(s, context, max(s.widths), run)
    exact = _exact(problem, s.noise_var)
    functions = exact.sample([context.seed, run], problem.x, max(s.members))
    return _by_members(s, exact.predict(problem.x), functions)


def _cell(s: Settings, context: Context, width: int, run: int) -> dict:
    problem = _problem(s, context, width, run)
    exact = _exact(problem, s.noise_var).predict(problem.x)
    rate = s.rate_narrow if width < s.narrow else s.rate_wide
    schedule = Schedule(s.epochs, problem.data.n_rows, rate)
    key = jax.random.fold_in(jax.random.key(context.seed), run)
    out = {}
    for method in METHODS:
        dist = EnsembleOf(method, max(s.members), schedule)(key, problem)
        assert dist.members is not None
        out[method] = _by_members(s, exact, dist.members)
    return out


def combine(s: Settings, results) -> dict:
    def summary(parts: list[dict]) -> dict:
        return mean_and_error([{m: part[m] for m in map(str, s.members)} for part in parts])

    runs = range(s.n_runs)
    numbers: dict = {IDEAL: summary([results[f"run {run}/{IDEAL}"] for run in runs])}
    for method in METHODS:
        numbers[method] = {
            str(width): summary([results[f"run {run}/{width}"][method] for run in runs])
            for width in s.widths
        }
    return numbers


def findings(record: Record) -> list[str]:
    numbers, widths = record["numbers"], record["settings"]["widths"]
    narrow, wide = str(min(widths)), str(max(widths))
    few, many = str(min(record["settings"]["members"])), str(max(record["settings"]["members"]))
    grid = numbers["anchored"]
    lines = [
        f"Members: at {wide} nodes the KL falls from {show(grid[wide][few])} with {few} members to "
        f"{show(grid[wide][many])} with {many}.",
        f"Width: with {many} members it falls from {show(grid[narrow][many])} at {narrow} nodes "
        f"to {show(grid[wide][many])} at {wide}.",
        f"What remains: {many} functions of the GP itself would have "
        f"{show(numbers[IDEAL][many])}; "
        f"`rms` at {wide} nodes has {show(numbers['rms'][wide][many])}.",
    ]
    gap = grid[wide][many]["mean"] - numbers[IDEAL][many]["mean"]
    closed = (grid[wide][many]["mean"] - numbers["rms"][wide][many]["mean"]) / gap
    return [*lines, f"Noise on the targets (`rms`) so closes {closed:.0%} of the remaining gap."]


def tables(record: Record) -> list[Table]:
    numbers, members = record["numbers"], [str(m) for m in record["settings"]["members"]]
    header = ("nodes", *(f"{m} members" for m in members))
    out = []
    for method in METHODS:
        rows = [(w, *(show(by[m]) for m in members)) for w, by in numbers[method].items()]
        rows.append((IDEAL, *(show(numbers[IDEAL][m]) for m in members)))
        title = f"{method}: average KL(GP, ensemble) in nats, mean ± standard error of the runs"
        out.append(Table(title, header, rows))
    return out


def draw(figure, record: Record) -> None:
    numbers, members = record["numbers"], record["settings"]["members"]
    axes = figure.subplots(1, 2, sharey=True)
    for ax, method in zip(axes, METHODS, strict=True):
        styles = zip(numbers[method].items(), SERIES, strict=False)
        for (width, by), (colour, marker) in styles:
            line_with_errors(ax, members, by, colour, marker, f"{width} nodes")
        line_with_errors(ax, members, numbers[IDEAL], "black", "", "ideal: GP draws", ls="--")
        ax.set(xlabel="networks in the ensemble", xscale="log", yscale="log", title=method)
        ax.set_xticks(members, [str(m) for m in members])
        ax.minorticks_off()
    axes[0].set_ylabel("KL divergence from the GP (nats)")
    axes[1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


EXPERIMENT = Experiment(
    name="fig-kl",
    figure="figure 7",
    title="Distance to the exact posterior by width and number of members",
    claim=(
        "The difference of the two predictive distributions decreases with the width of the "
        "networks and with their number; a small one remains at 40 networks of 1,024 nodes."
    ),
    presets=PRESETS,
    seconds={"smoke": 12, "paper": 800},
    plan=plan,
    combine=combine,
    findings=findings,
    tables=tables,
    draw=draw,
    size=(9.5, 4.2),
    needs=("boston.txt in the folder ANCHORED_DATA",),
)
