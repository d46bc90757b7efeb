"""Where each page of the repository appears on the site, and what it answers."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Place(NamedTuple):
    """A page of the repository on the site.

    Attributes
    ----------
    source : path from the root of the repository.
    page : name on the site, without its ending.
    answers : one line for the list of pages.
    """

    source: str
    page: str
    answers: str

    @property
    def section(self) -> str:
        return self.page.split("/")[0]


_PLACES = [
    Place("docs/your_table.md", "guides/your_table", "From a CSV file to a model and a report."),
    Place("docs/classification.md", "guides/classification", "Classes instead of numbers."),
    Place("docs/how_to_choose.md", "guides/how_to_choose", "Which method, activation and noise."),
    Place("docs/calibration.md", "guides/calibration", "Check intervals on rows of your own."),
    Place("docs/metrics.md", "guides/metrics", "Every score: its unit and what is good."),
    Place("docs/your_network.md", "guides/your_network", "Equinox, Flax, PyTorch or plain JAX."),
    Place(
        "docs/images_and_text.md", "guides/images_and_text", "Networks for images and for words."
    ),
    Place("docs/decisions.md", "guides/decisions", "Optimise, choose labels, abstain."),
    Place("docs/updates.md", "guides/updates", "Add rows to a fitted model without a full fit."),
    Place(
        "docs/explanations.md",
        "guides/explanations",
        "What drives a prediction and its uncertainty.",
    ),
    Place("docs/scale.md", "guides/scale", "Many rows, many members, many machines."),
    Place("docs/serving.md", "guides/serving", "Predictions in other engines and over HTTP."),
    Place("docs/training.md", "guides/training", "Stop, look, add rows and continue."),
    Place("docs/rivals.md", "guides/rivals", "Other methods on the same problem."),
    Place("docs/data.md", "guides/data", "The data sets, their licences and splits."),
    Place("docs/demo.md", "guides/demo", "Watch an ensemble learn on your machine."),
    Place(
        "docs/scaling_contract.md", "how/scaling_contract", "The loss, and what it is divided by."
    ),
    Place("docs/randomised_map.md", "how/randomised_map", "Why members are posterior draws."),
    Place("docs/infinite_width.md", "how/infinite_width", "The exact limit, and the gap to it."),
    Place("docs/student_t.md", "how/student_t", "Why ten members need wider intervals."),
    Place("docs/limits.md", "how/limits", "What the error bars do not promise."),
    Place("docs/notation.md", "how/notation", "Glossary: one word for each idea."),
    Place("docs/real_tables.md", "results/real_tables", "21 tables against CatBoost and others."),
    Place("docs/own_tables.md", "results/own_tables", "Five tables on which nothing was tuned."),
    Place("docs/benchmarks.md", "results/benchmarks", "The UCI regression benchmark."),
    Place("docs/coverage.md", "results/coverage", "Do error bars cover the true function?"),
    Place(
        "docs/out_of_distribution.md",
        "results/out_of_distribution",
        "Are networks sure about unfamiliar inputs?",
    ),
    Place(
        "docs/reinforcement_learning.md",
        "results/reinforcement_learning",
        "Agents that explore and plan.",
    ),
    Place("docs/reproduction.md", "results/reproduction", "Every figure of the paper."),
    Place("CONTRIBUTING.md", "contributing/contributing", "Layers, packages and conventions."),
    Place("docs/walk_through.md", "contributing/walk_through", "One row from end to end."),
    Place("CHANGELOG.md", "contributing/changelog", "What changed, version by version."),
]


def places() -> list[Place]:
    """Every page that exists; a new page under docs/ joins the guides."""
    known = [place for place in _PLACES if (ROOT / place.source).is_file()]
    named = {place.source for place in _PLACES}
    found = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
    new = [Place(s, f"guides/{Path(s).stem}", "") for s in found if s not in named]
    return [*known, *new]
