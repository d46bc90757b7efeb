"""The page around the pictures: sections, tables, and one style sheet for screen and paper."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from anchored.reporting._markup import Markup, joined, plain, tag
from anchored.reporting._verdict import Verdict

# Blue and orange are told apart by people who do not see all colours; shapes and words say
# the same a second time.
LIGHT = {
    "paper": "#ffffff", "panel": "#f5f7fa", "ink": "#18202b", "soft": "#566273",
    "rule": "#dde3ea", "one": "#0067a5", "two": "#b84a00", "muted": "#8a96a5",
}  # fmt: skip
DARK = {
    "paper": "#11151b", "panel": "#1a2029", "ink": "#e7ebf1", "soft": "#a3afbf",
    "rule": "#2e3743", "one": "#5ab4ec", "two": "#f29a4a", "muted": "#7d8998",
}  # fmt: skip

_STYLE = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:2rem 1.25rem 3rem;max-width:62rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem}
h2{font-size:1.2rem;line-height:1.3;margin:2.75rem 0 .25rem;padding-top:1.1rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:0 0 .35rem}
p{margin:.4rem 0;max-width:44rem}
.soft,figcaption,.lead{color:var(--soft)}
.verdict{margin:1.4rem 0;padding:1rem 1.25rem;border-left:.4rem solid var(--mark);background:var(--panel);
border-radius:.3rem;--mark:var(--muted)}
.verdict.good{--mark:var(--one)}.verdict.bad{--mark:var(--two)}
.verdict strong{display:block;font-size:1.2rem;line-height:1.35}
.verdict .sign{color:var(--mark);font-weight:700;margin-right:.45rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.2rem,1fr));gap:.6rem;margin:1.2rem 0;padding:0}
.tile{background:var(--panel);border-radius:.3rem;padding:.65rem .8rem}
.tile dt{color:var(--soft);font-size:.82rem;line-height:1.3}
.tile dd{margin:.1rem 0 0;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
.tile dd small{display:block;font-size:.78rem;font-weight:400;color:var(--soft)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:1.6rem 2rem;margin:1.2rem 0}
figure{margin:0;min-width:0}
figcaption{font-size:.9rem;line-height:1.45;margin-top:.3rem}
figcaption b{color:var(--ink);font-weight:600}
svg{display:block;width:100%;height:auto;overflow:hidden}
figure>svg{max-width:32rem}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:0 2rem;margin:1rem 0}
.facts div{display:flex;justify-content:space-between;gap:1rem;padding:.3rem 0;border-bottom:1px solid var(--rule)}
.facts dt{color:var(--soft);flex:0 1 auto}.facts dd{margin:0;text-align:right;flex:0 1 auto}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
th,td{padding:.35rem .75rem .35rem 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--soft);font-weight:500}
th:first-child,td:first-child{text-align:left}
caption{caption-side:bottom;text-align:left;color:var(--soft);font-size:.88rem;padding-top:.4rem}
table.counts th,table.counts td{text-align:center;padding:.4rem .6rem;min-width:3rem}
table.counts tbody th{text-align:right}
table.counts td{background:color-mix(in srgb,var(--hue) calc(var(--share)*55%),transparent);--hue:var(--two)}
table.counts td.right{--hue:var(--one)}
details{margin:1rem 0}summary{cursor:pointer;color:var(--one)}
ul{padding-left:1.2rem;max-width:44rem}li{margin:.25rem 0}
.key{white-space:nowrap;margin-right:.8rem}
.key i{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.35em;background:var(--hue)}
.key.one{--hue:var(--one)}.key.two{--hue:var(--two)}.key.faint{--hue:color-mix(in srgb,var(--one) 35%,transparent)}
.key.ring{--hue:var(--two)}.key.ring i{background:none;border:.14em solid var(--hue)}
.key.ideal i{border-radius:0;height:0;width:1.2em;background:none;border-top:2px dashed var(--soft);vertical-align:middle}
.key.muted i{border-radius:.1em;background:color-mix(in srgb,var(--muted) 30%,transparent)}
svg text{fill:var(--soft);font-size:11px;font-family:inherit}svg text.title{fill:var(--ink);font-size:12px}
svg .grid{stroke:var(--rule);stroke-width:1}svg .axis{stroke:var(--muted);stroke-width:1}
svg .one{--hue:var(--one)}svg .two{--hue:var(--two)}svg .muted{--hue:var(--muted)}
svg .ink{--hue:var(--ink)}svg .ideal{--hue:var(--soft)}svg .faint{--hue:var(--one)}
svg .line{fill:none;stroke:var(--hue);stroke-width:2;stroke-linejoin:round}
svg .line.thin{stroke-width:1.2;opacity:.75}
svg .line.ideal{stroke-width:1.4;stroke-dasharray:5 4}
svg .band{fill:var(--hue);opacity:.22}svg .band.over{opacity:.3}
svg .dots{fill:var(--hue);fill-opacity:.85}
svg .dots.ring{fill:var(--paper);fill-opacity:1;stroke:var(--hue);stroke-width:1.6}
svg .whisker{fill:none;stroke:var(--hue);stroke-width:1.4}
svg .whisker.thin{stroke-width:1;opacity:.38}svg .whisker.two.thin{opacity:.8}
svg .whisker.wide{stroke-width:7;opacity:.35}
svg .bars{fill:var(--hue);stroke:var(--paper);stroke-width:.8}svg .bars.faint{fill-opacity:.3}
footer{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--rule);color:var(--soft);font-size:.88rem}
@media (max-width:30rem){body{padding:1.25rem 1rem 2rem}h1{font-size:1.35rem}
.verdict{padding:.8rem .9rem}.verdict strong{font-size:1.08rem}
.tiles{grid-template-columns:1fr 1fr}.tile dd{font-size:1.15rem}}
@media print{@page{margin:14mm}body{padding:0;max-width:none;font-size:9.5pt}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
.figures{grid-template-columns:1fr 1fr;gap:1rem 1.5rem}
.facts{grid-template-columns:1fr 1fr}
figure,.verdict,.tile,tr,.keep{break-inside:avoid}h2,h3{break-after:avoid}h2{margin-top:1.4rem}
.scroll{overflow:visible}details::details-content{content-visibility:visible;block-size:auto}
summary{list-style:none;color:var(--soft)}}
"""

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
    light, dark = (
        ":root{" + "".join(f"--{name}:{value};" for name, value in colours.items()) + "}"
        for colours in (LIGHT, DARK)
    )
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}{_STYLE}"


