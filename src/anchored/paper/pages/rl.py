"""The page of agents that learn: what the library has, and what the records show."""

from collections.abc import Mapping
from typing import Any

from anchored.paper.figures.rl_cartpole_record import main_settings
from anchored.paper.prose import rendered
from anchored.paper.runner import Record

_TRIED = ("anchored", "randomised-priors")


def rl_page(records: Mapping[str, Record], beside: Mapping[str, Any], pictures: str) -> str:
    """Markdown of the records by the name of their experiment.

    Sections of experiments that have no record are left out. ``pictures`` is the folder that has
    one folder for each preset. ``beside`` are the existing records of the benchmarks ``rl``,
    ``rl_planning`` and ``deep_sea_trials``.
    """
    found, cartpole = records.get("fig-rl-cartpole"), None
    if found is not None:
        cartpole = rendered(
            "rl_cartpole.md.j2",
            record=found,
            s=main_settings(found),
            pictures=f"{pictures}/{found['preset']}",
        )
    trials = beside.get("deep_sea_trials")
    return rendered(
        "reinforcement_learning.md.j2",
        records=records,
        bench=beside.get("rl"),
        planning=beside.get("rl_planning"),
        trials=None if trials is None else _tried(trials),
        tried=None if trials is None else _tried_columns(trials),
        drift=None if trials is None else _drift(trials),
        pictures=pictures,
        cartpole=cartpole,
    )


def _tried(record: Mapping[str, Any]) -> list[list[str]]:
    """A row for each setting: what it was, and the first treasures of either method by size."""
    runs: dict[tuple[str, str, str], list[str]] = {}
    for label, run in record["trials"].items():
        method, name, size, _ = label.split("/")
        first = f"> {run['n_episodes']:,}" if run["found"] is None else f"{run['found']:,}"
        runs.setdefault((method, name, size), []).append(first)
    columns = [(m, size) for size in _sizes(record) for m in _TRIED]
    rows = []
    for name, choice in record["choices"].items():
        about = [f"{choice[key]:g}" for key in ("first_var", "prior_scale", "noise_var")]
        about.append(f"{choice['capacity']:,}")
        shown = [", ".join(runs.get((m, name, size), ["-"])) for m, size in columns]
        rows.append([*about, _rate(choice), *shown])
    return rows


def _rate(choice: Mapping[str, Any]) -> str:
    """The learning rate; a star marks steps in units of the prior's scale."""
    return f"{choice['learning_rate']:g}" + (" *" if choice["in_prior_units"] else "")


def _tried_columns(record: Mapping[str, Any]) -> list[str]:
    """Heads of the columns of `_tried`."""
    priors = ["prior variance of the first layer", "prior scale of the last layer"]
    shown = [f"{m.replace('-', ' ')}, {size}" for size in _sizes(record) for m in _TRIED]
    return [*priors, "noise variance", "rows kept", "rate", *shown]


def _sizes(record: Mapping[str, Any]) -> list[str]:
    return sorted({label.split("/")[2] for label in record["trials"]}, key=int)


def _drift(record: Mapping[str, Any]) -> list[list[str]]:
    """A row for each agent: the spread at cells never seen, after some episodes."""
    rows = []
    for label, looks in record["drift"].items():
        method, name = label.split("/")
        rate = _rate(record["choices"][name])
        shown = [
            "-" if look["spread_unseen"] is None else f"{look['spread_unseen']:.2f}"
            for look in looks
        ]
        rows.append([f"{method.replace('-', ' ')}, rate {rate}", *shown])
    return rows
