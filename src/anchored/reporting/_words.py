"""Numbers as people read them."""

import math

_SPACE = "\N{NO-BREAK SPACE}"


def number(value: float, digits: int = 3) -> str:
    """A number to ``digits`` significant digits: 1,230 or 0.00123 or 1.23e9."""
    value = float(value)
    if not math.isfinite(value):
        return "none"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -5 < size < 7:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "\N{MINUS SIGN}")
    rounded = round(value, digits - 1 - size)
    return f"{rounded:,.{max(0, digits - 1 - size)}f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    """A share in whole per cent, finer at both ends: 91 %, 99.6 %."""
    value = 100 * float(share)
    if not math.isfinite(value):
        return "none"
    whole = 1 <= abs(value) <= 99 or value in (0.0, 100.0)
    text = f"{value:.0f}" if whole else f"{value:.1f}"
    return f"{text}{_SPACE}%".replace("-", "\N{MINUS SIGN}")


def level(share: float) -> str:
    """A level that somebody chose, as it was written: 90 %, 97.5 %."""
    return f"{100 * share:.6g}{_SPACE}%"


def counted(n: int, noun: str) -> str:
    """1 row, 2,000 rows."""
    return f"{n:,}{_SPACE}{noun}{'' if n == 1 else 's'}"
