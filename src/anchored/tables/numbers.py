"""Numbers in text, as people write them: "$1,234.50" or "12 %" or "1 234,5".

A form is named by an example. It has marks between thousands and before decimals, and it may have
one sign, of a currency or of per cent, which every cell then has. The sign does not change the
value: "12 %" is 12.
"""

import functools
import itertools
import math
import re
from collections.abc import Iterable

_SPACES = " \u00a0\u2009\u202f"
# The marks of thousands and of decimals. "1,234" is read in the first form that fits all cells.
_MARKS = {
    "1234.5": ("", "."),
    "1,234.5": (",", "."),
    "1.234,5": (".", ","),
    "1 234,5": (_SPACES, ","),
    "1 234.5": (_SPACES, "."),
    "1'234.5": ("'\u2019", "."),
}
_SIGNS = "$€£¥₹"
PLAIN = "1234.5"


def _names(sign: str) -> tuple[str, ...]:
    if not sign:
        return tuple(_MARKS)
    return tuple(f"{marks} %" if sign == "%" else f"{sign}{marks}" for marks in _MARKS)


FORMS = tuple(itertools.chain.from_iterable(_names(sign) for sign in ("", "%", *_SIGNS)))


@functools.cache
def _pattern(form: str) -> tuple[re.Pattern[str], str, str]:
    marks = form.strip(_SIGNS + "% ")
    sign = re.escape(form.replace(marks, "").strip())
    thousands, decimal = _MARKS[marks]
    whole = r"\d+" + (rf"|\d{{1,3}}(?:[{thousands}]\d{{3}})+" if thousands else "")
    point = re.escape(decimal)
    value = rf"(?:(?:{whole})(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d+)?"
    if sign:
        value = rf"{sign}[{_SPACES}]?(?P<after>[-+]?{value})|(?P<before>{value})[{_SPACES}]?{sign}"
    else:
        value = f"(?P<after>{value})(?P<before>)"
    return re.compile(rf"(?P<minus>[-+]?)(?:{value})", re.ASCII), thousands, decimal


def parse_number(cell: str, form: str = PLAIN) -> float | None:
    """The finite number in a cell, written in ``form`` or plainly; None if there is none."""
    value = _value(cell, form)
    return _value(cell, PLAIN) if value is None and form != PLAIN else value


def _value(cell: str, form: str) -> float | None:
    pattern, thousands, decimal = _pattern(form)
    found = pattern.fullmatch(cell)
    if found is None:
        return None
    digits = found["minus"] + (found["after"] or found["before"])
    for mark in thousands:
        digits = digits.replace(mark, "")
    try:
        value = float(digits.replace(decimal, "."))
    except ValueError:  # two signs
        return None
    return value if math.isfinite(value) else None


def number_form(cells: Iterable[str]) -> str | None:
    """The form in which all cells are numbers, if there is one."""
    forms: tuple[str, ...] | None = None
    for cell in cells:
        if forms is None:
            forms = _names(next((sign for sign in _SIGNS + "%" if sign in cell), ""))
        forms = tuple(form for form in forms if _value(cell, form) is not None)
        if not forms:
            return None
    return forms[0] if forms else None
