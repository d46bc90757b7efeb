"""The templates: what is not markup is escaped, and the wheel holds them."""

import re
from importlib.resources import files

import jinja2
import numpy as np
import pytest

from anchored.reporting import svg
from anchored.reporting.page import rendered

TEMPLATES = files("anchored.reporting").joinpath("templates")


def test_every_template_is_in_the_package_and_can_be_read():
    names = {path.name for path in TEMPLATES.iterdir()}
    assert names == {
        "classes.html", "page.html", "parts.html", "picture.svg", "regression.html", "style.css",
    }  # fmt: skip
    for name in names - {"style.css", "page.html"}:
        jinja2.Environment().parse(TEMPLATES.joinpath(name).read_text("utf-8"))


def test_text_is_escaped_once_and_markup_is_kept():
    frame = svg.Frame(svg.shares(), svg.shares(), "a < b\x00", "&amp;")
    dots = frame.dots([0.5], [0.5], "one", ['<i>"row"</i>'])
    made = frame.picture(dots, about='"><script>')
    assert "a &lt; b\N{REPLACEMENT CHARACTER}</text>" in made
    assert "&amp;amp;</text>" in made
    assert 'aria-label="&#34;&gt;&lt;script&gt;"' in made
    assert "<title>&lt;i&gt;&#34;row&#34;&lt;/i&gt;</title></circle>" in made


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        rendered("picture.svg")


def test_colours_can_be_read_and_are_told_apart():
    """Contrast by the web's guidelines: 4.5 for text, 3 for marks."""
    css = TEMPLATES.joinpath("style.css").read_text("utf-8")
    for block in re.findall(r":root \{([^}]*)\}", css):
        colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for ground in ("paper", "panel"):
            for text in ("ink", "soft", "one", "two"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["muted"], colours["paper"]) >= 2.9


def contrast(a, b):
    def light(colour):
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    high, low = sorted([light(a), light(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)
