"""Dates in text: the order in which they are written, and the days since 1970.

A date may have a time after a space or a "T", to the minute, the second or a part of it, with AM
or PM, and a time zone ("Z" or "+02:00"), which is turned into UTC. Months may be English words.
"""

import datetime
import re
from collections.abc import Iterable

_WORD = r"(?P<month>[A-Za-z]{3,9})\.?"
_ORDERS = {  # how the parts of a date follow each other
    "YYYY-MM-DD": r"(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
    "DD.MM.YYYY": r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
    "MM/DD/YYYY": r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})",
    "DD/MM/YYYY": r"(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4})",
    "DD Month YYYY": rf"(?P<day>\d{{1,2}})\.?[- /]?{_WORD}[- /,]{{1,2}}(?P<year>\d{{4}})",
    "Month DD YYYY": rf"{_WORD}[- ](?P<day>\d{{1,2}})[- ,]{{1,2}}(?P<year>\d{{4}})",
}
_TIME = (
    r"(?:(?:T|,? )(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)? ?(?:Z|(?P<zone>[-+]\d{2}:?\d{2}))?)?"
)
_PATTERNS = {order: re.compile(date + _TIME, re.ASCII) for order, date in _ORDERS.items()}
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august")
_MONTHS += ("september", "october", "november", "december")
_EPOCH = datetime.date(1970, 1, 1).toordinal()

ORDERS = tuple(_ORDERS)
YEAR_FIRST = ORDERS[0]


def parse_date(cell: str, order: str) -> float | None:
    """Days since 1970 of a date written in ``order`` or with the year first; None if it is not."""
    found = _PATTERNS[order].fullmatch(cell) or _PATTERNS[YEAR_FIRST].fullmatch(cell)
    if found is None:
        return None
    part = found.groupdict()
    hour, minute = _hour(int(part["hour"] or 0), part["half"]), int(part["minute"] or 0)
    second = float(part["second"] or 0)
    if hour is None or minute > 59 or second >= 60:
        return None
    try:
        date = datetime.date(int(part["year"]), _month(part["month"]), int(part["day"]))
    except ValueError:  # no such day
        return None
    minutes = 60 * hour + minute - _zone_minutes(part["zone"])
    return date.toordinal() - _EPOCH + (60 * minutes + second) / 86_400


def _hour(hour: int, half: str | None) -> int | None:
    if half is None:
        return hour if hour < 24 else None
    return hour % 12 + 12 * (half in "Pp") if 1 <= hour <= 12 else None


def _month(text: str) -> int:
    """The number, or that of the month whose name starts so; 0 if there is none."""
    if text.isdecimal():
        return int(text)
    word = "sep" if text.lower() == "sept" else text.lower()
    names = (place for place, name in enumerate(_MONTHS, 1) if word in (name, name[:3]))
    return next(names, 0)


def _zone_minutes(zone: str | None) -> int:
    if not zone:
        return 0
    digits = zone[1:].replace(":", "")
    return int(zone[0] + "1") * (60 * int(digits[:2]) + int(digits[2:]))


def date_orders(cells: Iterable[str]) -> tuple[str, ...]:
    """The orders that all cells can be read in.

    More than one is left if day and month cannot be told apart. For dates with the year first, one
    is left.
    """
    orders = ORDERS
    for cell in cells:
        orders = tuple(order for order in orders if parse_date(cell, order) is not None)
        if not orders:
            break
    return ORDERS[:1] if orders == ORDERS else orders
