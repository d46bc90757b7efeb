"""Settings of a picture, their ranges and defaults, and data to begin with."""

import dataclasses
from functools import cache

import numpy as np

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
    blobs, labels = two_blobs(0)
    sides = np.concatenate([rng.uniform(-1.6, -0.5, 12), rng.uniform(0.6, 1.6, 12)])
    spread = np.sort(rng.uniform(-1.6, 1.6, 40))
    deviation = 0.03 + 0.25 * np.clip((spread + 1.6) / 3.2, 0, 1)
    steps = np.linspace(-1.5, 1.5, 16)
    regression = [
        _preset(
            "six-points",
            "The paper's six points",
            "Six points of x sin(5 x), nearly without noise. Away from them nothing is known.",
            np.column_stack([x[:, 0], y]),
        ),
        _preset(
            "sine-gap",
            "Sine with a gap",
            "Noisy points on a sine, none of them in the middle. A good method says so.",
            np.column_stack([sides, np.sin(2.5 * sides) + 0.1 * rng.normal(size=24)]),
            noise_var=0.01,
        ),
        _preset(
            "heteroskedastic",
            "Noise that grows",
            "The noise grows to the right, but the model takes it to be the same everywhere.",
            np.column_stack([spread, np.sin(2 * spread) + deviation * rng.normal(size=40)]),
            noise_var=0.03,
        ),
        _preset(
            "step",
            "A step",
            "A jump from -1 to 1. Smooth activations and kinked ones bridge it differently.",
            np.column_stack([steps, np.where(steps > 0, 1.0, -1.0)]),
            noise_var=0.01,
        ),
        _preset("empty", "Empty", "No data: the ensemble shows its prior. Click to add points."),
    ]
    classification = [
        _preset(
            "two-blobs",
            "Two blobs",
            "The paper's toy: 30 points in two clouds.",
            np.column_stack([blobs, labels]),
        ),
        _preset("moons", "Two moons", "Two half circles, one inside the other.", _moons(rng)),
        _preset("ring", "A ring", "One class inside the other.", _ring(rng)),
        _preset("empty", "Empty", "No data. Click adds class A, shift-click class B."),
    ]
    return {"regression": regression, "classification": classification}


def _preset(name: str, title: str, text: str, points=(), **settings) -> dict:
    rows = [[round(float(v), 3) for v in row] for row in points]
    rows = [[a, b, int(label[0])] if label else [a, b] for a, b, *label in rows]
    entry = {"name": name, "title": title, "text": text, "points": rows}
    return entry | ({"settings": settings} if settings else {})


def _moons(rng: np.random.Generator) -> np.ndarray:
    angle = np.linspace(0, np.pi, 20)
    upper = np.column_stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25])
    xy = 1.3 * np.concatenate([upper, -upper]) + 0.12 * rng.normal(size=(40, 2))
    return np.column_stack([xy, np.repeat([0, 1], 20)])


def _ring(rng: np.random.Generator) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = 1.8 * np.column_stack([np.cos(angle), np.sin(angle)])
    xy = np.concatenate([0.45 * rng.normal(size=(16, 2)), ring + 0.12 * rng.normal(size=(24, 2))])
    return np.column_stack([xy, np.repeat([0, 1], [16, 24])])
