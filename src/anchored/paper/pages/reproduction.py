"""The page of the paper's figures."""

from collections.abc import Iterable, Mapping
from typing import Any

from anchored.paper.pages.markdown import all_tables, duration

_HEAD = """# Reproduction

Every figure of Pearce et al. 2020 on inference, rebuilt by one command each, with the numbers
the paper leaves to the eye. This page is made from the records beside its pictures by
`make docs`; times are those of two CPU cores. `anchored reproduce --list` says what each needs.
"""


def reproduction_page(records: Iterable[Mapping[str, Any]], pictures: str) -> str:
    """Markdown of all records; ``pictures`` is the folder of their pictures as the page sees it."""
    return "\n".join([_HEAD, *(_section(record, pictures) for record in records)])


def _section(record: Mapping[str, Any], pictures: str) -> str:
    name = record["name"]
    command = f"anchored reproduce {name}"
    if record["preset"] != "paper":
        command += f" --preset {record['preset']}"
    if record["seed"]:
        command += f" --seed {record['seed']}"
    lines = [
        f"## {record['title']} ({record['figure']})",
        "",
        f"**The paper:** {record['claim']}",
        "",
        f"![{record['title']}]({pictures}/{name}.png)",
        "",
        *(f"- {finding}" for finding in record["findings"]),
        "",
        f"`{command}` took {duration(record['seconds'])}.",
        "",
    ]
    return "\n".join(lines + all_tables(record, "{}:"))
