"""What the two experiments beside the paper's table 1 share: a record that grows, one command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from anchored.paper import runner
from anchored.paper.catalogue import UNKNOWN, About

FOLDER = Path(__file__).parents[1] / "docs/benchmarks/paper"


def experiment(
    name: str, title: str, claim: str, settings: Any, plan: Callable[..., list[runner.Cell]]
) -> runner.Experiment:
    return runner.Experiment(
        About(name, "beside table 1", title, claim, {"paper": UNKNOWN}),
        {"paper": settings},
        plan,
        combine=None,
        findings=lambda record: [],
        tables=lambda record: [],
    )


def run(made: runner.Experiment, datasets: list[str], folder: Path = FOLDER) -> None:
    """Do what the record lacks, one cell at a time."""
    context = runner.Context(0, None, datasets or None)
    runner.run(made, "paper", context, folder, lambda label, *_: print(label, flush=True))
