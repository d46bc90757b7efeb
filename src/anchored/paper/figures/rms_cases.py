"""Figure 3: anchors from the prior in the general case and in the two exact ones."""

import dataclasses
from functools import partial

import numpy as np

from anchored.exact import rms
from anchored.exact.rms import Normal
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.theory import check_draws, legend_below, plane
from anchored.paper.plotting import BLUE, GREEN, GREY, ORANGE, PINK, ellipses
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table

ROWS = {
    "general": "A. General case",
    "correlated": "B. Perfect correlation",
    "extrapolation": "C. Extrapolation",
}
COLUMNS = {
    "likelihood": "Likelihood",
    "exact": "True posterior",
    "rms": "RMS approximation",
    "mean-field": "Mean-field VI",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Likelihood mean, variance and correlation of each row; the prior is standard normal.

    `lengths` are other variances for B, at the same variance across the line.
    """

    general: tuple[tuple[float, float], float, float] = ((1.0, -1.0), 1.5, 0.8)
    correlated: tuple[tuple[float, float], float, float] = ((0.5, -0.5), 2.0, 0.9999)
    extrapolation: tuple[tuple[float, float], float, float] = ((0.5, -0.5), 2000.0, 0.0)
    lengths: tuple[float, ...] = (2.0, 20.0, 200.0, 2000.0, 20_000.0)
    n_draws: int = 20_000
    n_shown: int = 150


ABOUT = CATALOGUE["fig-rms-cases"]
PRESETS = ABOUT.presets_of(Settings())
PRIOR = Normal(np.zeros(2), np.eye(2))


def plan(s: Settings, context: Context) -> list[Cell]:
    cells = [Cell(row, 1.0, partial(_row, s, row, context.seed)) for row in ROWS]
    return [*cells, Cell("lengths", 1.0, partial(_lengths, s))]


def _row(s: Settings, row: str, seed: int) -> dict:
    mean, var, corr = getattr(s, row)
    likelihood = Normal(np.array(mean), var * _correlated(corr))
    precision = np.linalg.inv(likelihood.cov)
    inference = PRIOR, precision, precision @ likelihood.mean
    exact = rms.posterior(*inference)
    anchored, mean_field = (
        f(*inference) for f in (rms.anchored_posterior, rms.mean_field_posterior)
    )
    solutions = rms.map_solutions(PRIOR.sample(seed, s.n_draws), *inference)
    return {
        "likelihood": likelihood._asdict(),
        "exact": _summary(exact, exact),
        "rms": _summary(anchored, exact) | {"check": check_draws(solutions, anchored)},
        "mean-field": _summary(mean_field, exact),
        "solutions": solutions[: s.n_shown],
    }


def _summary(approximation: Normal, exact: Normal) -> dict:
    """`gap` is the most variance lost in any direction, as a share of the prior's."""
    lost = rms.scaled_posterior(PRIOR.cov, exact.cov - approximation.cov)
    return approximation._asdict() | {
        "variance_ratio": np.diag(approximation.cov) / np.diag(exact.cov),
        "correlation": rms.correlation(approximation.cov)[0, 1],
        "gap": np.abs(np.linalg.eigvalsh(lost)).max(),
    }


def _lengths(s: Settings) -> dict:
    """Row B with its likelihood stretched along the line and not across it."""
    _, var, corr = s.correlated
    across = var * (1 - corr)
    found = []
    for length in s.lengths:
        precision = np.linalg.inv(length * _correlated(1 - across / length))
        exact = rms.posterior(PRIOR, precision, np.zeros(2))
        found.append(_summary(Normal(exact.mean, rms.anchored_cov(PRIOR.cov, exact.cov)), exact))
    return {"rows": found}


def _correlated(corr: float) -> np.ndarray:
    return np.array([[1.0, corr], [corr, 1.0]])


def combine(s: Settings, results) -> dict:
    lengths = dict(zip(s.lengths, results["lengths"]["rows"], strict=True))
    return {"rows": {row: results[row] for row in ROWS}, "lengths": lengths}


def findings(record: Record) -> list[str]:
    rows, lengths = record["numbers"]["rows"], record["numbers"]["lengths"]
    first, *_, last = lengths
    worst = max(cells["rms"]["check"]["max_z"] for cells in rows.values())
    shown = {"first": first, "last": last, "worst": worst, "titles": ROWS}
    return sentences(ABOUT.name, rows=rows, lengths=lengths, **shown)


def tables(record: Record) -> list[Table]:
    body = []
    for row, cells in record["numbers"]["rows"].items():
        for name in ("exact", "rms", "mean-field"):
            cell = cells[name]
            ratio, corr, gap = cell["variance_ratio"][0], cell["correlation"], cell["gap"]
            variance = f"{cell['cov'][0][0]:.5f}"
            numbers = (variance, f"{ratio:.4f}", f"{corr:.4f}", f"{gap:.4f}")
            body.append((ROWS[row], COLUMNS[name], *numbers))
    header = (
        *("row", "", "variance", "divided by the exact", "correlation"),
        "largest loss of prior variance",
    )
    longer = [
        (f"{float(length):,.0f}", f"{c['variance_ratio'][0]:.5f}", f"{c['gap']:.5f}")
        for length, c in record["numbers"]["lengths"].items()
    ]
    return [
        Table("Posteriors; the two parameters have equal variances in every row", header, body),
        Table(
            "Row B with a longer likelihood of the same width",
            (
                "likelihood variance",
                "RMS variance divided by the exact",
                "largest loss of prior variance",
            ),
            longer,
        ),
    ]


def draw(figure, record: Record) -> None:
    rows = record["numbers"]["rows"]
    axes = figure.subplots(len(rows), len(COLUMNS), sharex=True, sharey=True)
    colours = dict(zip(COLUMNS, (GREEN, BLUE, ORANGE, PINK), strict=True))
    for axes_row, (row, cells) in zip(axes, rows.items(), strict=True):
        for ax, name in zip(axes_row, COLUMNS, strict=True):
            cell, exact = cells[name], cells["exact"]
            plane(ax, (-3.6, 3.6), (-3.6, 3.6))
            ellipses(ax, *PRIOR, colour=GREY, ls=":", lw=1.1, label="prior")
            if name in ("rms", "mean-field"):
                wide = {"lw": 3.6, "alpha": 0.35, "solid_capstyle": "butt"}
                ellipses(ax, exact["mean"], exact["cov"], BLUE, label="true posterior", **wide)
            if name == "rms":
                dots = {"ls": "", "marker": ".", "ms": 3, "color": "0.35"}
                ax.plot(*np.transpose(cells["solutions"]), label="MAP solutions", **dots)
            if name != "likelihood":
                note = f"correlation {cell['correlation']:.4f}"
                if name != "exact":
                    note = f"variance ratio {cell['variance_ratio'][0]:.4f}\n{note}"
                _note(ax, 0.04, 0.96, note)
            deviation = np.sqrt(cell["cov"][0][0])
            if name == "likelihood" and deviation > 10:
                ax.set_facecolor("#E3F2EC")
                _note(ax, 0.04, 0.1, f"flat: deviation {deviation:.0f}")
            ellipses(ax, cell["mean"], cell["cov"], colours[name], lw=1.8)
            ax.plot(*cell["mean"], ls="", marker="o", ms=3.5, color=colours[name])
            ax.label_outer()
        axes_row[0].set_ylabel(f"{ROWS[row]}\n" + r"$\theta_2$")
    for ax, title in zip(axes[0], COLUMNS.values(), strict=True):
        ax.set_title(title)
    legend_below(figure, axes.flat)


def _note(ax, x: float, y: float, text: str) -> None:
    box = {"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5}
    ax.text(x, y, text, transform=ax.transAxes, va="top", size=7.5, bbox=box)


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (9.5, 7.6))
