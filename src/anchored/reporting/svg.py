"""A small writer of SVG pictures: scales with ticks, a frame, and marks in data units.

Colours are CSS classes; the page's style sheet sets them for light, dark and print.
"""

import dataclasses
import math
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from anchored.reporting.page import px, rendered
from anchored.reporting.words import percent, plain

_TICK_SIZE = 6.6  # width of a character of a tick's label
_MOST_LABEL = 22  # characters of a tick's label
_FAR = 1e4  # pixels; nothing is drawn further out
_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
_TOP = 8.0  # pixels above the part that holds marks
_PATH = Markup('<path class="{} {}" d="{}"/>')
_DOT = Markup('<circle cx="{}" cy="{}" r="{}"/>')
_TITLED_DOT = Markup('<circle cx="{}" cy="{}" r="{}"><title>{}</title></circle>')
_BAR = Markup('<rect x="{}" y="{}" width="{}" height="{}"/>')
_GROUP = Markup('<g class="{} {}">{}</g>')


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

    @property
    def shares(self) -> list[float]:
        """The positions of the ticks along the axis."""
        return [float(self(place)) for place, _ in self.ticks]


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
    def left(self) -> float:
        """Pixels beside the part that holds marks."""
        widest = max((_text_width(label) for _, label in self.y.ticks), default=0.0)
        return 12.0 + widest + (16.0 if self.y_title else 0.0)

    @property
    def inner(self) -> tuple[float, float]:
        """Width and height of the part that holds marks."""
        return self.width - self.left - 16.0, self.height - _TOP - 42.0

    def _at(self, x, y) -> np.ndarray:
        """Pixels [point, 2] of data; points that are not finite are nan."""
        wide, high = self.inner
        across = np.broadcast_arrays(self.x(x) * wide, (1 - self.y(y)) * high)
        return np.clip(np.stack([np.ravel(part) for part in across], axis=-1), -_FAR, _FAR)

    def line(self, x, y, kind: str) -> Markup:
        """Straight pieces from point to point, with gaps where points are not finite."""
        path, pen = [], "M"
        for point in self._at(x, y):
            finite = np.isfinite(point).all()
            path += [pen + _pair(point)] if finite else []
            pen = "L" if finite else "M"
        return _path("line", kind, path)

    def band(self, x, low, high, kind: str) -> Markup:
        """The area between two lines."""
        corners = np.concatenate([self._at(x, high), self._at(x, low)[::-1]])
        return _path("band", kind, ["M", "L".join(map(_pair, corners)), "Z"])

    def dots(self, x, y, kind: str, titles: Sequence[str] = (), size: float = 2.7) -> Markup:
        """A circle for each point; ``titles`` are shown when a pointer rests on them."""
        made = []
        for i, point in enumerate(self._at(x, y)):
            if np.isfinite(point).all():
                place = (px(point[0]), px(point[1]), px(size))
                made.append(
                    _TITLED_DOT.format(*place, titles[i]) if titles else _DOT.format(*place)
                )
        return _GROUP.format("dots", kind, Markup().join(made))

    def strokes(self, x, y, to_x, to_y, kind: str) -> Markup:
        """Straight lines from (x, y) to (to_x, to_y)."""
        start, end = self._at(x, y), self._at(to_x, to_y)
        finite = np.isfinite(start + end).all(axis=1)
        return _path("whisker", kind, [*map(_stroke, start[finite], end[finite])])

    def bars(self, left, right, low, high, kind: str) -> Markup:
        """Boxes with corners (left, low) and (right, high)."""
        ends = np.stack([self._at(left, low), self._at(right, high)])
        corner, size = ends.min(axis=0), np.abs(ends[1] - ends[0])
        kept = np.isfinite(size).all(axis=1) & (size > 0).all(axis=1)
        boxes = np.hstack([corner, size])[kept]
        made = [_BAR.format(*map(px, box)) for box in boxes]
        return _GROUP.format("bars", kind, Markup().join(made))

    def picture(self, *marks: Markup, about: str) -> Markup:
        """The whole picture; ``about`` says what it shows to those who cannot see it."""
        return rendered("picture.svg", frame=self, marks=marks, about=about)

    def rules(self) -> Iterator[tuple[str, str]]:
        """Lines of the grid and the axes: their class and their path."""
        wide, high = self.inner
        left, low = self.left, _TOP + high
        for share in self.x.shares if self.x.grid else ():
            yield "grid", _stroke((left + share * wide, _TOP), (left + share * wide, low))
        for share in self.y.shares if self.y.grid else ():
            y = _TOP + (1 - share) * high
            yield "grid", _stroke((left, y), (left + wide, y))
        yield "axis", _stroke((left, low), (left + wide, low))
        yield "axis", _stroke((left, _TOP), (left, low))

    def labels(self) -> Iterator[tuple[str, float, float, str, str, bool]]:
        """Text beside the axes: place, class, alignment, and whether it is turned."""
        wide, high = self.inner
        left, taken = self.left, -math.inf
        for share, (_, label) in zip(self.x.shares, self.x.ticks, strict=True):
            half = _text_width(label) / 2
            x = min(left + share * wide, self.width - half - 1)  # the last one stays in sight
            if x - half >= taken:
                taken = x + half + 4
                yield label, x, _TOP + high + 15, "tick", "middle", False
        for share, (_, label) in zip(self.y.shares, self.y.ticks, strict=True):
            yield label, left - 6, _TOP + (1 - share) * high + 3.8, "tick", "end", False
        yield self.x_title, left + wide / 2, self.height - 7, "title", "middle", False
        if self.y_title:
            yield self.y_title, 12, _TOP + high / 2, "title", "middle", True


def _pair(point) -> str:
    return f"{px(point[0])} {px(point[1])}"


def _stroke(start, end) -> str:
    return f"M{_pair(start)}L{_pair(end)}"


def _path(shape: str, kind: str, pieces: Sequence[str]) -> Markup:
    return _PATH.format(shape, kind, "".join(pieces)) if pieces else Markup()


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
