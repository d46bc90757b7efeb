"""The page around the pictures: sections and tables; `style.css` is for screen and paper."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from anchored.reporting._markup import Markup, joined, plain, tag
from anchored.reporting._verdict import Verdict

Column = tuple[str, Sequence[str]]  # a heading and the cells below it

_SIGNS = {"good": "✓", "bad": "!", "unsure": "?"}


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading, words, and what stands below them."""

    title: str
    lead: str
    body: tuple[Markup, ...]


def document(title: str, subtitle: str, top: Iterable[Markup], sections: Iterable[Section], foot):
    """The whole page."""
    body = [
        tag("header", tag("h1", plain(title)), tag("p", plain(subtitle), class_="lead")),
        *top,
        *(_section(section) for section in sections),
        tag("footer", *foot),
    ]
    # The policy makes sure that nothing in the file is ever run or fetched.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", plain(title)),
        tag("style", Markup(_style())),
    ]
    page = tag("html", tag("head", *head), "\n", tag("body", tag("main", *body)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _style() -> str:
    """The style sheet without its comments and line breaks."""
    text = files("anchored.reporting").joinpath("style.css").read_text("utf-8")
    return " ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split())


def _section(section: Section) -> Markup:
    lead = [tag("p", section.lead, class_="lead")] if section.lead else []
    return tag("section", "\n", tag("h2", section.title), *lead, *section.body)


def verdict(found: Verdict, *more: str) -> Markup:
    """The finding that comes first."""
    sign = tag("span", _SIGNS[found.kind], class_="sign", aria_hidden="true")
    words = [tag("p", *_coded(text)) for text in (found.advice, *more) if text]
    return tag("div", tag("strong", sign, found.headline), *words, class_=f"verdict {found.kind}")


def _coded(text: str) -> list[str]:
    """Words between backticks as code."""
    return [tag("code", part) if i % 2 else part for i, part in enumerate(text.split("`"))]


def tiles(values: Sequence[tuple[str, str, str]]) -> Markup:
    """Numbers that matter: name, value, and what to compare it with."""
    found = [
        tag("div", tag("dt", name), tag("dd", value, tag("small", beside)), class_="tile")
        for name, value, beside in values
    ]
    across = 3 if len(found) % 3 == 0 else 4
    return tag("dl", *found, class_="tiles", style=f"--across:{across}")


def figure(
    title: str, picture: Markup, finding: str, reading: str, keys: Sequence[Markup] = ()
) -> Markup:
    """A picture under its title; below it what it shows here, and how to read it."""
    legend = [tag("div", *keys)] if keys else []
    found = [tag("b", finding), " "] if finding else []
    return tag("figure", tag("h3", title), picture, tag("figcaption", *legend, *found, reading))


def titled(title: str, body: Markup) -> Markup:
    """Something other than a picture under a title of its own."""
    return tag("div", tag("h3", title), body)


def figures(*found: Markup) -> Markup:
    return tag("div", *found, class_="figures")


def key(kind: str, words: str) -> Markup:
    """An entry of a legend."""
    return tag("span", tag("i"), words, class_=f"key {kind}")


def facts(values: Mapping[str, str]) -> Markup:
    """Names and values, two columns of them where there is room."""
    found = [
        tag("div", tag("dt", plain(name, 60)), tag("dd", plain(value)))
        for name, value in values.items()
    ]
    return tag("dl", *found, class_="facts")


def table(columns: Sequence[Column], caption: str = "") -> Markup:
    """A table that scrolls sideways where it does not fit."""
    head = tag("tr", *(tag("th", plain(name, 28), scope="col") for name, _ in columns))
    rows = zip(*(cells for _, cells in columns), strict=True)
    body = [tag("tr", *(tag("td", plain(cell, 40)) for cell in row)) for row in rows]
    below = [tag("caption", caption)] if caption else []
    inner = tag("table", *below, tag("thead", head), tag("tbody", *body))
    return tag("div", inner, class_="scroll")


def counts_table(labels: Sequence[str], counts, caption: str) -> Markup:
    """Counts [observed, predicted]; shades are shares of the observed."""
    short = [plain(label, 16) for label in labels]
    head = tag(
        "tr", tag("th", "observed ↓ predicted →"), *(tag("th", s, scope="col") for s in short)
    )
    body = []
    for i, row in enumerate(counts):
        whole = max(int(sum(row)), 1)
        cells = [
            tag(
                "td",
                f"{int(n):,}" if n else "·",
                style=f"--share:{int(n) / whole:.2f}",
                class_="right" if i == j else None,
            )
            for j, n in enumerate(row)
        ]
        body.append(tag("tr", tag("th", short[i], scope="row"), *cells))
    inner = tag(
        "table", tag("caption", caption), tag("thead", head), tag("tbody", *body), class_="counts"
    )
    return tag("div", inner, class_="scroll")


def notes(words: Sequence[str]) -> Markup:
    """A list of remarks."""
    return tag("ul", *(tag("li", plain(line, 1_000)) for line in words), class_="notes")


def folded(title: str, *body: Markup) -> Markup:
    """What only some readers want: folded on screen, open on paper."""
    return tag("details", tag("summary", title), joined(body))
