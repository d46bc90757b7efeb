"""A small writer of SVG pictures: scales with ticks, a frame, and marks in data units.

Colours are classes, which the page's style sheet fills in for light, dark and paper.
"""

import dataclasses
import math
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from anchored.reporting._markup import Markup, joined, plain, tag
from anchored.reporting._words import percent

_TICK_SIZE = 6.6  # width of a character of a tick's label
_MOST_LABEL = 22  # characters of a tick's label
_FAR = 1e4  # pixels; nothing is drawn further out
_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclasses.dataclass(frozen=True)
class Scale:
    """One axis: its ends, and its ticks as (place, label)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    grid: bool = True

    def __call__(self, values) -> np.ndarray:
        """How far along the axis values lie; 0 and 1 are its ends."""
        return (np.asarray(values, np.float64) - self.low) / (self.high - self.low)


def linear(*values, zero: bool = False, room: float = 0.04) -> Scale:
    """Ends that hold all ``values``, and zero if asked for, with ``room`` beyond them."""
    found = np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in values])
    found = found[np.isfinite(found)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if not high - low > 1e-12 * max(abs(low), abs(high)):
        wide = max(abs(low) / 2, 0.5)
        low, high = (0.0, 2 * wide) if zero and low >= 0 else (low - wide, high + wide)
    extra = room * (high - low)
    low = low if zero and low == 0 else low - extra
    high = high if zero and high == 0 else high + extra
    return Scale(low, high, _ticks(low, high))


def counts(*values) -> Scale:
    """From zero to the largest of whole numbers."""
    scale = linear(*values, zero=True)
    if scale.high >= 4:
        return scale
    top = max(1, math.floor(scale.high))
    return Scale(0.0, top * 1.04, tuple((float(i), f"{i}") for i in range(top + 1)))


def shares(low: float = 0.0, high: float = 1.0) -> Scale:
    """From one share to another, in per cent."""
    step = 0.25 if 0.8 < high - low < 1.2 else _step(high - low)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = [i * step for i in range(first, last + 1)]
    fine = any(abs(100 * place - round(100 * place)) > 1e-6 for place in places)
    label = (lambda p: f"{100 * p:.3g} %") if fine else percent
    return Scale(low, high, tuple((p, label(p)) for p in places))


def names(labels: Sequence[str]) -> Scale:
    """One place for each label, the first on top."""
    ticks = tuple((float(i), plain(label, _MOST_LABEL)) for i, label in enumerate(labels))
    return Scale(len(labels) - 0.5, -0.5, ticks, grid=False)


@dataclasses.dataclass(frozen=True)
class Frame:
    """Where marks are placed: two scales and their titles. Sizes are pixels."""

    x: Scale
    y: Scale
    x_title: str
    y_title: str = ""
    width: float = 360.0
    height: float = 270.0

    @property
    def _left(self) -> float:
        widest = max((_text_width(label) for _, label in self.y.ticks), default=0.0)
        return 12.0 + widest + (16.0 if self.y_title else 0.0)

    @property
    def _inner(self) -> tuple[float, float]:
        """Width and height of the part that holds marks."""
        return self.width - self._left - 16.0, self.height - 8.0 - 42.0

    def _at(self, x, y) -> np.ndarray:
        """Pixels [point, 2] of data; points that are not finite are nan."""
        wide, high = self._inner
        across = np.broadcast_arrays(self.x(x) * wide, (1 - self.y(y)) * high)
        return np.clip(np.stack([np.ravel(part) for part in across], axis=-1), -_FAR, _FAR)

    def line(self, x, y, kind: str) -> Markup:
        """Straight pieces from point to point, with gaps where points are not finite."""
        path, pen = [], "M"
        for px, py in self._at(x, y):
            if not (math.isfinite(px) and math.isfinite(py)):
                pen = "M"
                continue
            path.append(f"{pen}{_px(px)} {_px(py)}")
            pen = "L"
        return tag("path", class_=f"line {kind}", d="".join(path)) if path else Markup()

    def band(self, x, low, high, kind: str) -> Markup:
        """The area between two lines."""
        there, back = self._at(x, high), self._at(x, low)[::-1]
        corners = "L".join(f"{_px(px)} {_px(py)}" for px, py in np.concatenate([there, back]))
        return tag("path", class_=f"band {kind}", d=f"M{corners}Z")

    def dots(self, x, y, kind: str, titles: Sequence[str] = (), size: float = 2.7) -> Markup:
        """A circle for each point; ``titles`` are shown when a pointer rests on them."""
        found = []
        for i, (px, py) in enumerate(self._at(x, y)):
            if math.isfinite(px) and math.isfinite(py):
                title = (tag("title", titles[i]),) if len(titles) else ()
                found.append(_circle(px, py, size, title))
        return tag("g", *found, class_=f"dots {kind}")

    def whiskers(self, x, low, high, kind: str) -> Markup:
        """Upright lines from ``low`` to ``high``."""
        return self._strokes(self._at(x, low), self._at(x, high), kind)

    def side_whiskers(self, low, high, y, kind: str) -> Markup:
        """Level lines from ``low`` to ``high``."""
        return self._strokes(self._at(low, y), self._at(high, y), kind)

    def _strokes(self, start, end, kind: str) -> Markup:
        path = "".join(
            f"M{_px(a)} {_px(b)}L{_px(c)} {_px(d)}"
            for (a, b), (c, d) in zip(start, end, strict=True)
            if math.isfinite(a + b + c + d)
        )
        return tag("path", class_=f"whisker {kind}", d=path) if path else Markup()

    def bars(self, left, right, low, high, kind: str) -> Markup:
        """Boxes with corners (left, low) and (right, high)."""
        found = []
        for (a, b), (c, d) in zip(self._at(left, low), self._at(right, high), strict=True):
            x, y, wide, tall = min(a, c), min(b, d), abs(c - a), abs(d - b)
            if math.isfinite(wide + tall) and wide > 0 and tall > 0:
                found.append(tag("rect", x=_px(x), y=_px(y), width=_px(wide), height=_px(tall)))
        return tag("g", *found, class_=f"bars {kind}")

    def picture(self, *marks: Markup, about: str) -> Markup:
        """The whole picture; ``about`` tells those who cannot see it what it shows."""
        wide, high = self._inner
        # A picture within the picture: what sticks far out of the frame is cut off.
        edge, seen = 4.0, f"{_px(wide + 8)} {_px(high + 8)}"
        inside = tag(
            "svg",
            *marks,
            x=_px(self._left - edge),
            y=_px(8 - edge),
            width=_px(wide + 2 * edge),
            height=_px(high + 2 * edge),
            viewBox=f"{_px(-edge)} {_px(-edge)} {seen}",
        )
        return tag(
            "svg",
            joined(self._grid()),
            inside,
            joined(self._labels()),
            viewBox=f"0 0 {_px(self.width)} {_px(self.height)}",
            role="img",
            aria_label=about,
        )

    def _grid(self) -> Iterable[Markup]:
        wide, high = self._inner
        left, top = self._left, 8.0
        if self.x.grid:
            for share in self._tick_shares(self.x):
                yield _stroke("grid", left + share * wide, top, left + share * wide, top + high)
        if self.y.grid:
            for share in self._tick_shares(self.y):
                y = top + (1 - share) * high
                yield _stroke("grid", left, y, left + wide, y)
        yield _stroke("axis", left, top + high, left + wide, top + high)
        yield _stroke("axis", left, top, left, top + high)

    def _labels(self) -> Iterable[Markup]:
        wide, high = self._inner
        left, top = self._left, 8.0
        taken = -math.inf
        for share, (_, label) in zip(self._tick_shares(self.x), self.x.ticks, strict=True):
            x, half = left + share * wide, _text_width(label) / 2
            x = min(x, self.width - half - 1)  # the last one stays on the picture
            if x - half < taken:
                continue
            taken = x + half + 4
            yield _text(label, x, top + high + 15, "tick", "middle")
        for share, (_, label) in zip(self._tick_shares(self.y), self.y.ticks, strict=True):
            yield _text(label, left - 6, top + (1 - share) * high + 3.8, "tick", "end")
        yield _text(self.x_title, left + wide / 2, self.height - 7, "title", "middle")
        if self.y_title:
            turn = f"rotate(-90 12 {_px(top + high / 2)})"
            yield _text(self.y_title, 12, top + high / 2, "title", "middle", turn)

    @staticmethod
    def _tick_shares(scale: Scale) -> list[float]:
        return [float(scale(place)) for place, _ in scale.ticks]


def _circle(x: float, y: float, size: float, children: tuple) -> Markup:
    given = f'cx="{_px(x)}" cy="{_px(y)}" r="{_px(size)}"'
    return Markup(
        f"<circle {given}>{joined(children)}</circle>" if children else f"<circle {given}/>"
    )


def _stroke(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return tag("path", class_=kind, d=f"M{_px(x1)} {_px(y1)}L{_px(x2)} {_px(y2)}")


def _text(words: str, x: float, y: float, kind: str, anchor: str, turn: str | None = None):
    return tag("text", words, x=_px(x), y=_px(y), class_=kind, text_anchor=anchor, transform=turn)


def _px(value: float) -> str:
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _text_width(label: str) -> float:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in label)
    return _TICK_SIZE * (len(label) + 0.9 * wide)


def _step(span: float, about: int = 5) -> float:
    """A round step of which about ``about`` make up the span."""
    rough = span / about
    size = 10.0 ** math.floor(math.log10(rough))
    return size * next(nice for nice in _NICE if nice * size >= rough * (1 - 1e-9))


def _ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    step = _step(high - low)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((i * step, _tick_label(i * step, step, low, high)) for i in range(first, last + 1))


def _tick_label(value: float, step: float, low: float, high: float) -> str:
    """All labels of an axis have as many digits as its step needs."""
    largest = max(abs(low), abs(high))
    if step >= 1e-4 and largest < 1e6:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        decimals += abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6  # of 2.5
        text = f"{value:z,.{decimals}f}"
    elif abs(value) < step / 2:
        text = "0"
    else:
        digits = max(0, math.floor(math.log10(abs(value))) - math.floor(math.log10(step) + 1e-9))
        digits += abs(step / 10 ** math.floor(math.log10(step) + 1e-9) % 1) > 1e-6
        mantissa, exponent = f"{value:.{digits}e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "\N{MINUS SIGN}")
