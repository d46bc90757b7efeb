"""Draws predictives on an ``ax`` and returns it; colours are safe for colour-blind readers."""

import io
from typing import Any

import numpy as np

from anchored.prediction.predictive import Predictive

# Okabe and Ito's palette: told apart by people who do not see all colours.
BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555"
# Colour and marker of the lines of one plot, told apart without colour too.
SERIES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
_STYLE: dict[Any, Any] = {"svg.hashsalt": "anchored", "font.size": 9, "axes.titlesize": 9}


def bands(ax, x, dist: Predictive, colour: str = BLUE):
    """Mean and bands of 1, 2 and 3 total deviations over a one-dimensional input ``x``."""
    mean, std = np.ravel(dist.mean), np.ravel(dist.std)
    for n in (3, 2, 1):
        ax.fill_between(x, mean - n * std, mean + n * std, color=colour, alpha=0.17, lw=0)
    ax.plot(x, mean, color=colour, lw=2)
    return ax


def data_points(ax, x, y):
    """Observed points, on top of everything."""
    ax.plot(x, y, ls="", marker="o", ms=4, color="black", mec="white", mew=0.6, zorder=5)
    return ax


def class_map(ax, grid, probability):
    """Filled contours of the probability of class 1 over a square grid [point, 2]."""
    side = round(len(grid) ** 0.5)
    x, y = np.asarray(grid).reshape(side, side, 2).transpose(2, 0, 1)
    values = np.asarray(probability).reshape(side, side)
    shown = ax.contourf(x, y, values, levels=np.linspace(0, 1, 11), cmap="PuOr_r")
    ax.set_aspect("equal")
    return shown


def class_points(ax, x, y):
    """Observed points of two classes: filled circles and hollow squares."""
    x, y = np.asarray(x), np.asarray(y)
    style = {"ls": "", "ms": 4.5, "mec": "black", "mew": 0.8}
    ax.plot(*x[y == 0].T, marker="s", mfc="white", **style)
    ax.plot(*x[y == 1].T, marker="o", mfc="black", **style)
    return ax


def ellipses(ax, mean, cov, colour: str, n_deviations=(1, 2), label: str | None = None, **line):
    """Contours of a two-dimensional normal at some deviations from its mean."""
    turn = np.linspace(0, 2 * np.pi, 200)
    values, vectors = np.linalg.eigh(np.asarray(cov))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    circle = np.stack([np.cos(turn), np.sin(turn)])
    for n in n_deviations:
        x, y = np.asarray(mean)[:, None] + n * root @ circle
        ax.plot(x, y, color=colour, label=label if n == n_deviations[0] else None, **line)
    return ax


def line_with_errors(ax, x, summaries: dict, colour: str, marker: str, label: str, **line):
    """Means with bars of one standard error; ``summaries`` maps each x to mean and error."""
    mean = [summaries[str(value)]["mean"] for value in x]
    error = [summaries[str(value)]["error"] or 0.0 for value in x]
    ax.errorbar(
        x, mean, error, color=colour, marker=marker, ms=5, lw=1.4, capsize=2, label=label, **line
    )
    return ax


def picture(draw, size: tuple[float, float]) -> dict[str, bytes]:
    """A figure filled by ``draw(figure)``, as the bytes of a ``png`` and an ``svg`` file."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        files = {}
        for kind in ("png", "svg"):
            buffer = io.BytesIO()
            stamp = {"Date": None} if kind == "svg" else {}  # the same picture, the same file
            figure.savefig(buffer, format=kind, dpi=150, metadata=stamp)
            files[kind] = buffer.getvalue()
    return files
