"""The templates of the page, filled in. Text that is not markup is always escaped."""

import functools
import re
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from anchored.reporting.verdicts import FEW_ROWS
from anchored.reporting.words import cleaned, counted, level, number, percent, plain


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("anchored.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: cleaned(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {f.__name__: f for f in (counted, level, number, percent, plain, px)}
    made.globals |= {"style": _style(), "few_rows": FEW_ROWS}
    return made


def rendered(template: str, **values: Any) -> Markup:
    """A template of this package with ``values`` in it."""
    return Markup(_templates().get_template(template).render(values))


def px(value: float) -> str:
    """Pixels to a tenth."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _style() -> Markup:
    """The style sheet without its comments and line breaks."""
    text = files("anchored.reporting").joinpath("templates/style.css").read_text("utf-8")
    return Markup(" ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split()))
