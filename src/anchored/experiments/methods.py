"""Figure 4: predictives of several inference methods on six points, three activations."""

import dataclasses
import time
from functools import partial

import jax
import numpy as np

from anchored.baselines import (
    HMC,
    NUTS,
    SGHMC,
    EnsembleOf,
    FiniteWidthPosterior,
    Inference,
    InfiniteWidthGP,
    Laplace,
    MCDropout,
    MeanFieldVI,
    Problem,
)
from anchored.datasets import six_points
from anchored.experiments._runner import Cell, Context, Experiment, Record, Table
from anchored.experiments._toy import (
    DISTANCE_HEADER,
    distance,
    distance_cells,
    from_panel,
    line,
    mean_and_error,
    panel,
    regions,
    show,
    toy_problem,
)
from anchored.plotting import bands, data_points
from anchored.training import Schedule

COLUMNS = {
    "gp": "Ground truth: GP",
    "hmc": "Hamiltonian MC",
    "vi": "Variational inference",
    "dropout": "MC dropout",
    "anchored": "Anchored ensemble",
}
ROWS = {"relu": "ReLU", "erf": "Sigmoid (ERF)", "leaky_relu": "Leaky ReLU"}
WORDS = COLUMNS | {
    "rms": "rms: anchors and target noise",
    "finite-width": "Exact at this width",
    "nuts": "NUTS",
    "sghmc": "Stochastic-gradient HMC",
    "laplace": "Laplace, linearised",
    "deep": "Deep ensemble",
    "unconstrained": "Unconstrained ensemble",
    "regularised": "Regularised ensemble",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix D.2. The learning rate is not given there; see the table of rates."""

    activations: tuple[str, ...] = tuple(ROWS)
    methods: tuple[str, ...] = tuple(WORDS)
    width: int = 100
    first_var: float = 10.0
    noise_var: float = 0.001
    n_members: int = 10
    epochs: int = 4000
    learning_rate: float = 0.0005
    rates: tuple[float, ...] = (0.0002, 0.0005, 0.001, 0.002, 0.005)  # tried for anchored
    dropout_rate: float = 0.4
    dropout_draws: int = 200
    hmc_warmup: int = 500
    hmc_samples: int = 1000
    hmc_steps: int = 150
    hmc_chains: int = 4
    vi_epochs: int = 2000
    vi_gradient_samples: int = 200
    finite_width_draws: int = 50_000
    n_repeats: int = 10  # other seeds of the methods that depend on them
    n_grid: int = 151
    reach: float = 1.5


PRESETS = {
    "paper": Settings(),
    "smoke": Settings(
        activations=("relu",),
        methods=("gp", "vi", "dropout", "anchored", "rms"),
        width=20,
        epochs=200,
        learning_rate=0.02,
        rates=(),
        vi_epochs=100,
        vi_gradient_samples=20,
        n_repeats=2,
        n_grid=41,
    ),
}


def method(s: Settings, name: str, rate: float | None = None) -> Inference:
    """One column's method with the paper's settings."""
    schedule = Schedule(s.epochs, learning_rate=rate or s.learning_rate)
    if name == "gp":
        return InfiniteWidthGP()
    if name == "finite-width":
        return FiniteWidthPosterior(s.finite_width_draws)
    if name == "hmc":
        return HMC(s.hmc_chains, s.hmc_warmup, s.hmc_samples, s.hmc_steps)
    if name == "nuts":
        return NUTS(s.hmc_chains, s.hmc_warmup, s.hmc_samples)
    if name == "sghmc":
        return SGHMC()
    if name == "vi":
        return MeanFieldVI(
            Schedule(s.vi_epochs, learning_rate=0.02), s.vi_gradient_samples, n_draws=200
        )
    if name == "dropout":
        return MCDropout(
            s.dropout_rate, Schedule(s.epochs, learning_rate=0.005), n_draws=s.dropout_draws
        )
    if name == "laplace":
        return Laplace(schedule=Schedule(s.epochs, learning_rate=0.005))
    return EnsembleOf(name, s.n_members, schedule)


def problem(s: Settings, activation: str) -> Problem:
    grid = line(s.reach, s.n_grid)
    return toy_problem(*six_points(), grid, activation, s.width, s.first_var, s.noise_var)


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = []
    for a in s.activations:
        for name in s.methods:
            cost = {"nuts": 10.0, "hmc": 2.0, "vi": 4.0, "gp": 0.1}.get(name, 1.0)
            cells.append(Cell(f"{a}/{name}", cost, partial(_cell, s, context, a, name)))
        for rate in s.rates:
            label = f"{a}/anchored at {rate:g}"
            cells.append(Cell(label, 1.0, partial(_cell, s, context, a, "anchored", rate)))
    return cells


def _cell(s: Settings, context: Context, activation: str, name: str, rate=None) -> dict:
    """Panel and seconds of the first run; distances of all runs to both exact posteriors."""
    ask, infer = problem(s, activation), method(s, name, rate)
    key = jax.random.key(context.seed)
    exact = InfiniteWidthGP()(key, ask)
    where = regions(ask.x, six_points()[0])
    n_repeats = 1 if name in ("gp", "finite-width", "hmc", "nuts", "sghmc") else s.n_repeats
    distances, first, seconds, diagnosis = [], None, 0.0, None
    for repeat in range(n_repeats):
        started = time.perf_counter()
        run_key = jax.random.fold_in(key, repeat)
        if isinstance(infer, (HMC, NUTS, SGHMC)):
            chains = infer.sample(run_key, ask)
            dist = chains.predictive
            diagnosis = {"rhat": chains.rhat, "ess": chains.ess, "divergent": chains.n_divergent}
        else:
            dist = infer(run_key, ask)
        if first is None:
            first, seconds = dist, time.perf_counter() - started
        distances.append(distance(exact, dist, where))
    assert first is not None
    ratio = np.ravel(first.std / exact.std)
    return {
        "panel": panel(first),
        "distance": mean_and_error(distances),
        "method_seconds": seconds,
        "diagnosis": diagnosis,
        "ratio_range": [ratio.min(), ratio.max()],
    }


def combine(s: Settings, results) -> dict:
    x, y = six_points()
    numbers: dict = {
        "x": x[:, 0],
        "y": y,
        "grid": line(s.reach, s.n_grid)[:, 0],
        "cells": {},
        "rates": {},
    }
    for a in s.activations:
        numbers["cells"][a] = {name: results[f"{a}/{name}"] for name in s.methods}
        numbers["rates"][a] = {
            f"{rate:g}": results[f"{a}/anchored at {rate:g}"]["distance"] for rate in s.rates
        }
    return numbers


def findings(record: Record) -> list[str]:
    cells = record["numbers"]["cells"]
    lines = []
    for a, row in cells.items():
        kl = {name: cell["distance"]["kl"] for name, cell in row.items()}
        shown = ", ".join(f"{name} {show(kl[name])}" for name in ("anchored", "vi", "dropout"))
        line = f"{ROWS[a]}: average KL from the GP {shown} nats"
        if "rms" in kl:
            closed = 1 - kl["rms"]["mean"] / kl["anchored"]["mean"]
            line += (
                f"; noise on the targets (`rms`) closes {closed:.0%} of the anchored gap "
                f"({show(kl['rms'])})"
            )
        lines.append(line + ".")
        if "nuts" in row and "finite-width" in row:
            nuts, exact = row["nuts"], row["finite-width"]
            gp_range = " to ".join(f"{r:.2f}" for r in nuts["ratio_range"])
            ratio = np.array(nuts["panel"]["std"]) / np.array(exact["panel"]["std"])
            lines.append(
                f"{ROWS[a]}: NUTS's deviation over the GP's is {gp_range} over the grid; over "
                f"that of the exact posterior at this width it is {ratio.min():.2f} to "
                f"{ratio.max():.2f} (R-hat {nuts['diagnosis']['rhat']:.3f}, effective sample size "
                f"{nuts['diagnosis']['ess']:.0f})."
            )
    return lines


def tables(record: Record) -> list[Table]:
    header = ("method", *DISTANCE_HEADER, "seconds")
    out = []
    for a, row in record["numbers"]["cells"].items():
        rows = [
            (WORDS[name], *distance_cells(cell["distance"]), f"{cell['method_seconds']:.1f}")
            for name, cell in row.items()
        ]
        out.append(
            Table(
                f"{ROWS[a]}: distance to the GP (nats, nats, target units), ratio of deviations "
                "to the GP's by region, seconds of the first run with its compilation",
                header,
                rows,
            )
        )
    rates = record["numbers"]["rates"]
    if any(rates.values()):
        names = list(next(iter(rates.values())))
        rows = [(ROWS[a], *(show(rates[a][rate]["kl"]) for rate in names)) for a in rates]
        out.append(
            Table("KL(GP, anchored) by learning rate", ("", *(f"rate {r}" for r in names)), rows)
        )
    return out


def draw(figure, record: Record) -> None:
    numbers = record["numbers"]
    cells = numbers["cells"]
    names = [name for name in COLUMNS if name in next(iter(cells.values()))]
    axes = figure.subplots(len(cells), len(names), sharex=True, sharey=True, squeeze=False)
    for row, (a, panels) in zip(axes, cells.items(), strict=True):
        for ax, name in zip(row, names, strict=True):
            bands(ax, numbers["grid"], from_panel(panels[name]["panel"]))
            data_points(ax, numbers["x"], numbers["y"])
            ax.set(xlim=(numbers["grid"][0], numbers["grid"][-1]), ylim=(-3.2, 1.2))
        row[0].set_ylabel(ROWS[a])
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(COLUMNS[name])


EXPERIMENT = Experiment(
    name="fig-methods",
    figure="figure 4",
    title="Inference methods on six points",
    claim=(
        "GP and HMC are the gold standard; variational inference and MC dropout do a poor job of "
        "capturing interpolated uncertainty, anchored ensembles come close."
    ),
    presets=PRESETS,
    seconds={"smoke": 10, "paper": 300},
    plan=plan,
    combine=combine,
    findings=findings,
    tables=tables,
    draw=draw,
    size=(13, 7.2),
    needs=("the extra `baselines`",),
)
