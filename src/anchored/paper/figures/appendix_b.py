"""Appendix B: every example of the theory, computed and compared with the printed numbers."""

import dataclasses
from functools import partial

import numpy as np

from anchored.exact import rms
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.examples import ANCHORED, EXAMPLES, example
from anchored.paper.figures.theory import entries
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table

TIES = 1e-9  # a number may lie half-way between two printed ones: 0.145 is printed as 0.15


@dataclasses.dataclass(frozen=True)
class Settings:
    """There is nothing to set: the examples are those of the appendix, with ours at the end."""

    examples: tuple[str, ...] = EXAMPLES


ABOUT = CATALOGUE["appendix-b"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    return [Cell(name, 1.0, partial(_cell, name)) for name in s.examples]


def _cell(name: str) -> dict:
    found = example(name)
    bias = rms.bias(found.prior, found.posterior)
    checks = []
    for what, computed, printed, digits in found.printed:
        units = np.abs(np.subtract(computed, printed)).max() / (0.5 * 10.0**-digits)
        checks.append({"what": what, "computed": computed, "printed": printed, "off": units})
    return {
        "section": found.section,
        "title": found.title,
        "prior": found.prior,
        "posterior": found.posterior,
        "anchored": rms.anchored_cov(found.prior, found.posterior),
        "checks": checks,
        "gap": rms.exactness_gap(found.prior, found.posterior),
        "largest_kept": np.linalg.eigvalsh(
            rms.scaled_posterior(found.prior, found.posterior)
        ).max(),
        "exact_correlation": bias.exact_correlation,
        "anchored_correlation": bias.anchored_correlation,
        "variance_ratio": bias.variance_ratio,
    }


def combine(s: Settings, results) -> dict:
    return {name: results[name] for name in s.examples}


def reproduces(check: dict) -> bool:
    """Whether the computed numbers round to the printed ones."""
    return check["off"] is not None and check["off"] <= 1 + TIES


def findings(record: Record) -> list[str]:
    numbers = record["numbers"]
    checks = [(cell, check) for cell in numbers.values() for check in cell["checks"]]
    network = {check["what"]: check for check in numbers["two-node network"]["checks"]}
    return sentences(
        ABOUT.name,
        n_checks=len(checks),
        failed=[f"{k['what']} of {cell['section']}" for cell, k in checks if not reproduces(k)],
        rank=np.linalg.matrix_rank(network["S_like⁻¹"]["computed"]),
        anchored=network[ANCHORED],
        ours=numbers["counter-example"],
        mixed=numbers["overlapping mixture"],
        entries=entries,
    )


def tables(record: Record) -> list[Table]:
    rows = []
    for cell in record["numbers"].values():
        for check in cell["checks"]:
            off = "does not exist" if check["off"] is None else f"{check['off']:.2f}"
            verdict = "yes" if reproduces(check) else "no"
            rows.append((cell["section"], cell["title"], check["what"], off, verdict))
    header = ("section", "example", "printed", "largest difference", "reproduces")
    title = "Difference from the printed numbers, divided by the most that rounding explains"
    return [Table(title, header, rows)]


def draw(figure, record: Record) -> None:
    examples = list(record["numbers"].values())
    width = (len(examples) + 1) // 2
    axes = figure.subplots(4, width)
    for index, cell in enumerate(examples):
        block, column = divmod(index, width)
        pair = axes[2 * block][column], axes[2 * block + 1][column]
        limit = np.abs([cell["posterior"], cell["anchored"]]).max()
        for ax, name in zip(pair, ("posterior", "anchored"), strict=True):
            _heat(ax, np.array(cell[name]), limit)
        pair[0].set_title(f"{cell['section']}: {cell['title']}", weight="bold")
    for top, bottom in (axes[:2, 0], axes[2:, 0]):
        top.set_ylabel(r"exact: $\Sigma_{post}$")
        bottom.set_ylabel(r"anchored: $\Sigma_{post}\Sigma_{prior}^{-1}\Sigma_{post}$")


def _heat(ax, matrix: np.ndarray, limit: float) -> None:
    ax.imshow(matrix, cmap="PuOr_r", vmin=-1.25 * limit, vmax=1.25 * limit)
    for (i, j), value in np.ndenumerate(matrix):
        colour = "white" if abs(value) > 0.75 * limit else "black"
        text = f"{value + 0.0:.3f}".rstrip("0").rstrip(".") if abs(value) > 5e-4 else "0"
        ax.text(
            j, i, text, ha="center", va="center", color=colour, size=8 if len(matrix) > 3 else 9
        )
    ax.set(xticks=[], yticks=[])


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (9.6, 10.0))
