"""Messages of the demo: they are read, checked against the limits and applied. Nothing here depends
on the web.

A message is one JSON object. `read` gives a checked `Message` or raises `Refused`, which names the
field; `applied` gives the scene after it. A scene contains everything that a client has asked for.
So only the newest scene counts, and no queue of messages is needed.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from anchored._json import Fields, parsed
from anchored.demo import presets
from anchored.demo.presets import DEFAULTS, METHODS, PROBLEMS, RANGES, WHOLE_RANGES, Settings
from anchored.errors import shown
from anchored.exact import rms

MESSAGE_BYTES = 65_536
VARIANCE_RANGE = (1e-6, 1e6)  # of the tab on randomised MAP sampling
CORRELATION_RANGE = (-0.999, 0.999)
_COORDINATES = (-presets.MAX_COORDINATE, presets.MAX_COORDINATE)
_MAX_ID = 2**53  # whole numbers that JavaScript keeps


class Refused(ValueError):
    """A message that changes nothing: the field that is wrong, in which message, and why."""

    def __init__(self, field: str, message: str, message_id: int | None = None):
        super().__init__(message)
        self.field, self.message_id = field, message_id

    def answer(self) -> dict:
        return _with_id(
            {"type": "error", "field": self.field, "message": str(self)}, self.message_id
        )


class Message(NamedTuple):
    """A message whose fields are checked."""

    type: str
    id: int | None
    fields: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a client wants to see."""

    problem: str
    settings: Settings
    points: tuple[tuple[float, ...], ...]
    numbers: tuple[int, ...]  # of the points: one that stays or moves keeps its number
    seed: int
    view: tuple[float, float]
    pair: tuple[int, int]  # flat numbers of the parameters shown
    opened: int = 0  # how often a scene was opened, anchors and initial draws were renewed
    anchors: int = 0
    initial: int = 0


def read(text: str | bytes, scene: Scene | None) -> Message:
    """The checked message in ``text``, which was sent while ``scene`` was shown."""
    if isinstance(text, bytes):
        raise Refused("message", "A message must be text, not bytes.")
    if len(text) > MESSAGE_BYTES or len(text.encode("utf-8", "replace")) > MESSAGE_BYTES:
        raise Refused("message", f"A message may have at most {MESSAGE_BYTES} bytes.")
    try:
        record = parsed(text)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise Refused("message", "A message must be a JSON object.")
    found = Fields(record, wrong=_refused)
    message_id = None if found.absent("id") else found.whole("id", 0, _MAX_ID)
    try:
        return _checked(found, message_id, scene)
    except Refused as error:
        error.message_id = message_id
        raise


def _checked(found: Fields, message_id: int | None, scene: Scene | None) -> Message:
    kind = found.text("type", _FIELDS)
    if scene is None and kind not in ("open", "rms"):
        raise Refused("type", f"Nothing is open: send an `open` message before `{kind}`.")
    problem, width = (scene.problem, scene.settings.width) if scene else ("", 0)
    fields: dict[str, Any] = {}
    for name in _FIELDS[kind]:
        if name in found or (kind, name) not in _OPTIONAL:
            fields[name] = _TAKE[name](found, fields.get("problem", problem), width)
    found.close()
    if kind == "open":
        for name in DEFAULTS[fields["problem"]].as_dict():
            if name not in fields["settings"]:
                raise Refused(f"settings.{name}", f"`settings` needs `{name}` here.")
    return Message(kind, message_id, fields)


_FIELDS: dict[str, tuple[str, ...]] = {
    "open": ("problem", "points", "settings", "seed", "view"),
    "points": ("points",),
    "settings": ("settings",),
    "view": ("view",),
    "run": (),
    "pause": (),
    "step": ("steps",),
    "anchors": (),
    "reset": (),
    "weights": ("pair",),
    "ack": ("frame",),
    "rms": ("mean", "variances", "correlation", "prior_variances"),
}
_OPTIONAL = {("open", "seed"), ("open", "view")}
CHANGES = ("open", "points", "settings", "view", "anchors", "reset", "weights")


