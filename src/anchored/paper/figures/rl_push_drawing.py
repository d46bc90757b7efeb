"""The picture of `fig-rl-push`: three scenes, what the members think of them, learning curves."""

import base64
import zlib

import numpy as np

from anchored.paper.plotting import BLUE, GREEN, GREY, ORANGE, SERIES
from anchored.paper.runner import Record

N_BINS = 80  # points of a learning curve
_TITLES = {"A": "A. Clear optimal action", "B": "B. Goal achieved", "C": "C. Never seen before"}
_ACTIONS = ("forward", "back", "left", "right")
_LINES = {"anchored": "anchored, Thompson", "epsilon-greedy": "one network, epsilon-greedy"}


def draw(figure, record: Record) -> None:
    """A row for each scene; below them the curves."""
    numbers = record["numbers"]
    grid = figure.add_gridspec(4, 2, width_ratios=(1, 2.2), height_ratios=(1, 1, 1, 1.1))
    seen = numbers["anchored"]["scenes"]
    reach = _reach(seen)
    for i, (kind, title) in enumerate(_TITLES.items()):
        left, right = figure.add_subplot(grid[i, 0]), figure.add_subplot(grid[i, 1])
        _scene(left, numbers["pictures"], kind, np.asarray(seen[kind]["x"]), title)
        _densities(right, np.asarray(seen[kind]["q"]), reach)
        if i == 0:
            right.legend(fontsize=7, ncols=4, loc="upper left", frameon=False)
        if i < len(_TITLES) - 1:
            right.set_xticklabels([])
    right.set_xlabel("Q: discounted reward to come")
    _curves(figure, grid, numbers, record["settings"])


def _reach(seen: dict) -> tuple[float, float]:
    q = np.concatenate([np.ravel(scene["q"]) for scene in seen.values()])
    spare = 0.15 * np.ptp(q)
    return float(q.min() - spare), float(q.max() + spare)


def _densities(ax, q: np.ndarray, reach: tuple[float, float]) -> None:
    """The normal of the members' Q for each action, and the members as ticks; heights are one."""
    x = np.linspace(*reach, 2000)
    for action, (name, (colour, _)) in enumerate(zip(_ACTIONS, SERIES, strict=False)):
        mean, std = q[:, action].mean(), max(q[:, action].std(ddof=1), 1e-3 * np.ptp(reach))
        height = np.exp(-0.5 * ((x - mean) / std) ** 2)
        ax.fill_between(x, height, color=colour, alpha=0.15, lw=0)
        ax.plot(x, height, color=colour, lw=1.2, label=name)
        ax.plot(q[:, action], np.full(len(q), -0.06 - 0.05 * action), "|", color=colour, ms=5)
    ax.set(xlim=reach, ylim=(-0.3, 1.35), yticks=[])


def _scene(ax, pictures: dict | None, kind: str, x: np.ndarray, title: str) -> None:
    ax.set_title(title, loc="left")
    ax.set(xticks=[], yticks=[])
    if pictures is not None:
        ax.imshow(unpacked(pictures[kind]))
        return
    gripper, cube, goal = np.zeros(2), x[:2], x[:2] + x[2:]
    ax.set_aspect("equal")
    # Left of the robot is up the second axis: drawn to the left.
    for at, colour, marker, size, label in (
        (goal, GREEN, "*", 11, "goal"),
        (cube, ORANGE, "s", 10, "cube"),
        (gripper, BLUE, "o", 8, "gripper"),
    ):
        ax.plot(-at[1], at[0], marker, color=colour, ms=size, label=label)
    ax.set(xlim=(-6, 1), ylim=(-1.6, 1.6))
    ax.axhline(0, color=GREY, lw=0.4, zorder=0)
    if kind == "A":
        ax.legend(fontsize=6, ncols=3, frameon=False, loc="lower center")


def unpacked(image: dict) -> np.ndarray:
    """The pixels of a picture in a record."""
    pixels = zlib.decompress(base64.b64decode(image["zlib"]))
    return np.frombuffer(pixels, np.uint8).reshape(image["shape"])


def _curves(figure, grid, numbers: dict, settings: dict) -> None:
    inner = grid[3, :].subgridspec(1, 2)
    size = settings["n_episodes"] / 1000 / N_BINS
    for column, (what, label) in enumerate(
        (("curve", "reward a step"), ("success", "ends at the goal"))
    ):
        ax = figure.add_subplot(inner[0, column])
        for (name, words), (colour, _) in zip(_LINES.items(), SERIES, strict=False):
            values = numbers[name][what]
            ax.plot(size * (np.arange(len(values)) + 0.5), values, color=colour, label=words)
        ax.set(xlabel="thousand episodes", ylabel=label, xlim=(0, settings["n_episodes"] / 1000))
        if column == 0:
            ax.axhline(-0.4, color=GREY, lw=0.8, ls=":", label="the paper's end")
            ax.legend(fontsize=7, frameon=False)
