"""Figure 7: distance of the ensemble to the ReLU GP by width and number of members."""

import dataclasses
import itertools
from functools import partial

import jax
import numpy as np

from anchored.baselines import EnsembleOf, InfiniteWidthGP, Problem
from anchored.core.likelihoods import Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data, Standardiser
from anchored.core.training import Schedule
from anchored.datasets import load_table
from anchored.errors import EnsembleError
from anchored.metrics import kl
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.toy import gap_closed, mean_and_error, pooled, show
from anchored.paper.plotting import SERIES, line_with_errors
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table
from anchored.prediction.predictive import Predictive

METHODS = ("anchored", "rms")
IDEAL = "ideal"
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix E.5. The batch size is not given there; here every step sees all rows.

    A thousand such steps do not reach the minimum of wide networks, so some cells are trained
    ``longer`` too.
    """

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
    longer_epochs: int = 10_000
    longer_widths: tuple[int, ...] = (4, 16, 64, 256)
    longer_runs: int = 2


ABOUT = CATALOGUE["fig-kl"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = [
        Cell(f"run {run}/{IDEAL}", 1.0, partial(_ideal, s, context, run)) for run in range(s.n_runs)
    ]
    kinds = (
        ("", s.widths, s.n_runs, s.epochs),
        (" longer", s.longer_widths, s.longer_runs, s.longer_epochs),
    )
    for suffix, widths, n_runs, epochs in kinds:
        for width in widths:
            cost = (1.0 + width / 15.0) * epochs / s.epochs
            for run in range(n_runs):
                train = partial(_cell, s, context, width, run, epochs)
                cells.append(Cell(f"run {run}/{width}{suffix}", cost, train))
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


def _by_members(s: Settings, exact: Predictive, functions: np.ndarray) -> dict:
    """Average KL of the first M functions, for each M."""
    return {str(m): kl(exact, pooled(functions[:m], s.noise_var)).mean() for m in s.members}


def _ideal(s: Settings, context: Context, run: int) -> dict:
    problem = _problem(s, context, max(s.widths), run)
    exact = InfiniteWidthGP().condition(problem)
    functions = exact.sample([context.seed, run, 1], problem.x, max(s.members))
    return _by_members(s, exact.predict(problem.x), functions)


def _cell(s: Settings, context: Context, width: int, run: int, epochs: int) -> dict:
    problem = _problem(s, context, width, run)
    exact = InfiniteWidthGP().condition(problem).predict(problem.x)
    rate = s.rate_narrow if width < s.narrow else s.rate_wide
    schedule = Schedule(epochs, problem.data.n_rows, rate)
    key = jax.random.fold_in(jax.random.key(context.seed), run)
    out = {}
    for method in METHODS:
        # The same anchors and starts for both methods: their difference is the target noise.
        ensemble = EnsembleOf(method, max(s.members), schedule).fit(jax.random.clone(key), problem)
        if ensemble.n_members < max(s.members):
            raise EnsembleError(f"Members {ensemble.dropped} of {width} nodes diverged.")
        dist = ensemble.predict(problem.x)
        assert dist.members is not None
        out[method] = _by_members(s, exact, dist.members)
        out[f"{method} objective"] = ensemble.info.objective[-1].mean()
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
    numbers["longer"] = {str(width): {} for width in s.longer_widths}
    for width, by_epochs in numbers["longer"].items():
        for epochs, suffix in ((s.epochs, ""), (s.longer_epochs, " longer")):
            parts = [results[f"run {run}/{width}{suffix}"] for run in range(s.longer_runs)]
            objective = np.mean([part["anchored objective"] for part in parts])
            by_epochs[epochs] = {
                **{m: summary([part[m] for part in parts])[str(max(s.members))] for m in METHODS},
                "objective": {"mean": objective},
            }
    return numbers


def findings(record: Record) -> list[str]:
    numbers, s = record["numbers"], record["settings"]
    grid, ideal = numbers["anchored"], numbers[IDEAL]
    narrow, *_, wide = widths = [str(width) for width in sorted(s["widths"])]
    few, *_, many = map(str, sorted(s["members"]))
    best, longest = grid[wide][many], str(max(s["longer_widths"]))
    short, long = (numbers["longer"][longest][str(s[n])] for n in ("epochs", "longer_epochs"))
    rises = [
        (before, after)
        for before, after in itertools.pairwise(widths)
        if grid[after][many]["mean"] > grid[before][many]["mean"]
    ]
    return sentences(
        ABOUT.name,
        **{"s": s, "grid": grid, "narrow": narrow, "wide": wide, "few": few, "many": many},
        **{"best": best, "ideal": ideal[many], "rises": rises, "show": show},
        **{"longest": longest, "short": short, "long": long},
        rate=lambda width: s["rate_narrow" if int(width) < s["narrow"] else "rate_wide"],
        gap_closed=gap_closed(best, numbers["rms"][wide][many], ideal[many]["mean"]),
    )


def tables(record: Record) -> list[Table]:
    numbers, members = record["numbers"], [str(m) for m in record["settings"]["members"]]
    header = ("nodes", *(f"{m} members" for m in members))
    out = []
    for method in METHODS:
        rows = [(w, *(show(by[m]) for m in members)) for w, by in numbers[method].items()]
        rows.append((IDEAL, *(show(numbers[IDEAL][m]) for m in members)))
        title = f"{method}: average KL(GP, ensemble) in nats, mean ± standard error of the runs"
        out.append(Table(title, header, rows))
    columns = (*METHODS, "objective")
    rows = [
        (width, *(f"{part[column]['mean']:.3f}" for column in columns for part in by.values()))
        for width, by in numbers["longer"].items()
    ]
    settings = record["settings"]
    epochs = [f"{settings[name]:,} epochs" for name in ("epochs", "longer_epochs")]
    header = ("nodes", *(f"{column}, {words}" for column in columns for words in epochs))
    title = (
        f"{members[-1]} members trained longer: KL and objective, mean of "
        f"{settings['longer_runs']} runs"
    )
    return [*out, Table(title, header, rows)]


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
        ax.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        ax.minorticks_off()
    axes[0].set_ylabel("KL divergence from the GP (nats)")
    axes[1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (9.5, 4.2))
