"""Numbers and names as people read them."""

import math
import re
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

_SPACE = "\N{NO-BREAK SPACE}"
# Control characters, marks that turn the direction of writing, and halves of surrogate pairs,
# which no file can hold. Columns and labels may have any of them in their names.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def cleaned(text: str) -> str:
    """Text without characters that a page cannot show."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


def plain(value: object, most: int = 200) -> str:
    """One line of readable text of any value, cut to ``most`` characters."""
    words = " ".join(cleaned(str(value)).split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def number(size: SupportsFloat, digits: int = 3) -> str:
    """A number to ``digits`` significant digits: 1,230 or 0.00123 or 1.23e9."""
    value = float(size)
    if not math.isfinite(value):
        return "none"
    if value == 0:
        return "0"
    place = math.floor(math.log10(abs(value)))
    if not -5 < place < 7:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "\N{MINUS SIGN}")
    rounded = round(value, digits - 1 - place)
    return f"{rounded:,.{max(0, digits - 1 - place)}f}".replace("-", "\N{MINUS SIGN}")


def percent(share: SupportsFloat) -> str:
    """A share in whole per cent, with decimals near 0 and 100: 91 %, 99.6 %."""
    value = 100 * float(share)
    if not math.isfinite(value):
        return "none"
    whole = value == 0 or (abs(value) >= 1 and not 99 < value < 100)
    text = f"{value:.0f}" if whole else f"{value:.1f}"
    if 0 < abs(value) < 0.05:
        text = "under 0.1"
    return f"{text}{_SPACE}%".replace("-", "\N{MINUS SIGN}")


def column(values: ArrayLike, digits: int = 4) -> list[str]:
    """Numbers of one column of a table, all with as many decimals."""
    array = np.asarray(values, np.float64)
    largest = float(np.max(np.abs(array), initial=0.0))
    if not math.isfinite(largest) or (largest and not 1e-4 < largest < 1e7):
        return [number(v, digits) for v in array]
    decimals = max(0, digits - 1 - math.floor(math.log10(largest or 1.0)))
    if np.array_equal(array, np.round(array)):
        decimals = 0
    return [f"{v:z,.{decimals}f}".replace("-", "\N{MINUS SIGN}") for v in array]


def level(share: SupportsFloat) -> str:
    """A level of coverage, not rounded: 90 %, 97.5 %."""
    return f"{100 * float(share):.6g}{_SPACE}%"


def counted(n: int, noun: str) -> str:
    """1 row, 2,000 rows."""
    return f"{n:,}{_SPACE}{noun}{'' if n == 1 else 's'}"
