"""Messages of the demo: read, checked against the limits, applied. Nothing here knows the web.

A message is one JSON object. `read` gives a checked `Message` or raises `Refused`, which names
the field; `applied` gives the scene after it. A scene is all that a client has asked for, so the
newest one says everything and no queue of messages is needed.
"""

import dataclasses
import json
import math
from typing import Any, NamedTuple, NoReturn

from anchored._json import is_number, is_whole, parsed
from anchored.demo import presets
from anchored.demo.presets import DEFAULTS, METHODS, PROBLEMS, RANGES, WHOLE_RANGES, Settings
from anchored.errors import shown
from anchored.exact import rms

MESSAGE_BYTES = 65_536
VARIANCE_RANGE = (1e-6, 1e6)  # of the tab on randomised MAP sampling
MAX_CORRELATION = 0.999
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
    """The checked message in ``text``, sent while ``scene`` was there."""
    if isinstance(text, bytes):
        raise Refused("message", "A message must be text, not bytes.")
    if len(text) > MESSAGE_BYTES or len(text.encode("utf-8", "replace")) > MESSAGE_BYTES:
        raise Refused("message", f"A message may have {MESSAGE_BYTES} bytes at most.")
    try:
        record = parsed(text)
    except ValueError:
        raise Refused("message", "A message must be a JSON object.") from None
    if not isinstance(record, dict):
        raise Refused("message", "A message must be a JSON object.")
    message_id = record.pop("id", None)
    if message_id is not None and not is_whole(message_id, 0, _MAX_ID):
        raise Refused("id", f"`id` must be a whole number from 0 to {_MAX_ID}.")
    try:
        return _checked(record, message_id, scene)
    except Refused as error:
        error.message_id = message_id
        raise


def _checked(record: dict, message_id: int | None, scene: Scene | None) -> Message:
    kind = record.pop("type", None)
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise Refused("type", f"`type` must be one of {', '.join(_FIELDS)}; got {_shown(kind)}.")
    if scene is None and kind not in ("open", "rms"):
        raise Refused("type", f"Nothing is open: send an `open` message before `{kind}`.")
    needed, optional = _FIELDS[kind]
    for name in record:
        if name not in needed and name not in optional:
            raise Refused(_shown_name(name), f"A message `{kind}` has no field {_shown(name)}.")
    for name in needed:
        if name not in record:
            raise Refused(name, f"A message `{kind}` needs a field `{name}`.")
    problem = scene.problem if scene else None
    if kind == "open":
        problem = _choice("problem", record["problem"], PROBLEMS)
        if problem != "regression" and "view" in record:
            raise Refused("view", f"The problem {problem} has no `view`.")
    width = scene.settings.width if scene else 0
    fields = {name: _CHECKS[name](value, problem, width) for name, value in record.items()}
    if kind == "open":
        names = DEFAULTS[fields["problem"]].as_dict()
        for name in names:
            if name not in fields["settings"]:
                raise Refused(f"settings.{name}", f"`settings` needs `{name}` here.")
    return Message(kind, message_id, fields)


_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "open": (("problem", "settings", "points"), ("seed", "view")),
    "points": (("points",), ()),
    "settings": (("settings",), ()),
    "view": (("view",), ()),
    "run": ((), ()),
    "pause": ((), ()),
    "step": (("steps",), ()),
    "anchors": ((), ()),
    "reset": ((), ()),
    "weights": (("pair",), ()),
    "ack": (("frame",), ()),
    "rms": (("mean", "variances", "correlation", "prior_variances"), ()),
}
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


# Checks of fields: each takes the value, the problem and the width of the network.


def _check_settings(value, problem, width) -> dict:
    if not isinstance(value, dict):
        raise Refused("settings", "`settings` must be an object.")
    allowed = DEFAULTS[problem].as_dict()
    for name in value:
        if name not in allowed:
            words = f"`settings` of {problem} has no {_shown(name)}; it has {', '.join(allowed)}."
            raise Refused(f"settings.{_shown_name(name)}", words)
    return {name: _check_setting(name, v, problem) for name, v in value.items()}