def _section(section: Section) -> Markup:
    lead = [tag("p", section.lead, class_="lead")] if section.lead else []
    return tag("section", "\n", tag("h2", section.title), *lead, *section.body)


def verdict(found: Verdict, *more: str) -> Markup:
    """The finding that comes first."""
    sign = tag("span", _SIGNS[found.kind], class_="sign", aria_hidden="true")
    words = [tag("p", text) for text in (found.advice, *more) if text]
    return tag("div", tag("strong", sign, found.headline), *words, class_=f"verdict {found.kind}")


def tiles(values: Sequence[tuple[str, str, str]]) -> Markup:
    """Numbers that matter: name, value, and what to compare it with."""
    found = [
        tag("div", tag("dt", name), tag("dd", value, tag("small", beside)), class_="tile")
        for name, value, beside in values
    ]
    return tag("dl", *found, class_="tiles")


def figure(title: str, picture: Markup, finding: str, reading: str, keys: Sequence[Markup] = ()):
    """A picture under its title; below it what it shows here, and how to read it."""
    words = [tag("div", *keys)] if keys else []
    caption = tag("figcaption", *words, tag("b", finding), " " if finding else "", reading)
    return tag("figure", tag("h3", title), picture, caption)


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


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Markup:
    """A table that scrolls sideways where it does not fit."""
    head = tag("tr", *(tag("th", plain(cell, 28), scope="col") for cell in header))
    body = [tag("tr", *(tag("td", plain(cell, 40)) for cell in row)) for row in rows]
    below = [tag("caption", caption)] if caption else []
    return tag("div", tag("table", *below, tag("thead", head), tag("tbody", *body)), class_="scroll")


def counts_table(labels: Sequence[str], counts, caption: str) -> Markup:
    """Counts [observed, predicted]; shades are shares of the observed."""
    short = [plain(label, 16) for label in labels]
    head = tag("tr", tag("th", "observed ↓ predicted →"), *(tag("th", s, scope="col") for s in short))
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
