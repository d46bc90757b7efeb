"""The page of agents that learn: what there is, and what the records say of it."""

from collections.abc import Mapping
from typing import Any

from anchored.paper.figures.rl_cartpole_record import main_settings
from anchored.paper.prose import rendered
from anchored.paper.runner import Record


def rl_page(records: Mapping[str, Record], bench: Mapping[str, Any] | None, pictures: str) -> str:
    """Markdown of the records by the name of their experiment.

    Sections of experiments that have no record are left out. ``pictures`` is the folder that has
    one for each preset; ``bench`` is the record of the benchmark.
    """
    found, cartpole = records.get("fig-rl-cartpole"), None
    if found is not None:
        cartpole = rendered(
            "rl_cartpole.md.j2",
            record=found,
            s=main_settings(found),
            pictures=f"{pictures}/{found['preset']}",
        )
    given = {"records": records, "bench": bench, "pictures": pictures, "cartpole": cartpole}
    return rendered("reinforcement_learning.md.j2", **given)
