"""Figure of appendix B.3: two perfectly correlated output weights of a network of two nodes.

The text has noise variance 0.01, but the printed matrices belong to 0.1, which is used here.
"""

import dataclasses
from functools import partial

import numpy as np

from anchored.exact import rms
from anchored.exact.rms import Normal
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.theory import check_draws, entries, legend_below, plane
from anchored.paper.figures.toy import from_panel, panel
from anchored.paper.plotting import BLUE, GREEN, GREY, ORANGE, bands, data_points, ellipses
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table
from anchored.prediction.predictive import Predictive

# Appendix B.3, as printed.
PRINTED = {
    "precision": [[90.0, 63.0], [63.0, 44.1]],
    "posterior": [[0.169, -0.231], [-0.231, 0.338]],
    "anchored": [[0.166, -0.235], [-0.235, 0.338]],
    "likelihood": [[-6.89e13, 9.85e13], [9.85e13, -1.40e14]],
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix B.3: the data, the first layer, and the prior of the last layer's weights."""

    x: tuple[float, ...] = (-5.0, 5.0)
    y: tuple[float, ...] = (0.0, 0.0)
    weights: tuple[float, float] = (-0.8, -0.4)
    biases: tuple[float, float] = (-1.0, 0.1)
    prior_var: float = 0.5
    noise_var: float = 0.1
    noise_var_of_text: float = 0.01
    n_draws: int = 100_000
    n_shown: int = 60
    n_grid: int = 201
    reach: float = 8.0


ABOUT = CATALOGUE["fig-correlated"]
PRESETS = ABOUT.presets_of(Settings())


def hidden(s: Settings, x) -> np.ndarray:
    """Values [n, 2] of the two nodes."""
    return np.maximum(np.outer(x, s.weights) + s.biases, 0)


def inference(s: Settings, noise_var: float) -> tuple[Normal, np.ndarray, np.ndarray]:
    """Prior of the output weights, precision P of their likelihood, and P mu_like."""
    prior = Normal(np.zeros(2), s.prior_var * np.eye(2))
    return prior, *rms.linear_likelihood(hidden(s, s.x), np.array(s.y), noise_var)


def plan(s: Settings, context: Context) -> list[Cell]:
    return [Cell("network", 1.0, partial(_cell, s, context.seed))]


def _cell(s: Settings, seed: int) -> dict:
    prior, precision, pull = inference(s, s.noise_var)
    exact, anchored = (f(prior, precision, pull) for f in (rms.posterior, rms.anchored_posterior))
    rng = np.random.default_rng(seed)
    anchors = prior.sample(rng, s.n_draws)
    solutions = rms.map_solutions(anchors, prior, precision, pull)
    check = check_draws(solutions, anchored)
    sampled = Normal(check["mean"], check["cov"])
    grid = np.linspace(-s.reach, s.reach, s.n_grid)
    _, other_precision, _ = other = inference(s, s.noise_var_of_text)
    return {
        "grid": grid,
        "nodes": hidden(s, grid).T,
        "elbows": -np.divide(s.biases, s.weights),
        "prior": prior._asdict(),
        "precision": precision,
        "precision_of_text": other_precision,
        "posterior": exact._asdict(),
        "posterior_of_text": rms.posterior(*other)._asdict(),
        "anchored": anchored._asdict(),
        "gap": rms.exactness_gap(prior.cov, exact.cov),
        "draws": {
            "prior": anchors[: s.n_shown],
            "posterior": exact.sample(rng, s.n_shown),
            "anchored": solutions[: s.n_shown],
        },
        "check": check,
        "exact_predictive": panel(_predictive(s, grid, exact)),
        "anchored_predictive": panel(_predictive(s, grid, sampled)),
        "exact_fit_std": np.sqrt(_predictive(s, s.x, exact).epistemic_var),
        "anchored_fit_std": np.sqrt(_predictive(s, s.x, anchored).epistemic_var),
    }


def _predictive(s: Settings, x, weights: Normal) -> Predictive:
    nodes = hidden(s, x)
    spread = np.einsum("ni,ij,nj->n", nodes, weights.cov, nodes)
    return Predictive(nodes @ weights.mean, spread, np.full(len(nodes), s.noise_var))


def combine(s: Settings, results) -> dict:
    return results["network"] | {"x": s.x, "y": s.y}


def findings(record: Record) -> list[str]:
    n, s = record["numbers"], record["settings"]
    kept = np.diag(n["anchored"]["cov"]) / np.diag(n["posterior"]["cov"])
    ratio = np.divide(n["anchored_predictive"]["std"], n["exact_predictive"]["std"])
    shown = {"printed": PRINTED["anchored"], "entries": entries}
    return sentences(ABOUT.name, n=n, s=s, kept=kept, ratio=ratio, **shown)


def tables(record: Record) -> list[Table]:
    n = record["numbers"]
    computed = {
        "precision": n["precision"],
        "posterior": n["posterior"]["cov"],
        "anchored": n["anchored"]["cov"],
    }
    rows = [
        (name, entries(matrix), entries(PRINTED[name], 1 if name == "precision" else 3))
        for name, matrix in computed.items()
    ]
    rows.append(("MAP solutions", entries(n["check"]["cov"]), ""))
    return [Table("Entries 11, 12, 22 of each matrix", ("", "computed", "printed"), rows)]


def draw(figure, record: Record) -> None:
    n = record["numbers"]
    nodes, weights, predictive = figure.subplots(1, 3, width_ratios=(1, 1, 1.15))
    for i, (values, style) in enumerate(zip(n["nodes"], ("-", "--"), strict=True)):
        nodes.plot(n["grid"], values, color=GREEN, ls=style, lw=2, label=f"node {i + 1}")
    nodes.legend(frameon=False, loc="upper right")
    data_points(nodes, n["x"], [0 for _ in n["x"]])
    nodes.set(title="Two hidden nodes and the data", xlabel="$x$", ylabel="value of the node")
    plane(weights, (-2.3, 2.3), (-2.3, 2.3)).set_title("Output weights")
    styles = {
        "prior": (GREY, ":", "+", "prior"),
        "posterior": (BLUE, "-", "o", "analytical posterior"),
        "anchored": (ORANGE, "--", "x", "anchored: MAP solutions"),
    }
    for name, (colour, line, marker, label) in styles.items():
        ellipses(weights, **n[name], colour=colour, ls=line, lw=1.3)
        dots = {"ls": "", "marker": marker, "mfc": "none", "ms": 4, "mew": 0.9}
        weights.plot(*np.transpose(n["draws"][name]), color=colour, label=label, **dots)
    weights.set(xlabel="$w_1$", ylabel="$w_2$")
    bands(predictive, n["grid"], from_panel(n["exact_predictive"]))
    ours = from_panel(n["anchored_predictive"])
    for count in (-3, -2, -1, 1, 2, 3):
        label = "anchored, ±1, 2, 3 deviations" if count == 1 else None
        edge = ours.mean + count * ours.std
        predictive.plot(n["grid"], edge, color=ORANGE, ls="--", lw=1, label=label)
    data_points(predictive, n["x"], n["y"])
    predictive.set(title="Predictive with noise; exact: bands", xlabel="$x$", ylabel="$y$")
    for ax in (nodes, predictive):
        for elbow in n["elbows"]:
            ax.axvline(elbow, color="black", ls=(0, (4, 3)), lw=0.9, label="elbows of the nodes")
        ax.set_xlim(n["grid"][0], n["grid"][-1])
    legend_below(figure, (weights, predictive))


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (11.5, 4.0))
