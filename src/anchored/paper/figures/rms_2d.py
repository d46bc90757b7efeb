"""Figure 2: exact randomised MAP sampling of two parameters, step by step."""

import dataclasses
from functools import partial

import numpy as np

from anchored.exact import rms
from anchored.exact.rms import Normal
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.theory import check_draws, legend_below, plane
from anchored.paper.plotting import BLUE, GREEN, GREY, ORANGE, ellipses
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table

TITLES = (
    "Ground truth: Bayes' rule",
    "Step 1: draw an anchor",
    "Step 2: centre the prior there, take the MAP",
    "Step 3: repeat",
)
EXAMPLE_DISTANCE = 2.0  # of the anchor shown on its own: near the centre nothing is to be seen


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper does not print these numbers; its authors' script of the figure does."""

    prior_var: float = 0.7
    like_mean: tuple[float, float] = (3.0, -1.0)
    like_cov: tuple[tuple[float, float], ...] = ((0.45, 0.3), (0.3, 0.75))
    n_draws: int = 100_000
    n_shown: int = 150


ABOUT = CATALOGUE["fig-rms-2d"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    return [Cell("draws", 1.0, partial(_cell, s, context.seed))]


def _cell(s: Settings, seed: int) -> dict:
    prior = Normal(np.zeros(2), s.prior_var * np.eye(2))
    likelihood = Normal(np.array(s.like_mean), np.array(s.like_cov))
    precision = np.linalg.inv(likelihood.cov)
    pull = precision @ likelihood.mean
    exact = rms.posterior(prior, precision, pull)
    anchor_dist = rms.exact_anchor_distribution(prior, precision)
    anchors = anchor_dist.sample(seed, s.n_draws)
    solutions = rms.map_solutions(anchors, prior, precision, pull)
    from_prior = rms.map_solutions(prior.sample(seed, s.n_draws), prior, precision, pull)
    far = np.linalg.norm(anchors[: s.n_shown], axis=1) > EXAMPLE_DISTANCE
    return {
        "example": int(np.argmax(far)),
        "prior": prior._asdict(),
        "likelihood": likelihood._asdict(),
        "posterior": exact._asdict(),
        "anchor_dist": anchor_dist._asdict(),
        "anchors": anchors[: s.n_shown],
        "solutions": solutions[: s.n_shown],
        "check": check_draws(solutions, exact),
        "check_from_prior": check_draws(from_prior, exact),
    }


def combine(s: Settings, results) -> dict:
    return results["draws"]


def findings(record: Record) -> list[str]:
    numbers = record["numbers"]
    check, other, exact = (numbers[n] for n in ("check", "check_from_prior", "posterior"))
    error = np.max(np.abs(np.subtract(check["cov"], exact["cov"])))
    ratio = np.diag(other["cov"]) / np.diag(exact["cov"])
    return sentences(ABOUT.name, check=check, other=other, error=error, ratio=ratio)


def tables(record: Record) -> list[Table]:
    numbers = record["numbers"]
    check, exact = numbers["check"], numbers["posterior"]
    rows = []
    for i in range(2):
        pair = exact["mean"][i], check["mean"][i], check["mean_error"][i]
        rows.append((f"mean {i + 1}", *(f"{v:.4f}" for v in pair)))
    for i, j in ((0, 0), (1, 1), (0, 1)):
        pair = (m[i][j] for m in (exact["cov"], check["cov"], check["cov_error"]))
        rows.append((f"covariance {i + 1},{j + 1}", *(f"{v:.4f}" for v in pair)))
    title = f"Posterior against {check['n']:,} MAP solutions of anchors by theorem 1"
    return [Table(title, ("", "exact", "draws", "standard error"), rows)]


def draw(figure, record: Record) -> None:
    n = record["numbers"]
    axes = figure.subplots(1, 4, sharex=True, sharey=True)
    for ax, title in zip(axes, TITLES, strict=True):
        plane(ax, (-4, 5), (-3.9, 3.9))
        ax.set_title(title)
        ax.plot(*n["prior"]["mean"], ls="", marker="+", ms=9, mew=1.6, color="black", zorder=6)
        ax.label_outer()
    truth, first, second, third = axes
    prior, like, post = (
        {"colour": GREY, "ls": ":", "lw": 1.6, "label": "prior"},
        {"colour": GREEN, "ls": "-.", "lw": 1.5, "label": "likelihood"},
        {"colour": BLUE, "ls": "-", "lw": 1.8, "label": "exact posterior"},
    )
    anchor = {"colour": ORANGE, "ls": "--", "lw": 1.3, "label": "anchor distribution"}
    for name, line in (("prior", prior), ("likelihood", like), ("posterior", post)):
        ellipses(truth, **n[name], **line)
    leader = {"arrowstyle": "-", "lw": 0.6}
    truth.annotate(r"$\mu_{prior}$", (0, 0), (-2.9, -2.7), arrowprops=leader)
    for ax in axes[1:]:
        ellipses(ax, **n["anchor_dist"], **anchor)
    theta, solution = (np.array(n[name][n["example"]]) for name in ("anchors", "solutions"))
    cross = {"ls": "", "marker": "x", "color": ORANGE}
    dot = {"ls": "", "marker": "o", "color": BLUE, "mec": "white"}
    for ax in (first, second):
        ax.plot(*theta, ms=8, mew=2, **cross)
        ax.annotate(r"$\theta_{anc}$", theta, theta - [1.4, 2.4], arrowprops=leader)
    ellipses(second, theta, n["prior"]["cov"], **prior)
    ellipses(second, **n["likelihood"], **like)
    second.annotate(
        "",
        solution,
        theta,
        arrowprops={"arrowstyle": "-|>", "lw": 1.2, "color": "black", "shrinkA": 6, "shrinkB": 5},
    )
    second.plot(*solution, ms=8, mew=0.8, **dot)
    second.annotate(r"$f_{MAP}(\theta_{anc})$", solution, (0.6, -3.3), arrowprops=leader)
    third.plot(*np.transpose(n["anchors"]), ms=3.5, mew=0.8, alpha=0.7, label="anchors", **cross)
    third.plot(
        *np.transpose(n["solutions"]), ms=4, mew=0.4, alpha=0.8, label="MAP solutions", **dot
    )
    ellipses(third, **n["posterior"], **post)
    legend_below(figure, axes)


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (12.5, 3.5))
