"""JSON that may come from anywhere: every value is checked when it is taken.

`Fields` hands out each field of an object once, by name, for the type that must be there, and names
the fields that nobody took. What is wrong becomes an exception that the caller makes from the
field's path and a sentence.
"""

import json
import math
import sys
from collections.abc import Callable, Collection
from typing import Any

MOST_WHOLE = 2**40

# Makes the exception for a field, by its path, and a sentence.
Wrong = Callable[[str, str], Exception]


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError if it is none."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("it is not JSON") from error


def quoted(value: object) -> str:
    """A value for a message: short, on one line."""
    try:
        text = repr(value)
    except RecursionError:
        return "lists in lists"
    return text if len(text) <= 60 else text[:57] + "..."


def is_whole(value: object, least: int = 0, most: int = MOST_WHOLE) -> bool:
    return type(value) is int and least <= value <= most


def is_number(value: Any) -> bool:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and abs(value) <= sys.float_info.max  # whole numbers may be larger


def _value_error(path: str, sentence: str) -> Exception:
    return ValueError(sentence)


class Fields:
    """An object of a JSON text whose fields are taken once each.

    Parameters
    ----------
    value : what should be an object.
    where : path of the object, with the mark that parts it from its fields: ``"network/"``.
    wrong : makes the exception.
    """

    def __init__(self, value: Any, where: str = "", wrong: Wrong = _value_error):
        self._where, self._wrong = where, wrong
        if not isinstance(value, dict):
            raise self.wrong("", value, "an object")
        self._left = dict(value)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def path(self, name: str) -> str:
        return f"{self._where}{name}" if name else self._where.rstrip("/.") or "the content"

    def fault(self, name: str, sentence: str) -> Exception:
        """The exception for a field, with a sentence of the caller's."""
        return self._wrong(self.path(name), sentence)

    def wrong(self, name: str, got: object, need: str) -> Exception:
        return self.fault(name, f"`{self.path(name)}` must be {need}, not {quoted(got)}.")

    def take(self, name: str) -> Any:
        """A field as it is."""
        if name not in self._left:
            raise self.fault(name, f"`{self.path(name)}` is missing.")
        return self._left.pop(name)

    def absent(self, name: str) -> bool:
        """Whether a field is missing or null; it then counts as taken."""
        if self._left.get(name) is not None:
            return False
        self._left.pop(name, None)
        return True

    def object(self, name: str) -> "Fields":
        return self._inner(name, self.take(name))

    def optional_object(self, name: str) -> "Fields | None":
        value = self.take(name)
        return None if value is None else self._inner(name, value)

    def objects(self, name: str) -> "list[Fields]":
        return [self._inner(f"{name}/{i}", item) for i, item in enumerate(self.items(name))]

    def _inner(self, name: str, value: Any) -> "Fields":
        return Fields(value, f"{self._where}{name}/", self._wrong)

    def plain_object(self, name: str) -> dict:
        """An object whose content is not looked at here."""
        value = self.take(name)
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return value

    def items(self, name: str, most: int | None = None) -> list:
        """A list whose items are not looked at here."""
        value = self.take(name)
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list")
        if most is not None and len(value) > most:
            raise self.wrong(name, value, f"a list of at most {most}")
        return value

    def text(self, name: str, allowed: Collection[str] | None = None) -> str:
        value = self.take(name)
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            need = "text" if allowed is None else f"one of {', '.join(allowed)}"
            raise self.wrong(name, value, need)
        return value

    def texts(self, name: str, most: int | None = None) -> tuple[str, ...]:
        value = self.items(name, most)
        if not all(isinstance(item, str) for item in value):
            raise self.wrong(name, value, "a list of texts")
        return tuple(value)

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def whole(self, name: str, least: int = 0, most: int = MOST_WHOLE) -> int:
        value = self.take(name)
        if not is_whole(value, least, most):
            raise self.wrong(name, value, f"a whole number from {least} to {most}")
        return value

    def wholes(self, name: str, least: int = 0, most_items: int | None = None) -> tuple[int, ...]:
        value = self.items(name, most_items)
        if not all(is_whole(item, least) for item in value):
            raise self.wrong(name, value, f"a list of whole numbers from {least} on")
        return tuple(value)

    def number(self, name: str, above: float = -math.inf, most: float = math.inf) -> float:
        value = self.take(name)
        if not (is_number(value) and above < value <= most):
            raise self.wrong(name, value, f"a number above {above:g} and at most {most:g}")
        return float(value)

    def within(self, name: str, least: float, most: float) -> float:
        value = self.take(name)
        if not (is_number(value) and least <= value <= most):
            raise self.wrong(name, value, f"a number from {least:g} to {most:g}")
        return float(value)

    def close(self) -> None:
        """Nothing may be left."""
        if self._left:
            name = next(iter(self._left))
            raise self.fault(name, f"`{self._where}{quoted(name)}` is not known.")
