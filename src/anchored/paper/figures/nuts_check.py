"""Beyond the paper: do NUTS, the exact finite-width posterior and the GP agree?

The GP is the limit of infinite width. The exact posterior at width H, by importance sampling with
the last layer integrated out, shares no inference code with NUTS. Where the two agree and both
differ from the GP, the width is the reason.
"""

import dataclasses
from functools import partial

import jax
import numpy as np

from anchored.baselines import NUTS, FiniteWidthPosterior, InfiniteWidthGP
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures import methods
from anchored.paper.plotting import SERIES
from anchored.paper.prose import number, sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table


@dataclasses.dataclass(frozen=True)
class Settings:
    """The six points of figure 4, at several widths."""

    activations: tuple[str, ...] = ("relu", "erf")
    widths: tuple[int, ...] = (100, 400, 1600)
    nuts_widths: tuple[int, ...] = (100, 400)
    n_draws: int = 30_000  # of the hidden layer
    n_chains: int = 4
    n_warmup: int = 500
    n_samples: int = 1000
    limit: float = 0.15  # of the ratio of deviations


ABOUT = CATALOGUE["nuts-check"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = []
    for a in s.activations:
        for width in s.widths:
            cells.append(
                Cell(f"{a}/exact {width}", width / 100, partial(_cell, s, context, a, width))
            )
        for width in s.nuts_widths:
            nuts = partial(_cell, s, context, a, width, nuts=True)
            cells.append(Cell(f"{a}/nuts {width}", width / 15, nuts))
    return cells


def _cell(s: Settings, context: Context, activation: str, width: int, nuts: bool = False) -> dict:
    ask = methods.problem(methods.Settings(width=width, n_grid=101), activation)
    key = jax.random.key(context.seed)
    gp = InfiniteWidthGP()(key, ask)
    if nuts:
        key_chains = jax.random.fold_in(key, 1)  # not the draws of the exact posterior
        chains = NUTS(s.n_chains, s.n_warmup, s.n_samples).sample(key_chains, ask)
        dist = chains.predictive
        trust = {"rhat": chains.rhat, "ess": chains.ess, "divergent": chains.n_divergent}
    else:
        n_draws = max(1000, s.n_draws * min(s.widths) // width)
        dist, n_effective = FiniteWidthPosterior(n_draws).moments(key, ask)
        trust = {"ess": n_effective}
    return {
        "ratio": np.ravel(dist.std / gp.std),
        "shift": np.ravel((dist.mean - gp.mean) / gp.std),
        "std": np.ravel(dist.std),
        "grid": np.ravel(ask.x),
        "trust": trust,
    }


def combine(s: Settings, results) -> dict:
    numbers: dict = {}
    for a in s.activations:
        exact = {str(w): results[f"{a}/exact {w}"] for w in s.widths}
        nuts = {str(w): results[f"{a}/nuts {w}"] for w in s.nuts_widths}
        for width, cell in nuts.items():
            ratio = np.asarray(cell["std"]) / np.asarray(exact[width]["std"])
            cell["ratio_to_exact"] = [ratio.min(), ratio.max()]
        numbers[a] = {"exact": exact, "nuts": nuts}
    return numbers


def findings(record: Record) -> list[str]:
    numbers, limit = record["numbers"], record["settings"]["limit"]
    return sentences(ABOUT.name, numbers=numbers, limit=limit, titles=methods.ROWS)


def tables(record: Record) -> list[Table]:
    rows = []
    for a, kinds in record["numbers"].items():
        for kind, cells in kinds.items():
            for width, cell in cells.items():
                ratio, trust = cell["ratio"], cell["trust"]
                word = "NUTS" if kind == "nuts" else "exact at this width"
                off = min(ratio), max(ratio), np.max(np.abs(cell["shift"]))
                rhat = number(trust["rhat"], ".3f") if "rhat" in trust else ""
                numbers = (*(f"{value:.3f}" for value in off), number(trust["ess"], ".0f"), rhat)
                rows.append((methods.ROWS[a], word, width, *numbers))
    ratios = ("smallest ratio", "largest ratio", "error of the mean")
    header = ("", "posterior", "nodes", *ratios, "ESS", "R-hat")
    return [Table("Deviation divided by that of the GP, over all grid points", header, rows)]


def draw(figure, record: Record) -> None:
    axes = figure.subplots(1, len(record["numbers"]), sharey=True, squeeze=False)[0]
    limit = record["settings"]["limit"]
    for ax, (a, kinds) in zip(axes, record["numbers"].items(), strict=True):
        ax.axhspan(1 - limit, 1 + limit, color="0.92", lw=0, label=f"±{limit:.0%}")
        for (width, cell), (colour, marker) in zip(kinds["exact"].items(), SERIES, strict=False):
            words = f"{width} nodes"
            ax.plot(cell["grid"], cell["ratio"], color=colour, lw=1.8, label=f"exact, {words}")
            if width in kinds["nuts"]:
                nuts = kinds["nuts"][width]
                dots = {"ls": "", "marker": marker, "ms": 4, "mfc": "white", "markevery": 4}
                ax.plot(nuts["grid"], nuts["ratio"], color=colour, label=f"NUTS, {words}", **dots)
        ax.set(title=methods.ROWS[a], xlabel="x")
    axes[0].set_ylabel("deviation over the GP's")
    axes[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (10, 3.8))
