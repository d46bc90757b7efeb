"""HTML and SVG built from tags, so that text which is not markup is always escaped."""

import re
from html import escape

# Control characters, marks that turn the direction of writing, and halves of surrogate pairs,
# which no file can hold. Columns and labels may have any of them in their names.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_VOID = {"circle", "meta", "path", "rect"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def plain(value: object, most: int = 200) -> str:
    """One line of readable text of any value, cut to ``most`` characters."""
    words = " ".join(_UNFIT.sub("\N{REPLACEMENT CHARACTER}", str(value)).split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Children and attributes are escaped unless they are `Markup`.

    Attributes that are None are left out; ``class_`` stands for class, ``_`` for a hyphen.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>" if name == "meta" else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children) -> Markup:
    """Pieces one after the other, each escaped unless it is `Markup`."""
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in children))
