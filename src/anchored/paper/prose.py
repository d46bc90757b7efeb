"""Fills in the templates of pages and of findings, with the tables and times that they share."""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jinja2


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("anchored.paper"),
        autoescape=False,  # Markdown, from our own records
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["fmt"] = format
    made.globals |= {"duration": duration, "lines": "\n".join, "number": number, "table": table}
    return made


def rendered(template: str, **values: Any) -> str:
    """A template of this package with ``values`` in it."""
    return _templates().get_template(template).render(values).rstrip() + "\n"


def sentences(name: str, **values: Any) -> list[str]:
    """The findings of an experiment, a line of its template each."""
    return rendered(f"findings/{name}.j2", **values).splitlines()


def number(value: float | None, spec: str) -> str:
    """A number as text; in a record, None stands for a number that was not finite."""
    return "not finite" if value is None or not math.isfinite(value) else format(value, spec)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; nothing if it has no rows."""
    rows = list(rows)
    shown = (header, ["---"] * len(header), *rows) if rows else ()
    return "\n".join("| " + " | ".join(row) + " |" for row in shown)


def duration(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
