"""The file of an optimiser: JSON, written whole or not at all, every field checked when read."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from anchored._files import write_whole
from anchored._json import Fields, is_number, parsed
from anchored.decisions.space import Category, Dimension, Float, Integer, Space
from anchored.decisions.surrogate import Hyperpriors, Networks, Surrogate, Twin

_FORMAT = "anchored optimiser 3"
_SURROGATES: dict[str, Any] = {"Twin": Twin, "Networks": Networks}


def save(optimiser: Any, path: Path) -> None:
    content = {
        "format": _FORMAT,
        "space": [
            {"name": name, "kind": type(d).__name__, **dataclasses.asdict(d)}
            for name, d in zip(optimiser.space.names, optimiser.space.dimensions, strict=True)
        ],
        "surrogate": {
            "kind": type(optimiser.surrogate).__name__,
            "settings": dataclasses.asdict(optimiser.surrogate),
        },
        "settings": {
            name: getattr(optimiser, name)
            for name in ("maximise", "acquisition", "n_initial", "n_constraints", "random_state")
        },
        "n_asked": optimiser.n_asked,
        "told": [
            {"x": t.x, "y": t.y if math.isfinite(t.y) else None, "constraints": t.constraints}
            for t in optimiser.told
        ],
        "pending": optimiser.pending,
    }
    write_whole(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def load(cls: Any, told: Any, path: Path, allowed: Any) -> Any:
    def wrong(where: str, sentence: str) -> Exception:
        return ValueError(f"{path} is not the file of an optimiser: {sentence}")

    try:
        content = parsed(path.read_bytes())
    except ValueError as error:
        raise wrong("", f"{error}.") from error
    fields = Fields(content, wrong=wrong)
    fields.text("format", allowed=(_FORMAT,))
    settings = fields.object("settings")
    optimiser = cls(
        Space(dict(_dimension(item) for item in fields.objects("space"))),
        maximise=settings.flag("maximise"),
        surrogate=_surrogate(fields.object("surrogate")),
        acquisition=settings.text("acquisition"),
        n_initial=settings.whole("n_initial"),
        n_constraints=settings.whole("n_constraints"),
        random_state=settings.whole("random_state"),
        allowed=allowed,
    )
    settings.close()
    optimiser.n_asked = fields.whole("n_asked")
    for item in fields.objects("told"):
        y = math.nan if item.absent("y") else item.number("y")
        point, limits = item.plain_object("x"), item.items("constraints")
        if len(limits) != optimiser.n_constraints or not all(map(is_number, limits)):
            raise item.wrong("constraints", limits, f"{optimiser.n_constraints} numbers")
        optimiser.space.encode([point])
        optimiser.told.append(told(point, y, tuple(map(float, limits))))
        item.close()
    pending = fields.items("pending")
    optimiser.space.encode(pending)
    optimiser.pending = pending
    fields.close()
    return optimiser


def _dimension(item: Fields) -> tuple[str, Dimension]:
    name, kind = item.text("name"), item.text("kind", allowed=("Float", "Integer", "Category"))
    if kind == "Category":
        found: Dimension = Category(tuple(item.items("choices")))
    elif kind == "Float":
        found = Float(item.number("low"), item.number("high"), item.flag("log"))
    else:
        low, high = (item.take(end) for end in ("low", "high"))
        found = Integer(low, high, item.flag("log"))
    item.close()
    return name, found


def _surrogate(item: Fields) -> Surrogate:
    kind = item.text("kind", allowed=tuple(_SURROGATES))
    settings = item.plain_object("settings")
    known = {field.name for field in dataclasses.fields(_SURROGATES[kind])}
    if set(settings) != known:
        raise item.wrong("settings", settings, f"an object with {', '.join(sorted(known))}")
    priors, names = settings["hyperpriors"], {f.name for f in dataclasses.fields(Hyperpriors)}
    if not isinstance(priors, dict) or set(priors) != names:
        raise item.wrong("hyperpriors", priors, f"an object with {', '.join(sorted(names))}")
    item.close()
    settings |= {"hidden": tuple(settings["hidden"]), "hyperpriors": Hyperpriors(**priors)}
    return _SURROGATES[kind](**settings)
