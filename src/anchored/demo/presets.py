"""Settings of a picture, their ranges and defaults, and data to begin with."""

import dataclasses
from functools import cache

import numpy as np

from anchored._files import package_data

ACTIVATIONS = ("relu", "leaky_relu", "erf", "tanh")
METHODS = {
    "regression": ("unconstrained", "regularised", "anchored", "rms"),
    "classification": ("unconstrained", "regularised", "anchored"),
}
PROBLEMS = tuple(METHODS)
WHOLE_RANGES = {"n_members": (1, 40), "width": (4, 1024)}
RANGES = {"first_var": (0.01, 100.0), "noise_var": (1e-5, 1.0), "learning_rate": (1e-4, 0.2)}
MAX_POINTS = 200
MAX_COORDINATE = 1_000.0
MAX_SEED = 2**31 - 1
MAX_STEPS = 1_000  # of one `step` message
VIEW = (-2.0, 2.0)  # inputs shown, where nobody says otherwise
EXTENT = (-3.0, 3.0)  # of both inputs of a classification


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the controls of the page set; ``noise_var`` is None for classes."""

    activation: str = "erf"
    method: str = "anchored"
    n_members: int = 10
    width: int = 100
    first_var: float = 10.0
    noise_var: float | None = 0.001
    learning_rate: float = 0.02

    def as_dict(self) -> dict:
        """Only what the problem has."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


DEFAULTS = {
    "regression": Settings(),
    "classification": Settings(activation="relu", noise_var=None, learning_rate=0.01),
}


def n_parameters(problem: str, width: int) -> int:
    """Parameters of one member: biases and weights of the hidden layer, weights of the last."""
    return 3 * width if problem == "regression" else 5 * width


def default_pair(problem: str, width: int) -> tuple[int, int]:
    """An input weight and the output weight of the same node."""
    return (width, (2 if problem == "regression" else 3) * width)


@cache
def presets() -> dict[str, list[dict]]:
    """Data sets to begin with, by problem; the first of each is the default."""
    from anchored.datasets import six_points, two_blobs

    rng = np.random.default_rng(7)
    x, y = six_points()
    sides = np.concatenate([rng.uniform(-1.6, -0.5, 12), rng.uniform(0.6, 1.6, 12)])
    spread = np.sort(rng.uniform(-1.6, 1.6, 40))
    deviation = 0.03 + 0.25 * np.clip((spread + 1.6) / 3.2, 0, 1)
    steps = np.linspace(-1.5, 1.5, 16)
    points = {
        "six-points": [x[:, 0], y],
        "sine-gap": [sides, np.sin(2.5 * sides) + 0.1 * rng.normal(size=24)],
        "heteroskedastic": [spread, np.sin(2 * spread) + deviation * rng.normal(size=40)],
        "step": [steps, np.where(steps > 0, 1.0, -1.0)],
        "two-blobs": two_blobs(0),
        "moons": _moons(rng),
        "ring": _ring(rng),
        "empty": (),
    }
    return {
        problem: [entry | {"points": _rounded(points[entry["name"]])} for entry in entries]
        for problem, entries in package_data("anchored.demo", "presets.toml").items()
    }


def _rounded(columns) -> list[list[float]]:
    """A list for each point; labels stay whole numbers."""
    rows = np.column_stack(columns).tolist() if columns else []
    return [[round(a, 3), round(b, 3), *map(int, label)] for a, b, *label in rows]


def _moons(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(0, np.pi, 20)
    upper = np.column_stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25])
    xy = 1.3 * np.concatenate([upper, -upper]) + 0.12 * rng.normal(size=(40, 2))
    return xy, np.repeat([0, 1], 20)


def _ring(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = 1.8 * np.column_stack([np.cos(angle), np.sin(angle)])
    xy = np.concatenate([0.45 * rng.normal(size=(16, 2)), ring + 0.12 * rng.normal(size=(24, 2))])
    return xy, np.repeat([0, 1], [16, 24])