def applied(scene: Scene | None, message: Message) -> Scene:
    """The scene after one of the messages `CHANGES`."""
    fields = message.fields
    if message.type == "open" or scene is None:
        problem, settings = fields["problem"], Settings(**{"noise_var": None} | fields["settings"])
        return Scene(
            problem=problem,
            settings=settings,
            points=fields["points"],
            numbers=tuple(range(len(fields["points"]))),
            seed=fields.get("seed", 0),
            view=fields.get("view", presets.VIEW),
            pair=presets.default_pair(problem, settings.width),
            opened=scene.opened + 1 if scene else 1,
        )
    if message.type == "points":
        numbers = _numbers(scene, fields["points"])
        return dataclasses.replace(scene, points=fields["points"], numbers=numbers)
    if message.type == "settings":
        settings = dataclasses.replace(scene.settings, **fields["settings"])
        pair = scene.pair
        if settings.width != scene.settings.width:
            pair = presets.default_pair(scene.problem, settings.width)
        return dataclasses.replace(scene, settings=settings, pair=pair)
    if message.type == "anchors":
        return dataclasses.replace(scene, anchors=scene.anchors + 1)
    if message.type == "reset":
        return dataclasses.replace(scene, initial=scene.initial + 1)
    return dataclasses.replace(scene, **fields)  # view, weights


def _numbers(scene: Scene, points: tuple) -> tuple[int, ...]:
    """Numbers of new points: those that stay keep theirs, and so does one that moves."""
    left: dict[tuple, list[int]] = {}
    for point, number in zip(scene.points, scene.numbers, strict=True):
        left.setdefault(point, []).append(number)
    numbers = [left[p].pop(0) if left.get(p) else None for p in points]
    free = sorted(number for group in left.values() for number in group)
    fresh = max(scene.numbers, default=-1) + 1
    if len(points) != len(scene.points):  # points came or went: none has moved
        free = []
    spare = iter([*free, *range(fresh, fresh + len(points))])
    return tuple(next(spare) if number is None else number for number in numbers)


def error(field: str, text: str, message_id: int | None = None) -> dict:
    """An error answer."""
    return Refused(field, text, message_id).answer()


def rms_answer(message: Message) -> dict:
    """The distributions of two parameters: exact, by anchors from the prior, by mean-field VI."""
    import numpy as np

    fields = message.fields
    deviations = np.sqrt(fields["variances"])
    correlation = np.array([[1, fields["correlation"]], [fields["correlation"], 1]])
    likelihood = rms.Normal(
        np.array(fields["mean"]), deviations[:, None] * correlation * deviations
    )
    prior = rms.Normal(np.zeros(2), np.diag(fields["prior_variances"]))
    precision = np.linalg.inv(likelihood.cov)
    given = (prior, precision, precision @ likelihood.mean)
    parts = {
        "likelihood": likelihood,
        "prior": prior,
        "posterior": rms.posterior(*given),
        "anchored": rms.anchored_posterior(*given),
        "mean_field": rms.mean_field_posterior(*given),
    }
    answer = {"type": "rms"} | {
        name: {
            "mean": normal.mean.tolist(),
            "cov": normal.cov.tolist(),
            "variances": np.diag(normal.cov).tolist(),
            "correlation": float(rms.correlation(normal.cov)[0, 1]),
        }
        for name, normal in parts.items()
    }
    return _with_id(answer, message.id)


def hello(version: str, limits: dict) -> dict:
    """What the page needs to know of this server."""
    return {
        "type": "hello",
        "version": version,
        "limits": {
            "points": presets.MAX_POINTS,
            "coordinate": presets.MAX_COORDINATE,
            "seed": presets.MAX_SEED,
            "steps": presets.MAX_STEPS,
            "message_bytes": MESSAGE_BYTES,
            **WHOLE_RANGES,
            **limits,
        },
        "choices": {"activation": presets.ACTIVATIONS, "method": METHODS["regression"]},
        "ranges": RANGES,
        "defaults": {problem: settings.as_dict() for problem, settings in DEFAULTS.items()},
        "presets": presets.presets(),
    }