def _check_setting(name: str, value, problem: str):
    field = f"settings.{name}"
    if name == "activation":
        return _choice(field, value, presets.ACTIVATIONS)
    if name == "method":
        return _choice(field, value, METHODS[problem])
    if name in WHOLE_RANGES:
        return _whole(field, value, *WHOLE_RANGES[name])
    return _number(field, value, *RANGES[name])


def _check_points(value, problem, width) -> tuple:
    if not isinstance(value, list) or len(value) > presets.MAX_POINTS:
        raise Refused("points", f"`points` must be a list of at most {presets.MAX_POINTS} points.")
    return tuple(_check_point(f"points[{i}]", point, problem) for i, point in enumerate(value))


def _check_point(field: str, point, problem: str) -> tuple[float, ...]:
    form = "[x, y]" if problem == "regression" else "[x1, x2, label]"
    if not isinstance(point, list) or len(point) != form.count(",") + 1:
        raise Refused(field, f"A point of {problem} must be {form}.")
    most = presets.MAX_COORDINATE
    values = tuple(_number(field, v, -most, most) for v in point[:2])
    if problem == "regression":
        return values
    return (*values, _whole(field, point[2], 0, 1))


def _check_view(value, problem, width) -> tuple[float, float]:
    if problem != "regression":
        raise Refused("view", f"The problem {problem} has no `view`.")
    most = presets.MAX_COORDINATE
    low, high = _two("view", value, -most, most)
    if not high - low >= 1e-3:
        raise Refused("view", "`view` must be [from, to], from at least 0.001 below to.")
    return low, high


def _check_pair(value, problem, width) -> tuple[int, int]:
    most = presets.n_parameters(problem, width) - 1
    if not (isinstance(value, list) and len(value) == 2):
        raise Refused("pair", "`pair` must be a list of two numbers of parameters.")
    first, second = (_whole(f"pair[{i}]", v, 0, most) for i, v in enumerate(value))
    return first, second


def _two(field: str, value, low: float, high: float) -> tuple[float, float]:
    if not (isinstance(value, list) and len(value) == 2):
        raise Refused(field, f"`{field}` must be a list of two numbers.")
    first, second = (_number(f"{field}[{i}]", v, low, high) for i, v in enumerate(value))
    return first, second


_CHECKS = {
    "problem": lambda v, problem, width: _choice("problem", v, PROBLEMS),
    "settings": _check_settings,
    "points": _check_points,
    "seed": lambda v, problem, width: _whole("seed", v, 0, presets.MAX_SEED),
    "view": _check_view,
    "steps": lambda v, problem, width: _whole("steps", v, 1, presets.MAX_STEPS),
    "pair": _check_pair,
    "frame": lambda v, problem, width: _whole("frame", v, 0, _MAX_ID),
    "mean": lambda v, problem, width: _two(
        "mean", v, -presets.MAX_COORDINATE, presets.MAX_COORDINATE
    ),
    "variances": lambda v, problem, width: _two("variances", v, *VARIANCE_RANGE),
    "correlation": lambda v, problem, width: _number(
        "correlation", v, -MAX_CORRELATION, MAX_CORRELATION
    ),
    "prior_variances": lambda v, problem, width: _two("prior_variances", v, *VARIANCE_RANGE),
}


def _choice(field: str, value, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        _refuse(field, value, f"one of {', '.join(allowed)}")
    return value


def _whole(field: str, value, low: int, high: int) -> int:
    if not is_whole(value, low, high):
        _refuse(field, value, f"a whole number from {low} to {high}")
    return value


def _number(field: str, value, low: float, high: float) -> float:
    if not (is_number(value) and low <= value <= high):  # not a number is in no range
        _refuse(field, value, f"a number from {low:g} to {high:g}")
    return float(value)


def _refuse(field: str, value, need: str) -> NoReturn:
    raise Refused(field, f"`{field}` must be {need}; got {_shown(value)}.")


def _shown(value) -> str:
    """What was sent, for a message: short, and free of what it contains in depth."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, float) or value is None or isinstance(value, bool):
        return json.dumps(value) if value is None or math.isfinite(value) else "no finite number"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**15 else "a huge number"
    return "a list" if isinstance(value, list) else "an object"


def _shown_name(name: str) -> str:
    return name if len(name) <= 40 and name.isprintable() else shown(name)


def _with_id(answer: dict, message_id: int | None) -> dict:
    return answer if message_id is None else answer | {"id": message_id}