# Fields: each is taken from the message, given the problem and the width of the network.


def _settings(found: Fields, problem: str, width: int) -> dict[str, Any]:
    given = Fields(found.take("settings"), "settings.", _refused)
    names = [name for name in DEFAULTS[problem].as_dict() if name in given]
    settings = {name: _setting(given, name, problem) for name in names}
    given.close()
    return settings


def _setting(given: Fields, name: str, problem: str) -> str | float:
    if name == "activation":
        return given.text(name, presets.ACTIVATIONS)
    if name == "method":
        return given.text(name, METHODS[problem])
    if name in WHOLE_RANGES:
        return given.whole(name, *WHOLE_RANGES[name])
    return given.within(name, *RANGES[name])


def _points(found: Fields, problem: str, width: int) -> tuple[tuple[float, ...], ...]:
    points = found.items("points", presets.MAX_POINTS)
    return tuple(_point(f"points[{i}]", point, problem) for i, point in enumerate(points))


def _point(field: str, point: Any, problem: str) -> tuple[float, ...]:
    names = ("x", "y") if problem == "regression" else ("x1", "x2", "label")
    if not isinstance(point, list) or len(point) != len(names):
        raise Refused(field, f"A point of {problem} must be [{', '.join(names)}].")
    found = Fields(
        dict(zip(names, point, strict=True)), f"{field}.", lambda _, text: Refused(field, text)
    )
    values = tuple(found.within(name, *_COORDINATES) for name in names[:2])
    return values if problem == "regression" else (*values, found.whole("label", 0, 1))


def _view(found: Fields, problem: str, width: int) -> tuple[float, float]:
    if problem != "regression":
        raise Refused("view", f"The problem {problem} has no `view`.")
    low, high = _two_numbers(found, "view", *_COORDINATES)
    if not high - low >= 1e-3:
        raise Refused("view", "`view` must be [from, to], from at least 0.001 below to.")
    return low, high


def _pair(found: Fields, problem: str, width: int) -> tuple[int, int]:
    pair, most = _two(found, "pair"), presets.n_parameters(problem, width) - 1
    return pair.whole("[0]", 0, most), pair.whole("[1]", 0, most)


def _two_numbers(found: Fields, name: str, least: float, most: float) -> tuple[float, float]:
    two = _two(found, name)
    return two.within("[0]", least, most), two.within("[1]", least, most)


def _two(found: Fields, name: str) -> Fields:
    """A list of two, as fields ``[0]`` and ``[1]``."""
    items = found.items(name)
    if len(items) != 2:
        raise found.wrong(name, items, "a list of two numbers")
    return Fields({f"[{i}]": item for i, item in enumerate(items)}, name, _refused)


_TAKE: dict[str, Callable[[Fields, str, int], Any]] = {
    "problem": lambda found, *_: found.text("problem", PROBLEMS),
    "points": _points,
    "settings": _settings,
    "seed": lambda found, *_: found.whole("seed", 0, presets.MAX_SEED),
    "view": _view,
    "steps": lambda found, *_: found.whole("steps", 1, presets.MAX_STEPS),
    "pair": _pair,
    "frame": lambda found, *_: found.whole("frame", 0, _MAX_ID),
    "mean": lambda found, *_: _two_numbers(found, "mean", *_COORDINATES),
    "variances": lambda found, *_: _two_numbers(found, "variances", *VARIANCE_RANGE),
    "correlation": lambda found, *_: found.within("correlation", *CORRELATION_RANGE),
    "prior_variances": lambda found, *_: _two_numbers(found, "prior_variances", *VARIANCE_RANGE),
}


def _refused(path: str, sentence: str) -> Refused:
    return Refused(path if len(path) <= 50 and path.isprintable() else shown(path), sentence)


def _with_id(answer: dict, message_id: int | None) -> dict:
    return answer if message_id is None else answer | {"id": message_id}
